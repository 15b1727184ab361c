"""How much longer the slow transactions of one side take: quantiles of response times, compared by blocks.

A block is the part of a step between two starts of connections or servers; both sides are measured in it by
turns, so what the machine does in it cancels. The q-quantile of a side is that of the mean of its blocks'
distributions. A factor f between the quantiles of the two sides is believed unless the blocks speak against
it: with x the quantile of both sides together, times of the other side divided by f, the share of responses
beyond x is the same on both sides in the mean over the blocks. The difference of these shares is one value
per block, and its error is that of `stats.estimate` (batches of neighbours, Student's t). So no density is
estimated, as it must be for the error of a quantile itself, and blocks need not be alike. Source: the
inversion of a test of shares is Woodruff's interval (1952), here for two samples.

The longest response of each block is compared by its logarithm.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgstrata.stats.criterion import LEAST_BLOCKS
from pgstrata.stats.estimate import Array, Estimate, estimate_of_blocks
from pgstrata.stats.verdict import Bounds

LEAST_BEYOND = 20
"""Responses beyond the quantile, on each side, without which nothing is said of it."""

FURTHEST = math.log(1e4)
"""Factors between the sides are looked for up to this one, as a logarithm."""

STEPS = 32
"""Of a bisection: halves the range of logarithms to a hundred millionth."""


@dataclass(frozen=True)
class Responses:
    """The response times of one side. edges: ends of the slots in seconds, rising, one more than slots.
    counts: of each slot in each block, shape (blocks, slots)."""

    edges: Array
    counts: Array

    @property
    def blocks(self) -> int:
        return int(self.counts.shape[0])

    def chosen(self, blocks: Sequence[int]) -> Responses:
        """Returns those of some of the blocks."""
        return Responses(self.edges, self.counts[list(blocks)])

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or len(self.edges) != self.counts.shape[1] + 1:
            raise ValueError("counts need a row for each block and an edge more than slots")


@dataclass(frozen=True)
class QuantileEstimate:
    """The estimate of log (base time ÷ other time), its interval as logarithms and the p-value of no
    difference. base, other: the quantiles in seconds. why_not: why there is no interval, else empty."""

    estimate: Estimate
    interval: tuple[float, float]
    p_value: float
    base: float
    other: float
    why_not: str = ""


def compare_quantiles(
    base: Responses,
    other: Responses,
    quantile: float,
    bounds_of: Callable[[Estimate], Bounds],
) -> QuantileEstimate | None:
    """Compares the quantiles (0 … 1; 1: the longest response of each block) of two sides.

    bounds_of: interval and p-value of a mean that may be 0, for the way in which measuring was stopped. None
    without a block in which both sides have responses. Raises ValueError for a quantile outside 0 … 1.
    """
    if not 0 < quantile <= 1:
        raise ValueError(f"a quantile lies above 0 and not above 1: {quantile}")
    if base.blocks != other.blocks:
        raise ValueError(f"{base.blocks} blocks on one side and {other.blocks} on the other")
    used = np.flatnonzero((base.counts.sum(axis=1) > 0) & (other.counts.sum(axis=1) > 0))
    if not used.size:
        return None
    sides = _Side(base.chosen(list(used))), _Side(other.chosen(list(used)))
    if quantile == 1.0:
        return _of_longest(*sides, bounds_of)
    return _of_quantiles(*sides, quantile, bounds_of)


class _Side:
    """Cumulative shares of the responses of each block, linear within slots."""

    def __init__(self, responses: Responses) -> None:
        self.counts = responses.counts
        filled = np.flatnonzero(self.counts.sum(axis=0))
        # Where nothing lies the cumulative shares are flat: the ends of filled slots are enough.
        ends = np.unique(np.concatenate((filled, filled + 1)))
        cumulative = np.concatenate(
            (np.zeros((len(self.counts), 1)), np.cumsum(self.counts, axis=1, dtype=np.float64)), axis=1
        )[:, ends]
        self.times = np.log(np.maximum(responses.edges[ends], 1e-9))
        self.shares = cumulative / cumulative[:, -1:]
        self.mean = self.shares.mean(axis=0)
        self.longest = np.array([self.times[np.argmax(shares >= 1.0)] for shares in self.shares])

    def beyond(self, time: float) -> Array:
        """Returns the shares of responses beyond a log time, by block."""
        if time <= self.times[0]:
            return np.ones(len(self.shares))
        if time >= self.times[-1]:
            return np.zeros(len(self.shares))
        k = int(np.searchsorted(self.times, time, side="right")) - 1
        part = (time - self.times[k]) / (self.times[k + 1] - self.times[k])
        return np.asarray(1.0 - self.shares[:, k] * (1.0 - part) - self.shares[:, k + 1] * part)

    def mean_beyond(self, time: float) -> float:
        return 1.0 - float(np.interp(time, self.times, self.mean, left=0.0, right=1.0))

    def quantile(self, share: float) -> float:
        """Returns the log time that a share of the responses does not exceed, in the mean over the blocks."""
        k = int(np.searchsorted(self.mean, share))
        k = min(max(k, 1), len(self.mean) - 1)
        low, high = self.mean[k - 1], self.mean[k]
        part = (share - low) / (high - low) if high > low else 1.0
        return float(self.times[k - 1] + part * (self.times[k] - self.times[k - 1]))


def _of_quantiles(
    base: _Side,
    other: _Side,
    quantile: float,
    bounds_of: Callable[[Estimate], Bounds],
) -> QuantileEstimate:
    times = base.quantile(quantile), other.quantile(quantile)
    log = times[0] - times[1]
    beyond = [round(float(side.counts.sum()) * (1.0 - quantile)) for side in (base, other)]

    def difference(log_ratio: float) -> Estimate:
        """Returns the difference of the shares beyond the common quantile, where base times are
        exp(log_ratio) × other times."""
        common = _common(base, other, quantile, log_ratio)
        return estimate_of_blocks(base.beyond(common) - other.beyond(common - log_ratio))

    def believed(log_ratio: float) -> bool:
        (low, high), _ = bounds_of(difference(log_ratio))
        return low <= 0.0 <= high

    even = difference(0.0)
    blocks, agreeing = len(base.shares), _agreeing(base, other, quantile)
    known = replace(even, log=log, blocks=blocks, agreeing=agreeing, too_few=blocks < LEAST_BLOCKS)
    why_not = ""
    if min(beyond) < LEAST_BEYOND:
        why_not = f"{min(beyond)} responses lie beyond it, and {LEAST_BEYOND} are needed: measure longer"
    if why_not or known.too_few or not math.isfinite(even.standard_error):
        interval = (-math.inf, math.inf)
    else:
        interval = _end(believed, log, -FURTHEST), _end(believed, log, FURTHEST)
    quantiles = math.exp(times[0]), math.exp(times[1])
    return QuantileEstimate(known, interval, bounds_of(even)[1], *quantiles, why_not)


def _common(base: _Side, other: _Side, quantile: float, log_ratio: float) -> float:
    """Returns the log time that a share of the responses of both sides does not exceed, those of the other
    side moved by a log ratio."""
    ends = base.quantile(quantile), other.quantile(quantile) + log_ratio
    low, high = min(ends), max(ends)
    for _ in range(STEPS):
        middle = 0.5 * (low + high)
        if base.mean_beyond(middle) + other.mean_beyond(middle - log_ratio) > 2.0 * (1.0 - quantile):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _end(believed: Callable[[float], bool], inside: float, furthest: float) -> float:
    """Returns the end of the believed log ratios between an inner one and the furthest; infinite beyond
    that."""
    if believed(furthest):
        return math.copysign(math.inf, furthest)
    outside = furthest
    for _ in range(STEPS):
        middle = 0.5 * (inside + outside)
        inside, outside = (middle, outside) if believed(middle) else (inside, middle)
    return outside


def _agreeing(base: _Side, other: _Side, quantile: float) -> int:
    """Returns the number of blocks in which the side with the larger quantile has more responses beyond the
    common one."""
    common = _common(base, other, quantile, 0.0)
    differences = base.beyond(common) - other.beyond(common)
    total = float(differences.mean())
    # A block without any response beyond is on no side: it counts for the larger one and against it in turn.
    even = int((differences == 0).sum())
    return int((np.sign(differences) == np.sign(total)).sum()) + even // 2 if total else len(differences)


def _of_longest(
    base: _Side,
    other: _Side,
    bounds_of: Callable[[Estimate], Bounds],
) -> QuantileEstimate:
    values = base.longest - other.longest
    e = estimate_of_blocks(values)
    e = replace(
        e,
        blocks=len(values),
        agreeing=int((np.sign(values) == np.sign(e.log)).sum()),
        too_few=len(values) < LEAST_BLOCKS,
    )
    interval, p_value = bounds_of(e)
    if e.too_few:
        interval = (-math.inf, math.inf)
    longest = math.exp(float(base.longest.mean())), math.exp(float(other.longest.mean()))
    return QuantileEstimate(e, interval, p_value, *longest)


__all__ = ["QuantileEstimate", "Responses", "compare_quantiles"]
