"""TPC-H on a real server, at a small scale: load, refresh functions, answers, damage, whole campaigns."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.store.ask import query
from pgstrata.tpc import data
from pgstrata.tpc.source import tables
from pgstrata.tpch import refresh
from pgstrata.tpch.options import TpchOptions
from pgstrata.tpch.schema import TPCH
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Phase
from support.program import Program, Running, living_in
from support.queries import digested, step_of, until
from support.steps import database, run_step

WORKLOAD = catalog.find("tpch")
SCALE = 0.01


def phases(**options: Any) -> list[Phase]:
    chosen = {"scale": SCALE, "time_limit": 60, "plans": "none", **options}
    return WORKLOAD.phases(TpchOptions.model_validate(chosen), NEWEST)


@pytest.fixture(scope="module")
def loaded(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """The database `tpch` before RF1; its data comes from the cache or is made once."""
    with database(cluster, "tpch") as connection:
        facts = until(cluster, "tpch", phases(), "rf1")
        assert facts["tpch"]["refresh"]["orders"] == 15
        yield connection


def keys(connection: psycopg.Connection[Any], table: str) -> list[int]:
    column = refresh.KEYS[table]
    rows = connection.execute(f"SELECT {column} FROM {table} ORDER BY {column}".encode()).fetchall()
    return [key for (key,) in rows]


def new_keys(table: str) -> list[int]:
    file = data.file(TPCH, SCALE, refresh.file_stem(table))
    return [int(line.partition("|")[0]) for line in file.read_text().splitlines()]


def test_every_row_of_the_generator_is_loaded(loaded: psycopg.Connection[Any]) -> None:
    about = data.about(TPCH, SCALE)
    assert about is not None
    for table in tables(TPCH):
        row = loaded.execute(f"SELECT count(*) FROM {table}".encode()).fetchone()
        assert row == (about["tables"][table]["rows"],), table


def test_refresh_functions_change_what_they_should_and_answers_follow(
    cluster: Cluster, loaded: psycopg.Connection[Any]
) -> None:
    chosen = phases(passes=2)
    before = {table: keys(loaded, table) for table in refresh.KEYS}

    run_step(cluster, "tpch", step_of(chosen, "rf1"))
    for table in refresh.KEYS:
        assert keys(loaded, table) == sorted(before[table] + new_keys(table))
    power = digested(cluster, "tpch", step_of(chosen, "power"))
    assert len(power.queries) == 44
    assert {row["answer"] for row in power.queries} == {"same"}

    run_step(cluster, "tpch", step_of(chosen, "rf2"))
    gone = set(refresh.deleted_keys(SCALE))
    for table in refresh.KEYS:
        assert gone <= set(before[table])
        left = [key for key in before[table] if key not in gone]
        assert keys(loaded, table) == sorted(left + new_keys(table))
    throughput = digested(cluster, "tpch", step_of(chosen, "throughput"))
    assert {row["answer"] for row in throughput.queries} == {"same"}
    assert {row["stream"] for row in throughput.queries} == {1, 2}

    # The answers of one state are not those of another.
    again = digested(cluster, "tpch", step_of(chosen, "power"))
    different = {row["query"] for row in again.queries if row["answer"] == "different"}
    assert "q01" in different and "q02" not in different


def test_a_wrong_answer_is_different_and_a_rejected_query_goes_by(
    cluster: Cluster, loaded: psycopg.Connection[Any]
) -> None:
    loaded.execute("UPDATE supplier SET s_acctbal = s_acctbal + 1")
    loaded.execute("ALTER TABLE region RENAME TO region_away")
    try:
        outcome = digested(cluster, "tpch", step_of(phases(queries="2 11 15", refresh=False), "power"))
        loaded.execute("ALTER TABLE region_away RENAME TO region")
        whole = digested(cluster, "tpch", step_of(phases(queries="2 11"), "power"))
    finally:
        loaded.execute("ALTER TABLE IF EXISTS region_away RENAME TO region")
        loaded.execute("UPDATE supplier SET s_acctbal = s_acctbal - 1")
    by_name = {row["query"]: row for row in outcome.queries}
    assert (by_name["q02"]["answer"], by_name["q02"]["sqlstate"]) == ("not run", "42P01")
    assert by_name["q11"]["error"] is None
    assert {row["query"]: row["answer"] for row in whole.queries} == {"q02": "different", "q11": "same"}


# --- through the program ------------------------------------------------------------------------


def write(place: Path, options: str, *servers: Server, more: str = "") -> Path:
    (place / "data").mkdir(mode=0o755, exist_ok=True)
    names = ", ".join(f'"{server.spec}"' for server in servers)
    file = place / "h.toml"
    file.write_text(
        f'servers = [{names}]\ndata_dir = "{place}/data"\n{more}\n[[workloads]]\nname = "tpch"\n'
        f"options = {{ scale = {SCALE}, {options} }}\n"
    )
    return file


@pytest.mark.server
def test_each_query_has_a_verdict_where_variants_take_turns(
    place: Path, pgstrata: Program, pg13: Server, pg17: Server
) -> None:
    more = 'order = "interleaved"\nrounds = 2'
    options = 'queries = "1 6 14", streams = 1, plans = "none"'
    done = pgstrata("run", write(place, options, pg13, pg17, more=more))
    assert done.returncode == 0, done.stdout + done.stderr
    answers = query(
        place / "results",
        "select step, count(*), string_agg(distinct answer, ' ') from queries group by all order by all",
    )
    assert answers.rows == [("power", 6, "same"), ("throughput", 6, "same")]
    for run in Results(place / "results").runs():
        steps = {step.name: step for step in run.steps}
        assert list(steps) == [
            "copy", "keys", "indexes", "vacuum", "analyze",
            "refresh rows", "rf1", "power", "rf2", "throughput",
        ]  # fmt: skip
        pairs = steps["power"].query_pairs
        assert pairs is not None
        assert {turns.name: len(turns.slices) for turns in pairs.queries} == {"q01": 2, "q06": 2, "q14": 2}
    compared = pgstrata("compare", pg13.spec.replace("pg:", "pg"), pg17.spec.replace("pg:", "pg"))
    assert all(f"power.q{n}" in compared.stdout for n in ("01", "06", "14")), (
        compared.stdout + compared.stderr
    )
    (page,) = (place / "results").glob("*.report/index.html")
    assert "These are no TPC-H results in the sense of the TPC" in page.read_text()
    assert {"tpch-totals.csv", "tpch-queries.csv", "tpch-size.csv"} <= {
        f.name for f in page.parent.glob("tables/*")
    }
    assert not list((place / "data").iterdir())


@pytest.mark.server
@pytest.mark.parametrize("step", ["copy", "rf1", "power"])
def test_ctrl_c_leaves_nothing(place: Path, start: Callable[..., Running], pg17: Server, step: str) -> None:
    options = 'passes = 100, streams = 0, plans = "none", answers = false'
    running = start("run", write(place, options, pg17), "--no-report")
    before = {"copy": "run 1 of 1", "rf1": "  refresh rows ", "power": "  rf1 "}[step]
    running.wait_for_text(before)
    running.wait_for(running.backend)
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 130, running.printed
    assert "Traceback" not in running.printed
    assert not living_in(place / "data")
    assert not list((place / "data").iterdir())


@pytest.mark.server
@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ('queries = "23"', "the queries are numbered from 1 to 22"),
        ('indexes = "none"', "set `refresh = false`"),
        ("scales = 1", "scale"),
        ("streams = -1", "streams"),
    ],
)
def test_bad_options_are_named(
    place: Path, pgstrata: Program, pg17: Server, setting: str, sentence: str
) -> None:
    done = pgstrata("run", write(place, setting, pg17))
    assert done.returncode == 2
    assert sentence in " ".join((done.stdout + done.stderr).split())
    assert "Traceback" not in done.stderr
