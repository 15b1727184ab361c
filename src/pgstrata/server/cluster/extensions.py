"""Which extensions a server could create, known before it is started."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pgstrata.errors import ServerError, server_said
from pgstrata.server.connect.session import answering
from pgstrata.server.features import Feature
from pgstrata.server.find.model import Server
from pgstrata.server.system.isolation import probe

SECONDS = 30.0
"""How long a running server may take to list its extensions."""


def lacking(server: Server, wanted: Sequence[str]) -> list[str]:
    """Returns the wanted extensions that the server cannot create; an empty list if the server is not there
    yet.

    Raises ServerError where a running server does not answer.
    """
    if not wanted:
        return []
    if not server.features.has(Feature.EXTENSIONS):
        return list(wanted)
    there = _of_running(server) if server.bin_dir is None else _of_folder(server.bin_dir)
    return [] if there is None else [name for name in wanted if name not in there]


def _of_running(server: Server) -> frozenset[str]:
    import psycopg

    from pgstrata.server.cluster.foreign import ForeignCluster

    try:
        with ForeignCluster(server).connect() as connection, answering(connection, SECONDS):
            rows = connection.execute("SELECT name FROM pg_catalog.pg_available_extensions").fetchall()
    except psycopg.Error as error:
        raise ServerError(
            f"{server.label} does not say which extensions it has: {server_said(error)}"
        ) from error
    return frozenset(row[0] for row in rows)


@cache
def _of_folder(bin_dir: Path) -> frozenset[str] | None:
    """Returns the names of the extensions with a control file in an installation; None if there is no
    installation, or none yet."""
    if not (bin_dir / "postgres").is_file():
        return None
    share = [bin_dir.parent / "share"]
    if (bin_dir / "pg_config").is_file():  # packages keep their files elsewhere
        command = [str(bin_dir / "pg_config"), "--sharedir"]
        try:
            answer = probe(command)
            share.insert(0, Path(answer.stdout.strip() or share[0]))
        except (OSError, subprocess.SubprocessError):
            pass
    for folder in share:
        if names := frozenset(path.stem for path in folder.rglob("extension/*.control")):
            return names
    return None


__all__ = ["lacking"]
