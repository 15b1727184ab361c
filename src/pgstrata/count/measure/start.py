"""One fresh start: a new cluster, its data, and every step of a workload counted once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from msgspec import structs

from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.plan.model import PlannedVariant
from pgstrata.count.measure.callgrind import CallGraph
from pgstrata.count.measure.engine import Engine, drive
from pgstrata.count.measure.left_out import timed
from pgstrata.count.measure.marks import MARK, CountableStep, Length, NotCountedError, apart, counted
from pgstrata.count.measure.template import Templates
from pgstrata.driver.samples import samples
from pgstrata.driver.spec import Spec
from pgstrata.errors import DriverError, PgstrataError, ServerError
from pgstrata.measure.query_plans import step_plans
from pgstrata.measure.run.active import execute_sql
from pgstrata.measure.run.cause import cause
from pgstrata.measure.run.modules import create_modules
from pgstrata.measure.run.settle import run_admin, run_settle
from pgstrata.measure.step import driver_spec, step_seed
from pgstrata.server.cluster.cluster import Cluster, new_database
from pgstrata.server.config.known import KnownSettings, known_settings
from pgstrata.server.config.settings import plain_number, size_bytes
from pgstrata.store.record import QueryPlan
from pgstrata.workload.core.language import Admin, Phase, Settle, Step, Work, WorkContext

DATABASE = "pgstrata"

SETTINGS: Mapping[str, str] = {
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "autovacuum": "off",
    "synchronous_commit": "on",
    "wal_writer_delay": "10s",
    "checkpoint_timeout": "1h",
    "checkpoint_segments": "256",
    "max_wal_size": "16GB",
}
"""While counting, whatever the config says: code that is compiled anew at each start has no name; a plan in
several processes divides its work by the clock; and vacuums and checkpoints come when they are due by the
clock, after which pages are written into the log whole. Of a commit that does not wait for its log each
reader asks anew until the WAL writer, by the clock, has written it."""

NOW = datetime(2026, 1, 1)
"""The local time of a workload's first step, an hour more at each: rows that hold it, and indexes on it, are
the same at each start."""

MOST_BUFFERS = "1GB"
"""A server looks at every buffer when it starts and ends: of six gigabytes that takes longer than a count."""


_OF_THE_SERVER = frozenset({"", "53", "57", "58", "XX"})
"""Classes of SQLSTATE that tell of the server, not of a statement: no memory or disk, an end, a defect."""


def settings_for(known: KnownSettings, configured: Mapping[str, str]) -> dict[str, str]:
    """Returns those that the server has, in its units, on top of a config's settings as SHOW writes them."""
    wanted = dict(SETTINGS)
    if (size_bytes(configured.get("shared_buffers", "")) or 0) > (size_bytes(MOST_BUFFERS) or 0):
        wanted["shared_buffers"] = MOST_BUFFERS
    rows = {name: row for name in wanted if (row := known.get(name))}
    if known.takes_units:
        return {name: wanted[name] for name in rows}
    return {name: plain_number(row, wanted[name]) for name, row in rows.items()}


@dataclass(frozen=True)
class CountPlan:
    """What is counted of a workload, the same for every variant and start.

    phases: in their order, steps as they are counted or as they are. left_out: steps that are not, and why.
    """

    phases: Sequence[Phase | CountedPhase]
    left_out: Mapping[str, str]
    notes: Sequence[str]

    @property
    def steps(self) -> list[CountedPhase]:
        return [phase for phase in self.phases if isinstance(phase, CountedPhase)]

    def until(self, last: str | None) -> CountPlan:
        """Returns the plan without the phases behind the step of this name; None: all of it."""
        ends = [
            n for n, p in enumerate(self.phases, 1) if isinstance(p, CountedPhase) and p.step.name == last
        ]
        return replace(self, phases=self.phases[: ends[-1]]) if ends else self


@dataclass(frozen=True)
class CountedPhase:
    """A step ready to be counted; order: among all steps of the workload, from 1."""

    counted: CountableStep
    order: int

    @property
    def step(self) -> Step:
        return self.counted.step


LengthOf = Callable[[str], Length]


def plan_steps(
    phases: Sequence[Phase], wanted: Callable[[str], bool], length: LengthOf, *, marks: bool
) -> CountPlan:
    """Returns the plan of the phases to execute and the steps to count. wanted: whether a step of this name
    was asked for; length: how many operations of it are counted."""
    counted_phases: list[Phase | CountedPhase] = []
    left_out: dict[str, str] = {}
    notes: list[str] = []
    order = 0
    for phase in phases:
        if not isinstance(phase, Step):
            counted_phases.append(phase)
            continue
        for step in apart(phase):
            order += 1
            if not step.measured:
                # Warming up and showing plans leave the data as they are; loading does not.
                if _ends(step) and not step.reads_only:
                    counted_phases.append(step)
                continue
            reason = step.uncounted
            if not reason and wanted(step.name):
                try:
                    countable = counted(step, length(step.name), marks=marks)
                    counted_phases.append(CountedPhase(countable, order))
                    notes += [f"{step.name}: {countable.left}"] if countable.left else []
                    continue
                except NotCountedError as error:
                    reason = str(error)
            if reason:
                left_out[step.name] = reason
            if not step.reads_only and _ends(step):
                counted_phases.append(step)  # later steps need what it leaves
    last = max((n for n, phase in enumerate(counted_phases) if isinstance(phase, CountedPhase)), default=-1)
    return CountPlan(counted_phases[: last + 1], left_out, notes)


def _ends(step: Step) -> bool:
    """Returns whether a step ends by itself: a step that goes by the clock would do another number of
    operations each time, and a recovery is not done by a driver."""
    return step.recovery is None and step.seconds is None and all(role.operations for role in step.roles)


@dataclass
class StartResult:
    """By step and role what its counted operations took; steps that the server rejects, and why; by name the
    server's own processes; by step the plans of its statements, where these were asked for."""

    steps: dict[str, dict[str, CallGraph]] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    processes: dict[str, float] = field(default_factory=dict)
    plans: dict[str, tuple[QueryPlan, ...]] = field(default_factory=dict)
    error: PgstrataError | None = None
    log_tail: str = ""
    _left_out: dict[tuple[str, str], float] = field(default_factory=dict, repr=False, compare=False)

    def left_out(self, step: str, role: str) -> float:
        """Returns the instructions of a role that are not judged, which takes a tenth of a second to find."""
        if (step, role) not in self._left_out:
            self._left_out[step, role] = timed(self.steps[step][role])
        return self._left_out[step, role]

    def left_out_by_role(self) -> dict[tuple[str, str], float]:
        """Returns what `left_out` returns, of every step and role."""
        return {
            (step, role): self.left_out(step, role) for step, roles in self.steps.items() for role in roles
        }

    def reduce(self) -> None:
        """Drops functions and calls, and leaves the totals and what is left out of them: a hundredth of the
        memory."""
        self._left_out = self.left_out_by_role()
        self.steps = {
            step: {role: graph.only_totals() for role, graph in roles.items()}
            for step, roles in self.steps.items()
        }


class FreshStart:
    """A cluster of a variant from initdb to its end. `close` may be called from another thread. templates:
    data folders that are copied instead of initdb."""

    def __init__(
        self,
        campaign: Campaign,
        variant: PlannedVariant,
        chosen: ChosenWorkload,
        engine: Engine,
        folder: Path,
        templates: Templates | None,
    ) -> None:
        self._campaign, self._variant, self._chosen, self._engine = campaign, variant, chosen, engine
        self.cluster = Cluster(
            variant.server,
            variant.config,
            folder,
            env=variant.spec.env,
            initdb=variant.spec.initdb,
            cpus=campaign.spec.server_cpus,
            memory=variant.memory,
            storage=variant.storage,
            outside=campaign.spec.allow_outside,
        )
        self._templates = templates
        self._counts: Path | None = None

    def measure(
        self,
        plan: CountPlan,
        check: Callable[[], None],
        *,
        with_plans: bool = False,
        with_processes: bool = True,
    ) -> StartResult:
        """Counts every step of the plan. Nothing is left running.

        check: raises where the end was asked for; with_plans: the plans of the steps are asked for when all
        are counted; with_processes: the server's own processes are counted, too. What fails is in the result.
        """
        result = StartResult()
        try:
            self._measure(plan, result, check)
            if with_plans or with_processes:
                self.cluster.stop("fast")  # its processes write what they have done when they end
            if with_processes and self._counts is not None:
                result.processes = self._engine.processes(self._counts)
            if with_plans:
                self._ask_plans(plan, result, check)
        except PgstrataError as error:
            up = isinstance(error, DriverError) and bool(self.cluster.postmaster.pid)
            result.error, result.log_tail = cause(error, self.cluster, started=up, log="the run's record")
        finally:
            self.close()
        return result

    def close(self) -> None:
        """Stops and removes the cluster."""
        self.cluster.stop("immediate")
        self.cluster.remove()

    def _measure(
        self,
        plan: CountPlan,
        result: StartResult,
        check: Callable[[], None],
    ) -> None:
        cluster = self.cluster
        template: Path | None = None
        if self._templates is not None:
            of = self._variant
            template = self._templates.of(of.server, of.config, of.spec.initdb, cluster.folder.parent)
        cluster.create(template)
        cluster.start()
        execute_sql(cluster, new_database(DATABASE))
        create_modules(cluster, self._variant.server, DATABASE, self._variant.extensions)
        under = False
        for phase in plan.phases:
            check()
            if isinstance(phase, CountedPhase):
                if not under:
                    self._start_counted()
                    under = True
                self._count(phase, result)
            else:
                self._do(phase, check)

    def _settings(self) -> dict[str, str]:
        return settings_for(known_settings(self._variant.server), self._variant.config.settings)

    def _ask_plans(self, plan: CountPlan, result: StartResult, check: Callable[[], None]) -> None:
        """Asks for the plans of every counted step, on a server that counts nothing. A count is whole without
        them."""
        cluster = self.cluster
        try:
            cluster.start(settings=self._settings())
        except ServerError:
            return
        for phase in plan.steps:
            check()
            step = phase.step
            sampled = step.samples or partial(samples, self._spec(step, phase.order))
            plans, _ = step_plans(partial(cluster.connect, DATABASE, confined=step.confined), sampled)
            # The marks around what is counted are no statements of the step.
            result.plans[step.name] = tuple(
                query_plan for query_plan in plans if MARK not in query_plan.statement
            )

    def _start_counted(self) -> None:
        cluster = self.cluster
        cluster.stop("fast")
        self._counts = cluster.data_folder.private_folder("counts")
        try:
            cluster.start(self._engine.under(self._counts), self._settings())
        except ServerError as error:
            raise ServerError(
                f"under {self._engine.name}: {error.message}" if self._engine.slow else error.message,
                error.hint,
            ) from error

    def _seed(self, order: int, name: str) -> int:
        seed = getattr(self._chosen.options, "seed", self._campaign.spec.seed)
        return step_seed(seed, 1, order, name)

    def _count(self, phase: CountedPhase, result: StartResult) -> None:
        assert self._counts is not None
        step, lengths = phase.step, phase.counted.lengths
        try:
            graphs = self._engine.count(step, lengths, self._spec(step, phase.order), self._counts)
        except DriverError as error:
            if step.reads_only and error.kind == "sql" and (error.sqlstate or "")[:2] not in _OF_THE_SERVER:
                result.rejected[step.name] = error.message
                return
            raise error.worded(f"{step.name}: {error.message}") from error
        result.steps[step.name] = {role: graph.per(lengths[role].counted) for role, graph in graphs.items()}

    def _spec(self, step: Step, order: int) -> Spec:
        connection = self.cluster.connection(DATABASE, confined=step.confined)
        spec = driver_spec(step, connection, self._seed(order, step.name), "blocking")
        return structs.replace(spec, local_time=f"{NOW + timedelta(hours=order)}")

    def _do(self, phase: Phase, check: Callable[[], None]) -> None:
        match phase:
            case Admin():
                run_admin(self.cluster, phase, DATABASE)
            case Settle():
                # A commit that did not wait for the disk leaves rows without hint bits until it is flushed,
                # which happens by the clock: vacuum would set them at one start and operations at another.
                run_admin(self.cluster, Admin("flush", ["CHECKPOINT"]), DATABASE)
                quick = replace(phase, seconds=0.0)
                run_settle(self.cluster, quick, DATABASE, check)
            case Work():
                phase.do(WorkContext(partial(self.cluster.connect, DATABASE), lambda text: None, check))
            case Step():
                drive(self._spec(replace(phase, digest=None), 0))
