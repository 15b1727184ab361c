"""The Insert Benchmark as data, held against its description."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pgstrata.driver.message import document
from pgstrata.errors import UsageError
from pgstrata.server.features import Features
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Admin, Phase, Refine, Settle, Step
from pgstrata.workload.insert.options import InsertOptions
from support.sql import role, statements, text, values

INSERT = catalog.find("insert")


def phases(version_num: int = 170_000, **options: Any) -> list[Phase]:
    return INSERT.phases(InsertOptions.model_validate({"rows": 100_000, **options}), Features(version_num))


def steps(**options: Any) -> dict[str, Step]:
    return {p.name: p for p in phases(**options) if isinstance(p, Step)}


def test_ten_steps_in_order_with_the_settling_before_the_queries() -> None:
    names = [p.name if isinstance(p, Step | Admin) else "settle" for p in phases()]
    assert names == [
        "create tables",
        "l.i0",
        "l.x",
        "l.i1",
        "l.i2",
        "settle",
        "qr100",
        "qp100",
        "qr500",
        "qp500",
        "qr1000",
        "qp1000",
    ]


def test_the_table_has_the_published_columns_and_a_cached_sequence() -> None:
    create = phases(clients=2)[0]
    assert isinstance(create, Admin)
    assert create.statements[:2] == [
        "CREATE TABLE pi1 (transactionid bigserial PRIMARY KEY, dateandtime timestamp without time zone, "
        "cashregisterid int NOT NULL, customerid int NOT NULL, productid int NOT NULL, price int NOT NULL, "
        "data varchar(4000))",
        "ALTER SEQUENCE pi1_transactionid_seq CACHE 1000",
    ]
    assert [s for s in create.statements if s.startswith("CREATE TABLE pi2 ")]


def test_inserts_carry_the_rows_of_one_transaction_and_the_published_ranges() -> None:
    (insert,) = role(steps()["l.i0"].spec(), "insert")["scripts"][0]["ops"]
    # The price has two decimals, as the original writes it.
    row = "(?,?,?,?,?.00,?)"
    assert text(insert) == (
        "INSERT INTO pi1 (dateandtime,cashregisterid,customerid,productid,price,data) VALUES "
        + ",".join([row] * 100)
    )
    assert values(insert) == [
        {"now": "second"},
        {"expr": "random(0, 999)", "type": "int4"},
        {"expr": "random(0, 99999)", "type": "int4"},
        {"expr": "random(0, 9999)", "type": "int4"},
        {"expr": "random(0, 499)", "type": "int4"},
        {"fill": {"min": 10, "max": 20, "random": 0.375}},
    ]


@pytest.mark.parametrize(("step", "rows"), [("l.i0", 100), ("l.i1", 50), ("l.i2", 5), ("qr100", 50)])
def test_rows_per_transaction(step: str, rows: int) -> None:
    (insert,) = role(steps()[step].spec(), "insert")["scripts"][0]["ops"]
    assert text(insert).count("(?,") == rows


def test_deletes_are_literals_from_the_tail() -> None:
    delete_role = role(steps()["l.i1"].spec(), "delete")
    delete, moved = delete_role["scripts"][0]["ops"]
    assert delete_role["mode"] == "simple"
    assert text(delete) == (
        "DELETE FROM pi1 WHERE transactionid IN (SELECT transactionid FROM pi1 "
        "WHERE transactionid >= ? ORDER BY transactionid ASC LIMIT 50)"
    )
    assert values(delete) == [{"expr": ":min_id", "type": "int8"}]
    assert moved == {"set": "min_id", "expr": ":min_id + 50"}


def test_the_smallest_id_is_read_at_the_start_and_every_thousand_deletes() -> None:
    (refresh,) = role(steps()["l.i1"].spec(), "delete")["scripts"][0]["before"]
    assert (refresh["every"], refresh["first"]) == (1000, True)
    (read,) = refresh["ops"]
    assert text(read) == "SELECT min(transactionid) FROM pi1"
    assert (read["name"], read["counted"], read["into"]) == ("min", False, ["min_id"])


def test_the_smallest_id_is_read_on_the_connection_that_deletes() -> None:
    for name in ("l.i1", "qr100"):
        spec = document(steps(clients=3)[name].spec())
        readers = [
            r["name"]
            for r in spec["roles"]
            for op in statements([*r["start"], *(o for s in r["scripts"] for o in (*s["before"], *s["ops"]))])
            if "min(transactionid)" in text(op)
        ]
        assert readers == ["delete"]


def test_min_refresh_0_reads_it_only_once() -> None:
    (refresh,) = role(steps(min_refresh=0)["l.i1"].spec(), "delete")["scripts"][0]["before"]
    assert refresh["first"] and refresh["every"] > 10**9


def test_l_x_inserts_a_hundred_rows_and_makes_three_indexes_in_order() -> None:
    spec = steps(clients=3)["l.x"].spec()
    index = role(spec, "index")
    insert, *indexes = index["scripts"][0]["ops"]
    assert (index["clients"], index["operations"], index["mode"]) == (3, 1, "simple")
    assert text(insert).count("(?,") == 100
    assert [text(op, splice=2) for op in indexes] == [
        "CREATE INDEX pi2_marketsegment ON pi2 (productid, customerid, price)",
        "CREATE INDEX pi2_registersegment ON pi2 (cashregisterid, customerid, price)",
        "CREATE INDEX pi2_pdc ON pi2 (price, dateandtime, customerid)",
    ]


def test_l_x_is_judged_by_the_rows_of_all_tables() -> None:
    # 100,000 rows over 3 clients, 100 a statement: 334 statements each; l.x adds 100 rows to each table.
    assert steps(clients=3)["l.x"].headline.fixed == 3 * 334 * 100 + 3 * 100


def test_queries_are_prepared_in_sql_for_ints_and_executed_as_text() -> None:
    query = role(steps()["qr500"].spec(), "query")
    assert query["mode"] == "simple"
    assert [text(op) for op in query["start"]] == [
        "PREPARE pdc_query_ps (int) AS SELECT price,dateandtime,customerid FROM pi1 WHERE price >= $1 "
        "ORDER BY price,dateandtime,customerid LIMIT 10",
        "PREPARE market_query_ps (int) AS SELECT productid,customerid,price FROM pi1 WHERE productid >= $1 "
        "ORDER BY productid,customerid,price LIMIT 10",
        "PREPARE register_query_ps (int) AS SELECT cashregisterid,customerid,price FROM pi1 "
        "WHERE cashregisterid > $1 ORDER BY cashregisterid,customerid,price LIMIT 10",
    ]
    assert [s["weight"] for s in query["scripts"]] == [1, 1, 1]
    assert {text(s["ops"][0]): values(s["ops"][0])[0]["expr"] for s in query["scripts"]} == {
        "execute pdc_query_ps (?)": "random(0, 499)",
        "execute market_query_ps (?)": "random(0, 9999)",
        "execute register_query_ps (?)": "random(0, 999)",
    }
    point = role(steps()["qp500"].spec(), "query")
    assert point["mode"] == "simple"
    assert text(point["start"][0]) == (
        "PREPARE pk_query_ps (int,int,int,int,int,int,int,int,int,int) AS "
        "SELECT transactionid,productid,data FROM pi1 "
        "WHERE transactionid IN ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10)"
    )
    assert text(point["scripts"][0]["ops"][0]) == "execute pk_query_ps (?,?,?,?,?,?,?,?,?,?)"


def test_range_queries_are_one_of_three_at_random_over_the_extended_protocol() -> None:
    query = role(steps(query_protocol="extended")["qr500"].spec(), "query")
    assert (query["mode"], query["start"]) == ("prepared", [])
    assert [s["weight"] for s in query["scripts"]] == [1, 1, 1]
    assert {text(s["ops"][0]): values(s["ops"][0])[0]["expr"] for s in query["scripts"]} == {
        "SELECT price,dateandtime,customerid FROM pi1 WHERE price >= ? "
        "ORDER BY price,dateandtime,customerid LIMIT 10": "random(0, 499)",
        "SELECT productid,customerid,price FROM pi1 WHERE productid >= ? "
        "ORDER BY productid,customerid,price LIMIT 10": "random(0, 9999)",
        "SELECT cashregisterid,customerid,price FROM pi1 WHERE cashregisterid > ? "
        "ORDER BY cashregisterid,customerid,price LIMIT 10": "random(0, 999)",
    }


def test_point_queries_draw_ids_from_min_to_below_max() -> None:
    query = role(steps(query_protocol="extended")["qp100"].spec(), "query")
    (script,) = query["scripts"]
    (point,) = script["ops"]
    (sent,) = role(steps()["qp100"].spec(), "query")["scripts"][0]["ops"]
    assert values(sent) == values(point)
    assert query["mode"] == "prepared"
    assert text(point) == (
        "SELECT transactionid,productid,data FROM pi1 WHERE transactionid IN (?,?,?,?,?,?,?,?,?,?)"
    )
    assert values(point) == [{"expr": "random(:min_id, greatest(:max_id - 1, :min_id))", "type": "int8"}]
    (refresh,) = script["before"]
    assert refresh["every"] == 100
    for read in (query["start"][0], refresh["ops"][0]):
        assert text(read) == "SELECT max(transactionid) FROM pi1"
        assert (read["into"], read["counted"]) == (["max_id"], False)
    assert document(steps()["qp100"].spec())["shared"] == ["min_id"]


def test_inserts_and_deletes_are_at_most_eight_statements_apart() -> None:
    for name in ("l.i1", "l.i2", "qr100", "qp1000"):
        assert document(steps()[name].spec())["lockstep"] == [{"roles": ["insert", "delete"], "ahead": 8}]


@pytest.mark.parametrize(
    ("step", "connections"), [("l.i0", 1), ("l.x", 1), ("l.i1", 2), ("l.i2", 2), ("qr100", 3), ("qp100", 3)]
)
def test_connections_of_each_client(step: str, connections: int) -> None:
    assert sum(r["clients"] for r in document(steps(clients=4)[step].spec())["roles"]) == 4 * connections


@pytest.mark.parametrize(("rows_per_second", "per_second"), [(100, 2), (1000, 20), (120, 3), (1, 1)])
def test_a_rate_is_rounded_up_to_whole_transactions(rows_per_second: int, per_second: int) -> None:
    step = steps(clients=2, steps=f"{rows_per_second}:range")[f"qr{rows_per_second}"]
    for writer in step.roles[1:]:
        assert writer.rate is not None and writer.rate.per_client == per_second
        assert writer.target_rows == 2 * rows_per_second


def test_steps_by_rows_end_both_writers_after_the_same_statements() -> None:
    all_steps = steps(clients=4, rows_i1=40_000, rows_i2=10_001)
    for name, statements_each in (("l.i1", 200), ("l.i2", 501)):
        assert [r.operations for r in all_steps[name].roles] == [statements_each] * 2


def test_row_counts_default_to_the_published_ratio() -> None:
    o = InsertOptions(rows=20_000_000)
    assert (o.i1_rows, o.i2_rows) == (40_000_000, 10_000_000)


def test_settling_is_a_minute_and_a_second_per_million_rows_up_to_twenty_minutes() -> None:
    for rows, seconds in ((1_000_000, 61), (20_000_000, 80), (2_000_000_000, 1200)):
        settle = next(p for p in phases(rows=rows) if isinstance(p, Settle))
        assert settle.seconds == seconds
    assert next(p for p in phases(settle_base=2, settle_per_million=0) if isinstance(p, Settle)).seconds == 2


def test_query_steps_are_the_users_to_set() -> None:
    chosen = steps(steps="250:point 0:range 250:point", seconds=7)
    assert [n for n in chosen if n.startswith("q")] == ["qp250", "qr0", "qp250-2"]
    assert [r.name for r in chosen["qr0"].roles] == ["query"]
    assert chosen["qr0"].reads_only and not chosen["qp250"].reads_only
    assert all(s.seconds == 7 for n, s in chosen.items() if n.startswith("q"))
    assert steps(steps=["250:point"]).keys() == {"l.i0", "l.x", "l.i1", "l.i2", "qp250"}


def test_without_deletes_the_queries_find_the_smallest_id_themselves() -> None:
    start = role(steps(steps="0:point")["qp0"].spec(), "query")["start"]
    assert "SELECT min(transactionid) FROM pi1" in [text(op) for op in statements(start)]


def test_one_shared_table_is_indexed_once_and_deleted_in_stripes() -> None:
    shared = steps(clients=4, tables="shared")
    assert shared["l.x"].roles[0].clients == 1
    deleter = role(shared["l.i1"].spec(), "delete")
    assert deleter["clients"] == 4
    assert deleter["scripts"][0]["ops"][1] == {"set": "min_id", "expr": ":min_id + 200"}
    assert deleter["start"][1] == {"set": "min_id", "expr": ":begin + :client_id * 50"}
    assert deleter["scripts"][0]["before"][0]["ops"][1] == {
        "set": "min_id",
        "expr": "greatest(:min_id, :begin + (:tail - :begin) / 200 * 200 + :client_id * 50)",
    }
    (insert,) = role(shared["l.i1"].spec(), "insert")["scripts"][0]["ops"]
    assert text(insert).startswith("INSERT INTO pi1 ")
    with pytest.raises(AssertionError):
        text(insert, splice=2)


def test_partitions_leave_no_gap_and_the_last_has_no_end() -> None:
    create = phases(partitions=3, rows_per_partition=500)[0]
    assert isinstance(create, Admin)
    assert create.statements[0].endswith("PARTITION BY RANGE (transactionid)")
    assert create.statements[2:] == [
        "CREATE TABLE pi1_p0 PARTITION OF pi1 FOR VALUES FROM (0) TO (500)",
        "CREATE TABLE pi1_p1 PARTITION OF pi1 FOR VALUES FROM (500) TO (1000)",
        "CREATE TABLE pi1_p2 PARTITION OF pi1 FOR VALUES FROM (1000) TO (MAXVALUE)",
    ]


def test_partitions_on_an_old_version_say_what_to_do() -> None:
    with pytest.raises(UsageError, match="PostgreSQL 11") as raised:
        phases(version_num=100_023, partitions=2)
    assert "partitions = 0" in raised.value.hint


def test_indexes_before_the_load_leave_out_l_x() -> None:
    create = phases(indexes="before-load")[0]
    assert isinstance(create, Admin)
    assert [s.split(" ON ")[0] for s in create.statements[-3:]] == [
        "CREATE INDEX pi1_marketsegment",
        "CREATE INDEX pi1_registersegment",
        "CREATE INDEX pi1_pdc",
    ]
    assert "l.x" not in steps(indexes="before-load")


def test_the_htap_role_holds_a_transaction() -> None:
    for name in ("l.i1", "qr100"):
        htap = role(steps(clients=2, htap_seconds=2.5)[name].spec(), "htap")
        begin, read, hold, commit = htap["scripts"][0]["ops"]
        assert (text(begin), text(commit)) == ("BEGIN", "COMMIT")
        assert text(read) == "SELECT * FROM pi1 LIMIT 1"
        assert hold == {"sleep": "2500000", "unit": "us"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"steps": "100:range 100:table"}, "100:table"),
        ({"steps": "fast:point"}, "fast:point"),
        ({"row": 5}, "row"),
        ({"clients": 0}, "clients"),
        ({"data_length_min": 30}, "data_length_min"),
        ({"rows": "many"}, "rows"),
    ],
)
def test_options_that_mean_nothing_are_refused_by_name(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        InsertOptions.model_validate(options)


@pytest.mark.parametrize("tables", ["per-client", "shared"])
def test_several_numbers_of_clients_are_curves_of_the_query_steps(tables: str) -> None:
    planned = phases(clients="1..4", tables=tables, steps="100:range 0:point")
    names = [p.name if isinstance(p, Step) else p.steps for p in planned if isinstance(p, Step | Refine)]
    queries = [f"{name}{end}" for name in ("qr100", "qp0") for end in ("-c1", "-c2", "-c4", "")]
    assert names == ["l.i0", "l.x", "l.i1", "l.i2", *queries]
    several, most = steps(clients=[1, 4], tables=tables), steps(clients=4, tables=tables)
    for name in ("l.i0", "l.x", "l.i1", "l.i2"):
        assert several[name].spec() == most[name].spec(), "load and writes are those of the most clients"
    assert role(several["qr100-c4"].spec(), "query") == role(most["qr100"].spec(), "query")
    assert [r.clients for r in several["qr100-c1"].roles] == [1, 1, 1]
    assert [r.target_rows for r in several["qr100-c4"].roles] == [None, 400, 400]
    assert several["qr100-c1"].tables == most["qr100"].tables


def test_clients_of_one_shared_table_delete_stripes_of_those_that_there_are() -> None:
    planned = steps(clients=[1, 2, 4], tables="shared", steps="100:range")
    stripes = {
        n: role(planned[f"qr100-c{n}"].spec(), "delete")["scripts"][0]["ops"][1]["expr"] for n in (1, 2, 4)
    }
    assert stripes == {n: f":min_id + {n * 50}" for n in (1, 2, 4)}
