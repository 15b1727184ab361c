"""The servers that follow another server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from pgstrata.errors import ServerError
from pgstrata.server.cluster.lag import ReplicaLag

Kind_co = TypeVar("Kind_co", covariant=True)
Kind = TypeVar("Kind")
"""The kind of server that is followed: one that pgstrata starts, or a foreign one."""


class Standbys(Protocol[Kind_co]):
    """The standbys of a server: started after it, stopped after it, and asked how far they are."""

    @property
    def pid(self) -> int | None:
        """The postmaster of the standby; None without one."""
        ...

    @property
    def failure(self) -> ServerError | None:
        """Why the standby ended the run."""
        ...

    @property
    def are_there(self) -> bool:
        """Whether the standby has its data."""
        ...

    def create(self) -> None:
        """Makes the standby from the primary, which is stopped. Raises ServerError."""
        ...

    def start(self, settings: Mapping[str, str] | None) -> None:
        """Starts the standby, which streams when this returns. settings: win over those of the config.

        Raises ServerError.
        """
        ...

    def end_watch(self) -> None:
        """Ends the watch over the standby: its primary is about to stop."""
        ...

    def stop(self, mode: str) -> None:
        """Stops the standby; the primary is stopped."""
        ...

    def remove(self) -> None:
        """Stops and deletes the standby."""
        ...

    def serving(self, *, reads_only: bool) -> Kind_co:
        """Returns what serves a step: the primary, or a standby that has replayed what there is.

        Raises ServerError.
        """
        ...

    def await_replayed(self) -> None:
        """Waits until the standby has replayed what there is. Raises ServerError where it takes too long."""
        ...

    def check(self) -> None:
        """Raises ServerError where the standby has failed."""
        ...

    def lag_between(self, begin: float, end: float) -> list[ReplicaLag]:
        """Returns how far the standby was behind between two moments (Unix time)."""
        ...


class NoStandbys(Generic[Kind]):
    """Nothing follows the server, or nothing that is known here."""

    pid: int | None = None
    failure: ServerError | None = None
    are_there = True

    def __init__(self, server: Kind) -> None:
        self._server = server

    def create(self) -> None:
        """Does nothing."""

    def start(self, settings: Mapping[str, str] | None) -> None:
        """Does nothing."""

    def end_watch(self) -> None:
        """Does nothing."""

    def stop(self, mode: str) -> None:
        """Does nothing."""

    def remove(self) -> None:
        """Does nothing."""

    def serving(self, *, reads_only: bool) -> Kind:
        """Returns the server itself."""
        del reads_only
        return self._server

    def await_replayed(self) -> None:
        """Does nothing."""

    def check(self) -> None:
        """Does nothing."""

    def lag_between(self, begin: float, end: float) -> list[ReplicaLag]:
        """Returns nothing."""
        del begin, end
        return []


__all__ = ["NoStandbys", "Standbys"]
