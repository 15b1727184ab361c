"""The processes of a cluster: starting them, and ending the server."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pgstrata.child_end import ends_within
from pgstrata.errors import ServerError
from pgstrata.layout import Layout
from pgstrata.server.find.model import Server
from pgstrata.server.system.account import Account
from pgstrata.server.system.network import Way
from pgstrata.server.system.process import children, server_env, spawn

FAST_SECONDS = 120.0
IMMEDIATE_SECONDS = 2.0


class Postmaster:
    """The server process of a cluster, and the programs that run before it.

    cpus: the only CPUs they use; closed: how they are kept off the network.
    """

    def __init__(
        self,
        server: Server,
        data_dir: Path,
        account: Account | None,
        cpus: Sequence[int],
        closed: Way | None,
    ) -> None:
        self._server, self._data_dir, self._account = server, data_dir, account
        self._cpus, self._closed = tuple(cpus), closed
        self._process: subprocess.Popen[bytes] | None = None
        self._starting, self._is_ended = threading.Lock(), False

    @property
    def pid(self) -> int | None:
        """The process number; None where none was started."""
        return self._process.pid if self._process is not None else None

    def launch(
        self,
        program: str,
        options: Sequence[str],
        output: Any,
        death: signal.Signals,
        env: Mapping[str, str],
        under: Sequence[str] = (),
        layout: Layout | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts a program of the server. Raises ServerError where it cannot, and after `forbid`."""
        # Under the lock: what is killed after `forbid` must be all that there is.
        with self._starting:
            if self._is_ended:
                raise ServerError(f"the cluster with the data in {self._data_dir} was ended")
            assert self._server.bin_dir is not None
            path = self._server.bin_dir / program
            try:
                return spawn(
                    [*under, str(path), *options],
                    account=self._account,
                    folder=self._data_dir,
                    env=server_env(env, self._data_dir),
                    output=output,
                    death_signal=death,
                    cpus=self._cpus,
                    layout=layout,
                    closed=self._closed,
                )
            except (OSError, subprocess.SubprocessError) as error:
                raise ServerError(f"{path} cannot be started: {error}") from error

    def runs_as(self, process: subprocess.Popen[bytes]) -> None:
        """Takes a launched process for the server's."""
        self._process = process

    def forbid(self) -> None:
        """Lets no further program start. May be called by another thread."""
        with self._starting:
            self._is_ended = True

    def reload(self) -> None:
        """Tells the server to read its configuration again."""
        assert self._process is not None
        self._process.send_signal(signal.SIGHUP)

    def quit(self) -> None:
        """Tells the server to end at once, and waits for nothing."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGQUIT)

    def stop(self, mode: str) -> None:
        """Ends the server: `fast` or `immediate`, the next harder way where it does not end in time."""
        if (process := self._process) is None:
            return
        ways = [(signal.SIGINT, FAST_SECONDS), (signal.SIGQUIT, IMMEDIATE_SECONDS)]
        for number, seconds in ways if mode == "fast" else ways[1:]:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(number)
            if ends_within(process, seconds):
                break
        else:
            process.kill()
            process.wait()
        self._process = None

    def alive(self) -> bool:
        """Returns whether the server runs."""
        return self._process is not None and self._process.poll() is None

    def ended(self, within: float) -> bool:
        """Returns whether the server has ended, or does so within this many seconds."""
        return self._process is None or ends_within(self._process, within)

    def pids(self) -> list[int]:
        """Returns the server process and all its children now."""
        return [self.pid, *children(self.pid)] if self.pid and self.alive() else []


__all__ = ["Postmaster"]
