"""What one operation of a stored step cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from pgstrata.stats.criterion import USUAL, Criterion
from pgstrata.stats.metrics import PerOperation, per_operation
from pgstrata.stats.multiplicity import adjust_verdicts
from pgstrata.stats.verdict import Word, compare
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import StepRecord
from pgstrata.units import rate_per_second

Key = TypeVar("Key")

CostPairs = tuple[list[float], list[float]]
"""A cost of the base and of another variant, repeat by repeat."""


def step_cost(step: StepRecord) -> PerOperation:
    """Returns the costs of a step per operation of its headline, by `stats.metrics.per_operation`."""
    metrics = step.metrics
    return per_operation(
        rate=step.pace or 0.0,
        rate_unit=step.rate_unit,
        seconds=step.seconds,
        server_cpu_seconds=step.server_cpu_seconds,
        host_cpu_seconds=step.host_cpu_seconds,
        driver_cpu_seconds=step.driver_cpu_seconds,
        cpups=metrics.cpups,
        csps=metrics.csps,
        rps=metrics.rps,
        rmbps=metrics.rmbps,
        wps=metrics.wps,
        wmbps=metrics.wmbps,
    )


def connection_cpu(step: StepRecord) -> float | None:
    """Returns the µs of CPU that the connections of the headline's role need per operation, which other load
    hardly changes; None if not known."""
    role = step.roles.get(step.role)
    if role is None or role.cpu_seconds is None or not step.pace or step.seconds <= 0:
        return None
    return role.cpu_seconds / (rate_per_second(step.pace, step.rate_unit) * step.seconds) * 1e6


def cost_pairs(
    base: Sequence[MeasuredStep],
    other: Sequence[MeasuredStep],
    cost: Callable[[MeasuredStep], float | None],
) -> CostPairs:
    """Returns a figure of both variants in the repeats in which both have it, by machine and repeat."""

    def by_repeat(side: Sequence[MeasuredStep]) -> dict[tuple[str, int], float]:
        known = ((m, cost(m)) for m in side)
        return {(m.run.machine, m.run.repeat): value for m, value in known if value is not None}

    ours, theirs = by_repeat(base), by_repeat(other)
    both = sorted(ours.keys() & theirs.keys())
    return [ours[key] for key in both], [theirs[key] for key in both]


def cost_words(pairs: Mapping[Key, CostPairs], criterion: Criterion = USUAL) -> dict[Key, Word]:
    """Judges costs: `slower` where a cost is proven to be higher than the base's, `faster` where it is lower,
    else the word of the verdict (`stats.verdict`); adjusted for the number of all of them. Without repeats
    nothing is proven."""
    # The base's cost ÷ the other's: below 1 where the other costs more, as a rate that fell.
    verdicts = {key: compare(other, base, criterion=criterion) for key, (base, other) in pairs.items()}
    return {key: verdict.word for key, verdict in adjust_verdicts(verdicts).items()}
