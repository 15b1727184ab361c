"""What stands between driver and server: pgbouncer, which pgstrata starts, or an address of anyone's."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pgstrata.errors import ServerError, UsageError
from pgstrata.ownership import write_into
from pgstrata.server.account import check_reachable, server_account
from pgstrata.server.conninfo import Conninfo
from pgstrata.server.log_end import tail
from pgstrata.server.process import server_env, spawn
from pgstrata.server.secrets import shown, without_secrets

PGBOUNCER = "pgbouncer"
PORT = 6432
"""It only names the socket, beside the server's."""

START_SECONDS = 15.0
END_SECONDS = 5.0

USUAL = {"pool_mode": "session", "default_pool_size": "20", "max_client_conn": "10000"}
"""Settings of pgbouncer that count for more than one place here. The first two are its own defaults."""

OURS = (
    "auth_file",
    "auth_type",
    "conffile",
    "listen_addr",
    "listen_port",
    "logfile",
    "pidfile",
    "unix_socket_dir",
    "unix_socket_group",
    "unix_socket_mode",
    "user",
)
"""Settings of pgbouncer by which pgstrata finds it."""

_SETTING = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)
_PREPARES_SINCE = (1, 21)
"""From this version on pgbouncer keeps prepared statements in transaction mode, if told how many …"""
_PREPARES_UNTOLD = (1, 24)
"""… and from this one on without being told. Source: pgbouncer's changelog."""


@dataclass(frozen=True)
class Through:
    """What stands between. name: `pgbouncer`, or an address with its secrets hidden; version: of the program,
    empty for an address; settings: of pgbouncer, as they were asked for."""

    name: str
    version: str = ""
    settings: Mapping[str, str] | None = None
    program: Path | None = None
    address: str | None = None

    def setting(self, name: str) -> str:
        """The value that holds, empty where nobody knows."""
        return str((self.settings or {}).get(name, USUAL.get(name, "")))

    @property
    def sessions(self) -> int | None:
        """How many connections a pool of sessions has room for; None where it is none, or has no limit."""
        size = self.setting("default_pool_size")
        if self.address is not None or self.setting("pool_mode") != "session" or not size.isdigit():
            return None
        return int(size) or None

    @property
    def prepares(self) -> bool:
        """Whether statements that a client has prepared are there when it uses them."""
        if self.address is not None or self.setting("pool_mode") == "session":
            return True
        version = tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])
        usual = "200" if version >= _PREPARES_UNTOLD else "0"
        return version >= _PREPARES_SINCE and (self.setting("max_prepared_statements") or usual) != "0"

    @property
    def label(self) -> str:
        """What it adds to the label of a variant."""
        if self.address is not None:
            return "through"
        mode = self.setting("pool_mode")
        return PGBOUNCER if mode == "session" else f"{PGBOUNCER}-{mode}"


def is_address(through: str) -> bool:
    """Whether `through` says where something listens, and not what is to be started."""
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
    kind, colon, program = through.partition(":")
    if kind != PGBOUNCER or (colon and not program):
        raise UsageError(
            f"`through`: {without_secrets(through)!r} is nothing that pgstrata can start",
            "write pgbouncer, pgbouncer:PROGRAM, or the address of a pooler that runs before a dsn: server",
        )
    if not managed:
        raise UsageError(
            "pgstrata starts a pooler only before servers that it starts itself, not before dsn:",
            "write the address of the pooler that runs there",
        )
    for name in settings:
        if not _SETTING.fullmatch(name):
            raise UsageError(f"`pooler`: {name!r} is no name of a setting of pgbouncer")
        if not settings[name].isprintable():
            raise UsageError(f"`pooler`: {name} has more than one line")
        if name in OURS:
            raise UsageError(f"`pooler`: {name} is pgstrata's own", "it listens on a Unix socket of the run")
    if (mode := settings.get("pool_mode", "session")) not in ("session", "transaction", "statement"):
        raise UsageError(f"`pooler`: pool_mode = {mode}", "it is session, transaction or statement")


def find_through(through: str | None, settings: Mapping[str, str]) -> Through | None:
    """What stands between, found. Raises ServerError where its program is not there or does not run."""
    if through is None:
        return None
    if is_address(through):
        return Through(shown(through), address=through)
    named = through.partition(":")[2]
    found = named or shutil.which(PGBOUNCER) or shutil.which(PGBOUNCER, path="/usr/sbin:/usr/local/sbin")
    if not found:
        raise ServerError(
            'through = "pgbouncer": the program is not there',
            "apt-get install pgbouncer, or pgbouncer:PROGRAM",
        )
    program = Path(found).expanduser().absolute()
    try:
        said = subprocess.run(
            [str(program), "--version"], capture_output=True, text=True, errors="replace", timeout=30
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerError(
            f"{program} does not run: {error}", "apt-get install pgbouncer, or name another one"
        ) from error
    version = re.search(r"PgBouncer (\d[\w.]*)", said)
    if not version:
        raise ServerError(f"{program} is no pgbouncer", "it does not tell its version")
    check_reachable(program.parent, server_account(), "the pooler")
    return Through(PGBOUNCER, version[1], dict(settings), program)


class Before(Protocol):
    """What is needed of the cluster that a pooler stands before."""

    folder: Path
    socket_dir: Path
    port: int
    user: str

    def private_folder(self, name: str) -> Path: ...


class Pooler:
    """pgbouncer before a cluster: it lives in the cluster's folder and listens beside its socket."""

    def __init__(self, cluster: Before, through: Through, cpus: Sequence[int] = ()) -> None:
        assert through.program is not None
        self.through = through
        self._cluster, self._cpus = cluster, tuple(cpus)
        self._process: subprocess.Popen[bytes] | None = None
        self._account = server_account()

    @property
    def pid(self) -> int | None:
        """The program's process, while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that it has printed."""
        return tail(self._log, lines)

    @property
    def _folder(self) -> Path:
        return self._cluster.folder / "pooler"

    @property
    def _log(self) -> Path:
        return self._cluster.folder / "pooler.log"

    def start(self) -> None:
        """Starts it and returns when somebody can work through it. Raises ServerError."""
        folder = self._folder if self._folder.exists() else self._cluster.private_folder("pooler")
        owner = (self._account.uid, self._account.gid) if self._account else None
        write_into(folder, "users.txt", f'"{self._cluster.user}" ""\n', mode=0o600, owner=owner)
        write_into(folder, "pgbouncer.ini", self._ini(folder), mode=0o600, owner=owner)
        begin = self._log.stat().st_size if self._log.exists() else 0
        try:
            with self._log.open("ab") as log:
                self._process = spawn(
                    [str(self.through.program), str(folder / "pgbouncer.ini")],
                    account=self._account,
                    folder=folder,
                    env=server_env(),
                    output=log,
                    death_signal=signal.SIGKILL,
                    cpus=self._cpus,
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
                    said = tail(self._log, 8, begin)
                    self.stop()
                    raise ServerError(f"pgbouncer {how}", f"it said:\n{said}") from error
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends it at once: it has nothing to lose. Nothing happens where it does not run."""
        if (process := self._process) is not None:
            process.kill()
            process.wait(END_SECONDS)
            self._process = None

    def conninfo(self, database: str) -> Conninfo:
        """The way through it."""
        return Conninfo.of_own(str(self._cluster.socket_dir), PORT, self._cluster.user, database)

    def _ini(self, folder: Path) -> str:
        sockets = self._cluster.socket_dir
        lines = {
            **USUAL,
            **(self.through.settings or {}),
            "listen_port": str(PORT),
            "unix_socket_dir": str(sockets),
            "unix_socket_mode": "0700",
            "auth_type": "trust",
            "auth_file": str(folder / "users.txt"),
        }
        settings = "".join(f"{name} = {value}\n" for name, value in lines.items())
        return f"[databases]\n* = host={sockets} port={self._cluster.port}\n\n[pgbouncer]\n{settings}"
