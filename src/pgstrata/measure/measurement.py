"""One step of one variant while it is measured: the same procedure for runs, slices, rounds and blocks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import psycopg
from msgspec import structs

from pgstrata.campaign.study import Study
from pgstrata.driver.client import Driver, driver_failure
from pgstrata.driver.events import Done, Failure, Second, SliceEnded, StatementDone, Stretch
from pgstrata.driver.message import GivenSlices, document
from pgstrata.driver.samples import samples
from pgstrata.driver.spec import Connection, FrozenSpec, Spec, WindowsSpec
from pgstrata.errors import DriverError, PgstrataError
from pgstrata.files.elf import source_files
from pgstrata.measure.merge import merged_parts
from pgstrata.measure.portions import Portions, connected
from pgstrata.measure.profiles import StepProfile
from pgstrata.measure.query_plans import step_plans
from pgstrata.measure.recovery import HeldLog, replay, write_log
from pgstrata.measure.step import StepResult, driver_spec, measure
from pgstrata.measure.step_records import (
    lateness_rows,
    merged_replica,
    replica_step,
    series_rows,
    statement_rows,
)
from pgstrata.observe import StepWatch
from pgstrata.observe.other_load import LoadReading, OtherLoad
from pgstrata.observe.step_watch import OwnTime
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.served import Served
from pgstrata.server.connect.secrets import public
from pgstrata.store import RunBuilder
from pgstrata.store.record import (
    AloneRecords,
    AnswerRecord,
    QueryCauseRecord,
    QueryPairs,
    Slice,
    TookTurns,
)
from pgstrata.workload.core.language import Digest, Step
from pgstrata.workload.core.queries import explain_of

Json = dict[str, Any]

BLOAT_BYTES = 1 << 30
"""Largest table that is read whole by pgstattuple after the last step."""


class Turns(OwnTime, Protocol):
    """Those of one variant, while connections of all variants stay open."""

    def spec(self) -> WindowsSpec | FrozenSpec | GivenSlices:
        """Returns the part of the driver's spec about the turns."""
        ...

    def span(self, seconds: float) -> float:
        """Returns the seconds that pass while this variant is measured for `seconds`."""
        ...

    @property
    def cpus(self) -> Sequence[int]:
        """The CPUs that driver and backends of all variants share; empty: left to the kernel."""
        ...

    def begin(self, driver: Driver) -> None:
        """Starts a driver that is ready, at the moment all variants have in common."""
        ...


@dataclass(frozen=True)
class Part:
    """What one driver measures of a step.

    step: as long as the part. number: from 1 where a step has several parts, each of which draws from a
    random stream of its own, the same for all variants; 0 for a step in one piece.
    """

    step: Step
    number: int = 0
    turns: Turns | None = None


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


@dataclass(frozen=True)
class RunContext:
    """Where a step is measured and where its results go. The same for all steps of a run."""

    cluster: Served
    database: str
    builder: RunBuilder
    timings: Timings
    settings: Study


@dataclass(frozen=True)
class StoredStep:
    """A step that is over and in its run folder. plans: of recorded statements (`plans.json`); rejected: by
    name of a recorded statement what the server said instead of an answer."""

    result: StepResult
    plans: Sequence[Json]
    rejected: Mapping[str, str]


class Executed(NamedTuple):
    """What a step did of which nothing is kept. load: of other programs beside it, None where it is not
    known."""

    done: Done
    statements: Sequence[StatementDone]
    load: LoadReading | None

    def other_load(self, limit: float) -> float | None:
        """Returns the share of the CPUs that others had, as `other_load_of`."""
        return other_load_of(self.load, limit)


def other_load_of(load: LoadReading | None, limit: float) -> float | None:
    """Returns the share of the CPUs that others had: programs, guests of the host, the quota of a container;
    None where it is not known, or they may have all (limit: 1)."""
    if load is None or limit >= 1:
        return None
    shares = load.record(limit)
    return round(min(1.0, shares.other_load + shares.stolen + (shares.throttled or 0.0)), 4)


def turn_of(statements: Sequence[StatementDone], pair: int, other_load: float | None) -> Slice | None:
    """Returns the turn of executions of one query on one connection; None where nothing was timed."""
    seconds = sum(statement.seconds for statement in statements)
    if not statements or seconds <= 0:
        return None
    cpu = [statement.cpu.seconds for statement in statements if statement.cpu is not None]
    return Slice(
        pair=pair,
        seconds=seconds,
        rate=len(statements) / seconds,
        other_load=other_load,
        cpu_seconds=round(sum(cpu), 9) if len(cpu) == len(statements) else None,
    )


class StepMeasurement:
    """Measures one step in as many parts as it is asked for, puts them together, and stores them.

    step: the whole; order: from 1; seed: of the step; parts: how many are expected at least; last: no step of
    the run comes after it. Leaving the block removes the rows of recorded statements.
    """

    def __init__(
        self, where: RunContext, step: Step, order: int, seed: int, *, parts: int = 1, last: bool = False
    ) -> None:
        self.step, self.order = step, order
        self.parts: list[StepResult] = []
        self.alone: AloneRecords | None = None
        self.answers: list[AnswerRecord] = []
        self.query_pairs: QueryPairs | None = None
        """These three are as in the step record."""
        self.query_causes: list[QueryCauseRecord] = []
        self._where, self._seed, self._last = where, seed, last
        self._spec: Spec | None = None
        self._notes: list[str] = []
        wanted = where.settings.profile if step.measured else None
        if wanted is not None and where.cluster.postmaster.pid is None:
            wanted, self._notes = None, ["no profile: the processes of a foreign server are out of sight"]
        if wanted is not None and where.cluster.pooled:
            wanted, self._notes = None, ["no profile: which backend works for which role is not known"]
        self._profile = StepProfile(wanted, parts)
        self._rows: Path | None = None
        self._log: HeldLog | None = None
        self._scratch = ExitStack()

    def __enter__(self) -> StepMeasurement:
        if self.step.digest is not None:
            self._rows = self._scratch.enter_context(self._where.builder.scratch("rows"))
        return self

    def __exit__(self, *_: object) -> None:
        self._scratch.close()

    @property
    def seconds(self) -> float:
        """The seconds that are measured already. Parts may be shorter than one."""
        return sum(part.done.seconds for part in self.parts)

    def measure(
        self,
        part: Part,
        on_second: Callable[[Second], None] = lambda event: None,
        on_stretch: Callable[[Stretch | SliceEnded], None] = lambda event: None,
    ) -> StepResult:
        """Measures one part and keeps it. on_second, on_stretch: take such events of the driver.

        Raises DriverError where nothing was measured; an error in the middle is in `StepResult.error`.
        """
        if part.step.recovery is not None:
            return self._recovered(part)
        where, settings, turns = self._where, self._where.settings, part.turns
        server = where.cluster.standbys.serving(reads_only=part.step.reads_only)
        apart: dict[str, Connection] = {}
        if not part.step.reads_only and (reading := [r.name for r in part.step.roles if r.reads_only]):
            reader = where.cluster.standbys.serving(reads_only=True)
            if reader is not server:
                own_connection = reader.connection(where.database, confined=part.step.confined)
                apart = dict.fromkeys(reading, own_connection)
        connection = server.connection(where.database, confined=part.step.confined)
        spec = self._driver_spec(part, connection, apart)
        span, interval = part.step.seconds, 1.0
        if turns is not None:
            # A second of one variant takes that of all the others, too.
            interval = turns.span(span or 1.0) / (span or 1.0)
            span = turns.span(span) if span is not None else None
        watch = StepWatch(
            server,
            part.step.tables,
            where.database,
            interval=interval,
            bloat_bytes=BLOAT_BYTES if self._last and server is where.cluster else 0,
            waits_hertz=settings.waits,
            windows=turns,
            away=apart.keys(),
            judged_load=part.step.judged_load,
        )
        begun = time.monotonic()
        with where.builder.scratch("perf") as recordings:
            result = measure(
                part.step,
                self.order,
                spec,
                watch,
                on_second=on_second,
                on_stretch=on_stretch,
                profiler=self._profile.profiler(
                    part.number, recordings, part.step.seconds, span, in_turns=turns is not None
                ),
                cpus=(turns.cpus if turns is not None else ()) or settings.driver_cpus,
                begin=turns.begin if turns is not None else Driver.start,
                pin_backends=turns.cpus if turns is not None and self._local else (),
            )
            self._profile.add(part.number, result.record.roles, result.profiles)
        where.cluster.standbys.check()
        result.number = part.number
        result.record = structs.replace(
            result.record, replica=replica_step(result.observed, where.cluster, server, apart.keys())
        )
        where.timings.add("observe", result.observed.observe_seconds)
        if turns is None:
            around = time.monotonic() - begun - result.done.seconds - part.step.warmup
            where.timings.add("connect", max(0.0, around - result.observed.observe_seconds))
        self.parts.append(result)
        return result

    def _recovered(self, part: Part) -> StepResult:
        """Measures a step in which a server replays a log, made before the first part."""
        cluster, timings = self._where.cluster, self._where.timings
        assert isinstance(cluster, Cluster)  # check_recovery refuses others
        if self._log is None:
            with timings.of("write log"):
                self._log = write_log(part.step, cluster, self._where.database)
        with timings.of("restore"):
            cluster.restore()
        result = replay(part.step, self.order, cluster, self._log)
        result.number = part.number
        self.parts.append(result)
        return result

    def scratch(self, name: str) -> AbstractContextManager[Path]:
        """Makes an empty folder for files that are not kept."""
        return self._where.builder.scratch(name)

    @property
    def _local(self) -> bool:
        """Backends are processes of this machine, and known."""
        return self._where.cluster.postmaster.pid is not None and not self._where.cluster.pooled

    def execute(self, step: Step, rows: Path | None = None) -> Executed:
        """Executes another step on the same server and keeps nothing of it. rows: the folder for the rows of
        recorded statements. Raises DriverError where it was cut short."""
        spec = self._spec_beside(step, rows=rows)
        done: Done | None = None
        statements: list[StatementDone] = []
        load: OtherLoad | None = None
        with Driver(spec, cpus=self._where.settings.driver_cpus) as driver:
            driver.ready()
            with suppress(OSError):
                load = OtherLoad()
            driver.start()
            for event in driver.events():
                match event:
                    case Failure():
                        raise driver_failure(event)
                    case StatementDone():
                        statements.append(event)
                    case Done():
                        done = event
            driver.close()
            reading = None
            with suppress(OSError):
                reading = load.read() if load is not None else None
        assert done is not None  # events() raises where it does not come
        return Executed(done, statements, reading)

    def plan_of(self, step: Step) -> str | None:
        """Returns the plan of the only query of a step; None where it is not known, or processes of the
        server are out of sight."""
        explain = explain_of(step)
        if explain is None or not self._local:
            return None
        server = self._where.cluster.standbys.serving(reads_only=step.reads_only)
        with (
            suppress(psycopg.Error, PgstrataError),
            server.connect(self._where.database, confined=step.confined) as session,
        ):
            return "\n".join(str(row[0]) for row in session.execute(explain.encode()).fetchall())
        return None

    @contextmanager
    def portions(self, step: Step, cpus: Sequence[int]) -> Iterator[Portions]:
        """Connects for portions of a step, of which nothing is kept. cpus: that driver and backend share;
        empty: left to the kernel. Raises DriverError."""
        spec = self._spec_beside(step, turns=GivenSlices())
        driver_cpus = cpus or self._where.settings.driver_cpus
        # CPUs that the campaign names for the driver are not those of its backends.
        with connected(spec, driver_cpus, pins_backends=self._local and bool(cpus)) as portions:
            yield portions

    def _spec_beside(self, step: Step, *, rows: Path | None = None, turns: GivenSlices | None = None) -> Spec:
        """Returns the driver's spec of another step on the same server, of which nothing is kept. rows: the
        folder for the rows of recorded statements."""
        where = self._where
        server = where.cluster.standbys.serving(reads_only=step.reads_only)
        return driver_spec(
            step,
            server.connection(where.database, confined=step.confined),
            self._seed,
            where.settings.engine,
            results_dir=str(rows) if rows is not None else None,
            turns=turns,
            local=self._local,
        )

    def _driver_spec(self, part: Part, connection: Connection, apart: Mapping[str, Connection]) -> Spec:
        """Returns the driver's spec of a part; that of the first part is kept with the run."""
        where = self._where
        spec = driver_spec(
            part.step,
            connection,
            (self._seed + part.number) % 2**48,
            where.settings.engine,
            apart=apart,
            results_dir=str(self._rows) if self._rows else None,
            turns=part.turns.spec() if part.turns is not None else None,
            local=self._local and where.settings.other_load < 1,
        )
        if self._spec is None:
            self._spec = spec
            where.builder.spec(self.order, self.step.name, document(without_secrets(spec)))
        return spec

    def store(
        self, taken: TookTurns | None = None, *, reachable: bool = True, keep: bool = False
    ) -> StoredStep:
        """Puts the parts together, asks why (profile, plans), and stores the step.

        taken: of the step record, where variants took turns. reachable: whether the server still answers.
        keep: the step outlives the run, unless it was cut short.
        Raises StoreError.
        """
        where = self._where
        result = self.parts[0]
        if taken is not None:
            result = merged_parts(self.step, self.order, self.parts)
            replica = merged_replica([part.record.replica for part in self.parts])
            result.record = structs.replace(
                result.record,
                turns=taken.turns,
                slices=tuple(taken.slices),
                blocks=tuple(taken.blocks),
                span=taken.span,
                slice_seconds=taken.slice_seconds,
                cpus=tuple(sorted(taken.cpus)),
                one_start=taken.one_start,
                replica=replica,
            )
        if (load := result.observed.load) is not None:
            disturbance = load.record(where.settings.other_load)
            result.record = structs.replace(result.record, disturbance=disturbance)
        if self.alone is not None:
            result.record = structs.replace(result.record, alone=self.alone)
        if self.answers:
            result.record = structs.replace(result.record, answers=tuple(self.answers))
        if self.query_pairs is not None:
            result.record = structs.replace(result.record, query_pairs=self.query_pairs)
        if self.query_causes:
            result.record = structs.replace(result.record, query_causes=tuple(self.query_causes))
        begun = time.monotonic()
        profiles = self._ask_why(result, reachable)
        where.timings.add("observe", time.monotonic() - begun)
        digest = self._digested(result)
        with where.timings.of("store"):
            where.builder.step(
                result.record,
                series=series_rows(result.seconds),
                histograms=result.histograms,
                host=result.observed.host,
                backends=result.observed.backends,
                pgstat=result.observed.pgstat,
                queries=digest.queries,
                profiles=profiles,
                lag=result.observed.lag,
                lateness=lateness_rows(result.seconds),
                statements=[row for part in self.parts for row in statement_rows(part.number, part.done)],
                plans=digest.plans,
                driver_version=result.ready.driver,
                keep=keep and reachable and result.error is None,
            )
        rejected = {
            row["query"]: row["error"]
            for row in digest.queries
            if row.get("error") and not row.get("timed_out")
        }
        return StoredStep(result, digest.plans, rejected)

    def _ask_why(self, result: StepResult, reachable: bool) -> list[Json]:
        """Adds profile and plans to the record. Returns the rows of the table `profiles`."""
        record = result.record
        notes = [*record.notes, *self._notes]
        profiles: list[Json] = []
        if self._profile.wanted:
            profile, profiles, more = self._profile.keep(
                self.order, self.step.name, self._where.builder.attach, self._source_files
            )
            record = structs.replace(record, profile=profile)
            notes += more
        if self.step.digest is None and result.error is None and reachable and self._spec is not None:
            sampled = self.step.samples or partial(samples, self._spec)
            where, confined = self._where, self.step.confined
            # Making a plan executes functions: of statements that are confined by the role that is.
            plans, more = step_plans(
                lambda: where.cluster.connect(where.database, confined=confined), sampled
            )
            record = structs.replace(record, plans=plans)
            notes += more
        result.record = structs.replace(record, notes=tuple(notes))
        return profiles

    def _source_files(self) -> dict[str, str | None]:
        """Returns the source files of the server's functions, as far as its symbols tell them."""
        bin_dir = self._where.cluster.server.bin_dir
        with suppress(OSError):
            return source_files(bin_dir / "postgres") if bin_dir is not None else {}
        return {}

    def _digested(self, result: StepResult) -> Digest:
        if self.step.digest is None or self._rows is None:
            return Digest([])
        with self._where.timings.of("digest"):
            digest = self.step.digest(result.statements, self._rows)
        record = result.record
        result.record = structs.replace(
            record,
            rate=record.rate if digest.rate is None else digest.rate,
            # the table `queries` has each statement
            roles={n: structs.replace(r, statements_by_name=()) for n, r in record.roles.items()},
        )
        return digest


def cut_short(step: Step, error: DriverError) -> DriverError:
    """Returns the error that ended a step before its time, with the name of the step; for a statement from a
    file with its place there, and with the server's DETAIL, without which the row cannot be found."""
    place = step.places.get(error.statement)
    if place is None:
        return error.worded(f"{step.name}: {error.message}")
    return error.worded("; ".join(filter(None, (f"{step.name}: {place}: {error.message}", error.hint))), "")


def without_secrets(spec: Spec) -> Spec:
    """Returns the driver's spec as it is kept with a run, without secrets."""
    roles = [
        structs.replace(role, connection=role.connection and public(role.connection)) for role in spec.roles
    ]
    return structs.replace(spec, connection=public(spec.connection), roles=roles)
