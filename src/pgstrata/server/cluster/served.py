"""What everything that measures needs of a server, whether pgstrata starts it or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import psycopg

from pgstrata.driver.spec import Connection
from pgstrata.server.cluster.data_folder import DataFolder
from pgstrata.server.cluster.standbys import Standbys
from pgstrata.server.connect.pooler import Pooler
from pgstrata.server.find.model import Server


class Processes(Protocol):
    """The processes of a server, as far as they are known here."""

    @property
    def pid(self) -> int | None:
        """The postmaster; None where it does not run, or is not known."""
        ...

    def alive(self) -> bool:
        """Returns whether the server runs."""
        ...

    def ended(self, within: float) -> bool:
        """Returns whether the server has ended, or does so within this many seconds."""
        ...

    def pids(self) -> list[int]:
        """Returns the postmaster and all its children now."""
        ...


class Served(Protocol):
    """A server that can be connected to: a cluster, with or without a replica, or a foreign server."""

    server: Server

    @property
    def data_folder(self) -> DataFolder | None:
        """Its data; None where it is not pgstrata's."""
        ...

    @property
    def log_file(self) -> Path | None:
        """The server's log."""
        ...

    @property
    def postmaster(self) -> Processes:
        """Its processes."""
        ...

    @property
    def standbys(self) -> Standbys[Any]:
        """The servers that follow it; of this kind, too."""
        ...

    @property
    def exceeded_memory(self) -> int | None:
        """Its memory limit in bytes where the kernel has killed one of its processes for it."""
        ...

    @property
    def pooled(self) -> bool:
        """Whether the driver's connections end at a pooler."""
        ...

    @property
    def pooler(self) -> Pooler | None:
        """The pooler that pgstrata has started before it."""
        ...

    def stop(self, mode: str = "fast") -> None:
        """Stops it, where pgstrata has started it."""
        ...

    def remove(self) -> None:
        """Stops and deletes it, where pgstrata has created it."""
        ...

    def keep(self) -> None:
        """Stops it and leaves its data for people to look at."""
        ...

    def connect(self, database: str = ..., *, confined: bool = False) -> psycopg.Connection[Any]:
        """Returns a connection in autocommit. Raises ServerError."""
        ...

    def connection(self, database: str, tcp: bool = False, *, confined: bool = False) -> Connection:
        """Returns how the driver connects."""
        ...

    def log_tail(self, lines: int = 20) -> str:
        """Returns the last lines of its log."""
        ...


__all__ = ["Processes", "Served"]
