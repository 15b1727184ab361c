"""The Insert Benchmark on a real server: what it did there, computed by hand."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hdrh.histogram import HdrHistogram
from jsonschema import Draft202012Validator

from pgstrata.driver.spec import EngineChoice
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Admin, Phase, Settle, Step
from pgstrata.workload.insert.options import InsertOptions
from support.steps import Outcome, calls, database, forget_calls, run_phase, run_step, running

INSERT = catalog.find("insert")
DOCS = Path(__file__).parents[3] / "docs"
EVENT = Draft202012Validator(json.loads((DOCS / "driver-events.schema.json").read_text()))

OPTIONS = {
    "clients": 2,
    "rows": 20_000,
    "rows_i1": 4_000,
    "rows_i2": 500,
    "steps": "1000:range 1000:point",
    "seconds": 2.2,
    "min_refresh": 15,
    "settle_base": 0,
    "settle_per_million": 0,
}

PRIMARY = "CREATE UNIQUE INDEX pi{n}_pkey ON public.pi{n} USING btree (transactionid)"
SECONDARY = [
    "CREATE INDEX pi{n}_marketsegment ON public.pi{n} USING btree (productid, customerid, price)",
    "CREATE INDEX pi{n}_pdc ON public.pi{n} USING btree (price, dateandtime, customerid)",
    "CREATE INDEX pi{n}_registersegment ON public.pi{n} USING btree (cashregisterid, customerid, price)",
]


def phases(**more: object) -> list[Phase]:
    return INSERT.phases(InsertOptions.model_validate({**OPTIONS, **more}), NEWEST)


def table(connection: psycopg.Connection[Any], name: str) -> tuple[int, int, int]:
    """Rows, smallest and largest id."""
    row = connection.execute(
        f"SELECT count(*), min(transactionid), max(transactionid) FROM {name}"
    ).fetchone()
    assert row is not None
    count, first, last = row
    return count, first, last


def indexes(connection: psycopg.Connection[Any], name: str) -> list[str]:
    rows = connection.execute(
        "SELECT indexdef FROM pg_indexes WHERE tablename = %s ORDER BY indexdef", [name]
    ).fetchall()
    return [definition for (definition,) in rows]


class Whole:
    """All steps, run once: what the driver said, and the server's state and statements after each."""

    def __init__(self, cluster: Cluster, connection: psycopg.Connection[Any]) -> None:
        self.outcomes: dict[str, Outcome] = {}
        self.tables: dict[str, list[tuple[int, int, int]]] = {}
        self.indexes: dict[str, list[list[str]]] = {}
        self.calls: dict[str, dict[str, int]] = {}
        for phase in phases():
            forget_calls(connection)
            outcome = run_phase(cluster, "whole", phase)
            if isinstance(phase, Step):
                assert outcome is not None
                self.outcomes[phase.name] = outcome
                self.calls[phase.name] = calls(connection)
                self.tables[phase.name] = [table(connection, f"pi{n}") for n in (1, 2)]
                self.indexes[phase.name] = [indexes(connection, f"pi{n}") for n in (1, 2)]


@pytest.fixture(scope="module")
def whole(cluster: Cluster) -> Iterator[Whole]:
    with database(cluster, "whole") as connection:
        yield Whole(cluster, connection)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        # 20,000 rows over 2 clients; a connection takes ids a thousand at a time.
        ("l.i0", (10_000, 1, 10_000)),
        ("l.x", (10_100, 1, 10_100)),
        # 4,000 rows over 2 clients, and as many deletes. The new connection begins at the next thousand.
        ("l.i1", (10_100, 2_001, 13_000)),
        # 500 rows over 2 clients.
        ("l.i2", (10_100, 2_251, 13_250)),
    ],
)
def test_rows_and_ids_after_each_step(whole: Whole, step: str, expected: tuple[int, int, int]) -> None:
    assert whole.tables[step] == [expected] * 2


def test_indexes_after_each_step(whole: Whole) -> None:
    for step, by_table in whole.indexes.items():
        for n, definitions in enumerate(by_table, start=1):
            expected = [PRIMARY] if step == "l.i0" else [*SECONDARY, PRIMARY]
            assert definitions == [text.format(n=n) for text in expected], step


def test_the_queue_moves_behind_the_queries_and_keeps_its_size(whole: Whole) -> None:
    before = "l.i2"
    for step in ("qr1000", "qp1000"):
        inserted, deleted = whole.outcomes[step].role("insert"), whole.outcomes[step].role("delete")
        # 20 statements a second for each of two clients, for 2.2 seconds
        assert inserted["rows"] == inserted["operations"] * 50
        assert 0.95 * 2 * 44 <= inserted["operations"] <= 2 * 45
        assert 0.95 * 2 * 44 <= deleted["operations"] <= 2 * 45
        for now, then in zip(whole.tables[step], whole.tables[before], strict=True):
            assert abs(now[0] - then[0]) <= 8 * 50
            assert now[1] > then[1] and now[2] > then[2]
        grown = sum(
            now[0] - then[0] for now, then in zip(whole.tables[step], whole.tables[before], strict=True)
        )
        # what was under way when the clock stopped is in the tables but not in the counts
        assert abs(grown - (inserted["rows"] - deleted["rows"])) <= 2 * 50
        before = step


def test_statements_are_those_of_the_reference(whole: Whole) -> None:
    def literals(rows: int) -> str:
        numbers = iter(range(1, 6 * rows + 1))
        return ",".join("(" + ",".join(f"${next(numbers)}" for _ in range(6)) + ")" for _ in range(rows))

    columns = "dateandtime,cashregisterid,customerid,productid,price,data"
    expected: dict[str, dict[str, int]] = {
        "l.i0": {f"INSERT INTO pi1 ({columns}) VALUES {literals(100)}": 100},
        "l.x": {
            f"INSERT INTO pi1 ({columns}) VALUES {literals(100)}": 1,
            "CREATE INDEX pi1_marketsegment ON pi1 (productid, customerid, price)": 1,
            "CREATE INDEX pi1_registersegment ON pi1 (cashregisterid, customerid, price)": 1,
            "CREATE INDEX pi1_pdc ON pi1 (price, dateandtime, customerid)": 1,
        },
        "l.i1": {
            f"INSERT INTO pi1 ({columns}) VALUES {literals(50)}": 40,
            "DELETE FROM pi1 WHERE transactionid IN (SELECT transactionid FROM pi1 "
            "WHERE transactionid >= $1 ORDER BY transactionid ASC LIMIT $2)": 40,
            # at the start, and at every 15th of 40 deletes
            "SELECT min(transactionid) FROM pi1": 1 + 2,
        },
        "l.i2": {
            f"INSERT INTO pi1 ({columns}) VALUES {literals(5)}": 50,
            "DELETE FROM pi1 WHERE transactionid IN (SELECT transactionid FROM pi1 "
            "WHERE transactionid >= $1 ORDER BY transactionid ASC LIMIT $2)": 50,
            "SELECT min(transactionid) FROM pi1": 1 + 3,
        },
    }
    for step, statements in expected.items():
        of_pi1 = {text: n for text, n in whole.calls[step].items() if "pi1" in text}
        assert of_pi1 == statements, step


RANGE_QUERIES = {
    "pdc_query_ps": "SELECT price,dateandtime,customerid FROM pi1 WHERE price >= $1 "
    "ORDER BY price,dateandtime,customerid LIMIT $2",
    "market_query_ps": "SELECT productid,customerid,price FROM pi1 WHERE productid >= $1 "
    "ORDER BY productid,customerid,price LIMIT $2",
    "register_query_ps": "SELECT cashregisterid,customerid,price FROM pi1 WHERE cashregisterid > $1 "
    "ORDER BY cashregisterid,customerid,price LIMIT $2",
}
POINT_QUERY = (
    "SELECT transactionid,productid,data FROM pi1 "
    f"WHERE transactionid IN ({','.join(f'${n}' for n in range(1, 11))})"
)


def test_queries_over_the_extended_protocol(cluster: Cluster) -> None:
    with database(cluster, "extended") as connection:
        chosen = phases(clients=1, rows=2_000, rows_i1=0, rows_i2=0, seconds=0.3, query_protocol="extended")
        for phase in chosen:
            run_phase(cluster, "extended", phase)
        assert {*RANGE_QUERIES.values(), POINT_QUERY} <= calls(connection).keys()


def test_queries_are_those_of_the_reference(whole: Whole) -> None:
    seen = whole.calls["qr1000"]
    ranges = {f"PREPARE {name} (int) AS {text}" for name, text in RANGE_QUERIES.items()}
    assert ranges <= seen.keys()
    # EXECUTE is seen as what it executes
    queries = whole.outcomes["qr1000"].role("query")["operations"]
    assert queries <= sum(seen[text] + seen[text.replace("pi1", "pi2")] for text in ranges) <= queries + 2
    point = whole.calls["qp1000"]
    assert f"PREPARE pk_query_ps ({','.join(['int'] * 10)}) AS {POINT_QUERY}" in point
    # MAX at the start and before every hundredth query of each client
    maxima = sum(n for query, n in point.items() if query.startswith("SELECT max(transactionid)"))
    queries = sum(n for query, n in point.items() if "SELECT transactionid,productid" in query)
    assert queries // 100 <= maxima <= queries // 100 + 2


def test_calls_are_what_the_driver_counted(whole: Whole) -> None:
    for step in ("l.i0", "l.i1", "l.i2"):
        inserts = sum(n for text, n in whole.calls[step].items() if text.startswith("INSERT"))
        assert inserts == whole.outcomes[step].role("insert")["statements"]


def test_range_queries_find_rows_and_point_queries_nearly_all_ids(whole: Whole) -> None:
    ranges = whole.outcomes["qr1000"].role("query")
    assert 9.5 < ranges["rows"] / ranges["operations"] <= 10
    # Some ids were never used: a connection that ends leaves up to a thousand behind.
    points = whole.outcomes["qp1000"].role("query")
    assert 7.5 < points["rows"] / points["operations"] <= 10


def test_the_time_of_min_queries_is_recorded_apart(whole: Whole) -> None:
    outcome = whole.outcomes["l.i1"]
    read = outcome.statement("delete", "min")
    assert read["count"] == 2 * 3
    assert 0 < read["seconds_max"] <= read["seconds_total"]
    assert outcome.role("delete")["operations"] == outcome.statement("delete", "delete")["count"] == 80


def test_seconds_add_up_to_the_step(whole: Whole) -> None:
    for name, outcome in whole.outcomes.items():
        assert [e["second"] for e in outcome.seconds] == list(range(len(outcome.seconds))), name
        for role in outcome.done["roles"]:
            of_role = [r for e in outcome.seconds for r in e["roles"] if r["name"] == role["name"]]
            for count in ("operations", "transactions", "statements", "rows", "errors", "retries"):
                assert sum(r[count] for r in of_role) == role[count], (name, role["name"], count)
            merged = HdrHistogram(1, 3_600_000_000, 3)
            for r in of_role:
                merged.decode_and_add(r["histogram"])
            step = HdrHistogram.decode(role["histogram"])
            assert merged.get_total_count() == step.get_total_count() == role["operations"]
            assert [
                (i.value_iterated_to, i.count_at_value_iterated_to) for i in merged.get_recorded_iterator()
            ] == [(i.value_iterated_to, i.count_at_value_iterated_to) for i in step.get_recorded_iterator()]


def test_events_are_valid(whole: Whole) -> None:
    for outcome in whole.outcomes.values():
        kinds = Counter(e["event"] for e in outcome.events)
        assert kinds["ready"] == kinds["measuring"] == kinds["done"] == 1
        for event in outcome.events:
            EVENT.validate(event)


# --- lockstep ----------------------------------------------------------------------------------

SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_sleep({seconds}); RETURN NULL; END $$;
CREATE TRIGGER slow BEFORE {kind} ON pi1 FOR EACH STATEMENT EXECUTE FUNCTION slow();
"""


@pytest.mark.parametrize("engine", ["blocking", "io_uring"])
@pytest.mark.parametrize(("slow", "ahead"), [("DELETE", "INSERT"), ("INSERT", "DELETE")])
def test_inserts_and_deletes_are_never_more_than_eight_apart(
    pg17: Server, slow: str, ahead: str, engine: EngineChoice
) -> None:
    """The server's own log, in the order in which statements ended, with one side made slow."""
    with (
        running(pg17, "log_min_duration_statement = 0\n") as cluster,
        database(cluster, "steps") as connection,
    ):
        for phase in phases(clients=1, rows=5_000, rows_i1=5_000, steps=[]):
            if isinstance(phase, Settle):
                break
            if isinstance(phase, Step) and phase.name == "l.i1":
                connection.execute(SLOW.format(kind=slow, seconds=0.02))
                run_step(cluster, "steps", phase, engine=engine)
            elif isinstance(phase, Admin) or phase.name == "l.i0":
                run_phase(cluster, "steps", phase)
        log = cluster.log_file.read_text()
    # l.i0 inserted before the first delete; its statements are not part of the race
    statements = re.findall(r"statement: (INSERT|DELETE) [^\n]*", log)[50:]
    # The smallest id is read on the connection that deletes, and prices are decimals.
    by_process = {
        kind: set(re.findall(rf"\[(\d+)\] LOG: .* statement: {kind}", log))
        for kind in ("DELETE", r"SELECT min\(")
    }
    assert len(by_process["DELETE"]) == 1
    assert by_process[r"SELECT min\("] == by_process["DELETE"]
    assert (
        len(re.findall(r"VALUES \('[^']+',\d+,\d+,\d+,\d{1,3}\.00,'", log)) == statements.count("INSERT") + 50
    )
    lead, most = 0, 0
    for kind in statements:
        lead += 1 if kind == ahead else -1
        assert -8 <= lead <= 8
        most = max(most, lead)
    assert statements.count("INSERT") == statements.count("DELETE") == 100
    assert most >= 7, "the faster side did not use its room, so the limit was not put to the test"


# --- other shapes ------------------------------------------------------------------------------


def test_one_shared_partitioned_table_keeps_its_size(cluster: Cluster) -> None:
    with database(cluster, "shared") as connection:
        for phase in phases(tables="shared", clients=3, partitions=3, rows=9_000, rows_i1=6_000, rows_i2=0):
            outcome = run_phase(cluster, "shared", phase)
            if isinstance(phase, Step) and phase.name == "l.i1":
                assert outcome is not None
                assert outcome.role("insert")["rows"] == 6_000
                assert outcome.role("delete")["rows"] == 6_000
                # no id was missing at the tail, so each client found its stripes whole
                assert table(connection, "pi1")[:2] == (9_100, 6_001)
        assert len(indexes(connection, "pi1")) == 4
        parts = connection.execute(
            "SELECT relid::regclass::text FROM pg_partition_tree('pi1') WHERE isleaf ORDER BY 1"
        ).fetchall()
        assert parts == [("pi1_p0",), ("pi1_p1",), ("pi1_p2",)]


def test_an_open_transaction_is_held_and_ended(cluster: Cluster) -> None:
    with database(cluster, "htap"):
        chosen = phases(clients=1, rows=2_000, rows_i1=0, rows_i2=0, htap_seconds=0.3, steps="100:range")
        for phase in chosen:
            outcome = run_phase(cluster, "htap", phase)
        assert outcome is not None
        # 2.2 seconds hold seven transactions of 0.3 seconds
        assert 5 <= outcome.role("htap")["operations"] <= 8


@pytest.mark.parametrize("engine", ["blocking", "io_uring"])
def test_a_step_by_rows_does_not_wait_for_an_open_transaction(cluster: Cluster, engine: EngineChoice) -> None:
    with database(cluster, "held"):
        for phase in phases(clients=2, rows=2_000, rows_i1=2_000, rows_i2=0, htap_seconds=300, steps=[]):
            if isinstance(phase, Step) and phase.name == "l.i1":
                outcome = run_step(cluster, "held", phase, engine=engine)
                assert outcome.role("insert")["rows"] == outcome.role("delete")["rows"] == 2_000
            else:
                run_phase(cluster, "held", phase)


def test_the_same_seed_gives_the_same_rows(cluster: Cluster) -> None:
    def load(seed: int) -> tuple[Any, ...]:
        with database(cluster, "seeded") as connection:
            for phase in phases(clients=2, rows=2_000)[:2]:
                run_phase(cluster, "seeded", phase, seed)
            columns = "transactionid,cashregisterid,customerid,productid,price,data"
            rows = connection.execute(
                " UNION ALL ".join(
                    f"SELECT md5(string_agg(md5(row({columns})::text), '' ORDER BY transactionid)) FROM pi{n}"
                    for n in (1, 2)
                )
            ).fetchall()
            return tuple(rows)

    first, second = load(1)
    assert load(1) == (first, second)
    assert first != second
    assert load(2) != (first, second)


def test_values_fill_their_ranges(cluster: Cluster) -> None:
    with database(cluster, "ranges") as connection:
        for phase in phases(clients=1, rows=50_000)[:2]:
            run_phase(cluster, "ranges", phase)
        row = connection.execute(
            """SELECT min(cashregisterid), max(cashregisterid), min(customerid) < 100,
                      max(customerid) > 99900, max(customerid) < 100000,
                      min(productid) < 10, max(productid), min(price), max(price),
                      min(length(data)), max(length(data)),
                      count(*) FILTER (WHERE data !~ '^a+[A-Za-z0-9+/]*$'),
                      count(DISTINCT dateandtime) < 60,
                      bool_and(dateandtime BETWEEN now() - interval '1 day' AND now() + interval '1 day'),
                      -- of 20 characters int(20 × 0.75 × 0.5) = 7 are random
                      bool_and(left(data, 13) = repeat('a', 13)) FILTER (WHERE length(data) = 20),
                      count(DISTINCT right(data, 7)) FILTER (WHERE length(data) = 20) > 1000
               FROM pi1"""
        ).fetchone()
    assert row == (0, 999, True, True, True, True, 9999, 0, 499, 10, 20, 0, True, True, True, True)


def test_a_rate_that_cannot_be_reached_is_seen(cluster: Cluster) -> None:
    """The SLA: writers that cannot keep up count fewer rows than their target."""
    with database(cluster, "sla") as connection:
        for phase in phases(clients=1, rows=2_000, rows_i1=0, rows_i2=0, steps="1000:range"):
            if isinstance(phase, Step) and phase.name == "qr1000":
                # 20 statements of 50 rows are due each second; each takes a tenth
                connection.execute(SLOW.format(kind="INSERT", seconds=0.1))
                outcome = run_step(cluster, "sla", replace(phase, seconds=2.0))
                insert = outcome.role("insert")
                assert insert["rows"] / outcome.done["seconds"] < 0.95 * 1000
                # latency counts from the intended start, so waiting shows in it
                assert insert["latency"]["max"] > 0.5
            else:
                run_phase(cluster, "sla", phase)
