"""Parquet files of run folders, written and read by DuckDB.

Each takes one thread; only a report, which reads the files of many runs at once, takes more.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgstrata.errors import StoreError
from pgstrata.files.bounded import BoundError
from pgstrata.files.user_files import shown
from pgstrata.sql_text import literal
from pgstrata.store import parquet_bounds
from pgstrata.store.interruptible import interruptible
from pgstrata.store.rows import Rows
from pgstrata.store.tables import TABLES, sql_columns

if TYPE_CHECKING:
    import duckdb

# DuckDB is imported where it is used: commands that only list runs start in half the time.

MOST_REASON = 300
"""Characters of what DuckDB says about a damaged file: it may quote what is in it."""

MOST_THREADS = 4
"""That read the files of many runs."""


def to_bytes(table: str, values: Sequence[Sequence[Any]]) -> bytes:
    """Returns the bytes of a Parquet file, for the caller to write and sync.

    values: rows in the order of the table's columns.
    """
    columns = ", ".join(_column(name, kind) for name, kind in sql_columns(table))
    descriptor = os.memfd_create("pgstrata-table", os.MFD_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file, _database() as connection:

        def write() -> None:
            connection.register("made", _arrays(table, values))
            connection.execute(
                f"COPY (SELECT {columns} FROM made) TO '/proc/self/fd/{descriptor}' "
                "(FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false)"
            )
            connection.unregister("made")

        interruptible(connection, write)
        return file.read()


_THERE = "is_there "
"""Begins the name of an array that tells which values of another are there: masks of masked arrays are not
always seen."""


def _column(name: str, kind: str) -> str:
    return f'CAST(CASE WHEN "{_THERE}{name}" THEN "{name}" END AS {kind}) AS "{name}"'


def _arrays(table: str, values: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Returns the columns as arrays, as DuckDB takes them."""
    import numpy as np

    types = {"text": np.object_, "int": np.int64, "float": np.float64, "bool": np.bool_}
    arrays: dict[str, Any] = {}
    for place, (name, kind) in enumerate(TABLES[table].items()):
        column = [row[place] for row in values]
        without = "" if kind == "text" else 0
        arrays[name] = np.array([without if value is None else value for value in column], types[kind])
        arrays[_THERE + name] = np.array([value is not None for value in column], np.bool_)
    return arrays


def read(path: Path, table: str, columns: Sequence[str] | None = None) -> Rows:
    """Returns the rows of a file, all columns or these. Raises StoreError when it is damaged."""
    import duckdb

    try:
        parquet_bounds.check(path)
        with path.open("rb") as file, _database() as connection:
            # By its descriptor: DuckDB takes a path for a pattern.
            sql = select(table, [f"/proc/self/fd/{file.fileno()}"], columns)
            values = interruptible(connection, lambda: connection.execute(sql).fetchall())
    except (OSError, BoundError, duckdb.Error) as cause:
        raise StoreError(
            f"{path} cannot be read: {shown(cause, MOST_REASON)}", "remove the damaged run's folder"
        ) from cause
    return Rows(tuple(columns or (name for name, _ in sql_columns(table))), values)


def grouped(
    files: Sequence[Path],
    table: str,
    keys: Sequence[str],
    lists: Sequence[str],
    order: str,
    where: str = "true",
) -> list[tuple[Any, ...]]:
    """Returns a row for each combination of the keys in these files: the keys, then for each expression of
    `lists` its values in that order.

    where: a condition of SQL. Raises StoreError where a file is damaged, and names it.
    """
    import duckdb

    if not files:
        return []
    columns = ", ".join((*keys, *(f"list({expression} ORDER BY {order})" for expression in lists)))
    # Below a descriptor: DuckDB takes a path for a pattern, and names inside a results folder have no letters
    # that mean something there.
    root = os.path.commonpath([file.parent for file in files])
    try:
        for file in files:
            parquet_bounds.check(file)
        with _opened(root) as folder, _connected(MOST_THREADS) as connection:
            source = select(table, [f"{folder}/{file.relative_to(root)}" for file in files])
            sql = f"SELECT {columns} FROM ({source}) WHERE {where} GROUP BY {', '.join(keys)}"
            return interruptible(connection, lambda: connection.execute(sql).fetchall())
    except (OSError, BoundError, duckdb.Error) as cause:
        for file in files:
            read(file, table)
        raise StoreError(
            f"the tables {table} of {len(files)} runs cannot be read together: {shown(cause, MOST_REASON)}"
        ) from cause


@contextmanager
def _opened(folder: str) -> Iterator[str]:
    """Yields the folder under a name that is no pattern."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def select(table: str, files: Sequence[str], columns: Sequence[str] | None = None) -> str:
    """Returns a query for rows of a table in these files, paths as DuckDB takes them: with patterns.

    DuckDB refuses files that lack one of `columns`; without `columns`, what the files of an older release
    lack is null.
    """
    kinds = dict(sql_columns(table))
    wanted = ", ".join(f'CAST("{name}" AS {kinds[name]}) AS "{name}"' for name in columns or kinds)
    source = f"read_parquet([{', '.join(map(literal, files))}], union_by_name = true)"
    if columns is None:
        nothing = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in kinds.items())
        rest = f" UNION ALL BY NAME SELECT * FROM {source}" if files else ""
        source = f"(SELECT {nothing} WHERE false{rest})"
    return f"SELECT {wanted} FROM {source}"


@contextmanager
def _database() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yields a database in memory, this thread's own; after an error it is closed: a damaged file may have
    broken it."""
    if (connection := getattr(_of_thread, "connection", None)) is None:
        connection = _of_thread.connection = _connected(threads=1)
    try:
        yield connection
    except BaseException:
        _of_thread.connection = None
        connection.close()
        raise


_of_thread = threading.local()


def _connected(threads: int) -> duckdb.DuckDBPyConnection:
    """Returns a connection to a new database in memory, which loads nothing from outside."""
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "threads": threads,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "temp_directory": "",
        "python_enable_replacements": False,
        # The number of a descriptor is another file the next time.
        "enable_external_file_cache": False,
    }
    return duckdb.connect(":memory:", config=settings)


__all__ = ["grouped", "read", "select", "to_bytes"]
