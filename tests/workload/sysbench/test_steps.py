"""The sysbench microbenchmarks as data, held against the table of their description."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pgstrata.driver.message import document
from pgstrata.server.features import NEWEST
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Admin, Phase, Refine, Settle, Step
from pgstrata.workload.sysbench.steps import ALL, EXTRAS, POST, PRE, WRITES, Sysbench, SysbenchOptions
from support.sql import role, text, values

SYSBENCH = catalog.find("sysbench")

READS = [
    "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?",
    "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?",
    "SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
    "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN ? AND ? ORDER BY c",
]
POINT_SELECTS = ["SELECT c FROM sbtest1 WHERE id=?"] * 10
READ_ONLY = POINT_SELECTS + READS
WRITE_ONLY = [
    "UPDATE sbtest1 SET k=k+1 WHERE id=?",
    "UPDATE sbtest1 SET c=? WHERE id=?",
    "DELETE FROM sbtest1 WHERE id=?",
    "INSERT INTO sbtest1 (id, k, c, pad) VALUES (?, ?, ?, ?)",
]


def keys(n: int) -> str:
    return ", ".join(["?"] * n)


EVENTS = {
    "point-query": ["SELECT c FROM sbtest1 WHERE id=?"],
    **{f"random-points={n}": [f"SELECT c FROM sbtest1 WHERE id IN ({keys(n)})"] for n in (10, 100, 1000)},
    "hot-points": [f"SELECT c FROM sbtest1 WHERE id IN ({keys(100)})"],
    "points-covered-pk": [f"SELECT id FROM sbtest1 WHERE id IN ({keys(100)})"],
    "points-covered-si": [f"SELECT k FROM sbtest1 WHERE k IN ({keys(100)})"],
    "points-notcovered-pk": [f"SELECT id, c FROM sbtest1 WHERE id IN ({keys(100)})"],
    "points-notcovered-si": [f"SELECT k, c FROM sbtest1 WHERE k IN ({keys(100)})"],
    "range-covered-pk": ["SELECT id FROM sbtest1 WHERE id BETWEEN ? AND ?"],
    "range-covered-si": ["SELECT k FROM sbtest1 WHERE k BETWEEN ? AND ?"],
    "range-notcovered-pk": ["SELECT id, c FROM sbtest1 WHERE id BETWEEN ? AND ?"],
    "range-notcovered-si": ["SELECT k, c FROM sbtest1 WHERE k BETWEEN ? AND ?"],
    "scan": ["SELECT * FROM sbtest1 WHERE LENGTH(c) < 0"],
    **{f"read-only={n}": ["BEGIN", *READ_ONLY, "COMMIT"] for n in (10, 100, 10000)},
    "read-only-simple": ["BEGIN", *POINT_SELECTS, READS[0], "COMMIT"],
    "read-only-sum": ["BEGIN", *POINT_SELECTS, READS[1], "COMMIT"],
    "read-only-order": ["BEGIN", *POINT_SELECTS, READS[2], "COMMIT"],
    "read-only-distinct": ["BEGIN", *POINT_SELECTS, READS[3], "COMMIT"],
    "read-only-count": ["SELECT count(c) FROM sbtest1 WHERE id BETWEEN ? AND ?"],
    "update-inlist": [f"UPDATE sbtest1 SET c=? WHERE id IN ({keys(10)})"],
    "update-index": ["UPDATE sbtest1 SET k=k+1 WHERE id=?"],
    "update-nonindex": ["UPDATE sbtest1 SET c=? WHERE id=?"],
    "update-one": ["UPDATE sbtest1 SET c=? WHERE id=?"],
    "update-zipf": ["UPDATE sbtest1 SET c=? WHERE id=?"],
    "write-only": ["BEGIN", *WRITE_ONLY, "COMMIT"],
    **{f"read-write={n}": ["BEGIN", *READ_ONLY, *WRITE_ONLY, "COMMIT"] for n in (10, 100)},
    "delete": ["DELETE FROM sbtest1 WHERE id=?"],
    "insert": ["INSERT INTO sbtest1 (k, c, pad) VALUES (?, ?, ?)"],
}


def phases(**options: object) -> list[Phase]:
    return SYSBENCH.phases(SysbenchOptions.model_validate({"rows": 1000, **options}), NEWEST)


def steps(**options: object) -> dict[str, Step]:
    return {p.name: p for p in phases(**options) if isinstance(p, Step) and p.measured}


def event(name: str, **options: object) -> list[dict[str, Any]]:
    ops: list[dict[str, Any]] = role(steps(steps=[name], **options)[name].spec(), "query")["scripts"][0][
        "ops"
    ]
    return ops


@pytest.mark.parametrize("name", EVENTS)
def test_the_statements_of_one_event(name: str) -> None:
    assert [text(op) for op in event(name) if "sql" in op] == EVENTS[name]


def test_the_table_above_is_the_whole_suite() -> None:
    assert {m.name.removesuffix(".pre") for m in ALL} == EVENTS.keys()


def test_reads_before_and_after_the_writes_do_the_same() -> None:
    for m in PRE:
        assert event(m.name) == event(m.name.removesuffix(".pre"))


def test_the_lists_have_the_published_sizes() -> None:
    assert [len(x) for x in (PRE, WRITES, POST, EXTRAS)] == [15, 8, 17, 5]
    full, standard = list(steps(steps="full")), list(steps(steps="standard"))
    assert (len(full), len(standard)) == (42, 27)
    assert full[15:] == standard
    assert not set(standard) & {m.name for m in EXTRAS}


LOAD = ["create tables", "load", "index", "continue ids", "point-query.warm", "settle"]
READS_BEFORE = """
    point-query random-points=10 random-points=100 random-points=1000
    read-only=10 read-only=100 read-only=10000
    points-covered-pk points-notcovered-pk points-covered-si points-notcovered-si
    range-covered-pk range-notcovered-pk range-covered-si range-notcovered-si
"""
ALL_WRITES = """
    update-inlist update-index update-nonindex update-one update-zipf write-only read-write=10 read-write=100
"""
READS_AFTER = """
    scan.warm scan read-only=10 read-only=100 read-only=10000
    read-only-simple read-only-sum read-only-order read-only-distinct read-only-count
    point-query random-points=10 random-points=100 random-points=1000 hot-points
    points-covered-pk points-notcovered-pk range-covered-pk range-notcovered-pk
    points-covered-si.warm points-covered-si points-notcovered-si range-covered-si range-notcovered-si
"""


def in_order(**options: object) -> list[str]:
    return [p.name if isinstance(p, Step | Admin) else "settle" for p in phases(**options)]


def test_the_order_is_that_of_the_original_scripts() -> None:
    assert in_order(steps="full extras") == [
        *LOAD,
        "scan.warmpre",
        *(f"{name}.pre" for name in READS_BEFORE.split()),
        *ALL_WRITES.split(),
        "settle",
        *READS_AFTER.split(),
        "delete",
        "insert",
    ]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("range-covered-pk.pre", ["scan.warmpre", "range-covered-pk.pre"]),
        ("insert", ["scan.warmpre", "insert"]),
        # Nothing has written since the tables settled.
        ("scan", ["scan.warm", "scan"]),
        ("update-one scan", ["scan.warmpre", "update-one", "settle", "scan.warm", "scan"]),
        # The index on k has not been read since the load, whichever of its four reads comes first.
        ("range-covered-si", ["scan.warm", "points-covered-si.warm", "range-covered-si"]),
    ],
)
def test_a_subset_is_warmed_and_settled_as_in_the_suite(chosen: str, expected: list[str]) -> None:
    assert in_order(steps=chosen) == [*LOAD, *expected]


def test_steps_that_warm_are_shown_and_not_compared() -> None:
    warm = {p.name: p for p in phases(steps="full", tables=3, clients=7) if isinstance(p, Step)}
    lengths = {
        "point-query.warm": (180, 3),
        "scan.warmpre": (60, 7),
        "scan.warm": (60, 7),
        "points-covered-si.warm": (180, 7),
    }
    for name, (seconds, clients) in lengths.items():
        assert not warm[name].measured
        assert (warm[name].seconds, warm[name].roles[0].clients) == (seconds, clients), name


def test_nothing_is_warmed_where_that_is_asked_for_but_the_tables_settle() -> None:
    assert in_order(steps="scan", cache_seconds=0) == [*LOAD[:-2], "settle", "scan"]


def test_settling_takes_a_minute_and_a_second_for_each_million_rows() -> None:
    for rows, seconds in ((10_000_000, 60 + 80), (200_000_000, 1200)):
        assert [p.seconds for p in phases(rows=rows, tables=8, steps="full") if isinstance(p, Settle)] == [
            seconds,
            seconds,
        ]


def test_a_quick_run_settles_for_seconds() -> None:
    for scale in ("quick", "demo"):
        all_phases = phases(**SYSBENCH.scales[scale], steps="full")
        assert sum(p.seconds for p in all_phases if isinstance(p, Settle)) < 10, scale


def test_write_only_runs_as_long_as_a_read_and_the_other_writes_longer() -> None:
    by_name = steps(steps="full extras", read_seconds=7, write_seconds=9)
    for name, step in by_name.items():
        reads = step.group != "writes" or name == "write-only"
        assert step.seconds == (7 if reads else 9), name


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ("point-query", ["point-query"]),
        ("random-points", ["random-points=10", "random-points=100", "random-points=1000"]),
        ("random-points=100", ["random-points=100"]),
        ("read-only.pre", ["read-only=10.pre", "read-only=100.pre", "read-only=10000.pre"]),
        ("insert update-z*", ["update-zipf", "insert"]),
        ("extras", [m.name for m in EXTRAS]),
        ("*.pre", [m.name for m in PRE]),
        (["read-write=100"], ["read-write=100"]),
    ],
)
def test_any_subset_in_the_order_of_the_suite(chosen: object, expected: list[str]) -> None:
    assert list(steps(steps=chosen)) == expected


def test_a_name_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValidationError, match="piont-query"):
        SysbenchOptions(steps=("piont-query",))


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("hot-points", "point queries"),
        ("points-covered-si", "point queries"),
        ("random-points=1000", "point queries"),
        ("scan", "range queries without aggregation"),
        ("range-notcovered-pk", "range queries without aggregation"),
        ("read-only=10000", "range queries with aggregation"),
        ("read-only-count", "range queries with aggregation"),
        ("read-write=10", "writes"),
        ("insert", "writes"),
    ],
)
def test_groups(name: str, group: str) -> None:
    assert steps(steps=[name])[name].group == group


def test_ranges_end_as_in_the_originals() -> None:
    ends = {
        "read-only=100": ":low + 99",
        "read-only-sum": ":low + 999",
        "range-covered-pk": ":low + 100",
    }
    for name, high in ends.items():
        select = next(op for op in event(name) if "sql" in op and "BETWEEN" in text(op))
        assert [v["expr"] for v in values(select)] == [":low", high]
        assert {"set": "low", "expr": "random(1, 1000)"} in event(name)


def test_keys_are_drawn_as_described() -> None:
    def key(name: str) -> object:
        return values(next(op for op in event(name) if "sql" in op))[-1]["expr"]

    assert key("point-query") == "random(1, 1000)"
    assert key("update-one") == "1"
    assert key("update-zipf") == "sysbench_zipf(1, 1000, 0.8)"
    hot = [v["expr"] for v in values(next(op for op in event("hot-points") if "sql" in op))]
    assert hot == [str(key) for key in range(501, 601)]


def test_every_kind_of_statement_picks_its_table() -> None:
    # 10 point selects share one table, each range has its own, so have both updates;
    # a delete and the insert after it share one.
    picks = [op for op in event("read-write=10", tables=3) if op.get("set") == "t"]
    assert picks == [{"set": "t", "expr": "random(1, 3)"}] * (1 + 4 + 2 + 1)
    scan = event("scan", tables=3)[0]
    assert scan["sql"][1] == {"text": ":client_id % 3 + 1", "from": 1, "to": 3}


def test_the_deleted_id_comes_back() -> None:
    ops = event("write-only")
    at = ops.index({"set": "id", "expr": "random(1, 1000)"})
    delete, insert = ops[at + 1 : at + 3]
    assert values(delete)[0] == values(insert)[0] == {"expr": ":id", "type": "int8"}


def test_prepared_statements_on_and_off() -> None:
    assert role(steps(steps="point-query")["point-query"].spec(), "query")["mode"] == "prepared"
    assert role(steps(steps="point-query", prepared=False)["point-query"].spec(), "query")["mode"] == "simple"
    for name in ("scan", "insert"):
        assert event(name)[-1]["mode"] == "simple"


def test_the_rate_counts_statements_and_scans_count_rows() -> None:
    chosen = steps(steps="read-only=10 scan")
    assert all(r.counts == "statements" for s in chosen.values() for r in s.roles)
    assert chosen["scan"].headline.factor == 1000
    assert chosen["scan"].headline.unit == "rows scanned/s"
    assert chosen["read-only=10"].headline.unit == "queries/s"


def test_scans_by_number_end_by_themselves() -> None:
    scan = steps(steps="scan", scans=3)["scan"]
    assert (scan.seconds, scan.warmup, scan.roles[0].operations) == (None, 0, 3)
    (warm,) = [p for p in phases(steps="scan", scans=3) if isinstance(p, Step) and p.name == "scan.warm"]
    assert (warm.seconds, warm.roles[0].operations) == (None, 1)


def test_only_writes_retry_what_sysbench_retries() -> None:
    chosen = steps(steps="full")
    for name, step in chosen.items():
        expected = ("40P01", "40001", "23505") if step.group == "writes" else ()
        assert step.roles[0].retry_sqlstates == expected, name
        assert step.reads_only == (step.group != "writes"), name


def test_tables_and_load() -> None:
    create, load, index, ids, *_ = phases(tables=3, load_connections=2)
    assert isinstance(create, Admin) and isinstance(ids, Admin)
    assert isinstance(load, Step) and isinstance(index, Step)
    assert create.statements[2] == (
        "CREATE TABLE sbtest3 (id SERIAL, k INTEGER DEFAULT '0' NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, "
        "pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY KEY (id))"
    )
    branches = document(load.spec())["roles"][0]["scripts"][0]["ops"]
    copies = {condition: [op["copy"] for op in ops] for branch in branches for condition, ops in branch["if"]}
    assert copies == {
        ":client_id = 0": [
            "COPY sbtest1 (id, k, c, pad) FROM STDIN",
            "COPY sbtest3 (id, k, c, pad) FROM STDIN",
        ],
        ":client_id = 1": ["COPY sbtest2 (id, k, c, pad) FROM STDIN"],
    }
    assert branches[0]["if"][0][1][0]["row"] == [
        {"expr": ":row", "type": "int8"},
        "\t",
        {"expr": "random(1, 1000)", "type": "int8"},
        "\t",
        {"digits": "-".join(["###########"] * 10), "type": "varchar"},
        "\t",
        {"digits": "-".join(["###########"] * 5), "type": "varchar"},
    ]
    assert ids.statements == [f"SELECT setval('sbtest{n}_id_seq', 1000)" for n in (1, 2, 3)]
    assert not load.measured and not index.measured


def test_a_secondary_index_in_place_of_the_primary_key() -> None:
    create, _, index, *_ = phases(secondary=True)
    assert isinstance(create, Admin) and isinstance(index, Step)
    assert "PRIMARY KEY" not in create.statements[0]
    assert [text(op) for op in document(index.spec())["roles"][0]["scripts"][0]["ops"]] == [
        "CREATE INDEX k_1 ON sbtest1(k)",
        "CREATE INDEX xid_1 ON sbtest1(id)",
    ]


def test_several_numbers_of_clients_are_a_curve_of_each_microbenchmark() -> None:
    planned = phases(steps="update-one point-query", clients="1..4", cache_seconds=0)
    names = [p.name if isinstance(p, Step) else p.steps for p in planned if isinstance(p, Step | Refine)]
    assert names == [
        *("load", "index"),
        *("update-one-c1", "update-one-c2", "update-one-c4", "update-one"),
        *("point-query-c1", "point-query-c2", "point-query-c4", "point-query"),
    ]
    by_name = steps(steps="update-one point-query", clients=[1, 4])
    assert [step.roles[0].clients for step in by_name.values()] == [1, 4, 1, 4]
    assert by_name["point-query-c4"].summary == "Selects one row by primary key, 4 clients."
    place = next(p for p in planned if isinstance(p, Refine))
    assert [p.name for p in place.at(3) if isinstance(p, Step)] == ["update-one-c3"]


def test_warm_ups_have_the_most_clients() -> None:
    warm = {p.name: p for p in phases(steps="scan", clients=[1, 3]) if isinstance(p, Step)}
    assert warm["scan.warm"].roles[0].clients == 3


def test_one_number_of_clients_is_recorded_and_named_as_a_number() -> None:
    options = SysbenchOptions.model_validate({"clients": 4})
    assert options.model_dump(mode="json")["clients"] == 4
    assert SysbenchOptions.model_validate({"clients": [1, 4]}).model_dump()["clients"] == [1, 4]
    assert list(steps(steps="point-query", clients=[4])) == ["point-query"]


def test_a_number_of_clients_twice_is_refused() -> None:
    with pytest.raises(ValidationError, match="4 stands there twice: name each number of clients once"):
        SysbenchOptions.model_validate({"clients": [4, 1, 4]})


def test_a_part_of_the_steps_has_whole_curves() -> None:
    part = Sysbench().part(["scan-c1", "scan-c4", "read-only=10.pre-c1"])
    assert part == {"steps": ["scan", "read-only=10.pre"]}
    assert Sysbench().only(["scan-c1"], 3) == {"read_seconds": 3, "steps": ["scan"]}
    assert Sysbench().only(["nothing"], 3) == Sysbench().only([], 3) == {"read_seconds": 3}
