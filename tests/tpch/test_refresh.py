"""Rows of the refresh functions: they follow the facts that the generator's own rows follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstrata.tpc import data
from pgstrata.tpc.source import tables
from pgstrata.tpch import refresh
from pgstrata.tpch.schema import TPCH
from pgstrata.tpch.sequence import PERMUTATIONS, order_of

Row = Mapping[str, str]
SCALE = 0.01


def named(table: str, rows: Sequence[Sequence[str]]) -> list[Row]:
    """Rows by the names of their columns."""
    names = [column.name for column in tables(TPCH)[table]]
    return [dict(zip(names, row, strict=True)) for row in rows]


def read(table: str, file: Path) -> list[Row]:
    return named(table, [line.split("|") for line in file.read_text().splitlines()])


def cents(text: str) -> int:
    whole, _, fraction = text.partition(".")
    assert len(fraction) in (0, 2)
    return int(whole) * 100 + int(fraction or 0)


def check_line(order: Row, line: Row, suppliers: int) -> int:
    """Asserts what the specification says of a position, and returns its charge in cents."""
    placed, shipped, committed, received = (
        date.fromisoformat(text)
        for text in (order["o_orderdate"], line["l_shipdate"], line["l_commitdate"], line["l_receiptdate"])
    )
    part, quantity = int(line["l_partkey"]), int(line["l_quantity"])
    assert timedelta(1) <= shipped - placed <= timedelta(121)
    assert timedelta(30) <= committed - placed <= timedelta(90)
    assert timedelta(1) <= received - shipped <= timedelta(30)
    assert int(line["l_suppkey"]) in {refresh.supplier_of(part, which, suppliers) for which in range(4)}
    assert 1 <= quantity <= 50 and cents(line["l_extendedprice"]) == quantity * refresh.retail_price(part)
    assert 0 <= cents(line["l_discount"]) <= 10 and 0 <= cents(line["l_tax"]) <= 8
    assert line["l_linestatus"] == ("O" if shipped > refresh.CURRENT else "F")
    assert line["l_returnflag"] in ("RA" if received <= refresh.CURRENT else "N")
    assert line["l_shipinstruct"] in refresh.INSTRUCTIONS and line["l_shipmode"] in refresh.MODES
    assert 10 <= len(line["l_comment"]) <= 43
    discounted = cents(line["l_extendedprice"]) * (100 - cents(line["l_discount"])) // 100
    return discounted * (100 + cents(line["l_tax"])) // 100


def check_order(order: Row, lines: Sequence[Row], customers: int, suppliers: int, clerks: int) -> None:
    """Asserts what the specification says of an order and its positions."""
    assert [line["l_linenumber"] for line in lines] == [str(n) for n in range(1, len(lines) + 1)]
    assert 1 <= len(lines) <= 7
    assert 1 <= int(order["o_custkey"]) <= customers and int(order["o_custkey"]) % 3
    placed = date.fromisoformat(order["o_orderdate"])
    assert date(1992, 1, 1) <= placed <= date(1998, 8, 2)
    assert cents(order["o_totalprice"]) == sum(check_line(order, line, suppliers) for line in lines)
    states = {line["l_linestatus"] for line in lines}
    assert order["o_orderstatus"] == (states.pop() if len(states) == 1 else "P")
    assert order["o_orderpriority"] in refresh.PRIORITIES
    clerk = order["o_clerk"]
    assert clerk.startswith("Clerk#") and len(clerk) == 15 and 1 <= int(clerk[6:]) <= clerks
    assert order["o_shippriority"] == "0" and 19 <= len(order["o_comment"]) <= 78


def check_all(orders: Sequence[Row], lines: Sequence[Row], customers: int, suppliers: int) -> None:
    """The same of all orders, each of which has positions."""
    of_order = {key: list(group) for key, group in groupby(lines, key=lambda line: line["l_orderkey"])}
    assert list(of_order) == [order["o_orderkey"] for order in orders]
    for order in orders:
        check_order(order, of_order[order["o_orderkey"]], customers, suppliers, clerks=1000)


@pytest.fixture(scope="module")
def generated_data() -> Path:
    """The folder with the generator's rows, which come from the cache or are made once."""
    data.make(TPCH, SCALE)
    return data.folder(TPCH, SCALE)


@pytest.mark.program
def test_the_facts_are_those_of_the_generator(generated_data: Path) -> None:
    orders, lines = (
        read("orders", generated_data / "orders.dat"),
        read("lineitem", generated_data / "lineitem.dat"),
    )
    check_all(orders, lines, customers=1500, suppliers=100)
    keys = [int(order["o_orderkey"]) for order in orders]
    assert keys == [refresh.order_key(index) for index in range(1, len(orders) + 1)]
    for part in read("part", generated_data / "part.dat"):
        assert cents(part["p_retailprice"]) == refresh.retail_price(int(part["p_partkey"]))
    suppliers = [
        (int(row["ps_partkey"]), int(row["ps_suppkey"]))
        for row in read("partsupp", generated_data / "partsupp.dat")
    ]
    formula = [(part, refresh.supplier_of(part, which, 100)) for part in range(1, 2001) for which in range(4)]
    assert sorted(suppliers) == sorted(formula)
    assert {line["l_shipmode"] for line in lines} == set(refresh.MODES)
    assert {line["l_shipinstruct"] for line in lines} == set(refresh.INSTRUCTIONS)
    assert {order["o_orderpriority"] for order in orders} == set(refresh.PRIORITIES)


@pytest.mark.program
def test_the_files_are_a_thousandth_of_the_orders_and_the_same_each_time(
    generated_data: Path, tmp_path: Path
) -> None:
    orders = read("orders", generated_data / "refresh_orders.dat")
    lines = read("lineitem", generated_data / "refresh_lineitem.dat")
    check_all(orders, lines, customers=1500, suppliers=100)
    about = data.about(TPCH, SCALE)
    assert about is not None
    assert about["refresh"] == {"orders": len(orders), "lineitem": len(lines)}
    assert len(orders) == 15 == len(refresh.deleted_keys(SCALE))
    for table in ("orders", "lineitem"):
        (tmp_path / f"{table}.dat").symlink_to(generated_data / f"{table}.dat")
    refresh.write(tmp_path, about, lambda: None)
    for name in ("refresh_orders.dat", "refresh_lineitem.dat"):
        assert (tmp_path / name).read_bytes() == (generated_data / name).read_bytes()


populations = st.builds(
    refresh.Population,
    customers=st.integers(2, 10**9),
    parts=st.integers(1, 10**9),
    suppliers=st.integers(4, 10**7),
    clerks=st.just(1000),
    order_comments=st.lists(st.text("ab ", min_size=19, max_size=78), min_size=1, max_size=3),
    line_comments=st.lists(st.text("ab ", min_size=10, max_size=43), min_size=1, max_size=3),
)


@settings(max_examples=50)
@given(st.floats(0.001, 0.05), populations)
def test_new_orders_follow_the_facts_whatever_the_scale(scale: float, population: refresh.Population) -> None:
    orders = list(refresh.orders(scale, population))
    assert orders == list(refresh.orders(scale, population))
    rows = named("orders", [order.columns() for order in orders])
    lines = [line.columns(o.key, n) for o in orders for n, line in enumerate(o.lines, 1)]
    check_all(rows, named("lineitem", lines), population.customers, population.suppliers)
    assert len(orders) == max(1, round(1500 * scale))


@given(st.integers(1, 10**12))
def test_new_keys_are_free_and_old_ones_are_not(index: int) -> None:
    old, new = refresh.order_key(index), refresh.order_key(index, 1)
    assert old % 32 < 8 <= new % 32 < 16
    assert refresh.order_key(index + 1) > old and refresh.order_key(index + 1, 1) > new


def test_every_stream_has_each_query_once() -> None:
    assert len(PERMUTATIONS) == len(set(PERMUTATIONS)) == 41
    assert all(sorted(order) == list(range(1, 23)) for order in PERMUTATIONS)
    assert order_of(0, range(1, 23))[:3] == [14, 2, 9] and order_of(1, range(1, 23))[-2:] == [1, 4]
    assert order_of(42, {4, 21, 1}) == order_of(1, {4, 21, 1}) == [21, 1, 4]
