"""TPC-H without a server: options, keys, phases, orders of streams."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from pgstrata.driver.message import document
from pgstrata.server.features import NEWEST, Features
from pgstrata.tpc.source import queries, tables
from pgstrata.tpch import schema
from pgstrata.tpch.options import TpchOptions
from pgstrata.tpch.schema import TPCH
from pgstrata.workload import catalog

WORKLOAD = catalog.find("tpch")


def phases(server: Features = NEWEST, **options: Any) -> list[Any]:
    return WORKLOAD.phases(TpchOptions.model_validate({"scale": 0.01, **options}), server)


def names(**options: Any) -> list[str]:
    return [phase.name for phase in phases(**options)]


def step(name: str, **options: Any) -> dict[str, Any]:
    (spec,) = [document(p.spec()) for p in phases(**options) if p.name == name]
    return spec


@pytest.mark.parametrize("text", ["0", "23", "5-3", "x", "", "1-"])
def test_what_is_no_query_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="quer"):
        TpchOptions(queries=text)


def test_orders_without_keys_cannot_be_refreshed() -> None:
    with pytest.raises(ValidationError, match="set `refresh = false`"):
        TpchOptions(indexes="none")
    assert TpchOptions(indexes="none", refresh=False).indexes == "none"
    assert TpchOptions(indexes="none", passes=0).indexes == "none"


def test_tables_and_queries_come_from_the_extension() -> None:
    assert len(tables(TPCH)) == 8
    assert sorted(queries(TPCH)) == list(range(1, 23))
    assert not any(text.endswith(";") for text in queries(TPCH).values())


def test_keys_and_indexes_are_of_columns_that_are_there() -> None:
    for table, columns in tables(TPCH).items():
        assert set(schema.primary_key(table)) <= {c.name for c in columns}
    indexed = [index.split(" ON ")[1] for table in tables(TPCH) for index in schema.indexes(table)]
    assert sorted(indexed) == [
        "customer (c_nationkey)",
        "lineitem (l_partkey, l_suppkey)",
        "lineitem (l_suppkey)",
        "nation (n_regionkey)",
        "orders (o_custkey)",
        "partsupp (ps_suppkey)",
        "supplier (s_nationkey)",
    ]


def test_phases_follow_the_options() -> None:
    load = ["data", "create tables", "copy", "keys", "indexes", "vacuum", "analyze"]
    assert names() == [
        *load, "refresh rows", "answers rf1", "answers rf2", "plans", "rf1", "power", "rf2", "throughput",
    ]  # fmt: skip
    assert names(refresh=False) == [*load, "answers", "plans", "power", "throughput"]
    assert names(passes=0, answers=False, plans="none") == [*load, "throughput"]
    assert names(streams=0, warmup=1, indexes="primary", vacuum="none") == [
        "data", "create tables", "copy", "keys", "analyze",
        "refresh rows", "answers rf1", "plans", "warm-up", "rf1", "power", "rf2",
    ]  # fmt: skip


def test_streams_have_the_orders_of_the_specification() -> None:
    power = step("power", queries="1-5")["roles"][0]["scripts"][0]["ops"]
    assert [op["name"] for op in power] == ["q02", "q03", "q04", "q01", "q05"]
    streams = step("throughput", queries="1-5", streams=2)["roles"][0]["scripts"][0]["ops"]
    orders = [[op["name"] for op in ops] for branch in streams for _, ops in branch["if"]]
    assert orders == [["q03", "q05", "q02", "q01", "q04"], ["q02", "q05", "q01", "q04", "q03"]]


def test_refresh_functions_change_as_many_orders_as_the_scale_says() -> None:
    for scale, orders in ((0.001, 2), (0.01, 15), (0.1, 150), (1, 1500)):
        for name in ("rf1", "rf2"):
            assert step(name, scale=scale)["roles"][0]["operations"] == orders


def test_every_step_is_understood_by_old_servers() -> None:
    explained = {"plans"}
    assert {p.name for p in phases()} - {p.name for p in phases(Features(70_430))} == explained
