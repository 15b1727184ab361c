"""The tables in PostgreSQL: plain, with the keys of the benchmark, the same for every version.

Which columns are keys follows from their names: the specification names surrogate keys `…_sk`, and the
fact tables are identified by an item and the number of a ticket or an order.
"""

from __future__ import annotations

import re

from pgstrata.tpc.benchmark import Benchmark
from pgstrata.tpc.source import tables

FACTS = (
    "store_sales", "catalog_sales", "web_sales", "inventory", "store_returns", "catalog_returns",
    "web_returns",
)  # fmt: skip

# What a fact table is joined by in most queries: dates, items, customers.
_JOINED = re.compile(r"_(sold_date|returned_date|date|item|customer|bill_customer|ship_customer)_sk$")
_NUMBER = re.compile(r"_(ticket|order)_number$")

TPCDS = Benchmark(
    name="tpcds",
    title="TPC-DS",
    empty_tables="dsdgen",
    queries=99,
    query_seconds=400.0,
    fixed_bytes=120e6,  # the small tables have the same size at every scale
    scaled_bytes=1.15e9,
    weights={
        "store_sales": 36.0, "catalog_sales": 27.0, "inventory": 22.0, "web_sales": 13.0,
        "customer_demographics": 7.0, "store_returns": 3.0, "catalog_returns": 2.0, "customer": 1.2,
        "date_dim": 1.0, "web_returns": 1.0,
    },
)  # fmt: skip


def primary_key(table: str) -> list[str]:
    """Returns the columns that identify a row."""
    columns = [c.name for c in tables(TPCDS)[table]]
    if table == "inventory":
        return columns[:3]
    if table in FACTS:
        item = next(c for c in columns if c.endswith("_item_sk"))
        return [item, next(c for c in columns if _NUMBER.search(c))]
    return columns[:1]


def joined_columns(table: str) -> list[str]:
    """Returns the columns of a fact table that queries join by, other than those its key begins with."""
    if table not in FACTS:
        return []
    first = primary_key(table)[0]
    return [c.name for c in tables(TPCDS)[table] if _JOINED.search(c.name) and c.name != first]


def indexes(table: str, which: str) -> list[str]:
    """Returns the statements that index a table; which: `keys`, `primary` or `none`."""
    if which == "none":
        return []
    statements = [f"ALTER TABLE {table} ADD PRIMARY KEY ({', '.join(primary_key(table))})"]
    if which == "keys":
        statements += [f"CREATE INDEX {table}_{c} ON {table} ({c})" for c in joined_columns(table)]
    return statements
