"""Measuring what a server replays when it is started: after a crash, or as a standby that was held back.

Each variant writes its log once, from the snapshot of its data, without a checkpoint and ended by an
immediate stop. Every round then replays the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from pgstrata import numbers
from pgstrata.driver.client import DIALECT
from pgstrata.driver.events import Done, Latency, Ready, ReadyRole, RoleDone, StatementTotals
from pgstrata.errors import ServerError, server_said
from pgstrata.measure.step import StepResult
from pgstrata.measure.step_records import step_record
from pgstrata.observe import StepObserved
from pgstrata.observe.backends import ServerCpu
from pgstrata.observe.log import LogWindow
from pgstrata.observe.other_load import LoadReading, OtherLoad
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.replica import standby_file
from pgstrata.server.cluster.served import Served
from pgstrata.server.config.known import known_settings
from pgstrata.server.connect.session import use_catalogs_only
from pgstrata.store.histogram import histogram_of
from pgstrata.store.record import JudgedLoad
from pgstrata.workload.core.language import Step

WRITING = {"checkpoint_timeout": "1d", "max_wal_size": "1TB"}
"""Settings with which the log is written: no checkpoint shortens it."""

FOLLOWING = {"hot_standby": "on", "wal_retrieve_retry_interval": "10ms"}
"""Settings of the standby: it soon sees what it is given."""

REDO = ("redo starts at", "redo done at")
SYNC = ("database system was interrupted", "database system was not properly shut down")
"""First and last message about these parts of a recovery. A server syncs each of its files first, which
depends on the disk and not on the log, so it is not judged."""

WRITE_SECONDS = 3600.0
"""How long one statement of the changes may take."""

REPLAY_SECONDS = 300.0
"""How long a standby may take, as long as a start."""

POLL_SECONDS = 0.002


@dataclass(frozen=True)
class HeldLog:
    """The log that is replayed in every round. end: position behind its last change."""

    bytes: int
    end: str


@contextmanager
def recoverable(step: Step, cluster: Served) -> Iterator[None]:
    """Keeps a snapshot while a step needs one; the server runs before and after. Raises ServerError."""
    if step.recovery is None:
        yield
        return
    assert isinstance(cluster, Cluster)  # check_recovery refuses others
    cluster.stop("fast")
    cluster.save()
    try:
        yield
    finally:
        cluster.data_folder.drop_snapshot()
    if cluster.postmaster.pid is None:
        cluster.start()


def write_log(step: Step, cluster: Cluster, database: str) -> HeldLog:
    """Lets the server make its changes, and keeps in the snapshot what is replayed. It is stopped before,
    with the data of the snapshot, and after. Raises ServerError."""
    assert step.recovery is not None
    cluster.start(settings=WRITING)
    try:
        with cluster.connect(database) as session:
            session.execute(f"SET statement_timeout = {round(1000 * WRITE_SECONDS)}")
            session.execute("SET synchronous_commit = on")
            for statement in step.recovery.changes:
                session.execute(statement.encode())
            use_catalogs_only(session)
            row = session.execute(_END).fetchone()
            size = session.execute(_BYTES, row).fetchone()
            assert row is not None and size is not None
    except psycopg.Error as error:
        raise ServerError(
            f"{step.name}: the log to be replayed is not written: {server_said(error)}"
        ) from error
    finally:
        cluster.stop("immediate")
    data = cluster.data_folder
    if step.recovery.kind == "crash":
        data.save()
    else:
        data.hold_log()
    return HeldLog(int(size[0]), row[0])


def replay(step: Step, order: int, cluster: Cluster, log: HeldLog) -> StepResult:
    """Starts the stopped server, which has the data of the snapshot, and times its replay of the log. After a
    crash it runs then, a standby is none any more and stopped. Raises ServerError."""
    assert step.recovery is not None
    begun, do = time.time(), _recover if step.recovery.kind == "crash" else _follow
    try:
        seconds, observed = do(step, cluster, log)
    except (psycopg.Error, OSError) as error:
        raise ServerError(f"{step.name}: the replay cannot be followed: {server_said(error)}") from error
    ready, done = _as_events(step, max(seconds, 1e-6))
    record = step_record(step, order, ready, begun, [], done, observed)
    histograms = {role.name: role.histogram for role in done.roles}
    return StepResult(record, [], histograms, observed, ready, done)


def _recover(step: Step, cluster: Cluster, log: HeldLog) -> tuple[float, StepObserved]:
    """Starts a server that has crashed. Returns the seconds until it accepts connections, without the sync of
    its files. Raises ServerError, psycopg.Error, OSError."""
    window, watch = LogWindow(cluster.log_file), _Watch(None)
    window.mark()
    cluster.start()
    observed = watch.observed(cluster.postmaster.pid)
    with cluster.connect() as session:
        use_catalogs_only(session)
        if not _is_true(session, _WRITTEN, log.end):
            raise ServerError(
                f"{step.name}: after its recovery the server lacks changes that it had committed"
            )
    redo, synced = (window.seconds_between(*messages) for messages in (REDO, SYNC))
    observed.judged_load = JudgedLoad(
        executions=1, replayed_bytes=log.bytes, redo_seconds=redo, sync_seconds=synced
    )
    return cluster.start_seconds - (synced or 0.0), observed


def _follow(step: Step, cluster: Cluster, log: HeldLog) -> tuple[float, StepObserved]:
    """Gives a standby all of the log at once. Returns the seconds until it has replayed it. Raises as
    `_recover`."""
    data = cluster.data_folder
    name, text = standby_file(known_settings(cluster.server))
    data.write(name, text)
    cluster.start(settings=FOLLOWING)
    with cluster.connect() as session:
        use_catalogs_only(session)
        watch = _Watch(cluster.postmaster.pid)
        begun = time.monotonic()
        data.release_log()
        while not _is_true(session, _REPLAYED, log.end):
            if time.monotonic() - begun > REPLAY_SECONDS:
                raise ServerError(
                    f"{step.name}: {numbers.size(log.bytes)} are not replayed in {REPLAY_SECONDS:.0f} s",
                    "fewer rows, whose changes are replayed",
                )
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - begun
        observed = watch.observed(cluster.postmaster.pid)
    observed.judged_load = JudgedLoad(executions=1, replayed_bytes=log.bytes)
    cluster.stop("fast")
    (data.path / name).unlink()
    return seconds, observed


def _is_true(session: psycopg.Connection[Any], query: str, end: str) -> bool:
    row = session.execute(query.encode(), [end]).fetchone()
    return row is not None and row[0] is True


class _Watch:
    """What recovering costs, from now on. postmaster: None where it does not run yet."""

    def __init__(self, postmaster: int | None) -> None:
        self._load: OtherLoad | None = None
        with suppress(OSError):
            self._load = OtherLoad()
        self._cpu = 0.0 if postmaster is None else _cpu_seconds(postmaster)

    def observed(self, postmaster: int | None) -> StepObserved:
        """Returns the load and CPU time since the begin. postmaster: its process now."""
        load: LoadReading | None = None
        with suppress(OSError):
            load = self._load.read() if self._load is not None else None
        now = None if postmaster is None else _cpu_seconds(postmaster)
        used = None if now is None or self._cpu is None else now - self._cpu
        return StepObserved(load=load, server_cpu_seconds=used)


def _cpu_seconds(postmaster: int) -> float | None:
    return ServerCpu(postmaster, {}).read().total


def _as_events(step: Step, seconds: float) -> tuple[Ready, Done]:
    """Returns a recovery as the events of a step with one operation; no driver took part in it."""
    (role,) = step.roles
    latency = Latency(
        stddev=0.0, **dict.fromkeys(("mean", "p50", "p75", "p90", "p95", "p99", "max"), seconds)
    )
    once = StatementTotals(
        name=step.name, count=1, errors=0, retries=0, rows=0, seconds_total=seconds, seconds_max=seconds
    )
    done = RoleDone(
        name=role.name,
        operations=1,
        transactions=1,
        statements=1,
        rows=0,
        errors=0,
        retries=0,
        histogram=histogram_of([round(seconds * 1e6)]).encode(),
        seconds=seconds,
        latency=latency,
        statements_by_name=[once],
    )
    ready = Ready(
        version=DIALECT,
        driver="",
        engine="blocking",
        threads=0,
        connect_seconds=0.0,
        roles=[ReadyRole(name=role.name, clients=1, pids=[])],
    )
    return ready, Done(seconds=seconds, driver_cpu_seconds=0.0, driver_peak_rss_bytes=0, roles=[done])


_END = "SELECT pg_logical_emit_message(true, 'pgstrata', '')::text"
"""Position behind a record of its own: its commit has flushed all before it, whole."""
_BYTES = "SELECT pg_wal_lsn_diff(%s::pg_lsn, redo_lsn) FROM pg_control_checkpoint()"
_REPLAYED = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
_WRITTEN = "SELECT pg_current_wal_insert_lsn() >= %s::pg_lsn"

__all__ = ["HeldLog", "recoverable", "replay", "write_log"]
