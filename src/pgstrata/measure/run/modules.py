"""Modules and extensions that a server was built with, made in the database of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import sql

from pgstrata.errors import ServerError
from pgstrata.server.capabilities import catalog_of, relation
from pgstrata.server.connect.session import Connectable
from pgstrata.server.find.model import Server

_EXTENSIONS = relation("pg_extension")
_CASCADE = "CREATE EXTENSION IF NOT EXISTS plpgsql CASCADE"
"""Changes nothing where it is understood, since 9.6: that language is in every database."""


def create_modules(cluster: Connectable, server: Server, database: str, more: Sequence[str] = ()) -> None:
    """Creates what a build's `contrib` and `extensions` ask for, and `more`; before 9.1 by their scripts.

    Raises ServerError with what the server says to it.
    """
    wanted = list(dict.fromkeys([*(server.built.create if server.built else ()), *more]))
    if not wanted:
        return
    assert server.bin_dir is not None
    with cluster.connect(database) as connection:
        catalog = catalog_of(connection)
        for name in wanted:
            try:
                if catalog.has(_EXTENSIONS):
                    connection.execute(
                        sql.SQL("CREATE EXTENSION IF NOT EXISTS {} CASCADE").format(sql.Identifier(name))
                        if catalog.accepts(_CASCADE)
                        else sql.SQL("CREATE EXTENSION IF NOT EXISTS {}").format(sql.Identifier(name))
                    )
                else:
                    script = next((server.bin_dir.parent / "share").rglob(f"contrib/{name}.sql"))
                    connection.execute(script.read_bytes())
            except psycopg.Error as error:
                raise ServerError(
                    f"the extension {name} cannot be created: {' '.join(str(error).split())}",
                    "some have to be in shared_preload_libraries: write them into a config file",
                ) from error


def versions(connection: psycopg.Connection[Any]) -> dict[str, str]:
    """Returns the extensions of a database by name, without the language that is always there."""
    if not catalog_of(connection).has(_EXTENSIONS):
        return {}
    rows = connection.execute(
        "SELECT extname::text, extversion FROM pg_catalog.pg_extension WHERE extname <> 'plpgsql' ORDER BY 1"
    ).fetchall()
    return {str(name): str(version) for name, version in rows}


__all__ = ["create_modules", "versions"]
