"""The sysbench microbenchmarks on a real server, and against sysbench itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from msgspec import structs

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.features import NEWEST
from pgstrata.workload import catalog
from pgstrata.workload.core.language import FixedRate, Phase, Settle, Step
from pgstrata.workload.sysbench.steps import ALL, SysbenchOptions
from support.steps import calls, database, forget_calls, run_phase, run_step, with_transactions
from support.tap import PORT, Tap, tap

SYSBENCH = catalog.find("sysbench")
ROWS, TABLES = 2000, 2

needs_sysbench = pytest.mark.skipif(
    shutil.which("sysbench") is None, reason="sysbench is not installed (apt: sysbench)"
)


def phases(**options: object) -> list[Phase]:
    chosen = {
        "rows": ROWS,
        "tables": TABLES,
        "clients": 3,
        "steps": "full extras",
        "settle_base": 0,
        "settle_per_million": 0,
        **options,
    }
    return SYSBENCH.phases(SysbenchOptions.model_validate(chosen), NEWEST)


def load(cluster: Cluster, name: str, seed: int = 1, **options: object) -> None:
    for phase in phases(**options):
        if not (isinstance(phase, Step) and phase.name == "point-query.warm"):
            run_phase(cluster, name, phase, seed)
        if isinstance(phase, Settle):
            return


def contents(connection: psycopg.Connection[Any], table: str) -> tuple[Any, ...] | None:
    return connection.execute(
        f"SELECT count(*), md5(string_agg(t::text, ',' ORDER BY id)) FROM {table} t"
    ).fetchone()


# --- all of them -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def suite(cluster: Cluster) -> Iterator[dict[str, dict[str, Any]]]:
    """Each microbenchmark with 20 events per client: what the driver counted, by name."""
    outcomes: dict[str, dict[str, Any]] = {}
    with database(cluster, "suite"):
        for phase in phases():
            if isinstance(phase, Step) and phase.roles[0].name == "query":
                phase = with_transactions(phase, 20)
            outcome = run_phase(cluster, "suite", phase)
            if (
                isinstance(phase, Step)
                and outcome is not None
                and "load" not in [r["name"] for r in outcome.done["roles"]]
            ):
                outcomes[phase.name] = outcome.role("query")
        yield outcomes


def test_every_microbenchmark_runs_without_an_error(suite: dict[str, dict[str, Any]]) -> None:
    warm = {"point-query.warm", "scan.warmpre", "scan.warm", "points-covered-si.warm"}
    assert suite.keys() == {m.name for m in ALL} | warm
    for name, role in suite.items():
        clients = TABLES if name == "point-query.warm" else 3
        assert role["errors"] == 0, name
        assert role["transactions"] == clients * 20, name


@pytest.mark.parametrize(
    ("name", "statements", "rows"),
    [
        # rows of 60 events; IN lists find each key once, however often it is drawn
        ("point-query", 60, (60, 60)),
        ("hot-points", 60, (6000, 6000)),
        ("random-points=10", 60, (590, 600)),
        ("random-points=100", 60, (5500, 6000)),
        ("range-covered-pk", 60, (5500, 60 * 101)),
        ("range-notcovered-pk", 60, (5500, 60 * 101)),
        ("scan", 60, (0, 0)),
        ("read-only-count", 60, (60, 60)),
        ("read-only-sum", 60 * 13, (60 * 11, 60 * 11)),
        # 10 points, 10 rows each of two ranges and at most of the distinct one, one sum
        ("read-only=10", 60 * 16, (60 * (10 + 27 + 1), 60 * (10 + 30 + 1))),
        ("update-one", 60, (60, 60)),
        ("update-index", 60, (60, 60)),
        ("insert", 60, (60, 60)),
        ("delete", 60, (57, 60)),
        ("write-only", 60 * 6, (60 * 4 - 5, 60 * 4)),
    ],
)
def test_statements_and_rows(
    suite: dict[str, dict[str, Any]], name: str, statements: int, rows: tuple[int, int]
) -> None:
    role = suite[name]
    tried_again = role["retries"]
    assert role["operations"] == role["statements"]
    assert statements <= role["statements"] <= statements + 6 * tried_again
    assert rows[0] <= role["rows"] <= rows[1] + 4 * tried_again


# --- the tables --------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_rows_over_any_connections(cluster: Cluster) -> None:
    def loaded(seed: int) -> list[Any]:
        with database(cluster, "rows") as connection:
            load(cluster, "rows", seed)
            return [contents(connection, f"sbtest{n}") for n in (1, 2)]

    first = loaded(1)
    assert first[0] != first[1]
    assert loaded(1) == first
    assert loaded(2) != first


def test_the_load_fills_the_columns_as_described(cluster: Cluster) -> None:
    with database(cluster, "columns") as connection:
        load(cluster, "columns")
        row = connection.execute(
            rf"""SELECT count(*), min(id), max(id), min(k) >= 1, max(k) <= {ROWS},
                max(k) - min(k) > {ROWS} * 0.98, count(DISTINCT k) BETWEEN {ROWS} * 0.6 AND {ROWS} * 0.66,
                bool_and(rtrim(c) ~ '^(\d{{11}}-){{9}}\d{{11}}$'),
                bool_and(rtrim(pad) ~ '^(\d{{11}}-){{4}}\d{{11}}$'),
                count(DISTINCT c), nextval('sbtest1_id_seq') FROM sbtest1"""
        ).fetchone()
        # of n uniform draws from n numbers 1 − 1/e are different: 63 %
        assert row == (ROWS, 1, ROWS, True, True, True, True, True, True, ROWS, ROWS + 1)


@needs_sysbench
def test_the_tables_are_those_of_sysbench(cluster: Cluster) -> None:
    queries = [
        """SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
           pg_get_expr(d.adbin, d.adrelid) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
           LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
           WHERE c.relname LIKE 'sbtest%' AND c.relkind = 'r' AND a.attnum > 0 ORDER BY 1, a.attnum""",
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename LIKE 'sbtest%' ORDER BY 1",
        "SELECT schemaname, sequencename, last_value FROM pg_sequences ORDER BY 1, 2",
        "SELECT count(*), min(id), max(id), min(k) > 0, max(k) <= 2000 FROM sbtest2",
    ]
    sides = []
    for name in ("ours", "theirs"):
        with database(cluster, name) as connection:
            if name == "ours":
                load(cluster, name)
            else:
                sysbench(cluster, name, "oltp_read_write", "prepare")
            sides.append([connection.execute(query).fetchall() for query in queries])
    assert sides[0] == sides[1]


# --- the statements ----------------------------------------------------------------------------


def sysbench(
    cluster: Cluster, name: str, script: str, command: str, *more: str, through: Tap | None = None
) -> None:
    done = subprocess.run(
        [
            "sysbench",
            script,
            "--db-driver=pgsql",
            f"--pgsql-host={through.folder if through else cluster.socket_dir}",
            f"--pgsql-port={PORT if through else cluster.port}",
            "--pgsql-user=postgres",
            f"--pgsql-db={name}",
            f"--tables={TABLES}",
            f"--table-size={ROWS}",
            "--rand-type=uniform",
            *more,
            command,
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def loaded(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """A database called `loaded` with the tables, for tests that do not mind what others wrote."""
    with database(cluster, "loaded") as connection:
        load(cluster, "loaded")
        yield connection


def per_event(seen: dict[str, int], events: int) -> dict[str, float]:
    """Calls per event, with the tables taken together: each statement picks one at random."""
    together: dict[str, int] = {}
    for text, n in seen.items():
        text = text.replace("sbtest2", "sbtest1")
        if "sbtest" in text or text in ("BEGIN", "COMMIT"):
            together[text] = together.get(text, 0) + n
    return {text: n / events for text, n in together.items()}


RANGES = ("simple", "sum", "order", "distinct")
ONLY = {kind: [f"--{other}-ranges={int(other == kind)}" for other in RANGES] for kind in RANGES}
"""Options of sysbench for one of the four ranges."""


@needs_sysbench
@pytest.mark.parametrize(
    ("script", "name", "more"),
    [
        ("oltp_point_select", "point-query", []),
        ("oltp_read_only", "read-only=100", ["--range-size=100"]),
        *(("oltp_read_only", f"read-only-{kind}", ["--range-size=1000", *ONLY[kind]]) for kind in RANGES),
        ("oltp_read_write", "read-write=10", ["--range-size=10"]),
        ("oltp_write_only", "write-only", []),
        ("oltp_update_index", "update-index", []),
        ("oltp_update_non_index", "update-nonindex", []),
        ("oltp_delete", "delete", []),
        ("oltp_insert", "insert", []),
    ],
)
@pytest.mark.parametrize("prepared", [True, False], ids=["prepared", "simple"])
def test_the_server_sees_the_statements_of_sysbench(
    cluster: Cluster,
    loaded: psycopg.Connection[Any],
    script: str,
    name: str,
    more: list[str],
    prepared: bool,
) -> None:
    forget_calls(loaded)
    way = "auto" if prepared else "disable"
    run = ["--events=80", "--time=0", "--threads=1", f"--db-ps-mode={way}", *more]
    sysbench(cluster, "loaded", script, "run", *run)
    theirs = per_event(calls(loaded), 80)
    forget_calls(loaded)
    (step,) = [
        p
        for p in phases(steps=[name], clients=1, prepared=prepared)
        if isinstance(p, Step) and p.name == name
    ]
    run_step(cluster, "loaded", with_transactions(step, 80))
    assert per_event(calls(loaded), 80) == theirs


INT8, VARCHAR = 20, 1043


@needs_sysbench
@pytest.mark.parametrize(
    ("script", "name"), [("oltp_read_write", "read-write=100"), ("oltp_write_only", "write-only")]
)
def test_parameters_have_the_types_that_sysbench_declares(
    cluster: Cluster, loaded: psycopg.Connection[Any], script: str, name: str
) -> None:
    """Of two statements with one text the types decide which plan is made, and whether it is kept."""
    socket = cluster.socket_dir / f".s.PGSQL.{cluster.port}"
    with tap(socket) as theirs:
        run = ["--events=20", "--time=0", "--threads=1", "--range-size=100", "--db-ps-mode=auto"]
        sysbench(cluster, "loaded", script, "run", *run, through=theirs)
    (step,) = [p for p in phases(steps=[name], clients=1) if isinstance(p, Step) and p.name == name]
    with tap(socket) as ours:
        place = structs.replace(cluster.connection("loaded"), host=str(ours.folder), port=PORT)
        run_step(cluster, "loaded", with_transactions(step, 20), connection=place)
    assert {text for text, types in theirs.types.items() if types} <= ours.types.keys()
    for text, types in theirs.types.items():
        assert set(types) <= {INT8, VARCHAR}
        assert not types or ours.types[text] == types
    executed = {text for text in theirs.formats if "sbtest" in text}
    assert executed
    for text in executed & ours.formats.keys():
        # text values, binary results; no codes at all mean text
        assert theirs.formats[text] == ours.formats[text] == ([], [1]), text


# --- time and groups ---------------------------------------------------------------------------


def test_a_warm_up_is_not_counted(cluster: Cluster, loaded: psycopg.Connection[Any]) -> None:
    forget_calls(loaded)
    (step,) = [
        p for p in phases(steps="point-query", clients=1, tables=1) if isinstance(p, Step) and p.measured
    ]
    # At a fixed rate both parts are of one length in statements, whatever else the machine does.
    paced = [replace(role, rate=FixedRate(500)) for role in step.roles]
    outcome = run_step(cluster, "loaded", replace(step, roles=paced, warmup=0.6, seconds=0.6))
    counted = outcome.role("query")["operations"]
    (executed,) = [n for text, n in calls(loaded).items() if "sbtest1" in text]
    assert 0.3 * executed < counted < 0.7 * executed
    assert 0.55 < outcome.done["seconds"] < 0.8


def test_reads_before_the_writes_meet_tables_that_were_vacuumed(cluster: Cluster) -> None:
    """Without that an index-only scan fetches the heap for every row."""
    with database(cluster, "fresh") as connection:
        for phase in phases(steps="range-covered-pk.pre", cache_seconds=0):
            if isinstance(phase, Step) and phase.measured:
                break
            run_phase(cluster, "fresh", phase)
        for n in (1, 2):
            row = connection.execute(
                f"EXPLAIN (ANALYZE, FORMAT JSON) SELECT id FROM sbtest{n} WHERE id BETWEEN 200 AND 300"
            ).fetchone()
            assert row is not None
            plan = row[0][0]["Plan"]
            assert (plan["Node Type"], plan["Heap Fetches"]) == ("Index Only Scan", 0)


def test_settling_vacuums_every_table(cluster: Cluster) -> None:
    with database(cluster, "settled") as connection:
        load(cluster, "settled")
        connection.execute("DELETE FROM sbtest2 WHERE id <= 500")
        for phase in phases(steps="point-query"):
            if isinstance(phase, Settle):
                run_phase(cluster, "settled", phase)
        vacuumed = connection.execute(
            "SELECT c.relname, last_vacuum IS NOT NULL, last_analyze IS NOT NULL, reltuples, "
            "relallvisible = relpages FROM pg_stat_user_tables s JOIN pg_class c ON c.oid = relid ORDER BY 1"
        ).fetchall()
        assert vacuumed == [("sbtest1", True, True, 2000.0, True), ("sbtest2", True, True, 1500.0, True)]


def test_zipf_keys_follow_their_law_with_small_ids_hottest(cluster: Cluster) -> None:
    """P(id = k) is k^-0.8 / H(rows, 0.8)."""
    events = 3000
    with database(cluster, "zipf") as connection:
        load(cluster, "zipf", tables=1)
        connection.execute(
            """CREATE UNLOGGED TABLE hits (id int PRIMARY KEY, n int NOT NULL);
            CREATE FUNCTION hit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
              INSERT INTO hits VALUES (NEW.id, 1) ON CONFLICT (id) DO UPDATE SET n = hits.n + 1;
              RETURN NEW; END $$;
            CREATE TRIGGER hit AFTER UPDATE ON sbtest1 FOR EACH ROW EXECUTE FUNCTION hit()"""
        )
        (step,) = [
            p for p in phases(steps="update-zipf", clients=1, tables=1) if isinstance(p, Step) and p.measured
        ]
        run_step(cluster, "zipf", with_transactions(step, events))
        hits = dict(connection.execute("SELECT id, n FROM hits").fetchall())
    assert sum(hits.values()) == events
    harmonic = sum(k**-0.8 for k in range(1, ROWS + 1))
    for first, last in ((1, 1), (2, 2), (1, 10), (11, 200), (201, ROWS)):
        expected = sum(k**-0.8 for k in range(first, last + 1)) / harmonic
        share = sum(hits.get(k, 0) for k in range(first, last + 1)) / events
        # five standard deviations of a binomial share
        assert abs(share - expected) < 5 * (expected * (1 - expected) / events) ** 0.5, (first, last)
