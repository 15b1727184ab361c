"""Timers of a running server, which go on while its processes are stopped."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pgstrata.errors import ServerError
from pgstrata.server.cluster.configuration import Configuration
from pgstrata.server.cluster.postmaster import Postmaster
from pgstrata.server.cluster.startup import POLL_SECONDS
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.timers import TurnLengths, longer_timers

if TYPE_CHECKING:
    import psycopg

RELOAD_SECONDS = 30.0


class Timers:
    """The settings of one server that it counts by its clock. settings: of its config; write: writes its
    configuration."""

    def __init__(
        self,
        settings: Mapping[str, str],
        known: KnownSettings,
        configuration: Configuration,
        write: Callable[[], None],
        postmaster: Postmaster,
        connect: Callable[[], psycopg.Connection[Any]],
    ) -> None:
        self._settings, self._known = settings, known
        self._configuration, self._write = configuration, write
        self._postmaster, self._connect = postmaster, connect

    def set(self, turns: TurnLengths | None) -> dict[str, str]:
        """Lets the running server count as it should with such turns from now on; None: as configured.

        Returns the settings that differ from the config, none for servers before 8.2. Raises ServerError.
        """
        if not self._known.takes_units:
            return {}
        before = self._configuration.timers
        after = {} if turns is None else longer_timers(self._settings, self._known, turns)
        self._configuration.timers = after
        if after != before:
            self._write()
            self._postmaster.reload()
            # Processes hear of it one by one; new sessions have it when the postmaster does.
            alone = longer_timers(self._settings, self._known, TurnLengths(1, 0.0, 0.0))
            for name in {**before, **after}:
                self._await_setting(name, after.get(name, alone[name]))
        return after

    def _await_setting(self, name: str, value: str) -> None:
        end = time.monotonic() + RELOAD_SECONDS
        while True:
            with self._connect() as session:
                (now,) = session.execute("SELECT current_setting(%s)", (name,)).fetchone() or ("",)
            if now == value:
                return
            if time.monotonic() > end:
                raise ServerError(
                    f"{name} is still {now} and not {value} {RELOAD_SECONDS:.0f} s after a reload",
                    'see the server\'s log; or take whole rounds: turns = "rounds"',
                )
            time.sleep(POLL_SECONDS)


__all__ = ["Timers"]
