"""The start of a server: waiting until it accepts connections, and saying why it does not."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgstrata.errors import ServerError
from pgstrata.files.ownership import read_small
from pgstrata.server.capabilities import Programs
from pgstrata.server.features import Feature
from pgstrata.server.find.model import Server
from pgstrata.server.system.log_end import lines_since, loader_complaint, problem, tail, without_statistics

if TYPE_CHECKING:
    import psycopg

START_SECONDS = 300.0
POLL_SECONDS = 0.005


@dataclass(frozen=True)
class Startup:
    """A server that has been launched. Its methods raise ServerError."""

    server: Server
    data: Path
    """Its data folder."""
    log: Path
    log_begin: int
    """Bytes of the log before this start."""
    connect: Callable[[str], psycopg.Connection[Any]]
    """Connects to a database. Raises ServerError."""

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        """Returns when the server accepts connections and has a database to connect to."""
        self._wait_until_ready(process)
        lines = lines_since(self.log, self.log_begin)
        self._check_loader(lines)
        self._check_statistics(lines)
        self._make_first_database()

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        end = time.monotonic() + START_SECONDS
        while not self._ready(process.pid):
            if process.poll() is not None:
                raise self._failure("ended while it started")
            if time.monotonic() > end:
                raise self._failure(f"did not accept connections within {START_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)

    def _check_loader(self, lines: Sequence[str]) -> None:
        """Raises ServerError if the loader has left out a library of LD_PRELOAD that does not exist: the
        server would be another."""
        if complaint := loader_complaint(lines):
            raise ServerError(
                f"the server {self.server.label} runs without a library it should have: {complaint}",
                "mend the path in `env`; the account of the server has to be able to read the file",
            )

    def _check_statistics(self, lines: Sequence[str]) -> None:
        """Raises ServerError if the server counts nothing and cleans up nothing: each look at its statistics
        would wait for ten seconds, and without autovacuum it is another server."""
        if reason := without_statistics(lines):
            raise ServerError(
                f"the server {self.server.label} runs without its statistics collector: {reason}",
                "servers before 15 count over the address of localhost: add `127.0.0.1 localhost` to "
                "/etc/hosts where it is missing",
            )

    def _ready(self, pid: int) -> bool:
        try:
            lines = read_small(self.data / "postmaster.pid").splitlines()
        except OSError:
            return False
        if not lines or lines[0] != str(pid):
            return False
        if programs_of(self.server).reports_state:
            return len(lines) > 7 and lines[7].strip() == "ready"
        try:
            self.connect("template1").close()
        except ServerError:
            return False
        return True

    def _make_first_database(self) -> None:
        """Makes the database to connect to for anything else; initdb does since there are roles (8.1)."""
        if self.server.features.has(Feature.ROLES):
            return
        with self.connect("template1") as session:
            if not session.execute("SELECT 1 FROM pg_database WHERE datname = 'postgres'").fetchone():
                session.execute(new_database("postgres"))

    def _failure(self, how: str) -> ServerError:
        last = tail(self.log, 20, self.log_begin)
        cause = problem(last)
        return ServerError(
            f"the server {self.server.label} {how}" + (f": {cause}" if cause else ""),
            f"its log ends with:\n{last}" if last else "its log is empty",
        )


def programs_of(server: Server) -> Programs:
    """Returns the programs of a server. Raises ServerError where they are not there."""
    programs = server.programs
    if programs is None:
        raise ServerError(f"the programs of {server.label} are not there: {server.bin_dir}")
    return programs


def new_database(name: str) -> str:
    """Returns SQL that makes a database from template0, to which no session can connect: old versions refuse
    to copy template1 while a session on it is still ending."""
    return f"CREATE DATABASE {name} TEMPLATE template0"


__all__ = ["POLL_SECONDS", "Startup", "new_database", "programs_of"]
