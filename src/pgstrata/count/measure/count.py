"""Counts the steps of a campaign's workloads on every variant, fresh start after fresh start, and stores
them."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import psutil
from msgspec import structs
from rich.console import Console

import pgstrata
from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.plan.model import PlannedVariant
from pgstrata.campaign.plan.recorded import as_planned
from pgstrata.campaign.plan.runs import Plan
from pgstrata.campaign.study import CountSpec
from pgstrata.count.measure.asked import PILOT, AskedSteps
from pgstrata.count.measure.callgrind import CallGraph, mean
from pgstrata.count.measure.choose import find_engine
from pgstrata.count.measure.engine import Engine
from pgstrata.count.measure.marks import Length
from pgstrata.count.measure.rows import call_rows, file_rows, function_rows, start_row, symbols_of
from pgstrata.count.measure.start import (
    CountedPhase,
    FreshStart,
    StartResult,
    settings_for,
)
from pgstrata.count.measure.template import Templates
from pgstrata.count.verdicts import estimate_counts, precise
from pgstrata.driver.client import find_driver
from pgstrata.errors import StoreError, UsageError
from pgstrata.measure.campaign import Conditions, clear_places, data_root, plan_campaign
from pgstrata.measure.interrupt import Interrupted, Interrupts
from pgstrata.measure.progress import plain_lines
from pgstrata.measure.session import Session
from pgstrata.numbers import counted
from pgstrata.observe import machine
from pgstrata.server.config.known import known_settings
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.store import Results, kept
from pgstrata.store.comparisons import hide
from pgstrata.store.counted import COUNTED
from pgstrata.store.kept import KeptStart, digest, keep_start, kept_starts
from pgstrata.store.names import RunKey, new_run_id
from pgstrata.store.record import (
    CountedRole,
    CountedStep,
    CountRecord,
    Cpus,
    QueryPlan,
    RunFailure,
)
from pgstrata.store.write import RunBuilder
from pgstrata.workload.core.options import NotInVersionError
from pgstrata.workload.plugin import FACT, source_of

TARGET = 2e7
"""Instructions that the counted operations of a step should come to: more does not make a count that repeats
to a hundredth of a percent any better, and takes longer."""

FEWEST, MOST = 5, 1000
"""Counted operations of a step."""

COUNTED_AS = 2
"""Number of the way in which starts are counted; starts that are kept of another way are counted anew."""

DEAR = 2e8
"""Instructions of an operation, a query of seconds say, that is counted once: what differs from one execution
to the next is nothing beside it."""


@dataclass
class CountOutcome:
    """Folders of the runs made now; what failed, by variant and workload, and why."""

    plan: Plan
    folders: list[Path] = field(default_factory=list)
    failed: list[tuple[str, str, str]] = field(default_factory=list)


def count_campaign(
    campaign: Campaign,
    results: Results,
    console: Console,
    *,
    fresh: bool = False,
    lasting: Path | None = None,
    with_functions: bool = True,
    templates: Templates | None = None,
    fewer: int = 0,
    only: str = "",
    find: Callable[[str, Build | None], Server] | None = None,
) -> CountOutcome:
    """Counts what is missing. A variant that cannot be counted is stored as failed, and the others go on.

    lasting: folder in which the starts of the base stay, for other counts with the same base.
    with_functions: the runs have what each function, call and process of the server took, and the plans, for
    their pages. templates: data folders that starts copy, also those of other counts of the same servers;
    None: initdb for each start. fewer: starts by which the other variants have fewer than the base. only:
    label of the one that is counted, where other machines count the others. find: gives the servers, where
    they are not found as ever.

    Raises UsageError where nothing can count here or a step was asked for that is not there, StoreError,
    Interrupted; nothing is left running then.
    """
    find_driver()
    wanted = campaign.spec.count or CountSpec()
    engine = find_engine(wanted.engine, simulate=wanted.simulate)
    root = data_root(campaign)
    say = plain_lines(console)
    with Interrupts(say) as interrupts, results.lock():
        for left in [
            *results.clean(),
            *clear_places(campaign, root),
        ]:
            say(f"removed what an interrupted run left: {left}")
        plan = _plan_of(campaign, results, say, only, find)
        check_managed(plan)
        outcome = CountOutcome(plan)
        session = Session(campaign, results, root, interrupts, say)
        for chosen in campaign.workloads:
            count = _Count(session, chosen, engine, outcome, lasting, with_functions, templates, fewer, only)
            count.all(fresh)
        return outcome


def check_managed(plan: Plan) -> None:
    """Raises UsageError for a server that pgstrata does not start."""
    for variant in plan.variants:
        if not variant.server.managed:
            raise UsageError(
                f"{variant.label}: the instructions of a server that runs already cannot be counted",
                "name its binaries: path:DIR",
            )


def _plan_of(
    campaign: Campaign,
    results: Results,
    say: Callable[[str], None],
    only: str,
    find: Callable[[str, Build | None], Server] | None,
) -> Plan:
    """Returns the plan; where only one variant is counted, without the servers of the others but the base."""
    whole = campaign
    if only:
        labels = (campaign.spec.base, only)
        variants = [variant for variant in campaign.variants if variant.label in labels]
        campaign = campaign.model_copy(update={"variants": variants})
    plan = plan_campaign(campaign, results, say, fresh=True, conditions=Conditions(find=find))
    numbers = {variant.label: number for number, variant in enumerate(whole.variants)}
    return replace(plan, variants=[replace(v, number=numbers.get(v.label, v.number)) for v in plan.variants])


class _Kept(msgspec.Struct, frozen=True):
    """What a start has counted, as it is kept until all are there."""

    lengths: dict[str, Length]
    steps: dict[str, dict[str, CallGraph]]
    rejected: dict[str, str]
    processes: dict[str, float]
    plans: dict[str, tuple[QueryPlan, ...]] = {}
    left_out: dict[tuple[str, str], float] = {}


class _Count:
    """The counting of one workload."""

    def __init__(
        self,
        session: Session,
        chosen: ChosenWorkload,
        engine: Engine,
        outcome: CountOutcome,
        lasting: Path | None,
        with_functions: bool,
        templates: Templates | None,
        fewer: int,
        only: str,
    ) -> None:
        self._session, self._chosen, self._engine = session, chosen, engine
        self._campaign, self._wanted = session.campaign, session.campaign.spec.count or CountSpec()
        self._results, self._interrupts, self._say = session.results, session.interrupts, session.say
        self._plan, self._outcome, self._lasting = outcome.plan, outcome, lasting
        self._with_functions, self._templates, self._fewer = with_functions, templates, fewer
        self._asked, self._only = AskedSteps(chosen, self._wanted, engine.marks), only
        self._lengths: dict[str, Length] = {}
        self._keys: dict[str, RunKey] = {}
        self._open: set[FreshStart] = set()
        self._ending = threading.Event()
        self._label = f"{chosen.label}{COUNTED}"

    def all(self, fresh: bool) -> None:
        variants, unable = self._variants()
        base = variants[0]
        # the base is looked at all the same: it says how many operations are counted
        variants = [variant for variant in variants if self._only in ("", variant.label)]
        self._keys = keys = {v.label: RunKey(self._campaign.name, v.label, self._label, 1) for v in variants}
        self._asked.check(base.server.features)
        if fresh:
            for key in keys.values():
                kept.drop(self._results.root, key)
        elif all(
            self._asked.run_there(self._results, keys[v.label], v, self._engine.name) is not None
            for v in variants
        ):
            self._say(f"{self._label}: counted already")
            return
        with self._interrupts.shield():
            builders = {label: self._results.begin(key) for label, key in keys.items()}
        try:
            self._interrupts.check()
            starts = self._measure(base, variants)
            for variant in variants:
                self._store(variant, builders[variant.label], starts[variant.label])
                kept.drop(self._results.root, keys[variant.label])
        except BaseException:
            with self._interrupts.shield():
                for builder in builders.values():
                    if builder.folder.exists():
                        builder.abandon()
            raise
        for label, why in unable.items():
            self._say(f"{label}, {self._label}: not counted: {why}")

    def _variants(self) -> tuple[list[PlannedVariant], dict[str, str]]:
        able, unable = [], {}
        for variant in self._plan.variants:
            try:
                self._chosen.workload.phases(self._chosen.options, variant.server.features)
                able.append(variant)
            except NotInVersionError as error:
                unable[variant.label] = error.message
        # the base first: it says how many operations are counted
        return sorted(able, key=lambda v: v.label != self._plan.base), unable

    # --- starts -------------------------------------------------------------------------------

    def _measure(
        self, base: PlannedVariant, variants: Sequence[PlannedVariant]
    ) -> dict[str, list[StartResult]]:
        """Returns all starts of each variant, made until every step is known well enough. base: the first of
        the variants, unless it is counted elsewhere."""
        starts: dict[str, list[StartResult]] = {v.label: [] for v in variants}
        # the base comes first
        for variant in variants:
            starts[variant.label] = self._kept(variant)
        if not self._lengths:
            first = self._together([(base, 0, None)])[0]
            if first.error is not None and base.label in starts:
                starts[base.label].append(first)
            self._lengths = {name: _length(roles) for name, roles in first.steps.items()}
        last: str | None = None
        # The fewest are made side by side, also of a variant that is counted alone; then one more at a time.
        for number in range(self._wanted.starts, self._wanted.most_starts + 1):
            wanted = {v.label: number - (self._fewer if v is not base else 0) for v in variants}
            work = [
                (variant, n, last)
                for n in range(1, number + 1)
                for variant in variants
                if len(starts[variant.label]) < n <= wanted[variant.label]
                and not any(s.error for s in starts[variant.label])
            ]
            for (variant, _, _), result in zip(work, self._together(work), strict=True):
                starts[variant.label].append(result)
                if result.error is not None:
                    self._say(f"{variant.label}: {result.error.message}")
            planned = self._asked.plan(base.server.features)
            rejected = {name for all_ in starts.values() for start in all_ for name in start.rejected}
            open_ = [
                p
                for p in planned.steps
                if p.step.name not in rejected and not self._known(p.step.name, starts, variants)
            ]
            if not open_:
                break
            # Those before it are done again although they are known: also a step that only reads leaves pages
            # in memory, hints in rows and dead entries in indexes, which the next one finds.
            last = open_[-1].step.name
        return starts

    def _known(
        self, name: str, starts: Mapping[str, Sequence[StartResult]], variants: Sequence[PlannedVariant]
    ) -> bool:
        """Returns whether the interval of every role's ratio to the base is at most the margin wide."""
        by_label = {label: _per_start(done, name) for label, done in starts.items()}
        base = by_label[variants[0].label]
        for variant in variants[1:] or variants[:1]:
            for role, counts in by_label[variant.label].items():
                if not precise(estimate_counts(base.get(role, ()), counts), self._wanted.margin):
                    return False
        return True

    def _kept(self, variant: PlannedVariant) -> list[StartResult]:
        """Returns the starts of this variant that a stopped count has kept. The starts of the base decide how
        many operations are counted; starts of a variant with other numbers belong to another count."""
        starts = []
        for data in kept_starts(self._kept_in(variant), self._made_of(variant)):
            try:
                start = msgspec.msgpack.decode(data, type=_Kept)
            except msgspec.DecodeError:
                break
            self._lengths = self._lengths or start.lengths
            if start.lengths != self._lengths:
                break
            starts.append(
                StartResult(
                    start.steps, start.rejected, start.processes, start.plans, _left_out=start.left_out
                )
            )
        if starts:
            of = "other counts" if self._kept_in(variant) == self._lasting else "a stopped count"
            used = f"{counted(len(starts), 'start')} of {of} {'is' if len(starts) == 1 else 'are'} used again"
            self._say(f"{variant.label}, {self._label}: {used}")
        return starts

    def _kept_in(self, variant: PlannedVariant) -> Path:
        """Returns the folder of the starts that are kept of a variant."""
        if self._lasting is not None and variant.label == self._plan.base:
            return self._lasting
        return kept.folder_of(self._results.root, self._keys[variant.label])

    def _made_of(self, variant: PlannedVariant) -> str:
        """Stands for all that decides what is counted."""
        return digest(
            {
                "release": pgstrata.__version__,
                "counted": COUNTED_AS,
                "variant": variant.identity(),
                "workload": self._chosen.identity(),
                "seed": self._campaign.spec.seed,
                "engine": [self._engine.name, self._engine.tool, self._engine.simulated],
                "steps": [phase.step.name for phase in self._asked.plan(variant.server.features).steps],
                "functions": self._with_functions,
                "host": socket.gethostname(),
            }
        )

    def _together(self, work: Sequence[tuple[PlannedVariant, int, str | None]]) -> list[StartResult]:
        """Makes fresh starts side by side, one for each CPU, and returns their results. An interruption ends
        them all."""
        with self._interrupts.shield():
            pool = ThreadPoolExecutor(max(1, min(len(work), psutil.cpu_count() or 1)))
        try:
            futures = [pool.submit(self._start, *task) for task in work]
            wait_for(futures)
            return [future.result() for future in futures]
        except BaseException:
            with self._interrupts.shield():
                self._ending.set()
                if self._templates is not None:
                    self._templates.end()
                for start in list(self._open):
                    start.cluster.end()  # its driver ends with it, and so does its thread
                pool.shutdown(wait=True, cancel_futures=True)
            raise
        finally:
            pool.shutdown(wait=True)

    def _start(self, variant: PlannedVariant, number: int, last: str | None) -> StartResult:
        """Makes a fresh start of a variant and returns its result. number: from 1; 0 is the first look. last:
        the last step that still has to be counted."""
        start = FreshStart(
            self._campaign,
            variant,
            self._chosen,
            self._engine,
            (variant.storage.data or self._session.root) / f"count-{new_run_id()}",
            self._templates,
        )
        self._open.add(start)
        try:
            self._check()
            lengths = self._lengths if number else {}
            plan = self._asked.plan(variant.server.features, lambda name: lengths.get(name, PILOT))
            result = start.measure(
                plan.until(last),
                self._check,
                with_plans=number == 1 and self._with_functions,
                with_processes=self._with_functions,
            )
        finally:
            self._open.discard(start)
        if number and result.error is None:
            if not self._with_functions:
                result.reduce()
            data = msgspec.msgpack.encode(
                _Kept(
                    self._lengths,
                    result.steps,
                    result.rejected,
                    result.processes,
                    result.plans,
                    result.left_out_by_role(),
                )
            )
            begun = KeptStart(number=number, made_of=self._made_of(variant), data=msgspec.Raw(data))
            keep_start(self._kept_in(variant), begun)
            self._say(f"{self._label}: start {number} of {variant.label} counted")
        return result

    def _check(self) -> None:
        if self._ending.is_set():
            raise StoreError("the counting was ended")

    # --- the record ---------------------------------------------------------------------------

    def _store(self, variant: PlannedVariant, builder: RunBuilder, starts: Sequence[StartResult]) -> None:
        failed = next((start for start in starts if start.error is not None), None)
        plan = self._asked.plan(variant.server.features, lambda name: self._lengths.get(name, PILOT))
        steps = [step for phase in plan.steps if (step := self._step(phase, starts, builder)) is not None]
        names = [start.processes for start in starts if start.processes]
        error = failed.error if failed else None
        record = CountRecord(
            engine=self._engine.name,
            tool=self._engine.tool,
            event=self._engine.event,
            margin=self._wanted.margin,
            settings=settings_for(known_settings(variant.server), variant.config.settings),
            symbols=symbols_of(variant.server.bin_dir) if self._engine.marks else "none",
            steps=tuple(steps),
            simulated=self._engine.simulated,
            left_out=dict(plan.left_out)
            | {name: why for start in starts for name, why in start.rejected.items()},
            processes={
                name: tuple(p.get(name, 0.0) for p in names) for name in sorted({n for p in names for n in p})
            },
            notes=tuple(plan.notes),
            libc=machine.libc(),
        )
        folder = builder.finish(
            structs.replace(
                as_planned(self._campaign, variant, self._chosen),
                status="failed" if error else "done",
                error=RunFailure(message=error.message, hint=error.hint, log_tail=failed.log_tail)
                if error and failed
                else None,
                cpus=Cpus(server=tuple(self._campaign.spec.server_cpus)),
                order="sequential",
                base=self._plan.base,
                host=machine.facts(self._session.root),
                facts={FACT: source} if (source := source_of(self._chosen.workload)) else {},
                counted=record,
            )
        )
        self._outcome.folders.append(folder)
        for other in folder.parent.glob("1-*"):
            if other != folder and other.is_dir():
                hide(other)
        if error is not None:
            self._outcome.failed.append((variant.label, self._label, error.message))

    def _step(
        self, phase: CountedPhase, starts: Sequence[StartResult], builder: RunBuilder
    ) -> CountedStep | None:
        name = phase.step.name
        counted = [start for start in starts if name in start.steps]
        if not counted:
            return None
        roles = {}
        for role, length in phase.counted.lengths.items():
            graphs = [start.steps[name][role] for start in counted]
            left_out = [start.left_out(name, role) for start in counted]
            rows = [
                start_row(role, number, length.counted, graph, left)
                for number, (graph, left) in enumerate(zip(graphs, left_out, strict=True), 1)
            ]
            builder.rows("instructions", name, rows)
            if self._with_functions:
                builder.rows("functions", name, function_rows(role, graphs))
                builder.rows("files", name, file_rows(role, graphs))
                builder.rows("calls", name, call_rows(role, mean(graphs)))
            roles[role] = CountedRole(
                operations=length.counted,
                instructions=tuple(g.instructions - left for g, left in zip(graphs, left_out, strict=True)),
                timed=tuple(max(0.0, left) for left in left_out),
            )
        step = phase.step
        warm = phase.counted.lengths[step.headline.role].warm
        return CountedStep(
            name=name,
            order=phase.order,
            group=step.group,
            reads_only=step.reads_only,
            role=step.headline.role,
            warm=warm,
            roles=roles,
            plans=next((start.plans[name] for start in starts if name in start.plans), ()),
        )


def _per_start(starts: Sequence[StartResult], name: str) -> dict[str, list[float]]:
    by_role: dict[str, list[float]] = {}
    for start in starts:
        for role, graph in start.steps.get(name, {}).items():
            by_role.setdefault(role, []).append(graph.instructions - start.left_out(name, role))
    return by_role


def _length(roles: Mapping[str, CallGraph]) -> Length:
    """Returns how many operations of a step come to about TARGET instructions, as a round number: the same
    number wherever the same work is counted."""
    largest = max(graph.instructions for graph in roles.values())
    if largest > DEAR:
        return Length(1, 1)
    exact = min(max(TARGET / max(largest, 1.0), FEWEST), MOST)
    power = 10 ** math.floor(math.log10(exact))
    counted = max(step * power for step in (1, 2, 5) if step * power <= exact)
    return Length(max(3, round(counted / 4)), round(counted))


__all__ = ["CountOutcome", "Interrupted", "check_managed", "count_campaign"]
