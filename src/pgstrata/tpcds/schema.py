"""The tables in PostgreSQL: plain, with the keys of the benchmark, the same for every version.

Which columns are keys follows from their names: the specification names surrogate keys `…_sk`, and the
fact tables are identified by an item and the number of a ticket or an order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from pgstrata.tpcds.source import TableColumn, tables
from pgstrata.workload.core.shares import spread

FACTS = (
    "store_sales", "catalog_sales", "web_sales", "inventory", "store_returns", "catalog_returns",
    "web_returns",
)  # fmt: skip

# What a fact table is joined by in most queries: dates, items, customers.
_JOINED = re.compile(r"_(sold_date|returned_date|date|item|customer|bill_customer|ship_customer)_sk$")
_NUMBER = re.compile(r"_(ticket|order)_number$")

# The largest tables and their share of the raw data; the others are small beside them.
_WEIGHTS = {
    "store_sales": 36.0, "catalog_sales": 27.0, "inventory": 22.0, "web_sales": 13.0,
    "customer_demographics": 7.0, "store_returns": 3.0, "catalog_returns": 2.0, "customer": 1.2,
    "date_dim": 1.0, "web_returns": 1.0,
}  # fmt: skip

T = TypeVar("T")


def create() -> list[str]:
    """One CREATE TABLE for each table."""
    return [
        f"CREATE TABLE {table} ({', '.join(f'{c.name} {c.type}' for c in columns)})"
        for table, columns in tables().items()
    ]


def primary_key(table: str) -> list[str]:
    """The columns that identify a row."""
    columns = [c.name for c in tables()[table]]
    if table == "inventory":
        return columns[:3]
    if table in FACTS:
        item = next(c for c in columns if c.endswith("_item_sk"))
        return [item, next(c for c in columns if _NUMBER.search(c))]
    return columns[:1]


def joined_columns(table: str) -> list[str]:
    """The columns of a fact table that queries join by, other than those its key begins with."""
    if table not in FACTS:
        return []
    first = primary_key(table)[0]
    return [c.name for c in tables()[table] if _JOINED.search(c.name) and c.name != first]


def indexes(table: str, which: str) -> list[str]:
    """The statements that index a table; which: `keys`, `primary` or `none`."""
    if which == "none":
        return []
    made = [f"ALTER TABLE {table} ADD PRIMARY KEY ({', '.join(primary_key(table))})"]
    if which == "keys":
        made += [f"CREATE INDEX {table}_{c} ON {table} ({c})" for c in joined_columns(table)]
    return made


def copy(table: str) -> str:
    """The COPY that takes the generator's rows, as every version understands it: options in parentheses came
    in 9.0."""
    return f"COPY {table} FROM STDIN WITH DELIMITER '|' NULL ''"


def spread_tables(connections: int, of: Callable[[str], Sequence[T]]) -> list[list[T]]:
    """What `of` says of each table, over connections."""
    shares = spread(list(tables()), connections, lambda table: _WEIGHTS.get(table, 0.1))
    return [[piece for table in share for piece in of(table)] for share in shares]


def types(columns: Sequence[TableColumn]) -> str:
    """The columns as DuckDB's readers take them: {'name': 'TYPE', …}."""
    return "{" + ", ".join(f"'{c.name}': '{c.type}'" for c in columns) + "}"
