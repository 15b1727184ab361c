"""What a machine can see: from a base measured against itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from pgstrata.stats import sequential
from pgstrata.stats.distributions import shifted_student_below
from pgstrata.stats.estimate import FEW, MANY, Estimate, estimate, inflation
from pgstrata.stats.verdict import CONFIDENCE, interval

POWER = 0.9
MINUTES = (1.0, 5.0, 20.0)
QUANTILES = 21


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
    """`pair_deviation`: standard deviation of a pair's log ratio, as robustly estimated.

    `offset`: how much faster the second cluster was (a share); `floor`: the part of it that is proven.
    Two clusters of the same server can differ for good by where their memory and files lie; longer
    measuring does not mend that, so the floor is added to every `Visible`.
    """

    pair_deviation: float
    autocorrelation: float
    offset: float
    floor: float
    pairs: int
    visible: tuple[Visible, ...]


def noise(
    base: Sequence[float],
    again: Sequence[float],
    *,
    pair_seconds: float,
    first_look: int | None = None,
    minutes: Sequence[float] = MINUTES,
    confidence: float = CONFIDENCE,
    power: float = POWER,
) -> Noise:
    """The smallest differences visible, from pairs of slices of the base against itself.

    pair_seconds: what one pair takes on the clock, both slices and the changes between them. first_look: so
    many pairs are there when a verdict is looked at for the first time, where the time is its end and known
    before (short slices); None where nobody knows how many there will be. A
    difference is visible if a measurement would leave "no difference" outside its interval with
    probability `power`. Assumes that later noise is like this noise. For a verdict of slower the estimate
    must be beyond the margin, too: where less than the margin is visible, a smaller margin can be asked.
    Raises ValueError for fewer than 8 pairs.
    """
    if pair_seconds <= 0:
        raise ValueError("pair_seconds must be positive")
    e = estimate(base, again)
    if e.n < FEW:
        raise ValueError(f"{e.n} pairs are not enough to know the noise; at least {FEW}")
    # Fewer pairs than these may be estimated in another way, whose error is another.
    by_few = estimate(base, again, many=math.inf)
    low, high = interval(e, confidence)
    floor = max(low, -high, 0.0)
    visible = []
    for t in minutes:
        n = int(t * 60.0 / pair_seconds)
        seen = e if n >= MANY else by_few
        deviation, rho = _deviation(seen), seen.autocorrelation
        fixed = watched = None
        if n >= FEW:
            fixed = _smallest(n, deviation, rho, power, lambda x: interval(x, confidence)) + floor
        if n >= (first_look or sequential.FIRST):
            looked_at = _looked_at(n, first_look, confidence)
            watched = _smallest(n, deviation, rho, power, looked_at) + floor
        visible.append(Visible(t, n, _share(fixed), _share(watched)))
    return Noise(
        _deviation(e), e.autocorrelation, math.expm1(e.log), -math.expm1(-floor), e.n, tuple(visible)
    )


def _looked_at(
    n: int, first_look: int | None, confidence: float
) -> Callable[[Estimate], tuple[float, float]]:
    """The interval of a verdict that n pairs have been looked at for."""
    if first_look is None:
        return lambda e: sequential.interval(e, confidence)
    return lambda e: sequential.interval_within(e, n / first_look, confidence)


def _deviation(e: Estimate) -> float:
    """Standard deviation of a pair that gives this standard error."""
    return e.standard_error * math.sqrt(e.n / inflation(e.autocorrelation))


def _smallest(
    n: int,
    deviation: float,
    rho: float,
    power: float,
    interval_of: Callable[[Estimate], tuple[float, float]],
) -> float:
    """The log ratio that n pairs find with this power; infinite if no size would be enough.

    Estimate ÷ standard error has a noncentral t distribution. The interval is also widened for the
    autocorrelation *estimated* from n pairs, which is above 0 by chance half of the time and nearly normal
    around the true one with variance (1 − ρ²) ÷ n (Bartlett 1946): averaged over its quantiles.
    """
    factor = inflation(rho)
    error = deviation * math.sqrt(factor / n)
    freedom = max((n - 1) / factor, 2.0)
    bars = []
    for i in range(QUANTILES):
        z = NormalDist().inv_cdf((i + 0.5) / QUANTILES)
        seen = inflation(min(max(rho + z * math.sqrt((1.0 - rho * rho) / n), 0.0), 0.9))
        widened = Estimate(0.0, math.sqrt(seen / factor), max((n - 1) / seen, 2.0), n, "huber")
        bars.append(interval_of(widened)[1])

    def missing(effect: float) -> float:
        found = [1.0 - shifted_student_below(freedom, effect, b) if math.isfinite(b) else 0.0 for b in bars]
        return sum(found) / QUANTILES - power

    top = 1.0
    while missing(top) < 0:
        top *= 2.0
        if top > 1000.0:
            return math.inf
    from scipy import optimize  # a third of a second to load, and only noise asks for it

    return error * float(optimize.brentq(missing, 0.0, top, xtol=1e-6))


def _share(log: float | None) -> float | None:
    """A log ratio as a slowdown: 0.03 means 3 % below the base; None where it is infinite."""
    return -math.expm1(-log) if log is not None and math.isfinite(log) else None
