"""What a server knows, in files: the script that makes them, and reading them."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from pgstrata.errors import UsageError
from pgstrata.files.user_files import read_bytes, shown
from pgstrata.traffic.synthetic.statistics import (
    COLUMNS_QUESTION,
    COUNTED_QUESTION,
    EXPORT,
    SCHEMAS,
    SETTINGS,
    KnownColumn,
    Statistics,
    column_in,
    columns_of,
    statistics_of,
)

STATEMENTS, COLUMNS = "statements.csv", "columns.csv"
"""Names of the files that hold what a server knows."""

MOST_BYTES = 96 << 20
"""Of such a file."""

MOST_ROWS = 200_000
MOST_CELLS = 4_000_000
"""Rows times columns of such a file."""

MOST_COLUMNS = 200

_MOST_COMMAS = 2_000_000
"""Within one row, quoted ones counted too."""


def export_script() -> str:
    """Returns a script for psql that writes the two files of the database it is connected to."""
    counted = COUNTED_QUESTION.format(seconds=":seconds", schema=':"schema"').strip()
    columns = COLUMNS_QUESTION.replace(SCHEMAS, ":'path'::text[]")
    settings = "".join(f"{setting};\n" for setting in SETTINGS)
    return f"""\\set ON_ERROR_STOP on
\\set QUIET on
{settings}SELECT pg_catalog.{SCHEMAS}::pg_catalog.text AS path \\gset
SET search_path = pg_catalog;
SELECT n.nspname AS schema FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE e.extname = 'pg_stat_statements' \\gset
SELECT count(*) > 0 AS informed FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relname = 'pg_stat_statements_info' AND n.nspname = :'schema' \\gset
\\if :informed
SELECT extract(epoch FROM now() - stats_reset) AS seconds FROM :"schema".pg_stat_statements_info \\gset
\\else
\\set seconds NULL
\\endif
COPY (
{counted}
) TO STDOUT (FORMAT csv, HEADER) \\g {STATEMENTS}
COPY ({columns}) TO STDOUT (FORMAT csv, HEADER) \\g {COLUMNS}
"""


def of_folder(folder: Path) -> Statistics:
    """Returns the statistics in the files of a folder. Raises UsageError if a file is missing or is of
    another kind."""
    rows, columns = statements_of(folder / STATEMENTS), _columns_in(folder / COLUMNS)
    with _numbers_of(folder / STATEMENTS):
        return statistics_of(rows, columns)


def of_file(statements: Path, connection: psycopg.Connection[Any]) -> Statistics:
    """Returns statistics from the statements of a file, and the tables of a server that holds the same
    database."""
    rows, columns = statements_of(statements), columns_of(connection)
    with _numbers_of(statements):
        return statistics_of(rows, columns)


def statements_of(file: Path) -> list[dict[str, Any]]:
    """Returns the rows of a file of pg_stat_statements. Raises UsageError if it does not hold them."""
    rows = _rows(file)
    if rows and not {"query", "calls"} <= rows[0].keys():
        raise UsageError(
            f"{shown(file)} does not hold pg_stat_statements: it has no column `query` or `calls`", EXPORT
        )
    return rows


def _columns_in(file: Path) -> list[KnownColumn]:
    rows = _rows(file)
    if rows and not {"schemaname", "tablename", "attname"} <= rows[0].keys():
        raise UsageError(f"{shown(file)} does not hold pg_stats: it has no column `attname`", EXPORT)
    with _numbers_of(file):
        return [column_in(row) for row in rows]


@contextmanager
def _numbers_of(file: Path) -> Iterator[None]:
    """Turns the error for a number that is none into one that names the file."""
    try:
        yield
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{shown(file)} is damaged: {shown(error)}", EXPORT) from error


def _rows(file: Path) -> list[dict[str, Any]]:
    data = read_bytes(file, "file of statistics", most=MOST_BYTES, missing=EXPORT)
    csv.field_size_limit(MOST_BYTES)
    lines = _Lines(data)
    try:
        reader = csv.reader(lines, strict=True)
        names = next(reader, [])
        if len(names) > MOST_COLUMNS:
            raise UsageError(f"{shown(file)} has more than {MOST_COLUMNS} columns", EXPORT)
        rows: list[dict[str, Any]] = []
        for cells in reader:
            lines.commas = 0
            if len(rows) == MOST_ROWS or len(rows) * len(names) > MOST_CELLS:
                raise UsageError(
                    f"{shown(file)} has more than {MOST_ROWS:,} rows or {MOST_CELLS:,} cells", EXPORT
                )
            if cells:
                # An empty cell is NULL: COPY writes an empty text as "", which no column here has.
                row = zip(names, cells, strict=False)
                rows.append(dict.fromkeys(names) | {name: value or None for name, value in row})
    except UnicodeDecodeError as error:
        raise UsageError(f"{shown(file)} is not UTF-8 text: {error.reason}", EXPORT) from error
    except csv.Error as error:
        raise UsageError(f"{shown(file)} is no CSV: {error}", EXPORT) from error
    return rows


class _Lines:
    """The lines of a CSV file. Raises csv.Error where one row has too many commas to be held as cells."""

    def __init__(self, data: bytes) -> None:
        self._lines = io.TextIOWrapper(io.BytesIO(data), "utf-8", newline="")
        self.commas = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.commas += line.count(",")
        if self.commas > _MOST_COMMAS:
            raise csv.Error(f"a row has more than {_MOST_COMMAS:,} commas")
        return line


__all__ = ["COLUMNS", "STATEMENTS", "export_script", "of_file", "of_folder"]
