"""The watch over one step: before, begin, end, after."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import psycopg
from msgspec import structs

from pgstrata.errors import PgstrataError, server_said
from pgstrata.observe import disks, host, postgres, processes
from pgstrata.observe.backends import CpuReading, ServerCpu
from pgstrata.observe.log import LogWindow
from pgstrata.observe.other_load import LoadReading, OtherLoad, waited_seconds
from pgstrata.observe.waits import Waits, WaitSampler
from pgstrata.observe.workers import WorkerCount
from pgstrata.server.cluster.lag import ReplicaLag
from pgstrata.server.cluster.served import Served
from pgstrata.server.connect.session import use_catalogs_only
from pgstrata.store.record import JudgedLoad, LogEvent, Sizes, TableRecord

Json = dict[str, Any]
T = TypeVar("T")


_LATE = "the statistics collector is late: pg_stat may lack what happened last"


class OwnTime(Protocol):
    """The time of a step, which stands still while others are measured."""

    def moment(self, active: float) -> float:
        """Returns the clock (monotonic, seconds) at which `active` seconds have been measured of this
        variant, as far as that is known."""
        ...

    def passed(self, moment: float) -> float:
        """Returns the seconds that have been measured of this variant by `moment` of the same clock."""
        ...


@dataclass
class StepObserved:
    """What was seen of a step. What could not be seen is None or empty, and `notes` says why.

    backends: role, client (from 1), pid, cpu_seconds. host: the columns of the view host but run_id and
    step. pgstat: view, object, counter, before, after. sizes, tables, events: as in a step record of
    docs/reference/results.md. disk: reads, read_bytes, writes, write_bytes, context_switches and cpu_seconds
    of the host over the step; where others are measured in between (`of_processes`), of the cluster's own
    processes, without reads and writes. rss_bytes: of all server processes at the end (see `resident_bytes`).
    sampler_cpu_seconds: CPU the per-second sampling used. observe_seconds: time `before` and `after` took.
    waits: shares of time by wait event, None unless asked for. pooler_cpu_seconds: of a pooler that pgstrata
    has put between driver and server. replica_cpu_seconds: of a replica, but for what serves roles; lag:
    how far one was behind, the columns of the view lag. changed_rows: by table, inserted, updated
    and deleted; empty also where nobody can say, as on a server of somebody else.
    """

    backends: list[Json] = field(default_factory=list)
    host: list[Json] = field(default_factory=list)
    pgstat: list[Json] = field(default_factory=list)
    cpu_by_role: dict[str, float] = field(default_factory=dict)
    server_cpu_seconds: float | None = None
    pooler_cpu_seconds: float | None = None
    replica_cpu_seconds: float | None = None
    lag: list[Json] = field(default_factory=list)
    wal_bytes: int | None = None
    rss_bytes: int | None = None
    sizes: Sizes | None = None
    tables: dict[str, TableRecord] = field(default_factory=dict)
    events: list[LogEvent] = field(default_factory=list)
    disk: Json | None = None
    of_processes: bool = False
    sampler_cpu_seconds: float | None = None
    observe_seconds: float = 0.0
    waits: Waits | None = None
    changed_rows: dict[str, int] = field(default_factory=dict)
    load: LoadReading | None = None
    """Use of the CPUs by other programs; None of a foreign server's host."""
    waited_seconds: float | None = None
    """Of all backends together: ready to run, and no CPU."""
    judged_load: JudgedLoad | None = None
    """Of a load that is compared."""
    notes: list[str] = field(default_factory=list)


class StepWatch:
    """Observes one step of a cluster. Call `before`, `begin`, `end`, `after`, once each, in this order.

    `after` reads exact counters only when the driver's connections are closed, because backends report
    the last second of their statistics when they end. `bloat_bytes`: largest table with its indexes
    that is read whole for pgstattuple; 0 never. `windows`: the step's own time where others are measured in
    between; counters of the whole host say nothing about one step then, and those of the cluster's own
    processes take their place. `away`: roles whose connections are the replica's, which is seen as far as CPU
    goes. `judged_load`: counts temporary bytes and parallel workers, too. Whatever fails is noted; nothing
    is ever raised.
    """

    def __init__(
        self,
        cluster: Served,
        tables: Sequence[str],
        database: str = "pgstrata",
        interval: float = 1.0,
        bloat_bytes: int = 0,
        waits_hertz: float = 0.0,
        windows: OwnTime | None = None,
        away: Collection[str] = (),
        judged_load: bool = False,
    ) -> None:
        self._cluster = cluster
        self._tables = list(tables)
        self._database = database
        self._interval = interval
        self._bloat_bytes = bloat_bytes
        self._waits_hertz = waits_hertz
        self._windows = windows
        self._waits: WaitSampler | None = None
        self._judged_load, self._workers = judged_load, WorkerCount(None)
        # Somebody else's server may run anywhere: its host and processes are out of sight.
        self._managed = cluster.postmaster.pid is not None
        data = cluster.data_folder if self._managed else None
        self._data_dir = data.path if data is not None else None
        self._result = StepObserved()
        self._session: psycopg.Connection[Any] | None = None
        self._before: postgres.Counters = {}
        self._have_before = False
        self._alone = False
        self._cpu = ServerCpu(None, {})
        self._counters: host.HostCounters | None = None
        self._sampler: host.Sampler | None = None
        self._log: LogWindow | None = None
        self._cpu_begin = CpuReading()
        self._host_begin: host.HostReading | None = None
        self._processes_begin: processes.ProcessReading | None = None
        self._wal_begin: int | None = None
        self._pooler = ServerCpu(cluster.pooler.pid if cluster.pooler is not None else None, {})
        self._pooler_begin: float | None = None
        self._replica = ServerCpu(cluster.standbys.pid, {})
        self._replica_begin = CpuReading()
        self._away = away
        self._unix_begin = self._unix_end = self._begun = 0.0
        self._load: OtherLoad | None = None
        self._waited_begin: float | None = None

    # --- the four calls ---

    def before(self, pids: Mapping[str, Sequence[int]]) -> None:
        """Prepares the watch when the driver said `ready`: reads the statistics, learns the backends of each
        role, opens files."""
        started = time.monotonic()
        if self._cluster.pooled:
            # What a pooler says of its backends is made up.
            pids = {}
            self._result.notes.append("which backend works for which connection a pooler does not tell")
        if self._away:
            there = {role: pids[role] for role in pids if role in self._away}
            pids = {role: pids[role] for role in pids if role not in self._away}
            self._replica = ServerCpu(self._cluster.standbys.pid, there)
            self._result.notes.append(
                f"{', '.join(sorted(self._away))}: on the replica; counters, waits, plans are the primary's"
            )
        if self._managed:
            self._cpu = ServerCpu(self._cluster.postmaster.pid, pids)
            self._counters = self._try("host", self._open_host)
            if self._counters is not None:
                clients = [pid for role in pids.values() for pid in role]
                self._sampler = host.Sampler(
                    self._counters,
                    self._cluster.postmaster.pid,
                    clients,
                    self._interval,
                    self._read_backends,
                )
            if self._cluster.log_file is not None:
                self._log = LogWindow(self._cluster.log_file)
                self._try("server log", self._log.mark)
        else:
            self._cpu = ServerCpu(None, pids)
            self._result.notes.append("host, CPU and server log of a foreign server cannot be observed")
        counters = self._try("pg_stat views before", self._read_before)
        if counters is not None:
            self._before, self._have_before = counters, True
        if self._waits_hertz > 0:
            self._waits = self._try("wait events", lambda: self._open_waits(pids))
        self._result.observe_seconds += time.monotonic() - started

    def _read_backends(self) -> None:
        """Reads the clocks of all connections' backends: on a busy machine some have ended before the end of
        the step is seen."""
        self._cpu.read_backends()
        self._replica.read_backends()

    def begin(self) -> None:
        """Begins the watch when the driver said `measuring`: reads CPU, host and WAL position, starts the
        sampler. < 10 ms."""
        self._unix_begin, self._begun = time.time(), time.monotonic()
        if self._managed:
            self._load = self._try("other load", OtherLoad)
            self._waited_begin = self._waited()
            self._cpu_begin = self._try("CPU", self._cpu.read) or CpuReading()
        self._pooler_begin = self._cpu_beside("pooler", self._pooler)
        self._replica_begin = self._try("CPU of the replica", self._replica.read) or CpuReading()
        if self._counters is not None:
            self._host_begin = self._try("host", self._counters.read)
        if self._windows is not None:
            self._processes_begin = self._try("processes", self._read_processes)
        if self._sampler is not None and self._host_begin is not None:
            self._sampler.start(self._host_begin)
        if self._waits is not None:
            self._waits.start()
        if self._judged_load:
            self._workers = WorkerCount(self._cluster.postmaster.pid)
            self._workers.start()
        self._wal_begin = self._wal_position()

    def end(self) -> None:
        """Ends the observation when the driver said `done`: reads CPU, host and WAL position, stops the
        sampler. < 10 ms."""
        self._unix_end = time.time()
        self._workers.stop()
        result = self._result
        if self._managed:
            if self._load is not None:
                result.load = self._try("other load", self._load.read)
            waited = self._waited()
            if waited is not None and self._waited_begin is not None:
                result.waited_seconds = max(0.0, waited - self._waited_begin)
            cpu = self._try("CPU", self._cpu.read)
            if cpu is not None:
                used = self._cpu.used(self._cpu_begin, cpu)
                result.backends, result.cpu_by_role = used.rows, used.by_role
                result.server_cpu_seconds = used.total
        pooler = self._cpu_beside("pooler", self._pooler)
        if pooler is not None and self._pooler_begin is not None:
            result.pooler_cpu_seconds = pooler - self._pooler_begin
        replica = self._try("CPU of the replica", self._replica.read)
        if replica is not None:
            there = self._replica.used(self._replica_begin, replica)
            result.replica_cpu_seconds = there.by_role.get("server")
            # Backends that serve operations of the step are the server's, wherever they are.
            result.backends += [row for row in there.rows if row["role"] in self._away]
            serving = {role: there.by_role[role] for role in self._away}
            result.cpu_by_role.update(serving)
            if result.server_cpu_seconds is not None:
                result.server_cpu_seconds += sum(serving.values())
        if self._windows is None:
            result.lag = lag_rows(
                self._cluster.standbys.lag_between(self._unix_begin, self._unix_end), self._unix_begin
            )
        if self._counters is not None and self._host_begin is not None:
            reading = self._try("host", self._counters.read)
            if reading is not None:
                if self._windows is None:
                    result.disk = host.totals(self._host_begin, reading)
                if self._sampler is not None:
                    self._sampler.stop(reading)
        if self._processes_begin is not None:
            self._own_counters(self._processes_begin)
        wal = self._wal_position()
        if wal is not None and self._wal_begin is not None:
            result.wal_bytes = wal - self._wal_begin
        if self._waits is not None:
            result.waits = self._try("wait events", self._waits.stop)
            if result.waits is not None and result.waits.failure:
                result.notes.append(f"sampling of wait events ended early: {result.waits.failure}")

    def after(self) -> StepObserved:
        """Reads statistics, sizes, tables and log events once the driver's connections are closed. Ends the
        watch."""
        started = time.monotonic()
        result = self._result
        if self._sampler is not None:
            result.host = self._sampler.rows
            result.sampler_cpu_seconds = self._sampler.cpu_seconds
            if self._sampler.failure:
                result.notes.append(f"host sampling ended early: {self._sampler.failure}")
            if self._sampler.rows:
                result.rss_bytes = self._sampler.rows[-1]["server_rss_bytes"]  # type: ignore[assignment]
        counters = self._try("pg_stat views after", self._read_after)
        if counters is not None and self._have_before:
            result.pgstat = postgres.differences(self._before, counters)
            if self._alone and _LATE not in result.notes:
                result.changed_rows = changed_rows(result.pgstat)
        if self._judged_load:
            result.judged_load = JudgedLoad(
                executions=1,
                temp_bytes=temp_bytes(result.pgstat, self._database),
                parallel_workers=self._workers.most,
            )
        if self._log is not None:
            log = self._log
            events = self._try("server log", lambda: log.events(self._unix_begin, self._unix_end))
            result.events = [self._in_own_time(event) for event in events or []]
        self.close()
        result.observe_seconds += time.monotonic() - started
        return result

    def close(self) -> None:
        """Ends what is still open: for a step that broke off before `after`. May be called again."""
        self._workers.stop()
        if self._sampler is not None:
            self._sampler.stop()
        if self._waits is not None:
            self._try("wait events", self._waits.stop)
        if self._counters is not None:
            self._counters.close()
        if self._session is not None:
            self._session.close()

    # --- parts ---

    def _try(self, what: str, read: Callable[[], T]) -> T | None:
        """Returns the result of `read`; an error becomes a note and None, since observing never ends a
        run."""
        try:
            return read()
        except Exception as error:
            note = f"{what} not observed: {type(error).__name__}: {server_said(error, 300)}"
            if note not in self._result.notes:
                self._result.notes.append(note)
            return None

    def _open_host(self) -> host.HostCounters:
        assert self._data_dir is not None
        devices = disks.devices_of(self._data_dir)
        if not devices:
            self._result.notes.append("disk not observed: the data folder is on no block device of this host")
        return host.HostCounters(devices)

    def _in_own_time(self, event: LogEvent) -> LogEvent:
        """Returns the event at the second of the step's own time, where other variants are measured in
        between."""
        if (windows := self._windows) is None:
            return event
        zero = self._begun
        until = None if event.until is None else windows.passed(zero + event.until)
        return structs.replace(event, second=windows.passed(zero + event.second), until=until)

    def _cpu_beside(self, what: str, cpu: ServerCpu) -> float | None:
        """Returns the CPU seconds of a program beside the server; None if there is none."""
        reading = self._try(f"CPU of the {what}", cpu.read)
        return reading.total if reading is not None else None

    def _read_processes(self) -> processes.ProcessReading | None:
        pid = self._cluster.postmaster.pid
        clients = [pid for pids in self._cpu.roles.values() for pid in pids]
        return None if pid is None else processes.read_processes(pid, clients)

    def _own_counters(self, begin: processes.ProcessReading) -> None:
        now = self._try("processes", self._read_processes)
        if now is not None:
            cpu = self._result.server_cpu_seconds
            self._result.disk = {**processes.totals(begin, now), "cpu_seconds": cpu}
            self._result.of_processes = True
            self._result.notes.append(
                "variants took turns in short slices: CPU, disk and context switches are those of this "
                "server's processes, not of the host"
            )

    def _open_waits(self, pids: Mapping[str, Sequence[int]]) -> WaitSampler:
        own_pids = [] if self._session is None else [self._session.info.backend_pid]
        session = self._connect_elsewhere()
        moment = self._windows.moment if self._windows is not None else None
        return WaitSampler(session, pids, self._waits_hertz, self._managed, own_pids, moment)

    def _waited(self) -> float | None:
        pids = [pid for pids in self._cpu.roles.values() for pid in pids]
        # The connections of a replay come and go: its backends are not known when it begins.
        return waited_seconds(pids) if pids else None

    def _wal_position(self) -> int | None:
        session = self._session
        return None if session is None else self._try("WAL", lambda: postgres.wal_position(session))

    def _read_before(self) -> postgres.Counters:
        # The views of the whole cluster are read from another database, after the connection to the
        # observed one has ended: so what the observer itself did is not in the differences.
        with self._cluster.connect(self._database) as session:
            postgres.prepare(session)
            self._alone = self._await_alone(session)
            self._await_fresh(session)
            counters = postgres.counters(session, postgres.DATABASE_VIEWS, self._database)
            backend_pid = session.info.backend_pid
        self._session = self._connect_elsewhere()
        postgres.prepare(self._session)
        # The first call of a function loads catalogs: now, not at the begin of the step.
        self._wal_position()
        self._await_end([backend_pid])
        self._await_fresh(self._session)
        return counters | postgres.counters(self._session, postgres.CLUSTER_VIEWS, self._database)

    def _connect_elsewhere(self) -> psycopg.Connection[Any]:
        try:
            session = self._cluster.connect("postgres")
        except (psycopg.Error, PgstrataError):
            note = "no access to the database postgres: pg_stat_database holds a few queries of the observer"
            self._result.notes.append(note)
            session = self._cluster.connect(self._database)
        use_catalogs_only(session)
        return session

    def _read_after(self) -> postgres.Counters:
        if self._session is None:
            raise RuntimeError("no connection to the server")
        if not self._await_end([pid for pids in self._cpu.roles.values() for pid in pids]):
            self._result.notes.append(
                "connections of the step were still open: their last second may be missing in pg_stat"
            )
        self._await_fresh(self._session)
        counters = postgres.counters(self._session, postgres.CLUSTER_VIEWS, self._database)
        with self._cluster.connect(self._database) as session:
            postgres.prepare(session)
            self._await_fresh(session)
            counters |= postgres.counters(session, postgres.DATABASE_VIEWS, self._database)
            self._result.sizes = self._try(
                "sizes", lambda: postgres.sizes(session, self._tables, self._data_dir)
            )
            self._result.tables = (
                self._try(
                    "tables",
                    lambda: postgres.describe(session, self._tables, self._bloat_bytes, self._managed),
                )
                or {}
            )
        return counters

    def _await_fresh(self, session: psycopg.Connection[Any]) -> None:
        if not postgres.wait_for_fresh(session, self._data_dir):
            self._result.notes.append(_LATE)

    def _await_alone(self, session: psycopg.Connection[Any]) -> bool:
        """Waits until all that worked here before the step has ended; False where that is not known."""
        if not self._managed or self._cluster.pooled or not postgres.knows_states(session):
            return False
        pids = [pid for pids in self._cpu.roles.values() for pid in pids]
        return _comes_true(lambda: not postgres.others_present(session, pids))

    def _await_end(self, pids: Sequence[int]) -> bool:
        """Waits until backends are gone, for then their statistics are reported; False where some stay."""
        session = self._session
        assert session is not None
        return _comes_true(lambda: not postgres.backends_present(session, pids))


def _comes_true(condition: Callable[[], bool], limit: float = 1.0) -> bool:
    """Waits for it, `limit` seconds at most; whether it came true."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def lag_rows(seen: Sequence[ReplicaLag], begin: float) -> list[Json]:
    """Returns rows of the table `lag`: for each second of the step the largest lag seen."""
    rows: dict[int, Json] = {}
    for lag in seen:
        second = int(lag.moment - begin)
        row = rows.setdefault(second, {"second": second, "lag_bytes": 0, "lag_seconds": None})
        row["lag_bytes"] = max(row["lag_bytes"], lag.bytes)
        if lag.seconds is not None:
            row["lag_seconds"] = max(row["lag_seconds"] or 0.0, lag.seconds)
    return list(rows.values())


def temp_bytes(pgstat: Sequence[Json], database: str) -> int | None:
    """Returns the bytes that a database wrote to temporary files; None if that was not read."""
    database_rows = [r for r in pgstat if (r["view"], r["object"]) == ("pg_stat_database", database)]
    counter_row = next((row for row in database_rows if row["counter"] == "temp_bytes"), None)
    return (
        None
        if counter_row is None
        else max(0, int((counter_row["after"] or 0) - (counter_row["before"] or 0)))
    )


def changed_rows(pgstat: Sequence[Json]) -> dict[str, int]:
    """Returns the number of rows by table that were inserted, updated or deleted; temporary tables left
    out."""
    by_table: dict[str, int] = {}
    for row in pgstat:
        table, counter = row["object"], row["counter"]
        if row["view"] != "pg_stat_user_tables" or counter not in ("n_tup_ins", "n_tup_upd", "n_tup_del"):
            continue
        rows = int((row["after"] or 0) - (row["before"] or 0))
        if rows > 0 and not table.startswith("pg_temp_"):
            by_table[table] = by_table.get(table, 0) + rows
    return by_table
