"""A server somebody else runs, with the surface of a cluster."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from pgstrata.errors import ServerError
from pgstrata.server.model import Server


class ForeignCluster:
    """A `dsn:` server: pgstrata neither starts nor stops it and does not see its processes."""

    folder: None = None
    data_dir: None = None
    socket_dir: None = None
    log_file: None = None
    pid: None = None

    def __init__(self, server: Server) -> None:
        assert server.dsn is not None
        self.server = server
        self._dsn = server.dsn

    def __enter__(self) -> ForeignCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def create(self, copy_of: Path | None = None) -> None:
        """Nothing: the server is there."""

    def start(self) -> None:
        """Nothing: the server runs."""

    def stop(self, mode: str = "fast") -> None:
        """Nothing: the server is not ours."""

    def remove(self) -> None:
        """Nothing: the server is not ours."""

    def keep(self) -> None:
        """Nothing: the server is not ours."""

    def ended(self, within: float) -> bool:
        """Whether no connection can be made; nobody here could say how long that will last."""
        try:
            self.connect().close()
        except ServerError:
            return True
        return False

    def connect(self, database: str | None = None) -> psycopg.Connection[Any]:
        """A connection in autocommit, to the DSN's own database unless one is named. Raises ServerError."""
        return connect_dsn(self._dsn, database)

    def connection(self, database: str | None = None, tcp: bool = False) -> dict[str, Any]:
        """How the driver connects: its spec's `connection`, with all that libpq adds to the DSN."""
        with self.connect(database) as session:
            info = session.info
            found: dict[str, Any] = {
                "host": info.host or info.hostaddr,
                "port": info.port,
                "user": info.user,
                "database": info.dbname,
            }
            if info.password:
                found["password"] = info.password
            if info.server_version < 90000:
                found["application_name"] = ""  # they refuse a connection that names it
            return found

    def pids(self) -> list[int]:
        """None of its processes can be told from here."""
        return []

    def log_tail(self, lines: int = 20) -> str:
        """Its log cannot be read from here."""
        return ""


def connect_dsn(dsn: str, database: str | None = None) -> psycopg.Connection[Any]:
    """Connects in autocommit. Raises ServerError, without the password in its message."""
    try:
        wanted = make_conninfo(dsn, **({"dbname": database} if database else {}))
        return psycopg.connect(wanted, autocommit=True, connect_timeout=30, application_name="pgstrata")
    except psycopg.Error as error:
        raise ServerError(
            f"cannot connect to the server: {' '.join(str(error).split())}",
            "check the address, the user and pg_hba.conf of the server",
        ) from error
