"""Finds the changes in a series of values with known errors, with a bound on false alarms.

A series has a value for some commits of a line: a log ratio to the anchor, with its standard error. For
every boundary between two commits the evidence for a change there is a Bayes factor: a difference of the two
levels, drawn from a mixture of normal distributions, against none. The common level has a flat prior, under
which the factor is a ratio of likelihoods of what no shift of the level alters. So its expectation is 1 as
long as nothing changes, however the commits to measure are chosen from the values before. The sum of the
factors over all boundaries is a Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo 2024, "E-detectors"):
its expectation without a change is the number of boundaries. An alarm at A therefore comes, without a change,
after A commits on average at the earliest. The mean of the detectors of several series is one, too, so S
series together with the limit S × A have one false alarm in A commits at most.

No I/O and no clock: the same values give the same changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import numpy as np

SPREADS = (0.001, 0.003, 0.01, 0.03, 0.1)
"""Standard deviations of the difference of two levels, as log ratios: from the smallest that counts see to
the largest of the field, equally likely."""

CREDIBLE = 0.95
"""Probability of the commits among which a change is placed."""

NORMAL_QUARTILE = 0.674490
"""Median of the absolute value of a standard normal value."""


@dataclass(frozen=True)
class Point:
    """A measured commit: its position on the line, the log ratio to the anchor (below 0 is worse) and the
    standard error of that. last: position of the last commit after it that executes the same code, so that
    no change lies between them; 0 where none does."""

    position: int
    log_ratio: float
    error: float
    last: int = 0

    @property
    def end(self) -> int:
        """Position of the last commit that this value is known to hold for."""
        return max(self.position, self.last)


@dataclass(frozen=True)
class Change:
    """A change of the level of a series.

    before, after: positions of commits whose values are known, between which it lies with 95 % probability:
    the commits before + 1 … after. log_ratio, error: level after it to level before it. evidence: sum of the
    Bayes factors.
    """

    before: int
    after: int
    log_ratio: float
    error: float
    evidence: float


def find_changes(points: Sequence[Point], smallest: float, limit: float) -> list[Change]:
    """Returns the changes of a series in the order of the line.

    smallest: log ratio below half of which a change is passed over. limit: evidence that makes an alarm, at
    least 1: commits between two false alarms, times the number of series that are watched together.
    """
    ordered = sorted(points, key=lambda point: point.position)
    return _changes(_widened(ordered), smallest, limit)


def is_proven(log_ratio: float, error: float, smallest: float) -> bool:
    """Returns True if a difference of two levels is beyond its error, and not below half of the smallest
    difference that is looked for."""
    return abs(log_ratio) >= smallest / 2 and abs(log_ratio) > 2 * error


def _widened(points: Sequence[Point]) -> list[Point]:
    """Returns the same points with errors that explain how much neighbours differ, if theirs are too small
    (Birge 1932, with the median instead of the mean, which a few changes do not move)."""
    scatter = [abs(b.log_ratio - a.log_ratio) / math.hypot(a.error, b.error) for a, b in pairwise(points)]
    factor = max(1.0, median(scatter) / NORMAL_QUARTILE) if len(scatter) >= 4 else 1.0
    return [replace(point, error=point.error * factor) for point in points]


def _changes(points: Sequence[Point], smallest: float, limit: float) -> list[Change]:
    if len(points) < 2:
        return []
    between = np.array([b.position - a.end for a, b in pairwise(points)])
    values = np.array([point.log_ratio for point in points])
    precision = np.array([point.error**-2.0 for point in points])
    # boundary k lies between points k and k + 1
    left = np.cumsum(precision)[:-1]
    right = precision.sum() - left
    left_sum = np.cumsum(precision * values)[:-1]
    right_sum = (precision * values).sum() - left_sum
    difference = right_sum / right - left_sum / left
    variance = 1 / left + 1 / right
    logs = [
        0.5 * (np.log(variance / (variance + spread**2)))
        + 0.5 * difference**2 * spread**2 / (variance * (variance + spread**2))
        for spread in SPREADS
    ]
    # every commit between two measured ones may have made the change, and explains the values equally well
    evidence = np.logaddexp.reduce(logs, axis=0) - math.log(len(SPREADS)) + np.log(between)
    total = float(np.logaddexp.reduce(evidence))
    best = int(np.argmax(evidence))
    if total < math.log(limit):
        return []
    parts = points[: best + 1], points[best + 1 :]
    before = _changes(parts[0], smallest, limit)
    after = _changes(parts[1], smallest, limit)
    here = []
    # the levels next to the boundary, which end at the next changes
    near_left = [p for p in parts[0] if not before or p.position >= before[-1].after]
    near_right = [p for p in parts[1] if not after or p.position <= after[0].before]
    step, error = _step(near_left, near_right)
    if is_proven(step, error, smallest):
        first, last = _credible(np.exp(evidence - total), best)
        # no further than the neighbouring changes
        first = max(first, _index(points, before[-1].after) if before else 0)
        last = min(last, _index(points, after[0].before) - 1 if after else len(points) - 2)
        first, last = min(first, best), max(last, best)
        here = [Change(points[first].end, points[last + 1].position, step, error, math.exp(min(total, 700)))]
    return [*before, *here, *after]


def _step(left: Sequence[Point], right: Sequence[Point]) -> tuple[float, float]:
    """Returns the difference of two levels and its standard error."""
    means, variances = [], []
    for side in (left, right):
        precision = [point.error**-2.0 for point in side]
        means.append(
            sum(p * point.log_ratio for p, point in zip(precision, side, strict=True)) / sum(precision)
        )
        variances.append(1 / sum(precision))
    return means[1] - means[0], math.sqrt(sum(variances))


def _credible(probability: np.ndarray[tuple[int], np.dtype[np.float64]], best: int) -> tuple[int, int]:
    """Returns first and last boundary of the smallest stretch around the best that holds CREDIBLE."""
    first = last = best
    while probability[first : last + 1].sum() < CREDIBLE:
        before = probability[first - 1] if first > 0 else -1.0
        after = probability[last + 1] if last + 1 < len(probability) else -1.0
        if before < 0 and after < 0:
            break
        if before >= after:
            first -= 1
        else:
            last += 1
    return first, last


def _index(points: Sequence[Point], position: int) -> int:
    return next(i for i, point in enumerate(points) if point.position <= position <= point.end)


__all__ = ["Change", "Point", "find_changes", "is_proven"]
