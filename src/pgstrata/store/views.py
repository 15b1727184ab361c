"""SQL over run folders: DuckDB with the views of docs/reference/results.md, reading and nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path

import duckdb

from pgstrata.errors import StoreError
from pgstrata.sql_text import literal
from pgstrata.store import parquet
from pgstrata.store.columns import RUNS, STEPS
from pgstrata.store.results_folder import Results
from pgstrata.store.tables import OPTIONAL, TABLES

MEMORY = "500MB"
"""Of sorts, joins and groups; what is read of a file at a time is far less."""

MOST_THREADS = 4

_QUERY_FUNCTION = re.compile(r"\bquery\s*(/\*.*?\*/|--[^\n]*\n|\s)*\(", re.DOTALL)


def connect(
    root: Path, *, results: Results | None = None, tables: Collection[str] = tuple(TABLES)
) -> duckdb.DuckDBPyConnection:
    """Returns a DuckDB connection with the views, able to read below `root` and nowhere else.

    tables: those of the run folders that are asked for; the others have no rows. It has no access to the
    network or to extensions, and its configuration is locked. Files below `root` it could still write with
    COPY; `query` refuses such statements. Raises StoreError when there is no such folder.
    """
    if not root.is_dir():
        raise StoreError(f"there is no results folder {root}", "name one with --results")
    results = results or Results(root)
    survey = results.survey(rows=True, files=[f"{table}.parquet" for table in tables])
    connection = survey.connection
    assert connection is not None
    for name, columns in (("runs", RUNS), ("steps", STEPS)):
        _catalogued(connection, name, [column for column, *_ in columns], root)
    files = survey.files
    _forbid(connection, root, files)
    below = str(root.resolve())
    for table in TABLES:
        paths = [f"{below}/{entry.folder}/{table}.parquet" for entry in survey.entries if table in tables]
        _view(connection, table, [p for p in paths if table not in OPTIONAL or Path(p).exists()])
    return connection


def asked_for(sql: str) -> list[str]:
    """Returns the tables of run folders that a query can mean: those it names, or all if it computes
    names."""
    text = sql.lower()
    if "query_table" in text or _QUERY_FUNCTION.search(text):
        return list(TABLES)
    return [table for table in TABLES if table in text]


# --- the views --------------------------------------------------------------------------------


def _view(connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[str]) -> None:
    """Creates a view of the files of all runs, with its columns even if there is no run or an older one."""
    source = parquet.select(table, files)
    connection.execute(f'CREATE VIEW "{table}" AS {source}')


def _catalogued(connection: duckdb.DuckDBPyConnection, name: str, columns: Sequence[str], root: Path) -> None:
    sources = {column: f'"{name[:-1]}_{column}"' for column in columns}
    if "path" in sources:
        below = str(root / "x")[:-1]
        sources["path"] = f"concat({literal(below)}, {sources['path']})"
    wanted = ", ".join(f'{source} AS "{column}"' for column, source in sources.items())
    connection.execute(f'CREATE VIEW "{name}" AS SELECT {wanted} FROM catalogue_{name}')


def _forbid(connection: duckdb.DuckDBPyConnection, root: Path, files: Sequence[str]) -> None:
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    # else a query could name a Python variable of ours as a table
    connection.execute("SET python_enable_replacements = false")
    connection.execute(f"SET memory_limit = '{MEMORY}'")
    connection.execute(f"SET threads = {min(MOST_THREADS, os.cpu_count() or 1)}")
    # what is made ahead of the reader; the texts in it are not counted, so little looks like much
    connection.execute("SET streaming_buffer_size = '64KB'")
    # what does not fit into memory fails instead of filling the folder we happen to be in
    connection.execute("SET temp_directory = ''")
    connection.execute(f"SET allowed_directories = [{literal(str(root.resolve()) + '/')}]")
    connection.execute(f"SET allowed_paths = [{', '.join(map(literal, files))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
