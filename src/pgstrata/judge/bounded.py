"""What pairs prove that other programs disturbed: a query that needs the CPU alone for longer than the other
side takes with all its waits is slower, whoever else used the CPUs.

The seconds of an execution are at most those on the clock, and at least those its backend had a CPU. So the
ratio of two of them has bounds, which no waiting can leave. Only what lies beyond counts, less what
neighbours on the same caches and cores may take.

The same bounds give an interval of the ratio where nothing lies beyond: how much of a difference is left
with another plan, say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median_high

from pgstrata.judge.alone import AloneTurns
from pgstrata.judge.pairs import neighbours
from pgstrata.stats import executions
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.verdict import Verdict
from pgstrata.store.record import Slice

NEIGHBOURS = 1.5
"""So much more CPU time the same work may take beside other programs: caches, sibling threads."""

BY_CPU_TIME = "by CPU time"
"""Begins or is part of the reason of a verdict on bounds."""

Bounds = tuple[float, float]
"""Of the logarithm of other rate ÷ base rate."""

Turns = Sequence[tuple[AloneTurns, AloneTurns]]


def bounds_of(base: Slice, other: Slice) -> Bounds | None:
    """Returns the bounds of a pair; None where its CPU times are not known."""
    if base.cpu_seconds is None or other.cpu_seconds is None or not base.rate or not other.rate:
        return None

    def logs(part: Slice) -> tuple[float, float]:
        """Returns the logarithms of the least and the most seconds of an execution."""
        most = 1 / part.rate
        least = most * min(1.0, part.cpu_seconds / part.seconds) if part.cpu_seconds and part.seconds else 0.0
        return math.log(least) if least > 0 else -math.inf, math.log(most)

    (base_least, base_most), (other_least, other_most) = logs(base), logs(other)
    return base_least - other_most, base_most - other_least


def judge_bounded(turns: Turns, criterion: Criterion) -> Verdict | None:
    """Returns slower or faster where the bounds of all pairs prove it, disturbed ones too; None where they do
    not. Its ratio is the end of the interval that is nearer to 1: it differs by so much at least.

    May be looked at after every pair (`stats.executions`).
    """
    bounds = _all_bounds(turns)
    if len(bounds) < executions.FIRST:
        return None
    verdict = _look([_nearest(low, high) for low, high in bounds], criterion)
    if verdict.word not in ("slower", "faster"):
        return None
    ends = [low if verdict.word == "slower" else high for low, high in bounds]
    far = median_high(ends)
    if verdict.word == "slower":
        return replace(verdict, low=min(math.exp(far) / NEIGHBOURS, verdict.low))
    return replace(verdict, high=max(math.exp(far) * NEIGHBOURS, verdict.high))


def bounded_interval(turns: Turns, criterion: Criterion) -> Verdict | None:
    """Returns an unclear verdict whose interval holds the ratio however long a side waited, neighbours
    allowed for; None where the bounds of a pair are open. Its ratio is the middle of the interval.

    May be looked at after every pair.
    """
    bounds = _all_bounds(turns)
    if len(bounds) < executions.FIRST or not all(math.isfinite(end) for pair in bounds for end in pair):
        return None
    slack = math.log(NEIGHBOURS)
    lowest = _look([low - slack for low, _ in bounds], criterion)
    highest = _look([high + slack for _, high in bounds], criterion)
    return replace(
        lowest,
        word="unclear",
        ratio=math.sqrt(lowest.ratio * highest.ratio),
        high=highest.high,
        p_value=1.0,
        reason="",
    )


def _all_bounds(turns: Turns) -> list[Bounds]:
    """Returns the bounds of all pairs of which they are known."""
    return [
        of_pair
        for base, other in turns
        for ours, theirs in neighbours(base, other)
        if (of_pair := bounds_of(ours, theirs)) is not None
    ]


def _look(logs: Sequence[float], criterion: Criterion) -> Verdict:
    return executions.look([1.0] * len(logs), [math.exp(log) for log in logs], criterion=criterion)


def _nearest(low: float, high: float) -> float:
    """Returns the logarithm nearest to 0 that a pair may have, after allowing for neighbours."""
    slack = math.log(NEIGHBOURS)
    if low > slack:
        return low - slack
    return min(0.0, high + slack)


__all__ = ["BY_CPU_TIME", "NEIGHBOURS", "bounded_interval", "bounds_of", "judge_bounded"]
