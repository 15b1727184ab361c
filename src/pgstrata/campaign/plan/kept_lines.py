"""What a plan says of steps: which are there already, and what a run that is stopped loses."""

from __future__ import annotations

from collections.abc import Sequence

from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.order import data_at
from pgstrata.campaign.plan.resume import dependent, independent, phases_of
from pgstrata.campaign.plan.runs import Plan
from pgstrata.numbers import agreeing, counted
from pgstrata.workload.core.language import Step


def kept_lines(plan: Plan) -> list[str]:
    """Returns lines on what happens, for each workload, when a run is stopped, and on where each resumed run
    goes on."""
    firsts = {run.workload.label: run for run in reversed(plan.missing) if not run.unable}
    lines = [_when_stopped(run) for run in reversed(firsts.values())]
    if loaded := sum(run.from_kept for run in plan.missing):
        begin = agreeing(loaded, "begins", "begin")
        lines.append(
            f"{loaded} of {counted(len(plan.missing), 'run')} {begin} with data that is loaded and kept"
        )
    for run in plan.missing:
        if run.kept:
            names = [step.name for step in run.kept]
            left = [step.name for step in _measured(run) if step.name not in names]
            there = ", ".join(names)
            again = "is taken from what is kept" if run.from_kept else "is loaded again"
            lines.append(
                f"{run.key.variant}, {run.key.workload}, repeat {run.key.repeat}: the data {again}; "
                f"kept: {there}; to do: {', '.join(left) or 'no step'}"
            )
    return lines


def step_rows(plan: Plan) -> list[list[object]]:
    """Returns rows of variant, workload, repeat, step and its state for the runs that are missing."""
    rows: list[list[object]] = []
    for run in plan.missing:
        there = {step.name: step for step in run.kept}
        alone = {step.name for step in independent(phases_of(run))} if run.made_of else set()
        loads = phases_of(run)[: data_at(phases_of(run))] if run.from_kept else []
        not_loaded = {phase.name for phase in loads if isinstance(phase, Step)}
        for step in _measured(run):
            if step.name in there:
                state = f"kept, of attempt {there[step.name].attempt}"
            elif step.name in not_loaded:
                state = "left out, its data is kept"
            else:
                state = "to do" if step.name in alone else "to do, not kept if the run is stopped"
            rows.append([run.key.variant, run.key.workload, run.key.repeat, step.name, state])
    return rows


def _measured(run: PlannedRun) -> Sequence[Step]:
    return [phase for phase in phases_of(run) if isinstance(phase, Step) and phase.measured]


def _when_stopped(run: PlannedRun) -> str:
    label = run.workload.label
    phases = phases_of(run)
    alone, rest = independent(phases), dependent(phases)
    if not run.variant.server.managed:
        return f"{label}: a run on a server of somebody else that is stopped begins anew"
    if not rest:
        return f"{label}: finished steps are kept when a run is stopped"
    why = f"later steps read what {rest[0].name} writes"
    if not alone:
        return f"{label}: a run that is stopped begins anew: {why}"
    return (
        f"{label}: finished steps before {rest[0].name} are kept when a run is stopped, the others not: {why}"
    )


__all__ = ["kept_lines", "step_rows"]
