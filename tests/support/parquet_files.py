"""Parquet files of any content."""

from __future__ import annotations

from pathlib import Path

import duckdb

from pgstrata.sql_text import literal


def write_parquet(path: Path, query: str) -> Path:
    """Writes what DuckDB answers to a query."""
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"COPY ({query}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd)")
    return path
