"""A cluster: one initialised, running data folder of a variant."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from pgstrata.driver.spec import Connection
from pgstrata.errors import ServerError
from pgstrata.layout import Layout
from pgstrata.server.cluster.configuration import Configuration
from pgstrata.server.cluster.data_folder import DataFolder
from pgstrata.server.cluster.foreign import ForeignCluster
from pgstrata.server.cluster.initdb import USER, check_initdb, initdb_arguments
from pgstrata.server.cluster.postmaster import Postmaster
from pgstrata.server.cluster.sockets import fits
from pgstrata.server.cluster.standbys import NoStandbys, Standbys
from pgstrata.server.cluster.startup import Startup, new_database, programs_of
from pgstrata.server.cluster.storage import Storage
from pgstrata.server.cluster.timers import Timers
from pgstrata.server.config.known import known_settings
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.pooler import Pooler, Through
from pgstrata.server.connect.session import CONFINED
from pgstrata.server.features import Feature
from pgstrata.server.find.model import Server
from pgstrata.server.system.account import server_account
from pgstrata.server.system.freezer import Freezer
from pgstrata.server.system.guard import (
    clear_leftovers,
    unwritable,
)
from pgstrata.server.system.log_end import problem, tail
from pgstrata.server.system.memory import MemoryGroup, forget_cached
from pgstrata.server.system.network import Way, way_to_close
from pgstrata.server.system.process import children
from pgstrata.server.system.running import started_at

if TYPE_CHECKING:
    import psycopg

__all__ = ["Cluster", "ForeignCluster", "clear_leftovers", "new_database"]

PORT = 5432
"""Of clusters without TCP: it only names the socket, and each cluster has a socket folder of its own."""

PORT_ATTEMPTS = 5


class Cluster:
    """One data folder with its server, below `folder`, which pgstrata claims for it.

    env: added to the server's environment only; initdb: more options of initdb; tcp: listens on
    127.0.0.1 too; cpus: the only CPUs its processes use; memory: most bytes they may use together,
    page cache included; through: a pooler that is started before it; storage: where its write-ahead log lies,
    and what delays its disk; freezes: all its processes can be stopped for a while (`freezer`); outside: its
    processes keep the network of this machine; followers: makes what follows it.
    Leaving it as a context manager stops and removes it.
    """

    user = USER

    def __init__(
        self,
        server: Server,
        config: Resolved,
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        initdb: Sequence[str] = (),
        tcp: bool = False,
        cpus: Sequence[int] = (),
        memory: int | None = None,
        through: Through | None = None,
        storage: Storage | None = None,
        freezes: bool = False,
        outside: bool = False,
        followers: Callable[[Cluster], Standbys[Cluster]] = NoStandbys,
    ) -> None:
        check_initdb(initdb)
        self.server, self.config = server, config
        self.folder = Path(os.path.abspath(folder))  # noqa: PTH100 - keeps the names the user gave
        self.log_file = self.folder / "server.log"
        self._storage = storage or Storage()
        self._account = server_account()
        self.data_folder = DataFolder(self.folder, self._storage, self._account)
        self.socket_dir = self.folder / "run"
        self.port = PORT
        self._initdb_words = tuple(initdb)
        self._known = known_settings(server)
        self._env, self._tcp = dict(env or {}), tcp
        self._memory, self._group = memory, None if memory is None else MemoryGroup(self.folder.name, memory)
        self.closed: Way | None = None if tcp or outside else way_to_close(self._account)
        """How its processes are kept off the network; None where they are not."""
        self.postmaster = Postmaster(server, self.data_folder.path, self._account, cpus, self.closed)
        self.pooler = Pooler(self, through, cpus) if through is not None else None
        self.configuration = Configuration(config, self._known, self.data_folder)
        self.start_seconds = 0.0
        """From the last launch until the server accepted connections."""
        self.layout: Layout | None = None
        """Of its processes when it is started next; None: as the kernel draws it."""
        self.freezer = Freezer(self.folder.name, self._group_of_version_2) if freezes else None
        self.timers = Timers(
            config.settings,
            self._known,
            self.configuration,
            self._write_conf,
            self.postmaster,
            self.connect,
        )
        self.standbys = followers(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop("immediate")
        self.remove()

    # --- life ---------------------------------------------------------------------------------

    def create(self, copy_of: Path | None = None) -> None:
        """Runs initdb and writes the configuration. After a failure `log_tail` still works, until `remove`.

        copy_of: data folder of a stopped server of the same version, which is copied instead of initdb.
        Raises ServerError when the folder is not empty and not pgstrata's, is in use, cannot be
        written or reached by the server's account, or when initdb fails.
        """
        assert self.server.bin_dir is not None
        data = self.data_folder
        data.claim(self.server.bin_dir)
        try:
            self._make_folders(data=copy_of is None)
            if copy_of is None:
                self._initdb()
            else:
                data.copy_of(copy_of)
            data.move_wal()
            if copy_of is None:
                self.configuration.include()
            self._write_conf()
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def start(self, under: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> None:
        """Starts the server with its standbys and returns when it accepts connections. Raises ServerError if
        it does not.

        under: a program and its arguments that execute the server; settings: win over those of the config.
        """
        if not self.standbys.are_there:
            # Once without them: data of a server whose wal_level was minimal, as kept data may be and that of
            # initdb before 10 is, becomes data that can be followed.
            self._start_alone(under, settings)
            self._stop_alone("fast")
            self.standbys.create()
        self._start_alone(under, settings)
        try:
            self.standbys.start(settings)
        except BaseException:
            self.stop("immediate")
            raise

    def _start_alone(self, under: Sequence[str], settings: Mapping[str, str] | None) -> None:
        for attempt in range(PORT_ATTEMPTS):
            try:
                self._start(under, settings or {})
                break
            except ServerError as error:
                # Between the choice of a TCP port and its use somebody else may have taken it.
                taken = self._tcp and "Address already in use" in error.hint
                if not taken or attempt == PORT_ATTEMPTS - 1:
                    raise
        if self.pooler is not None:
            try:
                self.pooler.start()
            except BaseException:
                self.stop("immediate")
                raise
            if self.freezer is not None and self.pooler.pid is not None:
                self.freezer.take(self.pooler.pid)

    def _start(self, under: Sequence[str], settings: Mapping[str, str]) -> None:
        if self._tcp:
            self.port = _free_port()
            self._write_conf()
        begin = self.log_file.stat().st_size if self.log_file.exists() else 0
        makers = [maker for maker in (self._group, self.freezer) if maker is not None]
        if makers:
            # Written down before they are there: whatever ends pgstrata, the next one finds them.
            self.data_folder.record(groups=[str(path) for maker in makers for path in maker.candidates()])
        if self._group is not None:
            self._group.make()
            forget_cached(self.data_folder.path)
        # Before 8.2 `postgres` was a backend on its own unless called by the other name.
        program = "postgres" if programs_of(self.server).postgres_serves else "postmaster"
        env = self._env
        if (delay := self._storage.delay) is not None:
            env = delay.env(self.data_folder.path, self.data_folder.wal, env)
        options = ["-D", str(self.data_folder.path)]
        for name, value in settings.items():
            options += ["-c", f"{name}={value}"]
        with self.log_file.open("ab") as log:
            begun = time.monotonic()
            process = self.postmaster.launch(program, options, log, signal.SIGQUIT, env, under, self.layout)
        self.postmaster.runs_as(process)
        try:
            self.data_folder.record(postmaster=[process.pid, started_at(process.pid)])
            if self._group is not None:
                self._group.take(process.pid, lambda: children(process.pid))
            if self.freezer is not None:
                self.freezer.take(process.pid)
            Startup(self.server, self.data_folder.path, self.log_file, begin, self.connect).wait(process)
            self.start_seconds = time.monotonic() - begun
        except BaseException:
            self.stop("immediate")
            raise

    def stop(self, mode: str = "fast") -> None:
        """Stops the server, then its standbys: `fast` writes a checkpoint, `immediate` does not. A server
        that does not end in time is ended the next harder way. Nothing happens when nothing is running."""
        self.standbys.end_watch()
        self._stop_alone(mode)
        self.standbys.stop(mode)

    def _stop_alone(self, mode: str) -> None:
        if self.freezer is not None:
            self.freezer.end()
        if self.pooler is not None:
            self.pooler.stop()
        self.postmaster.stop(mode)
        # Also where none is known: an interrupt may have come while one was being started, or initdb.
        self.data_folder.end_processes()

    def end(self) -> None:
        """Kills all processes of the cluster at once and forbids new ones. Called by another thread than the
        one that works with the cluster: the work fails there, and that thread removes the cluster."""
        self.postmaster.forbid()
        with contextlib.suppress(OSError):  # it may be about to be removed
            self.data_folder.end_processes(at_once=True)

    def remove(self) -> None:
        """Stops the server if it runs and deletes the cluster with its standbys, its log included."""
        self.stop("immediate")
        self.data_folder.clear()
        self.standbys.remove()

    def keep(self) -> None:
        """Stops the server and leaves the cluster without standbys for people to look at: nothing will clear
        it."""
        self.stop("fast")
        self.data_folder.keep()
        self.standbys.remove()

    # --- questions ----------------------------------------------------------------------------

    def save(self) -> None:
        """Copies the data of the stopped server, in place of an earlier copy. Raises ServerError."""
        assert self.postmaster.pid is None and not self.configuration.timers
        self.data_folder.save()

    def restore(self) -> None:
        """Puts the data back as `save` found it; the server is stopped, and its standbys are made anew at the
        next start. Raises ServerError."""
        assert self.postmaster.pid is None
        self.standbys.remove()
        self.configuration.timers = {}  # as `save` found them
        self.data_folder.restore()

    def connect(self, database: str = "postgres", *, confined: bool = False) -> psycopg.Connection[Any]:
        """Returns a connection of the superuser, or of the confined role, in autocommit. Raises ServerError
        when none can be opened."""
        return self._conninfo(database, user=CONFINED if confined else USER).connect()

    def connection(self, database: str, tcp: bool = False, *, confined: bool = False) -> Connection:
        """Returns the driver's connection, its spec's `connection`, through the pooler if there is one."""
        user = CONFINED if confined else USER
        if self.pooler is not None:
            return self.pooler.conninfo(database, user).for_driver()
        return self._conninfo(database, tcp, user).for_driver()

    def _conninfo(self, database: str, tcp: bool = False, user: str = USER) -> Conninfo:
        host = "127.0.0.1" if tcp else str(self.socket_dir)
        # Servers before 9.0 refuse a connection that names its application.
        application = "pgstrata" if self._known.takes_name else ""
        return Conninfo.of_own(host, self.port, user, database, application)

    @property
    def exceeded_memory(self) -> int | None:
        """Its memory limit in bytes where the kernel has killed one of its processes for it."""
        return self._memory if self._group is not None and self._group.kills() else None

    @property
    def pooled(self) -> bool:
        """Whether the driver's connections end at a pooler, which has backends of its own choice."""
        return self.pooler is not None

    def log_tail(self, lines: int = 20) -> str:
        """Returns the last lines of the server's log."""
        return tail(self.log_file, lines)

    # --- how ----------------------------------------------------------------------------------

    def _group_of_version_2(self) -> Path | None:
        path = self._group.path if self._group is not None else None
        return path if path is not None and (path / "cgroup.freeze").exists() else None

    def _make_folders(self, *, data: bool) -> None:
        # Only the account itself may enter: trust authentication is for nobody else.
        if data:
            self.data_folder.make_private(self.data_folder.path)
        if fits(self.socket_dir):
            self.data_folder.make_private(self.socket_dir)
        else:
            self.socket_dir = self.data_folder.short_folder()

    def _initdb(self) -> None:
        with self.log_file.open("ab") as log:
            takes = programs_of(self.server).initdb_takes
            words = initdb_arguments(self.server.features.has(Feature.ROLES), takes, self._initdb_words)
            options = ["-D", str(self.data_folder.path), *words]
            process = self.postmaster.launch("initdb", options, log, signal.SIGKILL, {}, layout=self.layout)
        # When this is interrupted, `remove` ends initdb and what it has started (`end_server`).
        code = process.wait()
        log_end = tail(self.log_file, 8)
        if code != 0:
            if "No space left on device" in log_end:
                raise ServerError(
                    f"no space left for the data folder {self.data_folder.path}",
                    "make room, or name another place: data_dir in the campaign, or --data-dir",
                )
            cause = problem(log_end) or log_end.strip() or f"exit code {code}"
            raise ServerError(f"initdb of {self.server.label} failed: {cause}", f"it said:\n{log_end}")
        self.log_file.unlink()  # what follows is the server's own log

    def _write_conf(self) -> None:
        self.configuration.write(self.port, str(self.socket_dir), self._tcp)


def _free_port() -> int:
    """Returns a TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
