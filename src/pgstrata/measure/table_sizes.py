"""The sizes in pg_class, which ANALYZE and CREATE INDEX write even if their transaction is rolled back."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg


class TableSizes:
    """Pages and rows of all tables and indexes of a database as the planner knows them, to be restored.

    connection: of a superuser, in autocommit.
    """

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        connection.execute("SET lock_timeout = '1s'")
        connection.execute("SET statement_timeout = '10s'")
        self._rows = connection.execute(
            "SELECT c.oid, c.relpages, c.reltuples, c.relallvisible FROM pg_catalog.pg_class c "
            "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind::text IN ('r', 'p', 'm', 'i', 'I') AND n.nspname !~ '^pg_'"
        ).fetchall()

    def restore(self) -> None:
        """Writes back what has changed, unless the server is gone or another transaction has it locked."""
        oids, pages, tuples, visible = ([row[place] for row in self._rows] for place in range(4))
        with suppress(psycopg.Error):
            self._connection.execute(
                "UPDATE pg_catalog.pg_class c "
                "SET relpages = s.pages, reltuples = s.tuples, relallvisible = s.visible FROM "
                "unnest(%s::oid[], %s::int4[], %s::float4[], %s::int4[]) AS s(oid, pages, tuples, visible) "
                "WHERE c.oid = s.oid AND (c.relpages, c.reltuples, c.relallvisible) "
                "IS DISTINCT FROM (s.pages, s.tuples, s.visible)",
                (oids, pages, tuples, visible),
            )


__all__ = ["TableSizes"]
