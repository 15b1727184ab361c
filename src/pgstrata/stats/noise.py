"""What a machine can see: from a base measured against itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from pgstrata.stats import sequential
from pgstrata.stats.criterion import CONFIDENCE, FIRST, LEAST_BLOCKS
from pgstrata.stats.estimate import FEW, START_ERROR, Estimate, estimate, mean_of
from pgstrata.stats.verdict import interval

POWER = 0.9
MINUTES = (1.0, 5.0, 20.0)
SIMULATED = 1000


@dataclass(frozen=True)
class Visible:
    """The smallest slowdown (a share, 0.013 is 1.3 %) that `minutes` of interleaved slices show.

    `fixed`: with the number of pairs set beforehand; `watched`: with `until = "verdict"`, where looking
    early costs width. None: that time is too short for an interval.
    """

    minutes: float
    pairs: int
    fixed: float | None
    watched: float | None


@dataclass(frozen=True)
class Noise:
    """`pair_deviation`: standard deviation that independent pairs would need to have this error.

    `offset`: how much faster the second cluster was (a share); `floor`: the part of it that is proven.
    Two clusters of the same server can differ for good by where their memory and files lie; longer
    measuring does not mend that, so the floor is added to every `Visible`.
    """

    pair_deviation: float
    offset: float
    floor: float
    pairs: int
    visible: tuple[Visible, ...]


def noise(
    base: Sequence[float],
    again: Sequence[float],
    blocks: Sequence[int] = (),
    *,
    starts: int = 0,
    pair_seconds: float,
    first_look: int | None = None,
    minutes: Sequence[float] = MINUTES,
    confidence: float = CONFIDENCE,
    power: float = POWER,
) -> Noise:
    """Returns the smallest differences visible, from pairs of slices of the base against itself.

    blocks, starts: pairs in each block of short slices, and starts of each server, as for `estimate`; in such
    slices servers start anew where a verdict is waited for. pair_seconds: what one pair takes on the
    clock, both slices and the changes between them. first_look: pairs that are there when a verdict is looked
    at for the first time, where the time is its end and known before (short slices); None elsewhere. A
    difference is visible if a measurement would leave "no difference" outside its interval with probability
    `power`. Assumes that later noise is like this noise. For a verdict of slower the estimate must be beyond
    the margin, too: where less than the margin is visible, a smaller margin can be asked. Raises ValueError
    for fewer than 8 pairs."""
    if pair_seconds <= 0:
        raise ValueError("pair_seconds must be positive")
    e = estimate(base, again, blocks, starts=starts)
    if e.n < FEW:
        raise ValueError(f"{e.n} pairs are not enough to know the noise; at least {FEW}")
    # Pairs that are one value: those of a block.
    unit = e.n / max(1, len(blocks)) if blocks else 1.0
    unit = unit if first_look is None else first_look / LEAST_BLOCKS
    deviation = e.standard_error * math.sqrt(e.n / unit)
    low, high = interval(e, confidence)
    floor = max(low, -high, 0.0)
    normal = NormalDist()
    start = (normal.inv_cdf(0.5 + confidence / 2) + normal.inv_cdf(power)) * (START_ERROR if starts else 0.0)
    visible = []
    for t in minutes:
        n = int(t * 60.0 / pair_seconds)
        fixed = watched = None
        if n >= LEAST_BLOCKS * unit:
            units = int(n / unit)
            of_pairs = deviation * _smallest(units, power, lambda x: interval(x, confidence))
            fixed = math.hypot(of_pairs, start) + floor
        if n >= (first_look or FIRST * unit):
            of_pairs = deviation * _smallest(int(n / unit), power, _looked_at(n, first_look, confidence))
            watched = math.hypot(of_pairs, start if first_look is None else 0.0) + floor
        visible.append(Visible(t, n, _share(fixed), _share(watched)))
    pair = e.standard_error * math.sqrt(e.n)
    return Noise(pair, math.expm1(e.log), -math.expm1(-floor), e.n, tuple(visible))


def _looked_at(
    n: int, first_look: int | None, confidence: float
) -> Callable[[Estimate], tuple[float, float]]:
    """Returns the function from an estimate to its interval, for a verdict after looks at up to n pairs."""
    if first_look is None:
        return lambda e: sequential.interval(e, confidence)
    return lambda e: sequential.interval_within(e, n / first_look, confidence)


def _smallest(n: int, power: float, interval_of: Callable[[Estimate], tuple[float, float]]) -> float:
    """Returns the log ratio that n independent values with a standard deviation of 1 find with this power;
    infinite if no size would be enough. By simulation, always with the same random numbers: a value is found
    where the upper end of its interval lies below no difference."""
    dice = np.random.default_rng(n)
    ends = [interval_of(mean_of(dice.standard_normal(n)))[1] for _ in range(SIMULATED)]
    return float(np.quantile(ends, power))


def _share(log: float | None) -> float | None:
    """Returns a log ratio as a slowdown: 0.03 means 3 % below the base; None if it is infinite."""
    return -math.expm1(-log) if log is not None and math.isfinite(log) else None
