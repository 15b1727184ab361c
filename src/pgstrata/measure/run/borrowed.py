"""The benchmark's tables in somebody else's server: made in a database of their own, or not at all.

A server that pgstrata did not start holds data that pgstrata did not make. Before the first table
is created its name is written into the comment of a schema called `pgstrata_marker`; only tables
named there are ever dropped, also after a run that was killed in the middle.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg import sql

from pgstrata.errors import ServerError, server_said
from pgstrata.files.bounded import json_any
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.session import Connectable, catalogs_only, use_catalogs_only
from pgstrata.workload.core.language import Phase, Step

DATABASE = "pgstrata"
MARKER = "pgstrata_marker"

Connection = psycopg.Connection[Any]


def database_of(dsn: str) -> str | None:
    """Returns the database a DSN names, None if it names none."""
    return Conninfo.parse(dsn).database


def tables_of(phases: Sequence[Phase]) -> list[str]:
    """Returns every table the workload makes, in order."""
    return list(dict.fromkeys(t for p in phases if isinstance(p, Step) for t in p.tables))


@contextmanager
def borrowed_database(
    cluster: Connectable,
    dsn: str,
    phases: Sequence[Phase],
    *,
    keep: bool,
    say: Callable[[str], None],
) -> Iterator[str]:
    """Yields the database to work in; tables made in it are dropped afterwards unless `keep`.

    Raises ServerError where tables of these names are there that pgstrata did not make.
    """
    named = database_of(dsn)
    database = named or DATABASE
    try:
        is_created = named is None and _create_database(cluster, say)
        tables = tables_of(phases)
        with cluster.connect(database) as connection:
            _drop_ours(connection)
            _refuse_others(connection, tables, database)
            _mark(connection, tables)
    except psycopg.Error as error:
        raise ServerError(
            f"database {database} cannot be prepared: {server_said(error)}",
            "pgstrata needs a user who may create tables and schemas there, "
            "and the database if the DSN names none",
        ) from error
    try:
        yield database
    finally:
        if not keep:
            _tidy(cluster, database, is_created, say)


def _create_database(cluster: Connectable, say: Callable[[str], None]) -> bool:
    """Creates the database if there is none. Returns True if it is pgstrata's own and may be dropped as a
    whole."""
    with cluster.connect("postgres") as connection:
        use_catalogs_only(connection)
        row = connection.execute(
            "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s", [DATABASE]
        ).fetchone()
        if row is not None:
            return bool(row[0] == _MADE)
        say(f"the DSN names no database: creating {DATABASE} there")
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))
        connection.execute(
            sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(DATABASE), sql.Literal(_MADE))
        )
        return True


_MADE = "made by pgstrata"


def _marked(connection: Connection) -> list[str]:
    with catalogs_only(connection):
        row = connection.execute(
            "SELECT obj_description(oid, 'pg_namespace') FROM pg_namespace WHERE nspname = %s", [MARKER]
        ).fetchone()
    if row is None or not row[0]:
        return []
    try:
        names = json_any(row[0])["tables"]
    except (ValueError, KeyError, TypeError):
        return []
    return [name for name in names if isinstance(name, str)]


def _drop_ours(connection: Connection) -> None:
    for table in _marked(connection):
        functions = _trigger_functions(connection, table)
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(sql.Identifier(table)))
        for function in functions:
            # One that triggers of other tables need stays.
            with suppress(psycopg.errors.DependentObjectsStillExist):
                connection.execute(sql.SQL("DROP FUNCTION IF EXISTS {}()").format(function))
    connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {}").format(sql.Identifier(MARKER)))


def _trigger_functions(connection: Connection, table: str) -> list[sql.Identifier]:
    """Returns the functions that the triggers of a table call, functions of the server and of extensions
    apart."""
    oid = connection.execute("SELECT pg_catalog.to_regclass(%s)::pg_catalog.oid", [table]).fetchone()
    with catalogs_only(connection):
        rows = connection.execute(
            "SELECT DISTINCT n.nspname, p.proname FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
            "JOIN pg_namespace n ON n.oid = p.pronamespace WHERE t.tgrelid = %s::oid "
            "AND NOT t.tgisinternal AND n.nspname <> 'pg_catalog' AND NOT EXISTS "
            "(SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')",
            oid,
        ).fetchall()
    return [sql.Identifier(schema, name) for schema, name in rows]


def _refuse_others(connection: Connection, tables: Sequence[str], database: str) -> None:
    asked = "SELECT pg_catalog.to_regclass(%s)::pg_catalog.text"
    rows = [(table, connection.execute(asked.encode(), [table]).fetchone()) for table in tables]
    there = [table for table, row in rows if row and row[0]]
    if there:
        raise ServerError(
            f"database {database} has tables that pgstrata did not make: {', '.join(there[:5])}",
            "name another database in the DSN, or move these tables away",
        )


def _mark(connection: Connection, tables: Sequence[str]) -> None:
    note = json.dumps({"note": "pgstrata made these tables and drops them", "tables": list(tables)})
    with connection.transaction():
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(MARKER)))
        connection.execute(
            sql.SQL("COMMENT ON SCHEMA {} IS {}").format(sql.Identifier(MARKER), sql.Literal(note))
        )


def _tidy(cluster: Connectable, database: str, is_created: bool, say: Callable[[str], None]) -> None:
    try:
        if is_created:
            with cluster.connect("postgres") as connection:
                connection.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(database)))
        else:
            with cluster.connect(database) as connection:
                _drop_ours(connection)
    except psycopg.Error as error:
        say(f"what was made in database {database} is still there: {server_said(error)}")
