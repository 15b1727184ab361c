"""The tables in PostgreSQL: plain, with the keys of the benchmark, the same for every version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pgstrata.tpc.benchmark import Benchmark
from pgstrata.tpc.source import tables
from pgstrata.tpch import refresh

TPCH = Benchmark(
    name="tpch",
    title="TPC-H",
    empty_tables="dbgen",
    queries=22,
    query_seconds=60.0,
    fixed_bytes=1e6,
    scaled_bytes=1.1e9,
    weights={
        "lineitem": 69.0, "orders": 16.0, "partsupp": 11.0, "customer": 2.3, "part": 2.3,
    },
    more=refresh.write,
    edition=refresh.EDITION,
)  # fmt: skip

_FOREIGN: Mapping[str, Sequence[Sequence[str]]] = {
    "nation": [["n_regionkey"]],
    "supplier": [["s_nationkey"]],
    "customer": [["c_nationkey"]],
    "partsupp": [["ps_suppkey"]],
    "orders": [["o_custkey"]],
    "lineitem": [["l_partkey", "l_suppkey"], ["l_suppkey"]],
}
"""The columns of foreign keys (clause 1.4.2 of the specification) that no primary key begins with."""


def primary_key(table: str) -> list[str]:
    """Returns the columns that identify a row."""
    columns = [c.name for c in tables(TPCH)[table]]
    match table:
        case "partsupp":
            return columns[:2]
        case "lineitem":
            return ["l_orderkey", "l_linenumber"]
    return columns[:1]


def keys(table: str) -> list[str]:
    """Returns the statement that makes the primary key of a table."""
    return [f"ALTER TABLE {table} ADD PRIMARY KEY ({', '.join(primary_key(table))})"]


def indexes(table: str) -> list[str]:
    """Returns the statements that index the columns of foreign keys of a table."""
    return [
        f"CREATE INDEX {'_'.join([table, *columns])} ON {table} ({', '.join(columns)})"
        for columns in _FOREIGN.get(table, [])
    ]


def refresh_tables() -> list[str]:
    """Returns the statements that make the tables from which RF1 takes its rows."""
    statements = []
    for table, key in refresh.KEYS.items():
        stem = refresh.file_stem(table)
        statements += [f"CREATE TABLE {stem} (LIKE {table})", f"CREATE INDEX {stem}_key ON {stem} ({key})"]
    return statements


__all__ = ["TPCH", "indexes", "keys", "primary_key", "refresh_tables"]
