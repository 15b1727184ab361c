"""What comes after what while runs are measured, and how long each stage takes: what progress counts by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.order import (
    data_at,
    refined_share,
    schedule_of,
    seconds_of,
    share_in_turns,
    takes_turns,
)
from pgstrata.campaign.plan.resume import phases_of
from pgstrata.campaign.plan.runs import Plan, groups
from pgstrata.campaign.study import Study
from pgstrata.numbers import counted
from pgstrata.workload.core.language import Refine, Step

LOADING = "loading"
"""The kind of the stage before the first step that counts by itself."""


@dataclass(frozen=True)
class Stage:
    """A step with what comes before the next one; the first stage of a unit is its load and has no step.

    kind: how its time comes about; estimates of one kind are wrong by about the same factor.
    seconds: estimate by the clock, of all runs that are measured together.
    measured: those of them that are measured, where the stage may end earlier because a verdict is known.
    """

    step: str
    kind: str
    seconds: float
    measured: float | None = None


@dataclass(frozen=True)
class Unit:
    """Runs that are measured together: those of one comparison, or a single one. stages: in their order."""

    runs: Sequence[PlannedRun]
    stages: Sequence[Stage]


def units_of(plan: Plan) -> list[Unit]:
    """Returns what is to be measured, in order, without what cannot be."""
    able = [run for run in plan.missing if not run.unable]
    spec = plan.campaign.spec
    together = groups(able) if takes_turns(spec) else [[run] for run in able]
    return [Unit(runs, _stages(runs, spec)) for runs in together]


def further_line(plan: Plan) -> str:
    """Returns how many steps may be added to curves while variants take turns; empty where there are none."""
    runs = {run.key.workload: run for run in plan.missing} if takes_turns(plan.campaign.spec) else {}
    places = [phase for run in runs.values() for phase in phases_of(run) if isinstance(phase, Refine)]
    if not places:
        return ""
    most = counted(sum(place.most for place in places), "step")
    return f"up to {most} may be added to {counted(len(places), 'curve')}, where it is not known yet"


def _stages(runs: Sequence[PlannedRun], spec: Study) -> list[Stage]:
    first, there = runs[0], {step.name for step in runs[0].kept}
    phases = phases_of(first)
    if first.from_kept:
        phases = phases[data_at(phases) :]
    stages: list[Stage] = []
    for phase in phases:
        if isinstance(phase, Step):
            if phase.name not in there and (stage := _stage(phase, runs, spec)) is not None:
                stages.append(stage)
        elif isinstance(phase, Refine):
            if takes_turns(spec):
                stages.append(_further(phase, runs, spec))
        elif stages and (seconds := seconds_of(phase)):
            stages[-1] = replace(stages[-1], seconds=stages[-1].seconds + seconds * len(runs))
    rest = sum(run.seconds for run in runs) - sum(stage.seconds for stage in stages)
    return [Stage("", LOADING, max(0.0, rest)), *stages]


def _stage(step: Step, runs: Sequence[PlannedRun], spec: Study) -> Stage | None:
    """Returns the stage of a step; None if the step is part of the load of several variants, one after the
    other."""
    if not takes_turns(spec):
        return Stage(step.name, "alone", seconds_of(step))
    variants, first = [run.variant for run in runs], runs[0]
    share = share_in_turns(step, first.workload, spec, variants)
    if share is None:
        return None
    how = schedule_of(step, spec).how
    limit = spec.max_seconds if spec.until == "verdict" else None
    return Stage(step.name, how, share * len(runs), limit)


def _further(refine: Refine, runs: Sequence[PlannedRun], spec: Study) -> Stage:
    """Returns the stage of all further points of a curve together, which is called after the curve."""
    share = refined_share(refine, runs[0].workload, spec, [run.variant for run in runs])
    steps = [phase for phase in refine.at(refine.clients[-1]) if isinstance(phase, Step)]
    limit = spec.max_seconds * refine.most if spec.until == "verdict" else None
    return Stage(refine.steps, schedule_of(steps[0], spec).how, share * len(runs), limit)


__all__ = ["LOADING", "Stage", "Unit", "further_line", "units_of"]
