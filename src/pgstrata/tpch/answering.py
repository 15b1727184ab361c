"""Asks DuckDB for the right answers of TPC-H, after RF1 and after RF2, too: see `pgstrata.tpc.answering`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pgstrata.tpc import data
from pgstrata.tpc.answering import main, rows_in
from pgstrata.tpc.source import tables
from pgstrata.tpch.refresh import KEYS, deleted_keys, file_stem
from pgstrata.tpch.schema import TPCH

if TYPE_CHECKING:
    import duckdb


def after_rf1(connection: duckdb.DuckDBPyConnection, scale: float) -> None:
    """Inserts the new orders."""
    for table in KEYS:
        rows = rows_in(data.file(TPCH, scale, file_stem(table)), tables(TPCH)[table])
        connection.execute(f"INSERT INTO {table} SELECT * FROM {rows}")


def after_rf2(connection: duckdb.DuckDBPyConnection, scale: float) -> None:
    """Makes the changes of `after_rf1`, and deletes the old orders."""
    after_rf1(connection, scale)
    keys = ", ".join(map(str, deleted_keys(scale)))
    for table, key in KEYS.items():
        connection.execute(f"DELETE FROM {table} WHERE {key} IN ({keys})")


if __name__ == "__main__":
    main(TPCH, {"rf1": after_rf1, "rf2": after_rf2}, sys.argv[1:])
