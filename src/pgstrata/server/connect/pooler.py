"""What stands between driver and server: a pooler that pgstrata starts, or an address of anyone's."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgstrata.child_end import ends_within
from pgstrata.errors import ServerError, UsageError
from pgstrata.files.ownership import check_executed
from pgstrata.files.user_files import user_path
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.poolers import KINDS, MODES, PORT, Kind, Place
from pgstrata.server.connect.secrets import conninfo_without_secrets, without_secrets
from pgstrata.server.system.account import check_reachable, server_account
from pgstrata.server.system.isolation import probe
from pgstrata.server.system.log_end import tail
from pgstrata.server.system.network import Way
from pgstrata.server.system.process import server_env, spawn

START_SECONDS = 15.0
END_SECONDS = 5.0
SYSTEM = "/usr/sbin:/usr/local/sbin"
"""Where poolers are that a user's PATH may leave out."""

_SETTING = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class Through:
    """What stands between. name: of a kind of pooler, or an address with its secrets hidden; version: of
    the program, empty for an address; settings: of the pooler, as they were asked for."""

    name: str
    version: str = ""
    settings: Mapping[str, str] | None = None
    program: Path | None = None
    address: str | None = None

    def setting(self, name: str) -> str:
        """Returns the value of a setting of the pooler that holds; empty if it is unknown."""
        usual = self.kind.usual if self.kind is not None else {}
        return str((self.settings or {}).get(name, usual.get(name, "")))

    @property
    def kind(self) -> Kind | None:
        """The program that pgstrata starts; None for an address."""
        return KINDS.get(self.name) if self.address is None else None

    @property
    def mode(self) -> str:
        """For how long a client keeps a connection of the server; `session` where nobody knows."""
        sharing = self.kind.sharing if self.kind is not None else None
        return self.setting(sharing.mode) if sharing is not None else "session"

    @property
    def sessions(self) -> int | None:
        """How many connections a pool of sessions has room for; None where it is none, or has no limit."""
        if self.kind is None or self.mode != "session":
            return None
        size = self.setting(self.kind.sessions)
        return (int(size) or None) if size.isdigit() else None

    @property
    def prepares(self) -> bool:
        """Whether statements that a client has prepared are there when it uses them."""
        if self.kind is None or self.kind.sharing is None or self.mode == "session":
            return True
        version = tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])
        return self.kind.sharing.keeps(version, self.setting)

    @property
    def label(self) -> str:
        """What it adds to the label of a variant."""
        if self.address is not None:
            return "through"
        return self.name if self.mode == "session" else f"{self.name}-{self.mode}"


def is_address(through: str) -> bool:
    """Returns whether `through` is an address where something listens already, not a program to be
    started."""
    return "=" in through or "://" in through


def check_through(through: str, settings: Mapping[str, str], *, managed: bool) -> None:
    """Raises UsageError for what cannot stand between; looks at neither disk nor network.

    managed: pgstrata starts the server itself.
    """
    if is_address(through):
        if managed:
            raise UsageError(
                "`through` is an address, and pgstrata's own servers are nowhere before they are started",
                'name a program for them (through = "pgbouncer"), or take a running server (dsn:)',
            )
        if settings:
            raise UsageError("`pooler` is for a pooler that pgstrata starts, and `through` is an address")
        Conninfo.parse(through).check()
        return
    name, colon, program = through.partition(":")
    kind = KINDS.get(name)
    if kind is None or (colon and not program):
        raise UsageError(
            f"`through`: {without_secrets(through)!r} is nothing that pgstrata can start",
            f"write {' or '.join(KINDS)}, pgbouncer:PROGRAM, or the address of a pooler that runs before a "
            "dsn: server",
        )
    if not managed:
        raise UsageError(
            "pgstrata starts a pooler only before servers that it starts itself, not before dsn:",
            "write the address of the pooler that runs there",
        )
    for name in settings:
        if not _SETTING.fullmatch(name):
            raise UsageError(f"`pooler`: {name!r} is no name of a setting of {kind.name}")
        if not settings[name].isprintable():
            raise UsageError(f"`pooler`: {name} has more than one line")
        if kind.ours.fullmatch(name):
            raise UsageError(f"`pooler`: {name} is pgstrata's own", "it listens on a Unix socket of the run")
    if (sharing := kind.sharing) and (mode := settings.get(sharing.mode, MODES[0])) not in MODES:
        raise UsageError(f"`pooler`: {sharing.mode} = {mode}", f"it is one of {', '.join(MODES)}")


def find_through(through: str | None, settings: Mapping[str, str]) -> Through | None:
    """Returns the pooler or address between driver and server; None without `through`. Raises ServerError
    where its program does not exist or does not run."""
    if through is None:
        return None
    if is_address(through):
        return Through(conninfo_without_secrets(through), address=through)
    name, _, named = through.partition(":")
    kind = KINDS[name]
    executable = named or shutil.which(kind.program) or shutil.which(kind.program, path=SYSTEM)
    advice = f"{kind.install}, or name it: {kind.name}:PROGRAM"
    if not executable:
        raise ServerError(f'through = "{kind.name}": the program is not there', advice)
    program = user_path(executable).absolute()
    check_reachable(program.parent, server_account(), "the pooler")
    try:
        check_executed(program, f"the pooler {program}", advice=advice)
        done = probe([program, "--version"])
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(f"{program} does not run: {error}", advice) from error
    version = kind.version_pattern.search(done.stdout + done.stderr)
    if not version:
        raise ServerError(f"{program} is no {kind.name}", "it does not tell its version")
    return Through(kind.name, version[1], dict(settings), program)


class Room(Protocol):
    """The folders of the cluster that a pooler stands before."""

    def private_folder(self, name: str) -> Path: ...


class Before(Protocol):
    """What is needed of the cluster that a pooler stands before."""

    folder: Path
    socket_dir: Path
    port: int
    user: str
    closed: Way | None

    @property
    def data_folder(self) -> Room: ...


class Pooler:
    """A pooler before a cluster: it lives in the cluster's folder and listens beside its socket."""

    def __init__(self, cluster: Before, through: Through, cpus: Sequence[int] = ()) -> None:
        assert through.program is not None and through.kind is not None
        self.through, self._kind = through, through.kind
        self._cluster, self._cpus = cluster, tuple(cpus)
        self._process: subprocess.Popen[bytes] | None = None
        self._account = server_account()

    @property
    def pid(self) -> int | None:
        """The program's process, while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def log_tail(self, lines: int = 20) -> str:
        """Returns the last lines that the pooler has printed."""
        return tail(self._log, lines)

    @property
    def _folder(self) -> Path:
        return self._cluster.folder / "pooler"

    @property
    def _log(self) -> Path:
        return self._cluster.folder / "pooler.log"

    def start(self) -> None:
        """Starts it and returns when somebody can work through it. Raises ServerError."""
        folder = self._folder if self._folder.exists() else self._cluster.data_folder.private_folder("pooler")
        owner = (self._account.uid, self._account.gid) if self._account else None
        cluster = self._cluster
        place = Place(folder, cluster.socket_dir, cluster.port, cluster.user, owner)
        arguments = self._kind.configure(place, {**self._kind.usual, **(self.through.settings or {})})
        begin = self._log.stat().st_size if self._log.exists() else 0
        try:
            with self._log.open("ab") as log:
                self._process = spawn(
                    [str(self.through.program), *arguments],
                    account=self._account,
                    folder=folder,
                    env=server_env(),
                    output=log,
                    death_signal=self._kind.death,
                    cpus=self._cpus,
                    closed=cluster.closed,
                )
        except (OSError, subprocess.SubprocessError) as error:
            raise ServerError(f"{self.through.program} cannot be started: {error}") from error
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self.conninfo("postgres").connect().close()
                return
            except ServerError as error:
                ended = self.pid is None
                if ended or time.monotonic() > until:
                    how = "ended while it started" if ended else f"lets nobody in: {error.message}"
                    log_end = tail(self._log, 8, begin)
                    self.stop()
                    raise ServerError(f"{self._kind.name} {how}", f"it said:\n{log_end}") from error
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends it and its processes at once: it has nothing to lose. Nothing where it does not run."""
        if (process := self._process) is not None:
            process.send_signal(self._kind.death)
            ends_within(process, END_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # it began a session of its own
            process.wait(END_SECONDS)
            self._process = None
            # Killed, it leaves its socket, and Odyssey does not start where one is.
            (self._cluster.socket_dir / f".s.PGSQL.{PORT}").unlink(missing_ok=True)

    def conninfo(self, database: str, user: str | None = None) -> Conninfo:
        """Returns the connection through the pooler. user: None for the superuser."""
        return Conninfo.of_own(str(self._cluster.socket_dir), PORT, user or self._cluster.user, database)
