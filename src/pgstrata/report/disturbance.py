"""What a reader is told first where other programs used the CPUs while something was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgstrata import numbers
from pgstrata.judge.compare import Comparison, StepVerdict
from pgstrata.judge.disturbance import LONGER_SLICES, SAID, other_load
from pgstrata.store import Run

MOST_NAMED = 3

ADVICE = "Stop other programs, or wait for a quiet moment: the same command with --wait-quiet 10m --fresh."


def disturbed_steps(comparisons: Sequence[Comparison]) -> str:
    """Returns how many steps were disturbed, which and by what; an empty text where none was. Steps of which
    nothing was measured, because the servers reject what they do, are no steps here; and one run each proves
    nothing on a quiet machine, either."""
    steps = [
        step
        for comparison in comparisons
        for step in comparison.steps
        if step.base_rate is not None and not (step.queries and all(map(_a_side_rejects, step.queries)))
    ]
    disturbed = [step for step in steps if step.disturbance and not proves_nothing(step)]
    if not disturbed:
        return ""
    named = list(dict.fromkeys(step.step for step in disturbed))
    names = ", ".join(named[:MOST_NAMED])
    if len(named) > MOST_NAMED:
        names += f" and {len(named) - MOST_NAMED} more"
    of = numbers.counted(len(steps), "verdict")
    begins = f"Disturbed, and so unclear: {len(disturbed)} of {of} ({names})."
    reason = disturbed[0].disturbance
    by_others = [step for step in disturbed if LONGER_SLICES not in step.disturbance]
    return f"{begins} At {disturbed[0].step} {reason}.{f' {ADVICE}' if by_others else ''}"


def proves_nothing(step: StepVerdict) -> bool:
    """Returns True for one run each where it is not known how much runs differ: other runs are needed."""
    return step.verdict.single_run and step.verdict.run_spread is None


def _a_side_rejects(query: StepVerdict) -> bool:
    return "rejected" in query.ends


def load_beside(runs: Iterable[Run]) -> str:
    """Returns how much of the CPUs other programs used during steps whose verdicts hold; an empty text where
    it was next to nothing."""
    steps = [step for run in runs for step in run.steps if step.measured]
    load = other_load(steps)
    if load < SAID:
        return ""
    text = f"Other programs used up to {load:.0%} of the CPUs meanwhile."
    parts = [part for step in steps for part in step.slices]
    if any(part.waited is not None for part in parts):
        text += " Pairs in which a server waited for a CPU are left out."
    if any(part.other_load is not None for part in parts):
        text += " Pairs in which they used more than allowed are left out."
    return text


__all__ = ["disturbed_steps", "load_beside", "proves_nothing"]
