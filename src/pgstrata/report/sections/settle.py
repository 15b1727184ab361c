"""What would settle a comparison that proves nothing: a command, and how long it takes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pgstrata import numbers
from pgstrata.campaign.study import Study
from pgstrata.judge.disturbance import LONGER_SLICES
from pgstrata.page.results import RunSet, WorkloadResults
from pgstrata.report.disturbance import proves_nothing
from pgstrata.report.sections.again import command
from pgstrata.store import Run

MOST_LONGER = 20.0
"""Times as long: beyond that another machine, or a larger margin, is the better advice."""

AROUND = 1.2
"""Of a comparison: connecting, settling, stopping, beside what is measured."""

QUIETER = (
    "Measuring longer would hardly settle it here; a quieter machine would. pgstrata doctor says what to "
    "stop; with --wait-quiet 10m the same command waits until other programs rest."
)


def settle(results: RunSet, workload: WorkloadResults) -> list[str]:
    """Returns a sentence with the command that would reach a verdict and its time; none if there is no
    variant to compare with."""
    runs = [run for run in workload.runs if run.variant in results.variants]
    if len({run.variant for run in runs}) < 2:
        return []
    asked = _asked(results, runs)
    if any(not run.record.server.managed for run in runs):
        seconds = 5 * sum(_seconds(run) for run in runs)
        return [_sentence(command(results, runs, ["--repeats", "5", *asked]), "about", seconds)]
    if _disturbed(results, workload):
        return []  # the advice beside it, to stop other programs, settles it
    together = next((run.record.comparison for run in runs if run.record.comparison), None)
    if together is None:
        most = Study.model_fields["max_seconds"].default * len(workload.compared)
        seconds = most * AROUND + sum(_seconds(run) - _measured(run) for run in runs)
        return [_sentence(command(results, runs, ["--until", "verdict", *asked]), "at most", seconds)]
    longer = _longer(results, workload, together.margin)
    if longer is None or longer > MOST_LONGER:
        return [QUIETER]
    longest = max(step.seconds or 0.0 for run in runs for step in run.steps if step.measured)
    most = math.ceil(longest * len(together.variants) * longer)
    more = ["--until", "verdict", "--max-seconds", str(most), *asked]
    alone = all(run.record.replicas is None for run in runs)
    if alone and together.turns != Study.model_fields["turns"].default:
        more += ["--turns", together.turns]
    return [_sentence(command(results, runs, more), "at most", most * len(workload.compared) * AROUND)]


def _asked(results: RunSet, runs: Sequence[Run]) -> list[str]:
    """Returns the options for what was asked and is not usual: margin, load of other programs, base."""
    fields = Study.model_fields
    options = []
    if results.margin != fields["margin"].default:
        options += ["--margin", f"{100 * results.margin:.6g}%"]
    limits = {step.load_limit for run in runs for step in run.steps if step.measured}
    if limits and (limit := max(limits)) != fields["other_load"].default:
        options += ["--other-load", f"{100 * limit:.6g}%"]
    if results.base != min(runs, key=lambda run: run.record.variant_order).variant:
        options += ["--base", results.base]
    return options


def _disturbed(results: RunSet, workload: WorkloadResults) -> bool:
    """Returns whether other programs disturbed a step, so that measuring longer does not help it."""
    verdicts = [results.verdict(step, variant) for step in workload.compared for variant in results.others]
    disturbances = [
        verdict.disturbance
        for verdict in verdicts
        if verdict is not None and verdict.disturbance and not proves_nothing(verdict)
    ]
    return any(LONGER_SLICES not in words for words in disturbances)


def _sentence(command: str, about: str, seconds: float) -> str:
    minutes = 60 * max(1, math.ceil(seconds / 60))
    return f"This would settle it, in {about} {numbers.duration(minutes)}: {command}"


def _longer(results: RunSet, workload: WorkloadResults, margin: float) -> float | None:
    """Returns how many times as long the clearest step takes until its interval is as narrow as the margin:
    the width of an interval goes with the root of the time."""
    widths = []
    for step in workload.compared:
        for variant in results.others:
            verdict = results.verdict(step, variant)
            if verdict is not None and verdict.verdict.is_bounded:
                widths.append(0.5 * math.log(verdict.verdict.high / verdict.verdict.low))
    return max(2.0, (min(widths) / -math.log1p(-margin)) ** 2) if widths else None


def _measured(run: Run) -> float:
    return sum(step.seconds or 0.0 for step in run.steps if step.measured)


def _seconds(run: Run) -> float:
    """Returns all seconds of a run: those measured, and those around it."""
    return sum(step.seconds or 0.0 for step in run.steps) + sum(run.record.timings.values())
