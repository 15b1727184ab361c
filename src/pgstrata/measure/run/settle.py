"""The untimed phases, by the administrator's connection: plain SQL, and letting things settle."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg

from pgstrata.errors import ServerError, server_said
from pgstrata.server.capabilities import Catalog, catalog_of, relation
from pgstrata.server.connect.session import Connectable
from pgstrata.sql_text import identifier
from pgstrata.workload.core.language import Admin, Settle

CANCEL_SECONDS = 1.0
"""How long cancelling a statement may take."""


def run_admin(cluster: Connectable, phase: Admin, database: str) -> None:
    """Executes the statements, each in its own transaction. Raises ServerError."""
    if phase.parallel:
        _together(cluster, phase.name, phase.statements, database, _execute)
        return
    with cluster.connect(database, confined=phase.confined) as connection:
        for statement in phase.statements:
            _execute(connection, phase.name, statement)


_INDEX_CLEANUP = relation("pg_statistic_ext_data")
"""Came two months after INDEX_CLEANUP in the development of 12. To try the option would leave an error in the
server's log."""


def vacuum_options(catalog: Catalog) -> str:
    """Returns the options of VACUUM: index clean-up is forced where a server might skip it."""
    return "(VERBOSE, ANALYZE, INDEX_CLEANUP ON)" if catalog.has(_INDEX_CLEANUP) else "VERBOSE ANALYZE"


def run_settle(
    cluster: Connectable,
    phase: Settle,
    database: str,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Executes VACUUM of all tables at once and CHECKPOINT, then waits until the phase has had its seconds.

    check: called while waiting; may raise to end the wait. Raises ServerError.
    """
    begun = time.monotonic()
    named = [".".join(map(identifier, table.split("."))) for table in phase.tables]
    if named:
        _together(cluster, "settle", named, database, _vacuum)
    if phase.checkpoint:
        with cluster.connect(database) as connection:
            _execute(connection, "settle", "CHECKPOINT")
    while (left := phase.seconds - (time.monotonic() - begun)) > 0:
        check()
        time.sleep(min(left, 0.5))


def _vacuum(connection: psycopg.Connection[Any], phase: str, table: str) -> None:
    try:
        options = vacuum_options(catalog_of(connection))
    except psycopg.Error as error:
        raise ServerError(f"{phase}: the server does not answer: {server_said(error)}") from error
    _execute(connection, phase, f"VACUUM {options} {table}")


def _together(
    cluster: Connectable,
    name: str,
    objects: Sequence[str],
    database: str,
    do: Callable[[psycopg.Connection[Any], str, str], None],
) -> None:
    """Does the same with all objects (statements, tables) at once, each on its own connection. An
    interruption cancels the statements: a VACUUM may take minutes. Raises ServerError."""
    sessions: list[psycopg.Connection[Any]] = []

    def work(object_: str) -> None:
        with cluster.connect(database) as connection:
            sessions.append(connection)
            do(connection, name, object_)

    with ThreadPoolExecutor(max_workers=max(1, min(len(objects), 64))) as pool:
        futures = [pool.submit(work, object_) for object_ in objects]
        try:
            for future in futures:
                future.result()
        except BaseException:
            for future in futures:
                future.cancel()
            for session in list(sessions):
                with suppress(psycopg.Error):
                    session.cancel_safe(timeout=CANCEL_SECONDS)
            raise


def _execute(connection: psycopg.Connection[Any], phase: str, statement: str) -> None:
    try:
        connection.execute(statement.encode())
    except psycopg.Error as error:
        state = f" (SQLSTATE {error.sqlstate})" if error.sqlstate else ""
        text = " ".join(statement.split())
        raise ServerError(
            f"{phase}: the server rejected a statement: {server_said(error)}{state}",
            f"statement: {text[:300]}",
        ) from error
