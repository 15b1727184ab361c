"""Whether the time of a campaign that waits for verdicts is enough for any: said before it is measured."""

from __future__ import annotations

import math

from pgstrata import numbers
from pgstrata.campaign.checked import ChosenWorkload
from pgstrata.campaign.plan.order import QUERY_SECONDS, schedule_of, seconds_of, takes_turns
from pgstrata.campaign.plan.runs import Plan
from pgstrata.campaign.study import Study
from pgstrata.stats.criterion import FIRST_EXECUTIONS
from pgstrata.turns.slices import AROUND_SLICE_SECONDS
from pgstrata.workload.core.language import Step

NAMED = 3
"""Steps in one sentence."""


def too_short_lines(plan: Plan) -> list[str]:
    """Returns what `max_seconds` is too short for, one line for each number to use instead; none where every
    step can have a verdict."""
    spec = plan.campaign.spec
    if spec.until != "verdict" or not takes_turns(spec):
        return []
    needs: dict[tuple[int, str], list[str]] = {}
    for chosen in plan.campaign.workloads:
        able = [run for run in plan.missing if run.workload is chosen and not run.unable]
        variants = len({run.key.variant for run in able})
        if variants < 2:
            continue
        for phase in chosen.phases(able[0].variant.server.features):
            if isinstance(phase, Step) and (need := _need(phase, spec, variants)) is not None:
                needs.setdefault(need, []).append(_name(chosen, phase, plan))
    return [
        f"max_seconds = {spec.max_seconds:g} is too short for a verdict on {_named(steps)}, which needs "
        f"{what}: max_seconds = {seconds} or more (--max-seconds {seconds})"
        for (seconds, what), steps in needs.items()
    ]


def _need(step: Step, spec: Study, variants: int) -> tuple[int, str] | None:
    """Returns the least `max_seconds` with which a step can have a verdict, and what that is made of; None
    where it is not less."""
    schedule = schedule_of(step, spec)
    if step.measured and step.single is not None:
        count = len(step.single.names)
        pair = variants * (QUERY_SECONDS + AROUND_SLICE_SECONDS)
        seconds = count * FIRST_EXECUTIONS * pair
        what = f"{FIRST_EXECUTIONS} pairs of {numbers.counted(count, 'query', 'queries')}"
    elif schedule.kind is not None:
        part = seconds_of(schedule.step)
        if schedule.kind.keeps_connections:
            part = spec.window_seconds
        least = schedule.kind.least(part)
        seconds, what = variants * least.seconds, f"{least.what} of each of {variants} variants"
    else:
        return None
    return None if seconds <= spec.max_seconds else (math.ceil(seconds), what)


def _name(chosen: ChosenWorkload, step: Step, plan: Plan) -> str:
    return step.name if len(plan.campaign.workloads) == 1 else f"{chosen.label}/{step.name}"


def _named(steps: list[str]) -> str:
    rest = f" and {len(steps) - NAMED} more" if len(steps) > NAMED else ""
    return ", ".join(steps[:NAMED]) + rest


__all__ = ["too_short_lines"]
