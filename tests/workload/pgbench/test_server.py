"""The pgbench workload against pgbench itself: same tables, same rows, same statements."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Phase, Step
from pgstrata.workload.pgbench import load as pgbench_load
from pgstrata.workload.pgbench.options import PgbenchOptions
from support.bench import pgbench_program
from support.program import Program
from support.steps import (
    EVERY_META_COMMAND,
    calls,
    database,
    forget_calls,
    run_phase,
    run_step,
    with_transactions,
)

PGBENCH = catalog.find("pgbench")


PROGRAM = pgbench_program()
needs_pgbench = pytest.mark.skipif(
    PROGRAM is None, reason="pgbench is not installed (apt: postgresql-contrib)"
)


def pgbench(cluster: Cluster, name: str, *arguments: str) -> str:
    assert PROGRAM is not None
    where = ["-h", str(cluster.socket_dir), "-p", str(cluster.port), "-U", "postgres"]
    done = subprocess.run([PROGRAM, *where, *arguments, name], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def phases(**options: object) -> list[Phase]:
    chosen = {"scale": 1, "modes": ["simple", "extended", "prepared"], "clients": [2], **options}
    return PGBENCH.phases(PgbenchOptions.model_validate(chosen), NEWEST)


def initialise(cluster: Cluster, name: str, **options: object) -> None:
    for phase in pgbench_load.initialise(PgbenchOptions.model_validate({"scale": 1, **options}), NEWEST):
        run_phase(cluster, name, phase)


LAYOUT = {
    "columns": """SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relname LIKE 'pgbench%' AND c.relkind IN ('r', 'p') AND a.attnum > 0 ORDER BY 1, a.attnum""",
    "storage": """SELECT relname, relkind, reloptions, relpersistence, pg_get_expr(relpartbound, oid),
        pg_get_partkeydef(oid) FROM pg_class WHERE relname LIKE 'pgbench%' ORDER BY 1""",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'pgbench%' ORDER BY 1",
    "constraints": """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE conrelid::regclass::text LIKE 'pgbench%' ORDER BY 1, 2""",
    "size": """SELECT relname, relpages, reltuples, relallvisible FROM pg_class
        WHERE relname ~ '^pgbench_(accounts|branches|tellers|history)' AND relkind = 'r' ORDER BY 1""",
    **{
        table: f"SELECT count(*), md5(string_agg(t::text, ',' ORDER BY {key})) FROM pgbench_{table} t"
        for table, key in (("accounts", "aid"), ("branches", "bid"), ("tellers", "tid"), ("history", "tid"))
    },
}


def layout(connection: psycopg.Connection[Any]) -> dict[str, list[tuple[Any, ...]]]:
    return {what: connection.execute(query).fetchall() for what, query in LAYOUT.items()}


@needs_pgbench
@pytest.mark.parametrize(
    ("options", "arguments"),
    [
        ({"scale": 2}, ["-s", "2"]),
        ({"fillfactor": 80, "foreign_keys": True}, ["-F", "80", "--foreign-keys"]),
        ({"partitions": 3}, ["--partitions=3"]),
        ({"partitions": 2, "partition_method": "hash"}, ["--partitions=2", "--partition-method=hash"]),
    ],
    ids=["plain", "foreign-keys", "range", "hash"],
)
def test_the_database_is_that_of_pgbench(
    cluster: Cluster, options: dict[str, object], arguments: list[str]
) -> None:
    with database(cluster, "ours") as ours, database(cluster, "theirs") as theirs:
        initialise(cluster, "ours", **options)
        pgbench(cluster, "theirs", "-i", "-q", *arguments)
        assert layout(ours) == layout(theirs)


@needs_pgbench
def test_databases_are_interchangeable_both_ways(cluster: Cluster) -> None:
    with database(cluster, "ours") as ours:
        initialise(cluster, "ours")
        output = pgbench(cluster, "ours", "-c", "2", "-t", "20")
        assert "number of transactions actually processed: 40/40" in output
        assert "scaling factor: 1" in output
        assert ours.execute("SELECT count(*) FROM pgbench_history").fetchone() == (40,)
    with database(cluster, "theirs") as theirs:
        pgbench(cluster, "theirs", "-i", "-q")
        for phase in phases(builtin="tpcb-like", modes="prepared", initialise=False):
            if isinstance(phase, Step):
                run_step(cluster, "theirs", with_transactions(phase, 20))
        history = theirs.execute("SELECT count(*), sum(delta) FROM pgbench_history").fetchone()
        assert history is not None and history[0] == 40
        for table, column in (("accounts", "a"), ("tellers", "t"), ("branches", "b")):
            total = theirs.execute(f"SELECT sum({column}balance) FROM pgbench_{table}").fetchone()
            assert total == (history[1],)


@pytest.fixture(scope="module")
def loaded(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """A database called `loaded` with pgbench's tables, for tests that do not mind what others wrote."""
    with database(cluster, "loaded") as connection:
        initialise(cluster, "loaded")
        yield connection


@needs_pgbench
@pytest.mark.parametrize("script", ["select-only", "simple-update", "tpcb-like"])
@pytest.mark.parametrize("mode", ["simple", "extended", "prepared"])
def test_the_server_sees_the_statements_of_pgbench(
    cluster: Cluster, loaded: psycopg.Connection[Any], script: str, mode: str
) -> None:
    forget_calls(loaded)
    pgbench(cluster, "loaded", "-n", "-b", script, "-M", mode, "-c", "2", "-t", "25")
    theirs = {text: n for text, n in calls(loaded).items() if "count(" not in text and "pg_" not in text}
    forget_calls(loaded)
    (step,) = [p for p in phases(builtin=script, modes=mode, initialise=False) if isinstance(p, Step)]
    outcome = run_step(cluster, "loaded", with_transactions(step, 25))
    ours = calls(loaded)
    assert ours == theirs
    # a prepared BEGIN is seen once per connection only, with either program
    assert {n for text, n in ours.items() if "pgbench_" in text} == {50}
    assert outcome.role("query")["transactions"] == 50


@pytest.mark.usefixtures("loaded")
def test_rows_are_counted_and_named_per_statement(cluster: Cluster) -> None:
    (step,) = [
        p for p in phases(builtin="tpcb-like", modes="simple", initialise=False) if isinstance(p, Step)
    ]
    outcome = run_step(cluster, "loaded", with_transactions(step, 10))
    role = outcome.role("query")
    assert (role["operations"], role["transactions"], role["statements"]) == (20, 20, 20 * 7)
    # one row each: three updates, a select and an insert
    assert role["rows"] == 20 * 5
    assert all(s["count"] == 20 for s in role["statements_by_name"])


def test_own_scripts_are_drawn_by_weight(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "often.sql").write_text("SELECT 'often';\n")
    (tmp_path / "seldom.sql").write_text("SELECT 'seldom', 2;\n")
    with database(cluster, "own") as connection:
        scripts = [f"{tmp_path}/often.sql@9", f"{tmp_path}/seldom.sql"]
        (step,) = [
            p
            for p in phases(scripts=scripts, modes="simple", initialise=False, checkpoint=False)
            if isinstance(p, Step)
        ]
        run_step(cluster, "own", with_transactions(step, 500))
        seen = calls(connection)
        often, seldom = seen["SELECT $1"], seen["SELECT $1, $2"]
        assert often + seldom == 1000
        # nine tenths of 1000 draws: ± 5 standard deviations of the binomial
        assert 850 < often < 950


def test_a_campaign_finds_scripts_beside_itself_and_the_command_line_where_it_is(
    pg17: Server, pgstrata: Program, place: Path
) -> None:
    (place / "study").mkdir()
    (place / "study" / "one.sql").write_text("SELECT 1;\n")
    (place / "two.sql").write_text("SELECT 2;\n")
    options = 'modes = "simple"\nclients = 1\nseconds = 0.3\nwarmup = 0\ninitialise = false\n'
    (place / "study" / "own.toml").write_text(
        f'servers = ["{pg17.spec}"]\n[[workloads]]\nname = "pgbench"\n[workloads.options]\n'
        f'scripts = ["one.sql"]\n{options}'
    )
    for arguments in (["study/own.toml"], ["study/own.toml", "--script", "two.sql@2", "--name", "other"]):
        done = pgstrata("run", *arguments, "--no-report")
        assert done.returncode == 0, done.stdout + done.stderr
    answer = pgstrata("query", "select campaign, step from steps order by 1", "--format", "csv")
    assert answer.stdout.splitlines()[1:] == ["other,two-simple-c1", "own,one-simple-c1"]


def test_every_meta_command_in_a_campaign(pg17: Server, pgstrata: Program, place: Path) -> None:
    (place / "mine.sql").write_text(EVERY_META_COMMAND)
    options = ("scale=1", "modes=extended prepared", "clients=2", "seconds=1", "warmup=0", "allow_shell=true")
    arguments = [part for option in options for part in ("--set", option)]
    done = pgstrata("run", "--server", pg17.spec, "--script", "mine.sql", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = place.glob("results/*/*/*/*/run.json")
    steps = {step["name"]: step for step in json.loads(file.read_text())["steps"]}
    for name in ("mine-extended-c2", "mine-prepared-c2"):
        assert steps[name]["operations"] > 0
        # what a program or an earlier statement said is taken for 1; what is never executed has no plan
        assert len(steps[name]["plans"]) == 5, steps[name]["notes"]
        assert all("SELECT never" in note for note in steps[name]["notes"] if "plan" in note)


@pytest.mark.parametrize(
    ("text", "clients", "complaint"),
    [
        ("SELECT 1;\n", "1 500", "too many clients"),
        (
            "SELECT count(*) AS n FROM pgbench_history \\gset\n"
            "INSERT INTO pgbench_history (tid) VALUES (1);\n"
            "SELECT pg_terminate_backend(pg_backend_pid()) WHERE :n >= 50;\n",
            "1",
            "terminating connection",
        ),
        ("SELECT 1;\nSELECT nope;\n", "1", "nope"),
    ],
    ids=["too-many", "lost", "rejected"],
)
def test_a_run_that_fails_keeps_what_was_measured(
    pg17: Server, pgstrata: Program, place: Path, text: str, clients: str, complaint: str
) -> None:
    (place / "mine.sql").write_text(text)
    options = ("scale=1", "modes=simple", f"clients={clients}", "seconds=1", "warmup=0", "checkpoint=false")
    arguments = [part for option in options for part in ("--set", option)]
    done = pgstrata("run", "--server", pg17.spec, "--script", "mine.sql", *arguments, "--no-report")
    assert done.returncode == 1, done.stdout + done.stderr
    output = done.stdout + done.stderr
    assert complaint in output and "defect" not in output
    (file,) = place.glob("results/*/*/*/*/run.json")
    run = json.loads(file.read_text())
    assert run["status"] == "failed" and complaint in run["error"]["message"]
    kept = {step["name"]: step["operations"] for step in run["steps"]}
    assert "load" in kept and "keys" in kept
    if clients == "1 500":
        assert kept["mine-simple-c1"] > 0
    if "terminate" in text:
        # the first 50 transactions, and none of the one that lost its connection
        assert kept["mine-simple-c1"] == 50


@pytest.mark.parametrize("order", ["sequential", "interleaved"])
def test_a_step_that_sends_nothing_says_so_and_has_no_rate(
    pg17: Server, pgstrata: Program, place: Path, order: str
) -> None:
    (place / "mine.sql").write_text("\\set x 1\n")
    (place / "own.toml").write_text(
        f'order = "{order}"\n[[variants]]\nserver = "{pg17.spec}"\nlabel = "a"\n'
        f'[[variants]]\nserver = "{pg17.spec}"\nlabel = "b"\nconfig = ["default", "a17"]\n'
        '[[workloads]]\nname = "pgbench"\n[workloads.options]\nscripts = ["mine.sql"]\n'
        'modes = "simple"\nclients = 1\nseconds = 1\nwarmup = 0\ninitialise = false\ncheckpoint = false\n'
    )
    done = pgstrata("run", "own.toml")
    output = done.stdout + done.stderr
    assert done.returncode == 1 and "no statement was sent, so there is no rate" in output
    assert "defect" not in output and "Traceback" not in output
    for file in place.glob("results/*/*/*/*/run.json"):
        run = json.loads(file.read_text())
        assert run["status"] == "failed"
        assert [step["rate"] for step in run["steps"]] == [None]
    for command in (["compare", "a", "b"], ["report", "own"], ["runs"]):
        again = pgstrata(*command)
        assert "a defect" not in again.stderr and "Traceback" not in again.stderr, again.stderr
