"""A primary with a standby that follows it by streaming, and the watch over both."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pgstrata import numbers
from pgstrata.errors import ServerError
from pgstrata.files.ownership import read_small
from pgstrata.server.capabilities import Catalog, catalog_of, column, function
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.initdb import USER
from pgstrata.server.cluster.lag import ReplicaLag
from pgstrata.server.cluster.standbys import NoStandbys
from pgstrata.server.cluster.wanted_replicas import KEPT, NAME, Replicas, settings_for
from pgstrata.server.config.known import KnownSettings, known_settings
from pgstrata.server.config.resolve import Resolved, quoted
from pgstrata.server.connect.pooler import Through
from pgstrata.server.connect.session import use_catalogs_only
from pgstrata.server.find.model import Server
from pgstrata.server.system.guard import unwritable
from pgstrata.server.system.log_end import last_words, problem

if TYPE_CHECKING:
    import psycopg

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

_LETS_REPLICATE = re.compile(r"^\s*local\s+replication\s", re.MULTILINE)
"""A line of pg_hba.conf, as initdb writes since 10."""


def standby_file(known: KnownSettings) -> tuple[str, str]:
    """Returns the name and text of the file that makes a data folder that of a standby."""
    if known.has("primary_conninfo"):  # a setting since there is no recovery.conf any more
        return "standby.signal", ""
    return "recovery.conf", "standby_mode = 'on'\n"


class Standby:
    """The standby of a primary, with the watch over both: a copy of the primary's data folder, which was
    stopped then. how: arguments of `Cluster` that both share."""

    def __init__(self, primary: Cluster, replicas: Replicas, **how: Any) -> None:
        self._primary, self._replicas = primary, replicas
        folder = primary.folder.with_name(primary.folder.name + SUFFIX)
        self.cluster = Cluster(
            primary.server, primary.config, folder, followers=lambda cluster: _Beside(cluster, self), **how
        )
        known = known_settings(primary.server)
        self._streaming = settings_for(primary.config, known)
        self._source_is_setting = known.has("primary_conninfo")
        """Whether what was in recovery.conf is in postgresql.conf."""
        primary.configuration.more = self._of_primary
        self.cluster.configuration.more = self._of_standby
        self.failure: ServerError | None = None
        self._watch: _Watch | None = None
        self._lags: list[ReplicaLag] = []

    # --- life ---------------------------------------------------------------------------------

    @property
    def are_there(self) -> bool:
        """Whether it has its data."""
        return self.cluster.data_folder.path.exists()

    def create(self) -> None:
        """Makes the standby from the primary, which is stopped and has run once with the settings that
        replication needs. Raises ServerError."""
        data = self._primary.data_folder
        try:
            text = read_small(data.path / "pg_hba.conf")
            if not _LETS_REPLICATE.search(text):
                data.write("pg_hba.conf", text + f"\nlocal replication {USER} trust\n")
            self.cluster.create(data.path)
            name, text = standby_file(known_settings(self._primary.server))
            if not self._source_is_setting:
                text += self._source()
            self.cluster.data_folder.write(name, text)
        except OSError as error:
            raise unwritable(self.cluster.folder, error) from error

    def start(self, settings: Mapping[str, str] | None) -> None:
        """Starts the standby, which streams when this returns. Raises ServerError."""
        self.cluster.layout = self._primary.layout
        self.cluster.start(settings=settings)
        self._await_stream()
        self._watch = _Watch(self._primary, self)
        self._watch.start()

    def end_watch(self) -> None:
        """Ends the watch: the primary is about to stop."""
        if self._watch is not None:
            self._watch.end()
            self._watch = None

    def stop(self, mode: str) -> None:
        """Stops the standby; the primary has sent all it has before it ended."""
        self.cluster.stop(mode)

    def remove(self) -> None:
        """Stops and deletes the standby."""
        self.cluster.remove()

    # --- questions ----------------------------------------------------------------------------

    @property
    def pid(self) -> int | None:
        """The postmaster of the standby."""
        return self.cluster.postmaster.pid

    def serving(self, *, reads_only: bool) -> Cluster:
        """Returns what serves a step. Raises ServerError where the standby replays too slowly."""
        if not reads_only or self._replicas.reads == "primary":
            return self._primary
        self.await_replayed()
        return self.cluster

    def check(self) -> None:
        """Raises ServerError where the standby has failed."""
        if self.failure is None and not self.cluster.postmaster.alive():
            self.failure = self.died()
        if self.failure is not None:
            raise self.failure

    def died(self) -> ServerError:
        """Returns the error for a standby that has ended."""
        log = self.cluster.log_tail()
        words = last_words(log) or problem(log)
        return ServerError(f"the replica died{f': {words}' if words else ''}", f"its log ends with:\n{log}")

    def saw(self, lag: ReplicaLag) -> None:
        """Keeps what the watch has seen."""
        self._lags.append(lag)

    def lag_between(self, begin: float, end: float) -> list[ReplicaLag]:
        """Returns how far the standby was behind, about once a second."""
        return [lag for lag in list(self._lags) if begin <= lag.moment <= end]

    def await_replayed(self) -> None:
        """Waits until the standby has replayed what there is. Raises ServerError where it takes too long."""
        until = time.monotonic() + CAUGHT_UP_SECONDS
        with self._primary.connect() as session:
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
        """Returns the error for a standby without a stream."""
        log = self.cluster.log_tail()
        if "has already been removed" in log:
            return ServerError(
                f"the replica fell behind by more than the {KEPT} of write-ahead log that the primary keeps",
                "a lower rate, or wal_keep_size (wal_keep_segments before 13) in the config",
            )
        words = problem(log)
        return ServerError(
            f"the replica {what} for {seconds:.0f} s{f': {words}' if words else ''}",
            f"its log ends with:\n{log}",
        )

    # --- how ----------------------------------------------------------------------------------

    def _of_primary(self) -> str:
        settings = dict(self._streaming)
        if self._replicas.replication == "sync":
            settings["synchronous_standby_names"] = NAME
        return _lines(settings)

    def _of_standby(self) -> str:
        settings = dict(self._streaming)
        if self._replicas.reads == "replica":
            # Else vacuum on the primary ends what reads here.
            settings["hot_standby_feedback"] = "on"
        return _lines(settings) + (self._source() if self._source_is_setting else "")

    def _source(self) -> str:
        primary = self._primary
        to = f"host={primary.socket_dir} port={primary.port} user={USER} application_name={NAME}"
        return f"primary_conninfo = {quoted(to)}\n"

    def _await_stream(self) -> None:
        wanted = "sync" if self._replicas.replication == "sync" else None
        until = time.monotonic() + STREAM_SECONDS
        with self._primary.connect() as session:
            use_catalogs_only(session)
            while True:
                row = session.execute(_STATE, [NAME]).fetchone()
                if row is not None and row[0] == "streaming" and wanted in (None, row[1]):
                    return
                if not self.cluster.postmaster.alive():
                    raise self.died()
                if time.monotonic() > until:
                    raise self.gone(STREAM_SECONDS, "has not begun to stream")
                time.sleep(0.02)


class _Beside(NoStandbys[Cluster]):
    """What a standby knows of itself: the primary tells how far it is behind."""

    def __init__(self, cluster: Cluster, standby: Standby) -> None:
        super().__init__(cluster)
        self._standby = standby

    def lag_between(self, begin: float, end: float) -> list[ReplicaLag]:
        """Returns the lag between two moments as the primary reports it."""
        return self._standby.lag_between(begin, end)


def replicated(
    server: Server,
    config: Resolved,
    folder: Path,
    *,
    replicas: Replicas,
    initdb: Sequence[str] = (),
    through: Through | None = None,
    **shared: Any,
) -> Cluster:
    """Returns a cluster with one standby: made from it when it is first started, and ending with it.

    shared: arguments of `Cluster` that hold for both servers.
    """
    return Cluster(
        server,
        config,
        folder,
        initdb=initdb,
        through=through,
        followers=lambda primary: Standby(primary, replicas, **shared),
        **shared,
    )


_STATE = "SELECT state, sync_state FROM pg_catalog.pg_stat_replication WHERE application_name = %s"


def _says_lsn(catalog: Catalog) -> bool:
    """Returns True if functions and columns are named after the WAL, and not after the xlog."""
    return catalog.has(function("pg_wal_lsn_diff"))


def _position(catalog: Catalog) -> str:
    return "SELECT pg_current_wal_lsn()" if _says_lsn(catalog) else "SELECT pg_current_xlog_location()"


def _behind(catalog: Catalog) -> str:
    """Returns the query for the bytes from the replayed position to a given one."""
    if _says_lsn(catalog):
        behind = "pg_wal_lsn_diff(%s, replay_lsn)"
    else:
        behind = "pg_xlog_location_diff(%s, replay_location)"
    return f"SELECT {behind} FROM pg_catalog.pg_stat_replication WHERE application_name = %s"


def _lag(catalog: Catalog) -> str:
    """Returns the query for state, bytes behind, replayed position, seconds behind."""
    has_lag = catalog.has(column("pg_stat_replication", "replay_lag"))
    lag = "extract(epoch FROM replay_lag)::float8" if has_lag else "NULL::float8"
    if _says_lsn(catalog):
        columns = f"pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn), replay_lsn, {lag}"
    else:
        behind = "pg_xlog_location_diff(pg_current_xlog_location(), replay_location)"
        columns = f"{behind}, replay_location, {lag}"
    return f"SELECT state, {columns} FROM pg_catalog.pg_stat_replication WHERE application_name = %s"


def _lines(settings: Mapping[str, str]) -> str:
    text = "".join(f"{name} = {quoted(value)}\n" for name, value in settings.items())
    return f"# for replication\n{text}" if text else ""


class _Watch(threading.Thread):
    """Asks the primary once a second how its standby does. Where that is no standby any more it ends the
    primary: commits would wait for ever, and the run has failed anyway."""

    def __init__(self, primary: Cluster, standby: Standby) -> None:
        super().__init__(name="pgstrata-replica", daemon=True)
        self._primary, self._standby, self._over = primary, standby, threading.Event()
        self._last: object = None
        self._moved = self._streamed = time.monotonic()

    def end(self) -> None:
        self._over.set()
        self.join()

    def run(self) -> None:
        import psycopg

        session: psycopg.Connection[Any] | None = None
        try:
            while not self._over.wait(EVERY_SECONDS) and self._primary.postmaster.alive():
                if not self._standby.cluster.postmaster.alive():
                    self._fail(self._standby.died)
                    return
                try:
                    if session is None:
                        session = self._primary.connect()
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
        standby, now = self._standby, time.monotonic()
        row = session.execute(_lag(catalog_of(session)), [NAME]).fetchone()
        if row is None or row[0] != "streaming" or row[1] is None:
            if now - self._streamed > GONE_SECONDS:
                return lambda: standby.gone(GONE_SECONDS, "has not streamed")
            return None
        self._streamed = now
        behind = max(0, int(row[1]))
        standby.saw(ReplicaLag(time.time(), behind, 0.0 if behind == 0 else row[3]))
        if row[2] != self._last or behind == 0:
            self._last, self._moved = row[2], now
        if now - self._moved > STILL_SECONDS:
            return lambda: ServerError(
                f"the replica has replayed nothing for {STILL_SECONDS:.0f} s and is {numbers.size(behind)} "
                "behind",
                f"its log ends with:\n{standby.cluster.log_tail()}",
            )
        return None

    def _fail(self, failure: Callable[[], ServerError]) -> None:
        self._standby.failure = failure()
        self._primary.postmaster.quit()


__all__ = ["Standby", "replicated", "standby_file"]
