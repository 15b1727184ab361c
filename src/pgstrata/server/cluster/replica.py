"""A primary with a standby that follows it by streaming, and the watch over both."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psycopg

from pgstrata import numbers
from pgstrata.errors import ServerError, UsageError
from pgstrata.files.ownership import read_small
from pgstrata.server.capabilities import Catalog, catalog_of, column, function
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.initdb import USER
from pgstrata.server.cluster.lag import ReplicaLag
from pgstrata.server.cluster.storage import Storage
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.resolve import Resolved, quoted
from pgstrata.server.connect.pooler import Through
from pgstrata.server.connect.session import use_catalogs_only
from pgstrata.server.find.model import Server
from pgstrata.server.system.log_end import last_words, problem

NAME = "replica"
"""What the standby calls itself to its primary."""

SUFFIX = "-replica"
"""Of the folder of a standby, behind that of its primary."""

STREAM_SECONDS = 120.0
"""How long a standby may take from its start until it streams."""
CAUGHT_UP_SECONDS = 300.0
"""How long it may take to replay what there is before a step reads from it."""
GONE_SECONDS = 10.0
"""How long it may be without a stream before the run has failed."""
STILL_SECONDS = 60.0
"""How long it may replay nothing while there is something to replay."""
EVERY_SECONDS = 1.0

Replication = Literal["async", "sync"]
Reads = Literal["primary", "replica"]

_LETS_REPLICATE = re.compile(r"^\s*local\s+replication\s", re.MULTILINE)
"""A line of pg_hba.conf, as initdb writes since 10."""

_KEPT = "1GB"
"""Of write-ahead log that the primary keeps for a standby that is behind."""


@dataclass(frozen=True)
class Replicas:
    """What is wanted: commits wait for the standby (`sync`) or not; steps that only read go to it or not."""

    replication: Replication = "async"
    reads: Reads = "primary"

    @property
    def label(self) -> str:
        """What it adds to the label of a variant."""
        return (
            NAME
            + ("-sync" if self.replication == "sync" else "")
            + ("-reads" if self.reads == "replica" else "")
        )


def settings_for(config: Resolved, known: KnownSettings) -> dict[str, str]:
    """Returns the settings without which nothing could be streamed, where the config has others.

    They are set also where they are a server's defaults: what those are depends on the server.
    """
    configured, wanted = config.settings, {}
    if configured.get("wal_level", "minimal") == "minimal":
        wanted["wal_level"] = "replica"
    if int(configured.get("max_wal_senders", "0")) < 2:
        wanted["max_wal_senders"] = "10"
    name, most = ("wal_keep_size", _KEPT) if known.has("wal_keep_size") else ("wal_keep_segments", "64")
    if name not in configured:
        wanted[name] = most
    if "hot_standby" not in configured:
        wanted["hot_standby"] = "on"
    return wanted


def check_replicas(replicas: Replicas, config: Resolved, known: KnownSettings, label: str) -> None:
    """Raises UsageError where a version has no such replicas, or a config makes nonsense of them."""
    if not _streams_replicas(known):
        raise UsageError(
            f"{label}: replicas are made of servers from 9.6 on",
            "older ones stream, too, but call wal_level otherwise and do not tell what was replayed; "
            "leave `replicas` out",
        )
    commit = config.settings.get("synchronous_commit", "on")
    if replicas.replication == "sync" and commit in ("off", "local"):
        raise UsageError(
            f"{label}: with synchronous_commit = {commit} no commit waits for a replica",
            'replication = "async", or a config with synchronous_commit = on, remote_write or remote_apply',
        )
    if config.settings.get("hot_standby") == "off":
        raise UsageError(
            f"{label}: with hot_standby = off nobody can read on the replica, nor ask whether it is ready",
            "leave that setting out",
        )


def _streams_replicas(known: KnownSettings) -> bool:
    """True if wal_level can be `replica`, as from 9.6 on."""
    takes = known.takes("wal_level", "replica")
    if takes is None:
        row = known.get("wal_level")
        return row is not None and "replica" in row.values
    return takes


class Standby(Cluster):
    """The second server. It is a copy of its primary's data folder, which was stopped then."""

    def __init__(self, primary: ReplicatedCluster, **how: Any) -> None:
        folder = primary.folder.with_name(primary.folder.name + SUFFIX)
        super().__init__(primary.server, primary.config, folder, **how)
        self._primary = primary

    def lag_between(self, begin: float, end: float) -> list[ReplicaLag]:
        """As the primary tells."""
        return self._primary.lag_between(begin, end)

    def _configure(self, again: bool) -> None:
        super()._configure(again)
        name, text = "standby.signal", ""
        if not self._source_is_setting:
            name, text = "recovery.conf", "standby_mode = 'on'\n" + self._source()
        self.data_folder.write(name, text)

    def _conf(self) -> str:
        own = self._primary.streaming
        if self._primary.replicas.reads == "replica":
            # Else vacuum on the primary ends what reads here.
            own = {**own, "hot_standby_feedback": "on"}
        text = super()._conf() + _lines(own)
        return text + self._source() if self._source_is_setting else text

    @property
    def _source_is_setting(self) -> bool:
        """True if what was in recovery.conf is in postgresql.conf."""
        return self._known.has("primary_conninfo")

    def _source(self) -> str:
        primary = self._primary
        to = f"host={primary.socket_dir} port={primary.port} user={USER} application_name={NAME}"
        return f"primary_conninfo = {quoted(to)}\n"


class ReplicatedCluster(Cluster):
    """A cluster with one standby: made from it when it is first started, and ending with it."""

    def __init__(
        self,
        server: Server,
        config: Resolved,
        folder: Path,
        *,
        replicas: Replicas,
        env: Mapping[str, str] | None = None,
        initdb: Sequence[str] = (),
        cpus: Sequence[int] = (),
        memory: int | None = None,
        through: Through | None = None,
        storage: Storage | None = None,
        outside: bool = False,
    ) -> None:
        shared: dict[str, Any] = {
            "env": env,
            "cpus": cpus,
            "memory": memory,
            "storage": storage,
            "outside": outside,
        }
        super().__init__(server, config, folder, initdb=initdb, through=through, **shared)
        self.replicas = replicas
        self.streaming = settings_for(config, self._known)
        self.standby = Standby(self, **shared)
        self._watch: _Watch | None = None
        self._lags: list[ReplicaLag] = []

    # --- life ---------------------------------------------------------------------------------

    def start(self, under: Sequence[str] = (), settings: Mapping[str, str] | None = None) -> None:
        """Both servers, of which the second streams when this returns. Raises ServerError."""
        if not self.standby.data_folder.path.exists():
            # Once without it: data of a server whose wal_level was minimal, as kept data may be and that of
            # initdb before 10 is, becomes data that can be followed.
            super().start(under, settings)
            super().stop("fast")
            self.standby.create(self.data_folder.path)
        super().start(under, settings)
        self.standby.layout = self.layout
        try:
            self.standby.start(settings=settings)
            self._await_stream()
            self._watch = _Watch(self)
            self._watch.start()
        except BaseException:
            self.stop("immediate")
            raise

    def stop(self, mode: str = "fast") -> None:
        """The primary first: it sends all it has before it ends."""
        if self._watch is not None:
            self._watch.end()
            self._watch = None
        super().stop(mode)
        self.standby.stop(mode)

    def remove(self) -> None:
        """Stops and deletes both."""
        super().remove()
        self.standby.remove()

    def keep(self) -> None:
        """Leaves the primary; the standby goes."""
        super().keep()
        self.standby.remove()

    def restore(self) -> None:
        """The standby is made anew at the next start."""
        self.standby.remove()
        super().restore()

    # --- questions ----------------------------------------------------------------------------

    def serving(self, *, reads_only: bool) -> Cluster:
        """Who serves a step. Raises ServerError where the standby does not replay what there is in time."""
        if not reads_only or self.replicas.reads == "primary":
            return self
        self.await_replayed()
        return self.standby

    def check(self) -> None:
        """Raises ServerError where the replica has failed."""
        if self.failure is None and not self.standby.postmaster.alive():
            self.failure = self.died()
        if self.failure is not None:
            raise self.failure

    def died(self) -> ServerError:
        """What is said of a standby that has ended."""
        log = self.standby.log_tail()
        words = last_words(log) or problem(log)
        return ServerError(f"the replica died{f': {words}' if words else ''}", f"its log ends with:\n{log}")

    @property
    def replica_pid(self) -> int | None:
        """The postmaster of the standby."""
        return self.standby.postmaster.pid

    def saw(self, lag: ReplicaLag) -> None:
        """Keeps what the watch has seen."""
        self._lags.append(lag)

    def lag_between(self, begin: float, end: float) -> list[ReplicaLag]:
        """How far the standby was behind, about once a second."""
        return [lag for lag in list(self._lags) if begin <= lag.moment <= end]

    # --- how ----------------------------------------------------------------------------------

    def _conf(self) -> str:
        own = dict(self.streaming)
        if self.replicas.replication == "sync":
            own["synchronous_standby_names"] = NAME
        return super()._conf() + _lines(own)

    def _configure(self, again: bool) -> None:
        super()._configure(again)
        text = read_small(self.data_folder.path / "pg_hba.conf")
        if not _LETS_REPLICATE.search(text):
            line = f"\nlocal replication {USER} trust\n"
            self.data_folder.write("pg_hba.conf", text + line)

    def _await_stream(self) -> None:
        wanted = "sync" if self.replicas.replication == "sync" else None
        until = time.monotonic() + STREAM_SECONDS
        with self.connect() as session:
            use_catalogs_only(session)
            while True:
                row = session.execute(_STATE, [NAME]).fetchone()
                if row is not None and row[0] == "streaming" and wanted in (None, row[1]):
                    return
                if not self.standby.postmaster.alive():
                    raise self.died()
                if time.monotonic() > until:
                    raise self.gone(STREAM_SECONDS, "has not begun to stream")
                time.sleep(0.02)

    def await_replayed(self) -> None:
        """Waits until the standby has replayed what there is. Raises ServerError where it takes too long."""
        until = time.monotonic() + CAUGHT_UP_SECONDS
        with self.connect() as session:
            use_catalogs_only(session)
            catalog = catalog_of(session)
            row = session.execute(_position(catalog)).fetchone()
            assert row is not None
            while True:
                self.check()
                behind = session.execute(_behind(catalog), [row[0], NAME]).fetchone()
                if behind is not None and behind[0] is not None and behind[0] <= 0:
                    return
                if time.monotonic() > until:
                    left = numbers.size(float(behind[0])) if behind is not None and behind[0] else "all"
                    raise ServerError(
                        f"the replica is still {left} behind after {CAUGHT_UP_SECONDS:.0f} s",
                        "it replays slower than the primary writes: fewer rows, or a lower rate",
                    )
                time.sleep(0.02)

    def gone(self, seconds: float, what: str) -> ServerError:
        """What is said of a standby without a stream."""
        log = self.standby.log_tail()
        if "has already been removed" in log:
            return ServerError(
                f"the replica fell behind by more than the {_KEPT} of write-ahead log that the primary keeps",
                "a lower rate, or wal_keep_size (wal_keep_segments before 13) in the config",
            )
        words = problem(log)
        return ServerError(
            f"the replica {what} for {seconds:.0f} s{f': {words}' if words else ''}",
            f"its log ends with:\n{log}",
        )


_STATE = "SELECT state, sync_state FROM pg_catalog.pg_stat_replication WHERE application_name = %s"


def _says_lsn(catalog: Catalog) -> bool:
    """True if functions and columns are named after the WAL, and not after the xlog."""
    return catalog.has(function("pg_wal_lsn_diff"))


def _position(catalog: Catalog) -> str:
    return "SELECT pg_current_wal_lsn()" if _says_lsn(catalog) else "SELECT pg_current_xlog_location()"


def _behind(catalog: Catalog) -> str:
    """Bytes from what is replayed to a position."""
    if _says_lsn(catalog):
        behind = "pg_wal_lsn_diff(%s, replay_lsn)"
    else:
        behind = "pg_xlog_location_diff(%s, replay_location)"
    return f"SELECT {behind} FROM pg_catalog.pg_stat_replication WHERE application_name = %s"


def _lag(catalog: Catalog) -> str:
    """State, bytes behind, what is replayed, seconds behind."""
    has_lag = catalog.has(column("pg_stat_replication", "replay_lag"))
    lag = "extract(epoch FROM replay_lag)::float8" if has_lag else "NULL::float8"
    if _says_lsn(catalog):
        columns = f"pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), replay_lsn, {lag}"
    else:
        behind = "pg_xlog_location_diff(pg_current_xlog_location(), replay_location)"
        columns = f"{behind}, replay_location, {lag}"
    return f"SELECT state, {columns} FROM pg_catalog.pg_stat_replication WHERE application_name = %s"


def _lines(settings: Mapping[str, str]) -> str:
    own = "".join(f"{name} = {quoted(value)}\n" for name, value in settings.items())
    return f"# for replication\n{own}" if own else ""


class _Watch(threading.Thread):
    """Asks the primary once a second how its standby does. Where that is no standby any more it ends the
    primary: commits would wait for ever, and the run has failed anyway."""

    def __init__(self, cluster: ReplicatedCluster) -> None:
        super().__init__(name="pgstrata-replica", daemon=True)
        self._cluster, self._over = cluster, threading.Event()
        self._last: object = None
        self._moved = self._streamed = time.monotonic()

    def end(self) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        session: psycopg.Connection[Any] | None = None
        try:
            while not self._over.wait(EVERY_SECONDS) and self._cluster.postmaster.alive():
                if not self._cluster.standby.postmaster.alive():
                    self._fail(self._cluster.died)
                    return
                try:
                    if session is None:
                        session = self._cluster.connect()
                        use_catalogs_only(session)
                        session.execute("SET statement_timeout = 5000")
                    failure = self._look(session)
                except (psycopg.Error, ServerError):  # asked again in a second, unless it has ended
                    if session is not None:
                        session.close()
                    session = None
                    continue
                if failure is not None:
                    self._fail(failure)
                    return
        finally:
            if session is not None:
                session.close()

    def _look(self, session: psycopg.Connection[Any]) -> Callable[[], ServerError] | None:
        cluster, now = self._cluster, time.monotonic()
        row = session.execute(_lag(catalog_of(session)), [NAME]).fetchone()
        if row is None or row[0] != "streaming" or row[1] is None:
            if now - self._streamed > GONE_SECONDS:
                return lambda: cluster.gone(GONE_SECONDS, "has not streamed")
            return None
        self._streamed = now
        behind = max(0, int(row[1]))
        cluster.saw(ReplicaLag(time.time(), behind, 0.0 if behind == 0 else row[3]))
        if row[2] != self._last or behind == 0:
            self._last, self._moved = row[2], now
        if now - self._moved > STILL_SECONDS:
            return lambda: ServerError(
                f"the replica has replayed nothing for {STILL_SECONDS:.0f} s and is {numbers.size(behind)} "
                "behind",
                f"its log ends with:\n{cluster.standby.log_tail()}",
            )
        return None

    def _fail(self, failure: Callable[[], ServerError]) -> None:
        self._cluster.failure = failure()
        self._cluster.postmaster.quit()


__all__ = ["Reads", "Replicas", "ReplicatedCluster", "Replication", "Standby", "check_replicas"]
