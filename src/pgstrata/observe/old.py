"""What servers say about themselves that lack what those since 9.6 have, under the names they have for it.

Sources: the release notes of the versions named, chapters "Monitoring" and "System Administration
Functions" of their manuals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, LiteralString

from psycopg import Connection

from pgstrata.server.capabilities import Catalog, catalog_of, column, function
from pgstrata.store.record import TableRecord, TableSizes

Session = Connection[Any]

_SEGMENTS_OF_XLOG = 0xFF000000
"""Bytes of WAL behind one number before the slash until 9.3, which used the last segment, too. From 9.2 on a
server computes with it itself."""


ACTIVITY_PID = column("pg_stat_activity", "pid")
ACTIVITY_STATE = column("pg_stat_activity", "state")
ACTIVITY_WAITING = column("pg_stat_activity", "waiting")
DATABASE_SIZE = function("pg_database_size")
RELATION_SIZE = function("pg_total_relation_size")
IN_RECOVERY = function("pg_is_in_recovery")
XLOG_POSITION = function("pg_current_xlog_insert_location")
XLOG_DIFFERENCE = function("pg_xlog_location_diff")


def pid_column(catalog: Catalog) -> LiteralString:
    """Returns the name of the column with a backend's process in pg_stat_activity."""
    return "pid" if catalog.has(ACTIVITY_PID) else "procpid"


def wal_position(session: Session) -> int | None:
    """Returns the bytes of WAL since the beginning of the cluster, from 8.2 on; None before and on a
    standby."""
    catalog = catalog_of(session)
    if not catalog.has(XLOG_POSITION):
        return None
    if catalog.has(IN_RECOVERY):
        row = session.execute("SELECT pg_is_in_recovery()").fetchone()
        if row is None or row[0]:
            return None
    if catalog.has(XLOG_DIFFERENCE):
        row = session.execute(
            "SELECT pg_xlog_location_diff(pg_current_xlog_insert_location(), '0/0')"
        ).fetchone()
        return None if row is None else int(row[0])
    row = session.execute("SELECT pg_current_xlog_insert_location()").fetchone()
    match = re.fullmatch(r"([0-9A-Fa-f]+)/([0-9A-Fa-f]+)", str(row[0])) if row else None
    if match is None:
        return None
    return int(match[1], 16) * _SEGMENTS_OF_XLOG + int(match[2], 16)


def database_bytes(session: Session) -> int | None:
    """Returns the size of the database in bytes, from 8.1 on; None before."""
    if not catalog_of(session).has(DATABASE_SIZE):
        return None
    row = session.execute("SELECT pg_database_size(current_database())").fetchone()
    return None if row is None else int(row[0])


def _tables(session: Session, names: Sequence[str]) -> dict[str, int]:
    """Returns the names of the tables that exist, and their oids."""
    tables: dict[str, int] = {}
    for name in names:
        schema, _, table = name.rpartition(".")
        row = session.execute(
            "SELECT c.oid FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.relkind = 'r' AND c.relname = %s AND n.nspname = %s",
            (table, schema or "public"),
        ).fetchone()
        if row is not None:
            tables[name] = int(row[0])
    return tables


def table_sizes(session: Session, names: Sequence[str]) -> dict[str, TableSizes]:
    """Returns the sizes by table, from 8.1 on; empty before."""
    if not catalog_of(session).has(RELATION_SIZE):
        return {}
    sizes = {}
    for name, oid in _tables(session, names).items():
        row = session.execute(
            "SELECT pg_total_relation_size(%(t)s::oid)::int8,"
            " (SELECT coalesce(sum(pg_relation_size(indexrelid)), 0)"
            " FROM pg_catalog.pg_index WHERE indrelid = %(t)s::oid)::int8",
            {"t": oid},
        ).fetchone()
        assert row is not None
        sizes[name] = TableSizes(table_bytes=int(row[0]) - int(row[1]), index_bytes=int(row[1]))
    return sizes


def describe(session: Session, names: Sequence[str]) -> dict[str, TableRecord]:
    """Describes tables as `postgres.describe` does; rows are estimated by what the last VACUUM or ANALYZE
    saw."""
    table_records: dict[str, TableRecord] = {}
    for name, oid in _tables(session, names).items():
        counted = session.execute(
            "SELECT reltuples::float8 FROM pg_catalog.pg_class WHERE oid = %s::oid", (oid,)
        ).fetchone()
        indexes = session.execute(
            "SELECT c.relname::text, pg_get_indexdef(c.oid) FROM pg_catalog.pg_index"
            " JOIN pg_catalog.pg_class c ON c.oid = indexrelid WHERE indrelid = %s::oid ORDER BY 1",
            (oid,),
        ).fetchall()
        table_records[name] = TableRecord(
            rows_estimate=int(counted[0]) if counted else 0,
            dead_estimate=None,
            indexes={str(row[0]): str(row[1]) for row in indexes},
            bloat=None,
        )
    return table_records


def waits_query(catalog: Catalog) -> LiteralString:
    """Returns the query of `waits._query` for servers that name no wait events: only whether a backend waits
    for a lock is known."""
    idle: LiteralString = "current_query LIKE '<IDLE>%'"
    if catalog.has(ACTIVITY_STATE):
        idle = "state LIKE 'idle%'"
    kind: LiteralString = "NULL::text"
    if catalog.has(ACTIVITY_WAITING):
        kind = "CASE WHEN waiting THEN 'Lock' END"
    return (
        "SELECT "
        + pid_column(catalog)
        + ", NULL::int4, 'client backend'::text, coalesce("
        + idle
        + ", false), "
        + kind
        + ", "
        + kind
        + " FROM pg_catalog.pg_stat_activity WHERE "
        + pid_column(catalog)
        + " <> pg_backend_pid()"
    )


__all__ = ["database_bytes", "describe", "pid_column", "table_sizes", "waits_query", "wal_position"]
