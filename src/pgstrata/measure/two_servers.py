"""Two variants measured in turn at one step: how much faster the second is, with its error.

A campaign of two variants in an order of its own: what it measures lies in a results folder like that of any
other, so it can be looked at, stored, interrupted and found again in the same ways.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.file.reading import check_study
from pgstrata.campaign.plan.runs import Plan
from pgstrata.campaign.study import ProfileSpec, Study, Variant, Workload
from pgstrata.errors import ServerError, StoreError, UsageError
from pgstrata.files.disk import storing
from pgstrata.judge.costs import connection_cpu
from pgstrata.judge.pairs import left_out, pairs_of
from pgstrata.judge.plan_shape import plan_changes
from pgstrata.measure.campaign import Conditions, execute
from pgstrata.measure.run.cause import DISK_FULL
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.stats.distributions import NORMAL_95, student_quantile
from pgstrata.stats.estimate import Estimate, estimate
from pgstrata.store import Results, Run
from pgstrata.store.choose import campaign_runs
from pgstrata.store.record import OTHER_LOAD, StepRecord
from pgstrata.store.write import remove
from pgstrata.suggest import meant
from pgstrata.workload.catalog import find
from pgstrata.workload.core.language import Step
from pgstrata.workload.core.options import NotInVersionError, Selectable

Json = dict[str, Any]

SLICE_SECONDS = 0.02
"""Pairs of such short slices tell the smallest differences in the shortest time
(docs/explanation/verdicts.md)."""

SECONDS = 20.0
"""Measured of each variant, unless more is asked for."""

BASE, OTHER = "base", "other"


@dataclass(frozen=True)
class MeasuredWork:
    """What is measured: steps of a workload, none: all. sets: `key=value` as for `pgstrata run --set`.

    seconds: of each variant. verdict_seconds: where it is above 0, measuring goes on until the verdict is
    known, for so many seconds of both together at most. other_load, keep_settings: as in a campaign.
    """

    steps: tuple[str, ...]
    workload: str = "sysbench"
    scale: str | None = None
    sets: tuple[str, ...] = ()
    seconds: float = SECONDS
    slice_seconds: float = SLICE_SECONDS
    seed: int = 1
    margin: float = 0.02
    verdict_seconds: float = 0.0
    data_dir: str | None = None
    other_load: float = OTHER_LOAD
    keep_settings: tuple[str, ...] = ()

    @property
    def step(self) -> str:
        """The only one, where one is measured."""
        return self.steps[0]

    def options(self) -> Json:
        """Returns the options with which these steps are measured, and as little else as possible."""
        workload = find(self.workload)
        return dict(workload.only(self.steps, self.seconds)) if isinstance(workload, Selectable) else {}

    def known(self) -> list[str]:
        """Returns the names of the steps that there are without a choice."""
        study = Study(servers=["pg:17"], workloads=[Workload(name=self.workload, scale=self.scale)])
        return steps_of(check_study(study, sets=self.sets).workloads[0])

    def question(self) -> Json:
        """Returns everything that decides what is measured, in the form JSON can hold."""
        # Without any, as before there were these: a search that has begun goes on.
        kept = {"keep_settings": sorted(self.keep_settings)} if self.keep_settings else {}
        return {
            **kept,
            "workload": self.workload,
            "scale": self.scale,
            "sets": list(self.sets),
            "steps": list(self.steps),
            "seconds": self.seconds,
            "slice_seconds": self.slice_seconds,
            "seed": self.seed,
        }


@dataclass(frozen=True)
class MeasuredRatio:
    """log_ratio: natural log of other rate ÷ base rate; error: its standard error, of this one start of both
    servers. pairs: behind it. rates: per second in `unit`. campaign: where its runs are. plans: a sentence
    for each plan that changed. cpu: log of the base's CPU per operation ÷ the other's, None where it is not
    known."""

    log_ratio: float
    error: float
    pairs: int
    base_rate: float
    other_rate: float
    unit: str
    campaign: str
    seconds: float = 0.0
    runs: tuple[Run, ...] = field(default=(), repr=False, compare=False)
    plans: tuple[str, ...] = ()
    cpu: float | None = None


class TooFewPairsError(StoreError):
    """The rates of two servers cannot be compared: too few pairs of slices were not disturbed."""


class WaitedError(TooFewPairsError):
    """The same, because servers waited for a CPU that other programs had."""


class OtherFailedError(ServerError):
    """The second variant could not be measured: its server did not start, or died."""


@dataclass(frozen=True)
class TwoServers:
    """Two variants, and what is measured of them.

    name: of the campaign that it becomes, in the folder `results`. labels: of the variants in it. checked:
    that campaign, where another machine has made it; find: gives its servers, where they are not found as
    ever.
    """

    work: MeasuredWork
    base: Variant
    other: Variant
    name: str
    results: Path
    profile: bool = False
    labels: tuple[str, str] = (BASE, OTHER)
    checked: Campaign | None = None
    find: Callable[[str, Build | None], Server] | None = None

    def campaign(self) -> Campaign:
        """Raises UsageError for a workload or step that is not there, and for what is not valid in it."""
        if self.checked is not None:
            return self.checked
        work = self.work
        study = Study(
            name=self.name,
            results=str(self.results),
            order="interleaved",
            slice_seconds=work.slice_seconds,
            margin=work.margin,
            other_load=work.other_load,
            keep_settings=list(work.keep_settings),
            seed=work.seed,
            base=self.labels[0],
            variants=[
                variant.replaced(label=label)
                for label, variant in zip(self.labels, (self.base, self.other), strict=True)
            ],
            workloads=[Workload(name=work.workload, scale=work.scale, options=work.options())],
            data_dir=work.data_dir,
            profile=ProfileSpec(seconds=max(1.0, min(10.0, work.seconds / 2))) if self.profile else None,
        )
        if work.verdict_seconds:
            study = study.replaced(until="verdict", max_seconds=work.verdict_seconds, why_seconds=0)
        campaign = check_study(study, sets=work.sets)
        there = steps_of(campaign.workloads[0])
        for step in work.steps:
            if step not in there:
                raise UsageError(f"{work.workload} has no step {step!r}", meant(step, work.known(), "steps"))
        return campaign

    def run(self, console: Console) -> None:
        """Measures both in turn, unless that was done already.

        Raises UsageError as `campaign`, BuildError where a tree does not build, OtherFailedError where only
        the second variant fails, ServerError where the first does, StoreError where results cannot be
        written, Interrupted.
        """
        conditions = Conditions(find=self.find)
        outcome = execute(self.campaign(), Results(self.results), console, conditions=conditions)
        self.check(outcome.plan, {run.key.variant: error for run, error in outcome.failed})

    def check(self, plan: Plan, errors: Mapping[str, str]) -> None:
        """Raises OtherFailedError where only the second variant failed or cannot do it, ServerError where the
        first did. errors: why, by label."""
        failed = {**errors, **{run.key.variant: run.unable for run in plan.runs if run.unable}}
        kinds = (self.labels[0], self.base, ServerError), (self.labels[1], self.other, OtherFailedError)
        for label, variant, kind in kinds:
            if label in failed:
                # A full disk is no fault of a server, whichever meets it first.
                kind = ServerError if failed[label].startswith(DISK_FULL) else kind
                raise kind(f"{variant.server} could not be measured: {failed[label]}")

    def both(self, runs: Sequence[Run]) -> tuple[Run, Run]:
        """Returns the run of each. Raises StoreError if either is not there."""
        by_variant = {run.variant: run for run in runs}
        if not set(self.labels) <= by_variant.keys():
            raise StoreError(
                f"the runs of {self.name} in {self.results} are not whole", "remove the folder to begin anew"
            )
        return by_variant[self.labels[0]], by_variant[self.labels[1]]

    def measure(self, console: Console) -> MeasuredRatio:
        """Measures as `run` does, for work of a single step, and returns the ratio of its runs. Raises
        StoreError where they are not whole."""
        return self.measure_each(console)[self.work.step]

    def measure_each(self, console: Console) -> dict[str, MeasuredRatio]:
        """Measures as `measure` does, for every step of the work by its name."""
        self.run(console)
        return self.ratios(*self.both(campaign_runs(Results(self.results), self.name)))

    def ratios(self, base: Run, other: Run) -> dict[str, MeasuredRatio]:
        """Returns the ratios of two runs by step. Raises TooFewPairsError, and where it is a WaitedError
        removes both: the same command measures anew, when the machine has time. StoreError where that fails.
        """
        try:
            return {step: _read(step, self.name, base, other) for step in self.work.steps}
        except WaitedError:
            with storing("remove the runs", self.results):
                for run in (base, other):
                    remove(run.folder)
            raise


def _read(step: str, campaign: str, base: Run, other: Run) -> MeasuredRatio:
    first, two = _record(base, step), _record(other, step)
    effect = estimate(*pairs_of(first, two))
    if not math.isfinite(effect.standard_error):
        raise _too_few(step, effect.n, first, two)
    return MeasuredRatio(
        effect.log,
        normal_error(effect),
        effect.n,
        first.rate or 0.0,
        (first.rate or 0.0) * math.exp(effect.log),
        first.rate_unit,
        campaign,
        sum(part.seconds for part in (*first.slices, *two.slices)),
        (base, other),
        plan_changes(first.plans, two.plans),
        _cpu(first, two),
    )


def _cpu(base: StepRecord, other: StepRecord) -> float | None:
    before, after = connection_cpu(base), connection_cpu(other)
    return math.log(before / after) if before and after else None


def _too_few(step: str, pairs: int, first: StepRecord, two: StepRecord) -> TooFewPairsError:
    out, known = left_out(first, two)
    if out:
        return WaitedError(
            f"{step} cannot be compared by the rate: in {out} of {known} pairs a server waited for a CPU "
            "that other programs had",
            "end them and go on by the same command, or count: --by instructions",
        )
    return TooFewPairsError(f"{step} was too short for a comparison: {pairs} pairs", "give it more --seconds")


def normal_error(effect: Estimate) -> float:
    """Returns the standard error of a normal value whose 95 % interval is Student's: with few pairs the error
    itself is uncertain."""
    of_pairs = effect.standard_error * student_quantile(effect.freedom, 0.975) / NORMAL_95
    return math.hypot(of_pairs, effect.start_error)


def _record(run: Run, step: str) -> StepRecord:
    step_record = next((record for record in run.steps if record.name == step), None)
    if step_record is None:
        raise StoreError(f"{run.folder} has no step {step}", "remove the folder to begin anew")
    return step_record


def steps_of(chosen: ChosenWorkload) -> list[str]:
    """Returns the names of the measured steps of a workload, on a server that has everything."""
    try:
        phases = chosen.phases(NEWEST)
    except NotInVersionError:
        return []
    return [phase.name for phase in phases if isinstance(phase, Step) and phase.measured]


__all__ = [
    "BASE",
    "OTHER",
    "SECONDS",
    "MeasuredRatio",
    "MeasuredWork",
    "OtherFailedError",
    "TooFewPairsError",
    "TwoServers",
    "WaitedError",
    "normal_error",
    "steps_of",
]
