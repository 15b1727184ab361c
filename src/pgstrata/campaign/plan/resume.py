"""Which finished steps of a run that was stopped count for the next attempt: known before it is started.

A step that only reads leaves the data as it was, so that the next attempt loads the data again and goes on
behind it. A step that writes does not: what comes after it depends on what it left, and is measured with it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pgstrata
from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.order import data_at
from pgstrata.campaign.study import Study
from pgstrata.step_names import CLIENTS
from pgstrata.store import Results, kept
from pgstrata.store.kept import KeptStep
from pgstrata.workload.core.language import Phase, Refine, Step

_NO_MATTER = {"results", "keep_data", "repeats", "name", "fleet"}
"""Keys of a campaign that decide nothing about a step."""


def independent(phases: Sequence[Phase]) -> list[Step]:
    """Returns the measured steps that are kept when they have finished: those before the first step that
    writes to the loaded data."""
    steps: list[Step] = []
    for phase in phases[data_at(phases) :]:
        if isinstance(phase, Step):
            if not phase.reads_only:
                break
            steps += [phase] if phase.measured else []
    return steps


def dependent(phases: Sequence[Phase]) -> list[Step]:
    """Returns the measured steps that are not kept: a run that is stopped in such a step does all of them
    again."""
    kept_ones = {step.name for step in independent(phases)}
    later = phases[data_at(phases) :]
    return [p for p in later if isinstance(p, Step) and p.measured and p.name not in kept_ones]


def phases_of(run: PlannedRun) -> Sequence[Phase]:
    """Returns the phases of a run; none if its server version cannot do the workload."""
    return [] if run.unable else run.workload.phases(run.variant.server.features)


def with_kept(group: Sequence[PlannedRun], spec: Study, results: Results) -> list[PlannedRun]:
    """Returns the runs of a comparison, or a single run, with the steps that earlier attempts have finished.

    A step counts where everything that decides it is the same now (campaign, config, server and its build,
    options, machine, release), and in a comparison where all have it from the same one.
    """
    runs = [replace(run, made_of=_made_of(run, spec)) for run in group]
    if any(run.existing or run.unable or not run.variant.server.managed for run in group):
        return runs
    leading_steps = [_leading(run, results) for run in runs]
    count = min(len(steps) for steps in leading_steps)
    comparisons = {step.comparison for steps in leading_steps for step in steps[:count]}
    together = len(comparisons) == 1 and (len(group) == 1 or None not in comparisons)
    if not count or not together:
        return runs
    return [replace(run, kept=tuple(steps[:count])) for run, steps in zip(runs, leading_steps, strict=True)]


def _leading(run: PlannedRun, results: Results) -> list[KeptStep]:
    """Returns the kept steps from the first on, without a gap."""
    there = {step.name: step for step in kept.kept(results.root, run.key) if step.made_of == run.made_of}
    leading: list[KeptStep] = []
    alone = {step.name for step in independent(phases_of(run))}
    for phase in phases_of(run):
        if isinstance(phase, Refine):
            leading += [there[name] for name in _added(phase, there)] if leading else []
        elif isinstance(phase, Step) and phase.name in alone:
            if phase.name not in there:
                break
            leading.append(there[phase.name])
    return leading


def _added(refine: Refine, names: Iterable[str]) -> list[str]:
    """Returns the names that are those of further points of a curve, in their order."""
    planned = {refine.name(clients) for clients in refine.clients}
    return [
        name
        for name in names
        if (match := CLIENTS.search(name)) and name == refine.name(int(match[1])) and name not in planned
    ]


def _made_of(run: PlannedRun, spec: Study) -> str:
    steps = [phase.spec() for phase in phases_of(run) if isinstance(phase, Step)]
    return kept.digest(
        {
            "release": pgstrata.__version__,
            "campaign": spec.model_dump(mode="json", exclude=_NO_MATTER),
            "variant": run.variant.identity(),
            "workload": run.workload.identity(),
            "steps": steps,
            "host": socket.gethostname(),
        }
    )


__all__ = ["dependent", "independent", "phases_of", "with_kept"]
