"""Modules and extensions that a server was built with, made in the database of a run."""

from __future__ import annotations

import psycopg
from psycopg import sql

from pgstrata.errors import ServerError
from pgstrata.server.model import Server
from pgstrata.server.session import Connects


def create_modules(cluster: Connects, server: Server, database: str) -> None:
    """Creates what `contrib` and `extensions` of the build ask for; before 9.1 by their scripts.

    Raises ServerError with what the server says to it.
    """
    wanted = server.built.create if server.built else ()
    if not wanted:
        return
    assert server.bin_dir is not None
    with cluster.connect(database) as connection:
        for name in wanted:
            try:
                if server.version_num >= 90100:
                    connection.execute(
                        sql.SQL("CREATE EXTENSION IF NOT EXISTS {} CASCADE").format(sql.Identifier(name))
                        if server.version_num >= 90600
                        else sql.SQL("CREATE EXTENSION IF NOT EXISTS {}").format(sql.Identifier(name))
                    )
                else:
                    script = next((server.bin_dir.parent / "share").rglob(f"contrib/{name}.sql"))
                    connection.execute(script.read_bytes())
            except psycopg.Error as error:
                raise ServerError(
                    f"the extension {name} cannot be created: {' '.join(str(error).split())}",
                    "some have to be in shared_preload_libraries: write them into a config fragment",
                ) from error


__all__ = ["create_modules"]
