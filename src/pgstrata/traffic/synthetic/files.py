"""What a server knows, in files: the script that makes them, and reading them."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import psycopg

from pgstrata.errors import UsageError
from pgstrata.traffic.synthetic.statistics import (
    COLUMNS_QUESTION,
    COUNTED_QUESTION,
    EXPORT,
    SETTINGS,
    KnownColumn,
    Statistics,
    column_in,
    columns_of,
    statistics_of,
)
from pgstrata.user_files import read_text, shown

STATEMENTS, COLUMNS = "statements.csv", "columns.csv"
"""Names of the files that hold what a server knows."""

MOST_BYTES = 1 << 30
"""Of such a file."""


def export_script() -> str:
    """A script for psql that writes the two files of the database it is connected to."""
    counted = COUNTED_QUESTION.format(seconds=":seconds", schema=':"schema"').strip()
    settings = "".join(f"{setting};\n" for setting in SETTINGS)
    return f"""\\set ON_ERROR_STOP on
\\set QUIET on
{settings}SELECT n.nspname AS schema FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace
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
COPY ({COLUMNS_QUESTION}) TO STDOUT (FORMAT csv, HEADER) \\g {COLUMNS}
"""


def of_folder(folder: Path) -> Statistics:
    """What the files of a folder hold. Raises UsageError where one lacks, or is none."""
    return statistics_of(statements_of(folder / STATEMENTS), _columns_in(folder / COLUMNS))


def of_file(statements: Path, connection: psycopg.Connection[Any]) -> Statistics:
    """Statements of a file, and tables of a server that holds the same."""
    return statistics_of(statements_of(statements), columns_of(connection))


def statements_of(file: Path) -> list[dict[str, Any]]:
    """The rows of a file of pg_stat_statements."""
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
    return [column_in(row) for row in rows]


def _rows(file: Path) -> list[dict[str, Any]]:
    text = read_text(file, "file of statistics", most=MOST_BYTES, missing=EXPORT)
    csv.field_size_limit(MOST_BYTES)
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        # An empty cell is NULL: COPY writes an empty text as "", which no column here has.
        rows = [{name: value or None for name, value in row.items() if name} for row in reader]
    except csv.Error as error:
        raise UsageError(f"{shown(file)} is no CSV: {error}", EXPORT) from error
    return rows


__all__ = ["COLUMNS", "STATEMENTS", "export_script", "of_file", "of_folder"]
