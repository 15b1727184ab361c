"""Compares the rows of tables after the setup with the numbers that the campaign states."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import psycopg

from pgstrata.errors import ServerError, server_said
from pgstrata.sql_text import identifier
from pgstrata.workload.core.language import Work, WorkContext


def row_count_check(expected: Mapping[str, int], *, confined: bool) -> Work:
    """Returns the phase that counts the rows of these tables.

    confined: count as the role that is no superuser. The phase raises ServerError with each table that has
    another number of rows.
    """
    return Work("row-counts", partial(_check, expected, confined), {"row_counts": dict(expected)})


def _check(expected: Mapping[str, int], confined: bool, context: WorkContext) -> Mapping[str, Any]:
    with context.connect(confined=True) if confined else context.connect() as connection:
        differences = []
        for table, rows in expected.items():
            context.check()
            if problem := _difference(connection, table, rows):
                differences.append(problem)
    if differences:
        raise ServerError(
            f"the rows after `setup` differ from `row_counts`: {'; '.join(differences)}",
            "load the data whole, or correct `row_counts`",
        )
    return {}


def _difference(connection: psycopg.Connection[Any], table: str, expected: int) -> str:
    """Returns how the rows of a table differ, empty if they do not."""
    try:
        quoted = ".".join(map(identifier, table.split(".")))
        row = connection.execute(f"SELECT count(*) FROM {quoted}".encode()).fetchone()
    except psycopg.Error as error:
        return f"{table}: {server_said(error.diag.message_primary or error)}"
    assert row is not None
    return "" if row[0] == expected else f"{table} has {row[0]:,} instead of {expected:,}"


__all__ = ["row_count_check"]
