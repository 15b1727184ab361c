"""A server somebody else runs, with the surface of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pgstrata.driver.spec import Connection
from pgstrata.errors import ServerError
from pgstrata.server.cluster.standbys import NoStandbys
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.pooler import Through
from pgstrata.server.find.model import Server

if TYPE_CHECKING:
    import psycopg


class ForeignCluster:
    """A `dsn:` server: pgstrata neither starts nor stops it and does not see its processes."""

    data_folder: None = None
    exceeded_memory: None = None
    log_file: None = None
    pooler: None = None

    def __init__(self, server: Server, through: Through | None = None) -> None:
        """Creates the cluster of a server that pgstrata did not start. through: the address of what stands
        before it, to which the driver connects."""
        assert server.dsn is not None
        self.server = server
        address = through.address if through is not None else None
        self._through = Conninfo.parse(address) if address is not None else None
        self._conninfo = Conninfo.parse(server.dsn)
        self.postmaster = ForeignProcesses(self)
        self.standbys = NoStandbys(self)
        """Which servers follow it is not known here."""

    def stop(self, mode: str = "fast") -> None:
        """Does nothing: the server is not ours."""

    def remove(self) -> None:
        """Does nothing: the server is not ours."""

    def keep(self) -> None:
        """Does nothing: the server is not ours."""

    def connect(self, database: str | None = None, *, confined: bool = False) -> psycopg.Connection[Any]:
        """Returns a connection of the DSN's user in autocommit, to its database unless another is named.
        Raises ServerError."""
        return self._conninfo.with_database(database).connect()

    def connection(
        self, database: str | None = None, tcp: bool = False, *, confined: bool = False
    ) -> Connection:
        """Returns the driver's connection, its spec's `connection`: to the place where libpq finds the
        server, or to the pooler or proxy before it."""
        return (self._through or self._conninfo).with_database(database).for_driver()

    @property
    def pooled(self) -> bool:
        """Whether the driver's connections end at somebody else than the server."""
        return self._through is not None

    def log_tail(self, lines: int = 20) -> str:
        """Returns an empty text: the log of this server cannot be read from here."""
        return ""


class ForeignProcesses:
    """The processes of a server that somebody else runs: none of them can be told from here."""

    pid: None = None

    def __init__(self, cluster: ForeignCluster) -> None:
        self._cluster = cluster

    def alive(self) -> bool:
        """Returns whether a connection can be made."""
        try:
            self._cluster.connect().close()
        except ServerError:
            return False
        return True

    def ended(self, within: float) -> bool:
        """Returns whether no connection can be made; nothing here says how long that will last."""
        del within
        return not self.alive()

    def pids(self) -> list[int]:
        """Returns no process."""
        return []


__all__ = ["ForeignCluster", "ForeignProcesses"]
