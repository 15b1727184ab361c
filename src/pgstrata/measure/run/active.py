"""One run while it is measured: its cluster, the phases of its workload, and its folder."""

from __future__ import annotations

import math
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from msgspec import structs

from pgstrata import numbers
from pgstrata.campaign.plan.loaded import data_made_of
from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.order import data_at, freezes
from pgstrata.campaign.plan.recorded import as_planned
from pgstrata.campaign.plan.resume import independent
from pgstrata.errors import PgstrataError, ServerError, StoreError, server_said
from pgstrata.measure.measurement import Part, RunContext, StepMeasurement, Timings, cut_short
from pgstrata.measure.placement import cpus_of
from pgstrata.measure.progress import Progress
from pgstrata.measure.recovery import recoverable
from pgstrata.measure.run.borrowed import borrowed_database
from pgstrata.measure.run.cause import cause
from pgstrata.measure.run.modules import create_modules, versions
from pgstrata.measure.run.settle import run_admin, run_settle
from pgstrata.measure.session import Session
from pgstrata.measure.step import step_seed
from pgstrata.observe import machine
from pgstrata.observe.disks import with_devices
from pgstrata.server.capabilities import catalog_of, column
from pgstrata.server.cluster.cluster import Cluster, ForeignCluster, new_database
from pgstrata.server.cluster.loaded import begin_record, find, held, keep
from pgstrata.server.cluster.replica import replicated
from pgstrata.server.cluster.served import Served
from pgstrata.server.cluster.storage import LEAST_WAL_BYTES
from pgstrata.server.connect.session import use_catalogs_only
from pgstrata.store import RunBuilder
from pgstrata.store.kept import KeptData, data_of
from pgstrata.store.record import (
    ComparisonRecord,
    Host,
    RunFailure,
    Sizes,
    StepRecord,
    TookTurns,
)
from pgstrata.turns.table import kind_of
from pgstrata.workload.core.language import Admin, Refine, Settle, Step, Work, WorkContext

Json = dict[str, Any]

DATABASE = "pgstrata"

DEFAULTS = "SELECT name, boot_val, unit FROM pg_catalog.pg_settings WHERE context <> 'internal'"
"""What holds where nobody sets anything; what cannot be set is none of it."""


class ActiveRun:
    """A run while it is measured. Made anew for each."""

    def __init__(self, session: Session, run: PlannedRun, builder: RunBuilder, progress: Progress) -> None:
        campaign = session.campaign
        self._campaign, self.settings, self.planned = campaign, campaign.spec, run
        self._cpus = cpus_of(campaign.spec)
        self.progress, self.interrupts = progress, session.interrupts
        self.timings = Timings()
        self.comparison: ComparisonRecord | None = None
        self._builder, self._data_root = builder, run.variant.storage.data or session.root
        self.cluster = self._make_cluster()
        chosen = run.workload
        # Of a run that is only recorded as not possible there are none.
        features = run.variant.server.features
        self.phases = [] if run.unable else chosen.workload.phases(chosen.options, features)
        self._database = DATABASE
        self._host = Host()
        self._storage = run.variant.storage_record()
        self._extensions: dict[str, str] = {}
        self._facts: Json = {}
        self._plans: Json = {}
        self._sizes: Sizes | None = None
        self._driver_version = ""
        self._started = False
        steps = (phase.name for phase in self.phases if isinstance(phase, Step))
        self._orders = {name: order for order, name in enumerate(steps, 1)}
        self._data_at = data_at(self.phases)
        self._steps_of_load = sum(isinstance(phase, Step) for phase in self.phases[: self._data_at])
        self._begun = 0.0
        self.loaded: str | None = None
        """Key of the kept data that the run began with; None where it has loaded its own."""
        self._outlive = {step.name for step in independent(self.phases)} if self.planned.made_of else set()
        self._kept = {step.name: step for step in run.kept}

    @property
    def database(self) -> str:
        """The database that is measured."""
        return self._database

    @property
    def facts(self) -> Mapping[str, Any]:
        """What work of the workload has found so far."""
        return self._facts

    def measure(self) -> tuple[Path, str | None]:
        """Measures the run. Returns its folder, and the sentence that says why it failed or None.

        Raises StoreError where results cannot be stored, and Interrupted; nothing is left running.
        """
        error: PgstrataError | None = None
        log_tail = ""
        self.keep_steps(None)
        try:
            try:
                if not self.start_loaded():
                    self.start()
                self._work()
            except PgstrataError as failure:
                error, log_tail = self.explained(failure)
            self.keep_log()
        finally:
            with self.interrupts.shield(), self.timings.of("stop"):
                self.take_down()
        if isinstance(error, StoreError):
            raise error
        folder = self.finish(error, log_tail)
        return folder, "; ".join(filter(None, (error.message, error.hint))) if error else None

    # --- the cluster --------------------------------------------------------------------------

    def _make_cluster(self) -> Served:
        variant = self.planned.variant
        if not variant.server.managed:
            return ForeignCluster(variant.server, variant.through)
        make: Callable[..., Cluster] = partial(Cluster, freezes=freezes(self.settings))
        if variant.replicas is not None:
            make = partial(replicated, replicas=variant.replicas)
        return make(
            variant.server,
            variant.config,
            self._data_root / self._builder.run_id,
            env=variant.spec.env,
            initdb=variant.spec.initdb,
            cpus=self.settings.server_cpus,
            memory=variant.memory,
            through=variant.through,
            storage=variant.storage,
            outside=self.settings.allow_outside,
        )

    def start(self, copy_of: Path | None = None) -> None:
        """Starts the cluster with its server.

        copy_of: data folder of a stopped server that is copied instead of a new one being made.
        Raises ServerError, also where the disk has too little room.
        """
        cluster, self._begun = self.cluster, time.monotonic()
        if isinstance(cluster, Cluster):
            self._check_disk()
            self.progress.phase("initdb")
            with self.timings.of("initdb"):
                cluster.create(copy_of)
            self.progress.phase("starting the server")
            with self.timings.of("start"):
                cluster.start()
        self._started = True
        data = cluster.data_folder
        self._storage = with_devices(self._storage, data.path if data else None, data.wal if data else None)
        self._host = machine.facts(data.path) if data else Host(hostname=socket.gethostname())

    def start_loaded(self) -> bool:
        """Starts the cluster with data that is kept, if there is some. Returns False if the run has to load
        its own."""
        if not self.planned.data_key:
            return False
        with held(self.planned.data_key, self.progress.say) as kept:
            if kept is None:
                return False
            when = kept.record.made.replace("T", " ").removesuffix("+00:00")
            self.progress.say(
                f"  {self.planned.key.variant}: data loaded {when} UTC and kept, {kept.record.key[:8]}"
            )
            self.start(kept.data)
            self._facts, self.loaded = dict(kept.record.facts), kept.record.key
        return True

    @property
    def begins_at(self) -> tuple[int, int]:
        """How many phases are done before the run begins, and how many of them are steps."""
        return (self._data_at, self._steps_of_load) if self.loaded else (0, 0)

    def keep_loaded(self, at: int) -> None:
        """Keeps the data for later runs when so many phases are done and all of it is loaded. What stands in
        the way is said, and the run goes on. Raises ServerError where the server does not start again."""
        key, cluster = self.planned.data_key, self.cluster
        if not key or at != self._data_at or self.loaded or not isinstance(cluster, Cluster):
            return
        made_of = data_made_of(self.planned, self.settings)
        if made_of is None or find(key) is not None:
            return
        self.progress.phase("keeping the data")
        with self.timings.of("keep"):
            cluster.stop("fast")
            seconds = time.monotonic() - self._begun
            server = self.planned.variant.server.label
            about = begin_record(key, server, self.planned.key.workload, made_of, self._facts, seconds)
            try:
                if (kept := keep(key, cluster.data_folder.path, about=about)) is not None:
                    self.progress.say(f"  data kept, {numbers.size(kept.record.bytes)}: {key[:8]}")
            except ServerError as error:
                self.progress.say(f"  the loaded data is not kept: {error.message}")
            cluster.start()

    def _check_disk(self) -> None:
        free = shutil.disk_usage(self._data_root).free
        if free < self.planned.disk_bytes:
            raise ServerError(
                f"{self._data_root} has {numbers.size(free)} free, "
                f"this run needs about {numbers.size(self.planned.disk_bytes)}",
                "make room, or name another disk: data_dir in the campaign, or --data-dir",
            )
        wal = self.planned.variant.storage.wal
        if wal is not None and (left := shutil.disk_usage(wal).free) < LEAST_WAL_BYTES:
            raise ServerError(
                f"{wal} has {numbers.size(left)} free, and a write-ahead log needs at least "
                f"{numbers.size(LEAST_WAL_BYTES)}",
                "make room, or name another disk: wal_dir of the variant",
            )

    def take_down(self) -> None:
        """Stops and removes the cluster, or keeps its data where the campaign says so."""
        if self.settings.keep_data:
            self.cluster.keep()
            if (data := self.cluster.data_folder) is not None:
                self.progress.say(f"  data kept in {data.path}")
        else:
            self.cluster.stop("immediate")
            self.cluster.remove()

    def keep_log(self) -> None:
        """Takes the server's log into the run folder."""
        log = self.cluster.log_file
        if log is not None and log.exists():
            self._builder.server_log(log)

    # --- the phases ---------------------------------------------------------------------------

    def _work(self) -> None:
        server = self.planned.variant.server
        if server.dsn is None:
            if not self.loaded:
                self.create_database()
            self._do_phases()
            return
        keep = self.settings.keep_data
        with borrowed_database(
            self.cluster, server.dsn, self.phases, keep=keep, say=self.progress.say
        ) as database:
            self._database = database
            self._do_phases()

    def create_database(self) -> None:
        variant = self.planned.variant
        with self.timings.of("setup"):
            execute_sql(self.cluster, new_database(DATABASE))
            create_modules(self.cluster, variant.server, DATABASE, variant.extensions)

    def keep_settings(self) -> None:
        """Writes the output of SHOW ALL into the run folder, and the values with which this version
        begins."""
        with self.cluster.connect(self._database) as connection:
            self._builder.settings(connection.execute("SHOW ALL").fetchall())
            use_catalogs_only(connection)
            if catalog_of(connection).has(column("pg_settings", "boot_val")):
                self._builder.defaults(connection.execute(DEFAULTS).fetchall())
            if self.planned.variant.server.managed:
                self._extensions = versions(connection)

    def _do_phases(self) -> None:
        self.keep_settings()
        steps = [phase for phase in self.phases if isinstance(phase, Step)]
        begin, order = self.begins_at
        for at, phase in enumerate(self.phases[begin:], begin):
            self.keep_loaded(at)
            if isinstance(phase, Step):
                order += 1
                if (kept := self.kept_step(phase)) is not None:
                    self.take(kept)
                else:
                    self.step(phase, order, last=phase is steps[-1])
            else:
                self.prepare(phase)

    def prepare(self, phase: Admin | Settle | Work | Refine) -> None:
        """Executes a phase outside measurement. Without turns there are no further points of a curve."""
        self.interrupts.check()
        match phase:
            case Admin():
                self.progress.phase(phase.name)
                with self.timings.of("setup"):
                    run_admin(self.cluster, phase, self._database)
            case Settle():
                self.progress.phase("settle", phase.seconds)
                with self.timings.of("settle"):
                    run_settle(self.cluster, phase, self._database, self.interrupts.check)
            case Work():
                self.progress.phase(phase.name)
                with self.timings.of(phase.name):
                    context = WorkContext(
                        partial(self.cluster.connect, self._database),
                        self.progress.say,
                        self.interrupts.check,
                        managed=isinstance(self.cluster, Cluster),
                    )
                    self._facts |= phase.do(context)

    def adopt(self, other: ActiveRun) -> None:
        """Takes over what the phases of another run of the same data found out."""
        self._facts = dict(other._facts)

    # --- steps --------------------------------------------------------------------------------

    def step(self, step: Step, order: int, *, last: bool) -> None:
        """Measures and stores a step in one piece. Raises DriverError where it was cut short."""
        self.interrupts.check()
        self.progress.step_begins(step)
        with recoverable(step, self.cluster), self.measurement(step, order, last=last) as measurement:
            measurement.measure(Part(step), self.progress.second)
            self.store(measurement)

    def keep_steps(self, comparison: str | None) -> None:
        """Lets finished steps outlive the run from now on, where they may. comparison: whose turns they
        are."""
        self._builder.keep_steps(self.planned.made_of, comparison, self.planned.kept)

    @property
    def records(self) -> dict[str, StepRecord]:
        """The steps that were measured or taken so far, by name."""
        return self._builder.records

    def order_of(self, step: Step) -> int:
        """Returns the number of a step, from 1; those that were added come after all that were planned, whose
        seeds stay as they are."""
        return self._orders.setdefault(step.name, len(self._orders) + 1)

    def has_step(self, name: str) -> bool:
        """Returns whether a step of this name was planned or added."""
        return name in self._orders

    def add_point(self, at: int, refine: Refine, clients: int) -> None:
        """Adds the phases of a further point of a curve at this place; it outlives the run as the other
        points do."""
        self.phases[at:at] = refine.at(clients)
        if refine.name(refine.clients[0]) in self._outlive:
            self._outlive.add(refine.name(clients))

    def kept_step(self, step: Step) -> KeptData | None:
        """Returns the results of a step that an earlier attempt has measured; None if there are none."""
        kept = self._kept.get(step.name)
        return data_of(kept) if kept is not None else None

    def take(self, kept: KeptData) -> None:
        """Makes a step that an earlier attempt has finished part of this run. Raises StoreError."""
        record = kept.record
        self._builder.take(kept)
        self._driver_version = kept.driver_version
        self._sizes = record.sizes
        if kept.plans:
            self._plans[record.name] = list(kept.plans)
        self.progress.say(f"  {self.planned.key.variant}, {record.name}: kept of attempt {record.attempt}")

    def measurement(self, step: Step, order: int, *, parts: int = 1, last: bool = False) -> StepMeasurement:
        """Returns the measurement of a step of this run, to be done in parts. order: from 1."""
        where = RunContext(self.cluster, self._database, self._builder, self.timings, self.settings)
        # The seed is that of the workload, or of the campaign where it has none of its own.
        seed = getattr(self.planned.workload.options, "seed", self.settings.seed)
        # Kept data is that of every repeat, and is made the same in each.
        once = bool(self.planned.data_key) and order <= self._steps_of_load
        seed = step_seed(seed, 1 if once else self.planned.key.repeat, order, step.name)
        return StepMeasurement(where, step, order, seed, parts=parts, last=last)

    def store(
        self,
        measurement: StepMeasurement,
        taken: TookTurns | None = None,
        *,
        reachable: bool = True,
        ratio: tuple[float, float] | None = None,
    ) -> float | None:
        """Stores a step, and keeps of it what belongs to the whole run; returns its rate. The same arguments
        as `StepMeasurement.store`; ratio: the rate of the base, and the ratio to it, whose product is told
        instead. Raises DriverError where the step was cut short."""
        keep = measurement.step.name in self._outlive
        stored = measurement.store(taken, reachable=reachable, keep=keep)
        result = stored.result
        self._driver_version = result.ready.driver or self._driver_version
        self._sizes = result.observed.sizes or self._sizes
        if stored.plans:
            self._plans[measurement.step.name] = list(stored.plans)
        if taken is not None:
            parts = numbers.counted(len(taken.slices), kind_of(taken.turns).part)
            self.progress.say(f"  {self.planned.key.variant} in {parts}:")
        self.progress.step_ended(result.record, None if ratio is None else math.prod(ratio))
        if stored.rejected:
            name, words = next(iter(stored.rejected.items()))
            more = f", and {len(stored.rejected) - 1} more" if len(stored.rejected) > 1 else ""
            self.progress.say(f"  {'':<10} rejected: {name}: {server_said(words, 200)}{more}")
        if taken is None and result.error is not None:
            raise cut_short(measurement.step, result.error)
        return result.record.rate

    def explained(self, error: PgstrataError) -> tuple[PgstrataError, str]:
        """Returns the cause behind the error that the driver or psycopg saw (a full disk, a server that
        died), and the end of the server's log."""
        return cause(error, self.cluster, started=self._started, log="the run's server.log.gz")

    # --- the record ---------------------------------------------------------------------------

    def finish(self, error: PgstrataError | None, log_tail: str) -> Path:
        """Writes run.json and puts the folder in its place. Raises StoreError."""
        if self._plans:
            self._builder.plans(self._plans)
        variant = self.planned.variant
        failure = RunFailure(message=error.message, hint=error.hint, log_tail=log_tail) if error else None
        if self.planned.unable:
            failure = RunFailure(message=self.planned.unable, hint="", log_tail="")
        return self._builder.finish(
            structs.replace(
                as_planned(self._campaign, variant, self.planned.workload),
                status="unable" if self.planned.unable else "failed" if error else "done",
                error=failure,
                driver_version=self._driver_version,
                cpus=self._cpus,
                comparison=self.comparison,
                host=self._host,
                timings=self.timings.seconds,
                sizes=self._sizes or Sizes(),
                facts=self._facts,
                attempts=self._builder.attempts,
                loaded=self.loaded,
                storage=self._storage,
                extensions=self._extensions,
                network_closed=self.cluster.closed is not None if isinstance(self.cluster, Cluster) else None,
            )
        )


def execute_sql(cluster: Served, statement: str) -> None:
    try:
        with cluster.connect() as connection:
            connection.execute(statement.encode())
    except psycopg.Error as error:
        raise ServerError(f"{statement}: {server_said(error)}") from error
