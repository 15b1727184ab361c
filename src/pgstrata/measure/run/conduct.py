"""One run from its cluster to its folder."""

from __future__ import annotations

import shutil
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

import pgstrata
from pgstrata.campaign.file.models import Campaign
from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.errors import DriverError, PgstrataError, ServerError, StoreError
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.profiles import folded, keep_profiles, profiler_of
from pgstrata.measure.progress import Progress
from pgstrata.measure.query_plans import step_plans
from pgstrata.measure.run.borrowed import borrowed_database
from pgstrata.measure.run.settle import run_admin, run_settle
from pgstrata.measure.step import Measured, cut_short, driver_spec, measure, step_seed
from pgstrata.observe import StepWatch, machine
from pgstrata.server.cluster import Cluster, ForeignCluster
from pgstrata.store import RunBuilder, series_rows
from pgstrata.workload.core.language import Admin, Digest, Phase, Scene, Settle, Step, Work

Json = dict[str, Any]

DATABASE = "pgstrata"

BLOAT_BYTES = 1 << 30
"""Largest table that is read whole by pgstattuple after the last step."""


@dataclass
class Timings:
    """Seconds outside measurement, by name."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.add(name, time.monotonic() - begun)

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds


@dataclass
class Conductor:
    """What one run needs to know and to tell; made anew for each."""

    campaign: Campaign
    run: PlannedRun
    builder: RunBuilder
    data_root: Path
    progress: Progress
    interrupts: Interrupts
    timings: Timings = field(default_factory=Timings)
    facts: Json = field(default_factory=dict)
    work_facts: Json = field(default_factory=dict)
    plans: Json = field(default_factory=dict)
    sizes: Json = field(default_factory=dict)
    driver_version: str = ""
    comparison: Json | None = None
    started: bool = False

    def conduct(self) -> tuple[Path, str | None]:
        """Measures the run. Returns its folder, and the sentence that says why it failed or None.

        Raises StoreError where results cannot be stored, and Interrupted; nothing is left running.
        """
        error: PgstrataError | None = None
        log_tail = ""
        cluster = self.make_cluster()
        try:
            try:
                self.check_disk()
                self.start(cluster)
                self._work(cluster)
            except PgstrataError as failure:
                log_tail = cluster.log_tail()
                error = self.explained(failure, cluster, log_tail)
            self.keep_log(cluster)
        finally:
            with self.interrupts.shield(), self.timings.of("stop"):
                self.take_down(cluster)
        if isinstance(error, StoreError):
            raise error
        folder = self.finish(error, log_tail)
        return folder, "; ".join(filter(None, (error.message, error.hint))) if error else None

    # --- the cluster --------------------------------------------------------------------------

    def make_cluster(self) -> Cluster | ForeignCluster:
        variant = self.run.variant
        if not variant.server.managed:
            return ForeignCluster(variant.server)
        return Cluster(
            variant.server,
            variant.config,
            self.data_root / self.builder.run_id,
            env=variant.spec.env,
            initdb=variant.spec.initdb,
            cpus=self.campaign.spec.server_cpus,
            memory=variant.memory,
        )

    def check_disk(self) -> None:
        if not self.run.variant.server.managed:
            return
        free = shutil.disk_usage(self.data_root).free
        if free < self.run.disk_bytes:
            raise ServerError(
                f"{self.data_root} has {gigabytes(free)} free, "
                f"this run needs about {gigabytes(self.run.disk_bytes)}",
                "make room, or name another disk: data_dir in the campaign, or --data-dir",
            )

    def start(self, cluster: Cluster | ForeignCluster, copy_of: Path | None = None) -> None:
        """copy_of: data folder of a stopped server that is copied instead of a new one being made."""
        if self.run.variant.server.managed:
            self.progress.phase("initdb")
            with self.timings.of("initdb"):
                cluster.create(copy_of)
            self.progress.phase("starting the server")
            with self.timings.of("start"):
                cluster.start()
        self.started = True
        self.facts = (
            machine.facts(cluster.data_dir) if cluster.data_dir else {"hostname": socket.gethostname()}
        )

    def take_down(self, cluster: Cluster | ForeignCluster) -> None:
        if self.campaign.spec.keep_data:
            cluster.keep()
            if cluster.data_dir:
                self.progress.say(f"  data kept in {cluster.data_dir}")
        else:
            cluster.stop("immediate")
            cluster.remove()

    def keep_log(self, cluster: Cluster | ForeignCluster) -> None:
        log = cluster.log_file
        if log is not None and log.exists():
            self.builder.server_log(log)

    # --- the phases ---------------------------------------------------------------------------

    def _work(self, cluster: Cluster | ForeignCluster) -> None:
        chosen, server = self.run.workload, self.run.variant.server
        phases = chosen.workload.phases(chosen.options, server.version_num)
        if server.dsn is None:
            self.create_database(cluster)
            self._phases(cluster, phases, DATABASE)
            return
        keep = self.campaign.spec.keep_data
        with borrowed_database(cluster, server.dsn, phases, keep=keep, say=self.progress.say) as database:
            self._phases(cluster, phases, database)

    def create_database(self, cluster: Cluster | ForeignCluster) -> None:
        with self.timings.of("setup"):
            execute_sql(cluster, f"CREATE DATABASE {DATABASE}")

    def keep_settings(self, cluster: Cluster | ForeignCluster, database: str) -> None:
        with cluster.connect(database) as connection:
            self.builder.settings(connection.execute("SHOW ALL").fetchall())

    def _phases(self, cluster: Cluster | ForeignCluster, phases: Sequence[Phase], database: str) -> None:
        self.keep_settings(cluster, database)
        steps = [phase for phase in phases if isinstance(phase, Step)]
        order = 0
        for phase in phases:
            if isinstance(phase, Step):
                self.interrupts.check()
                order += 1
                self.step(cluster, phase, order, database, last=phase is steps[-1])
            else:
                self.prepare(cluster, phase, database)

    def prepare(self, cluster: Cluster | ForeignCluster, phase: Admin | Settle | Work, database: str) -> None:
        """A phase outside measurement."""
        self.interrupts.check()
        match phase:
            case Admin():
                self.progress.phase(phase.name)
                with self.timings.of("setup"):
                    run_admin(cluster, phase, database)
            case Settle():
                self.progress.phase("settle", phase.seconds)
                version = self.run.variant.server.version_num
                with self.timings.of("settle"):
                    run_settle(cluster, phase, database, version, self.interrupts.check)
            case Work():
                self.progress.phase(phase.name)
                with self.timings.of(phase.name):
                    scene = Scene(lambda: cluster.connect(database), self.progress.say, self.interrupts.check)
                    self.work_facts |= phase.do(scene)

    def seed(self, step: Step, order: int) -> int:
        """Of one step: from that of the workload, or of the campaign where it has none of its own."""
        seed = getattr(self.run.workload.options, "seed", self.campaign.spec.seed)
        return step_seed(seed, self.run.key.repeat, order, step.name)

    def step(
        self, cluster: Cluster | ForeignCluster, step: Step, order: int, database: str, *, last: bool
    ) -> None:
        if step.digest is None:
            self._measure(cluster, step, order, database, None, last=last)
            return
        with self.builder.scratch("rows") as rows:
            self._measure(cluster, step, order, database, rows, last=last)

    def _measure(
        self,
        cluster: Cluster | ForeignCluster,
        step: Step,
        order: int,
        database: str,
        rows: Path | None,
        *,
        last: bool,
    ) -> None:
        self.progress.step_begins(step)
        spec = driver_spec(
            step,
            cluster.connection(database),
            self.seed(step, order),
            self.campaign.spec.engine,
            results_dir=str(rows) if rows else None,
        )
        self.builder.spec(order, step.name, without_password(spec))
        begun = time.monotonic()
        measured = self._observed(cluster, step, order, database, spec, last=last)
        around = time.monotonic() - begun - measured.record["seconds"] - step.warmup
        self.timings.add("observe", measured.observed.observe_seconds)
        self.timings.add("connect", max(0.0, around - measured.observed.observe_seconds))
        self.driver_version = measured.driver_version
        self.sizes = measured.observed.sizes or self.sizes
        self.store(step, measured, rows)
        self.progress.step_ended(measured.record)
        if measured.error is not None:
            raise cut_short(step, measured.error)

    def _observed(
        self,
        cluster: Cluster | ForeignCluster,
        step: Step,
        order: int,
        database: str,
        spec: Json,
        *,
        last: bool,
    ) -> Measured:
        """The step, watched; its profile and its plans, which are made when it is over."""
        wanted = self.campaign.spec
        bloat = BLOAT_BYTES if last else 0
        watch = StepWatch(cluster, step.tables, database, bloat_bytes=bloat, waits_hertz=wanted.waits)
        profile = wanted.profile if step.measured else None
        notes: list[str] = []
        if profile is not None and cluster.pid is None:
            profile, notes = None, ["no profile: the processes of a foreign server are out of sight"]
        with self.builder.scratch("perf") as recordings:
            profiler = profiler_of(profile, recordings, step.seconds) if profile else None
            measured = measure(
                step,
                order,
                spec,
                watch,
                on_second=self.progress.second,
                profiler=profiler,
                cpus=wanted.driver_cpus,
            )
            begun = time.monotonic()
            if profile is not None:
                measured.record["profile"], more = keep_profiles(
                    folded(measured.profiles), order, step.name, self.builder.attach
                )
                notes += more
        if step.digest is None and measured.error is None:
            measured.record["plans"], more = step_plans(lambda: cluster.connect(database), spec)
            notes += more
        measured.record["notes"] += notes
        measured.observed.observe_seconds += time.monotonic() - begun
        return measured

    def store(self, step: Step, measured: Measured, rows: Path | None) -> None:
        observed = measured.observed
        digest = Digest([])
        if step.digest is not None and rows is not None:
            with self.timings.of("digest"):
                digest = step.digest(measured.statements, rows)
            self.plans |= {step.name: list(digest.plans)} if digest.plans else {}
            if digest.rate is not None:
                measured.record["rate"] = digest.rate
            for role in measured.record["roles"].values():
                role["statements_by_name"] = []  # the table `queries` has each one
        with self.timings.of("store"):
            self.builder.step(
                measured.record,
                series=series_rows(measured.seconds),
                histograms=measured.histograms,
                host=observed.host,
                backends=observed.backends,
                pgstat=observed.pgstat,
                queries=digest.queries,
            )

    def explained(
        self, error: PgstrataError, cluster: Cluster | ForeignCluster, log_tail: str
    ) -> PgstrataError:
        """The cause behind what the driver or psycopg saw: a full disk, a server that died."""
        if isinstance(error, StoreError):
            return error
        event = error.event if isinstance(error, DriverError) else {}
        if event.get("sqlstate") == "53100" or "No space left on device" in f"{error.message} {log_tail}":
            return ServerError(
                f"the disk of the data folder is full: {error.message}",
                "its space has been freed; make room, take fewer rows, or name another disk with --data-dir",
            )
        # Its sockets are gone a moment before the process is.
        if self.started and cluster.ended(within=1.0):
            return ServerError(
                f"the server died: {error.message}", "its last words are in the run's server.log.gz"
            )
        return error

    # --- the record ---------------------------------------------------------------------------

    def finish(self, error: PgstrataError | None, log_tail: str) -> Path:
        if self.plans:
            self.builder.plans(self.plans)
        variant, server, config = self.run.variant, self.run.variant.server, self.run.variant.config
        return self.builder.finish(
            {
                "status": "failed" if error else "done",
                "error": {"message": error.message, "hint": error.hint, "log_tail": log_tail}
                if error
                else None,
                "pgstrata_version": pgstrata.__version__,
                "driver_version": self.driver_version,
                "server": {
                    "spec": _public(server.spec),
                    "label": server.label,
                    "version": server.version,
                    "version_num": server.version_num,
                    "build": server.build,
                    "managed": server.managed,
                },
                "config": config.record(),
                "env": dict(variant.spec.env),
                "initdb": list(variant.spec.initdb),
                "memory": variant.memory,
                "cpus": {"server": self.campaign.spec.server_cpus, "driver": self.campaign.spec.driver_cpus},
                **({"comparison": self.comparison} if self.comparison else {}),
                "workload_name": self.run.workload.workload.name,
                "options": self.run.workload.all_options,
                "seed": self.campaign.spec.seed,
                "order": self.campaign.spec.order,
                "variant_order": variant.place,
                "base": self.campaign.spec.base,
                "host": self.facts,
                "timings": self.timings.seconds,
                "sizes": self.sizes,
                "facts": self.work_facts,
            }
        )


def gigabytes(count: float) -> str:
    """Bytes for people: `3.1 GB`, `420 MB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def execute_sql(cluster: Cluster | ForeignCluster, statement: str) -> None:
    try:
        with cluster.connect() as connection:
            connection.execute(statement.encode())
    except psycopg.Error as error:
        raise ServerError(f"{statement}: {' '.join(str(error).split())}") from error


def without_password(spec: Json) -> Json:
    connection = {k: v for k, v in spec["connection"].items() if k != "password"}
    return {**spec, "connection": connection}


def _public(spec: str) -> str:
    """A server's spec without the password a DSN may hold."""
    if not spec.startswith("dsn:"):
        return spec
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    parts = conninfo_to_dict(spec.removeprefix("dsn:"))
    parts.pop("password", None)
    return f"dsn:{make_conninfo('', **parts)}"
