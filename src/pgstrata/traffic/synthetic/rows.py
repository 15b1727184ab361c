"""Rows sampled from the tables of a server: which values belong together, and more of them than its
statistics have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import psycopg
from psycopg import sql

from pgstrata.traffic.synthetic.statistics import MARK, KnownColumn

SAMPLED = 10_000
"""Rows of a table, about."""

RowsOf = Callable[[Sequence[KnownColumn]], Sequence[tuple[str, ...]]]
"""The values that these columns of one table have in sampled rows in which none is NULL; empty where no row
may be read."""


def rows_by(connection: psycopg.Connection[Any]) -> RowsOf:
    """Asks the server of a connection in autocommit, each table and choice of columns once. Blocks are read
    at random, the same ones each time, and no more than the sample needs."""
    known: dict[tuple[KnownColumn, ...], Sequence[tuple[str, ...]]] = {}

    def rows_of(columns: Sequence[KnownColumn]) -> Sequence[tuple[str, ...]]:
        key = tuple(columns)
        if key not in known:
            known[key] = _sampled(connection, columns)
        return known[key]

    return rows_of


def sampled_percent(table: KnownColumn) -> float:
    """Returns the share of a table's blocks that hold as many rows as are sampled, in percent."""
    # Blocks may be emptier than the statistics say.
    return min(100.0, 200.0 * SAMPLED / max(1.0, table.rows))


def _sampled(
    connection: psycopg.Connection[Any], columns: Sequence[KnownColumn]
) -> Sequence[tuple[str, ...]]:
    table = columns[0]
    names = [sql.Identifier(column.name) for column in columns]
    question = sql.SQL(
        "SELECT {mark} {values} FROM {table} TABLESAMPLE SYSTEM ({percent}) REPEATABLE (1) "
        "WHERE {known} LIMIT {most}"
    )
    try:
        return connection.execute(
            question.format(
                mark=sql.SQL(MARK),
                values=sql.SQL(", ").join(sql.SQL("{}::text").format(name) for name in names),
                table=sql.Identifier(table.schema, table.table),
                percent=sql.Literal(sampled_percent(table)),
                known=sql.SQL(" AND ").join(sql.SQL("{} IS NOT NULL").format(name) for name in names),
                most=sql.Literal(SAMPLED),
            )
        ).fetchall()
    except psycopg.Error:
        return ()  # a view, or one that this user may not read: its statistics have to do


__all__ = ["SAMPLED", "RowsOf", "rows_by", "sampled_percent"]
