"""How much faster one side is, with its standard error, from pairs of measurements.

A pair is two rates (any unit, the same on both sides) taken next to each other in time: two slices
of an interleaved comparison (order A B, B A, A B, …), or two repeats. What the machine does to both
members of a pair cancels in their ratio. The members of a pair cover equally long times; where they do the
same work instead, their times are given, exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pgstrata.stats.distributions import coin_below

Array = NDArray[np.float64]
Method = Literal["mean", "huber", "student", "total", "time", "machines"]

HUBER = 1.345
"""Bend of Huber's function in robust standard deviations: 95 % efficiency under normal noise."""

FEW = 8
"""Below this many pairs a robust scale and an autocorrelation cannot be estimated; plain mean and t."""

MANY = 200
"""From this many pairs on their distribution is known well enough to weigh them by it."""

FREEDOMS = (1.0, 2.0, 5.0, 30.0)
"""Degrees of freedom of Student's t that are tried: from very heavy tails to nearly normal ones."""

BATCHES = 16
"""Of pairs of the same work, at least, where there are as many: their number stays, and they grow with the
pairs until each is a block, so that they come to hold all that neighbours share (Schmeiser 1982)."""

ORDERS = 2
"""In so many orders servers start before blocks of slices, one after the other."""

BLOCKS = 4
"""From this many blocks on their spread is known well enough to be an error."""

AGREEMENT = 0.99
"""Share of comparisons in which the ratio of totals and the location of pairs are not called different where
they are the same."""

DISAGREE = 2.58
"""Standard errors between them that this makes, looked at once: beyond, the one replaces the other."""

STALLED = math.log(1000.0)
"""A slice without any operation counts as 1000 times slower: an outlier whose size does not matter."""


@dataclass(frozen=True)
class Estimate:
    """Log of (other rate ÷ base rate) with what is known of its error.

    `freedom`: degrees of freedom of the standard error, reduced where pairs depend on each other; `worth`:
    how many independent pairs know as much as one of them, more than one where blocks are independent.
    `method`: `mean` of log ratios, `huber` or `student` location of log ratios, ratio of the `total`s, or
    of the whole `time` of the same work, or mean over `machines`.
    `autocorrelation`: of neighbouring pairs, corrected for bias, never below 0.
    `outliers`: pairs further than 3 robust standard deviations from the location.
    """

    log: float
    standard_error: float
    freedom: float
    n: int
    method: Method
    autocorrelation: float = 0.0
    outliers: int = 0
    worth: float = 1.0


def estimate(
    base: Sequence[float] | Array,
    other: Sequence[float] | Array,
    blocks: Sequence[int] = (),
    by_totals: bool = False,
    *,
    many: float = MANY,
    disagree: float = DISAGREE,
) -> Estimate:
    """Location of the log ratios other ÷ base of pairs, or log ratio of their totals, and its standard error.

    From 8 pairs on: Huber's M-estimator, whose influence values give the standard error, widened for
    autocorrelation. It assumes that the noise of a log ratio is symmetric, which interleaving earns:
    a disturbance hits both sides alike. Where the outliers lie mostly on one side (sign test, 5 %),
    they are no noise but part of the difference — one variant stalls, say — and the ratio of the
    totals is taken instead, which counts every operation.
    From `many` pairs on, which short slices give: the location of Student's t, whose tails are fitted. A pair
    of slices of some milliseconds is either taken in one state of the machine, and then hardly noisy, or it
    is not and says little: Huber's function would give too much weight to those. What one variant loses in
    rare stalls has no weight here, so the ratio of totals is taken where the two differ by more than
    their noise explains (Hausman 1978), which is `disagree` standard errors.
    Fewer pairs: mean of log ratios, no widening; this assumes independent, roughly normal pairs.

    by_totals: the ratio of the totals, however many pairs there are. Where a pair is the same work, the time
    that all of it takes is what is asked: a checkpoint is in few of the pairs and stays in the time. Its
    standard error is that of a ratio of means (Cochran 1977, §6.4), from batches of neighbouring pairs: what
    comes a pair earlier on one side than on the other is no difference.

    blocks: so many pairs each, one after the other, belong together: servers were started anew between them,
    and what they were by chance is part of all of a block. From 4 blocks on the standard error is the larger
    one of that of the pairs and that of the blocks, which counts every block as one value (Liang and Zeger
    1986, with K ÷ (K − 1) for K blocks). Pairs of slices belong to servers that start in one order before
    every second block and in the opposite one before the others: what the order does cancels in the mean, and
    is no noise, so each order has its own level and K − 2 degrees of freedom are left.

    Pairs in which both sides did nothing are left out. Raises ValueError when the sides have
    different lengths, blocks have another number of pairs, or a rate is negative or not finite.
    """
    b, o = _rates(base), _rates(other)
    if len(b) != len(o):
        raise ValueError(f"pairs need two sides of equal length, not {len(b)} and {len(o)}")
    if blocks and sum(blocks) != len(b):
        raise ValueError(f"blocks of {sum(blocks)} pairs, and {len(b)} pairs")
    some = (b > 0) | (o > 0)
    number = (
        np.repeat(np.arange(len(blocks)), blocks)[some] if blocks else np.zeros(some.sum(), dtype=np.intp)
    )
    if by_totals and len(number) > 1 and b.sum() > 0 and o.sum() > 0:
        return _with_blocks(_of_same_work(b[some], o[some], number), number, orders=1)
    found = _estimate(b[some], o[some], many)
    return _with_blocks(_or_totals(found, b[some], o[some], number, disagree), number, ORDERS)


@dataclass(frozen=True)
class _WithInfluence:
    """An estimate, and what each pair had a part in it, as a difference of the log."""

    estimate: Estimate
    influence: Array


def _with_blocks(found: _WithInfluence, number: NDArray[np.intp], orders: int) -> Estimate:
    """With the error of blocks, where that is the larger one. number: of the block of each pair; orders: so
    many of them servers start in, one after the other."""
    e, n = found.estimate, len(found.influence)
    blocks = _by_block(found.influence, number)
    if len(blocks) < BLOCKS or not math.isfinite(e.standard_error):
        return e
    variance = _variance(blocks, n, orders)
    if variance <= e.standard_error**2:
        return e
    worth = max(1.0, (e.freedom + 1.0) * e.worth / len(blocks) * e.standard_error**2 / variance)
    freedom = float(len(blocks) - orders)
    return replace(e, standard_error=math.sqrt(variance), freedom=freedom, worth=worth)


def _by_block(influence: Array, number: NDArray[np.intp]) -> list[Array]:
    return np.split(influence, np.flatnonzero(np.diff(number)) + 1)


def _estimate(b: Array, o: Array, many: float) -> _WithInfluence:
    n = len(b)
    if n == 0:
        return _WithInfluence(Estimate(0.0, math.inf, 0.0, 0, "mean"), b)
    x = log_ratios(b, o)
    if n == 1:
        return _WithInfluence(Estimate(float(x[0]), math.inf, 0.0, 1, "mean"), x - x)
    if n < FEW:
        return _finish(float(x.mean()), x - x.mean(), "mean", 0, widen=False)
    if n >= many:
        return _of_many(x)
    location, scale = huber(x)
    if scale == 0.0:
        return _finish(float(x.mean()), x - x.mean(), "mean", 0)
    u = (x - location) / scale
    outliers = int((np.abs(u) > 3).sum())
    if one_sided(int((u > 3).sum()), int((u < -3).sum())) and b.sum() > 0 and o.sum() > 0:
        return _of_totals(b, o, outliers)
    return _finish(location, huber_influence(u) * scale, "huber", outliers)


def _of_totals(b: Array, o: Array, outliers: int) -> _WithInfluence:
    return _finish(math.log(o.sum() / b.sum()), o / o.mean() - b / b.mean(), "total", outliers)


def _of_same_work(b: Array, o: Array, number: NDArray[np.intp]) -> _WithInfluence:
    """The ratio of totals, its error from batches of pairs. number: of the block of each pair."""
    n = len(b)
    influence = o / o.mean() - b / b.mean()
    blocks = _by_block(influence, number)
    each = math.ceil(BATCHES / len(blocks))
    batches = [part for block in blocks for part in np.array_split(block, min(each, len(block)))]
    variance = _variance(batches, n)
    of_pairs = float((influence * influence).sum()) / (n - 1) / n
    worth = max(1.0, n / len(batches) * of_pairs / variance) if variance > 0 else 1.0
    log = math.log(o.sum() / b.sum())
    found = Estimate(log, math.sqrt(variance), len(batches) - 1.0, n, "time", worth=worth)
    return _WithInfluence(found, influence)


def _variance(parts: Sequence[Array], n: int, orders: int = 1) -> float:
    """Of the mean of n values, from the sums over parts of them. orders: the parts have so many levels in
    turn; one is the mean, from which the values are taken already."""
    sums = np.array([part.sum() for part in parts])
    if orders > 1:
        for first in range(orders):
            sums[first::orders] -= sums[first::orders].mean()
    return float((sums * sums).sum()) / n**2 * len(sums) / (len(sums) - orders)


def log_ratios(base: Array, other: Array) -> Array:
    """Natural log of other ÷ base, pair by pair, within ± log 1000."""
    with np.errstate(divide="ignore"):
        logs: Array = np.clip(np.log(other) - np.log(base), -STALLED, STALLED)
    return logs


def huber(x: Array, bend: float = HUBER) -> tuple[float, float]:
    """Huber's location with the scale fixed at 1.4826 × MAD; (location, scale).

    Source: Huber and Ronchetti, Robust Statistics (2009), §6.4 and §6.7. The location is the zero of
    a falling piecewise linear function, found by Newton's method from the median.
    """
    location = float(np.median(x))
    scale = 1.4826 * float(np.median(np.abs(x - location)))
    if scale == 0.0:
        return location, 0.0
    for _ in range(50):
        u = (x - location) / scale
        inside = int((np.abs(u) <= bend).sum())
        step = scale * float(np.clip(u, -bend, bend).sum()) / max(inside, 1)
        location += step
        if abs(step) < 1e-9 * scale:
            break
    return location, scale


def huber_influence(u: Array, bend: float = HUBER) -> Array:
    """Influence of each value on Huber's location, in scales, from standardised residuals u.

    ψ(u) ÷ mean ψ′, times the small-sample factor K = 1 + (1 − m) ÷ (n m), m = mean ψ′ (Huber and
    Ronchetti 2009, §7.6). Their root mean square ÷ √n is the standard error of the location.
    """
    m = max(float((np.abs(u) <= bend).mean()), 1.0 / len(u))
    correction = 1.0 + (1.0 - m) / (len(u) * m)
    values: Array = np.clip(u, -bend, bend) / m * correction
    return values


def _of_many(x: Array) -> _WithInfluence:
    location, scale, freedom = student(x)
    if scale == 0.0:
        return _finish(float(x.mean()), x - x.mean(), "mean", 0)
    influence = student_influence((x - location) / scale, freedom) * scale
    outliers = int((np.abs(x - location) > 3 * scale).sum())
    return _finish(location, influence, "student", outliers)


def _or_totals(
    found: _WithInfluence, b: Array, o: Array, number: NDArray[np.intp], disagree: float
) -> _WithInfluence:
    """The ratio of totals, where the location of Student's t differs from it by more than noise explains."""
    if found.estimate.method != "student" or b.sum() == 0 or o.sum() == 0:
        return found
    total = _of_totals(b, o, found.estimate.outliers)
    difference = _finish(
        total.estimate.log - found.estimate.log, total.influence - found.influence, "total", 0
    )
    apart = _with_blocks(difference, number, ORDERS)
    return total if abs(apart.log) > disagree * apart.standard_error else found


def student(x: Array, freedoms: Sequence[float] = FREEDOMS) -> tuple[float, float, float]:
    """Location, scale and degrees of freedom of Student's t that are most likely to give x.

    Source: Lange, Little and Taylor, Robust statistical modeling using the t distribution (1989): by the EM
    algorithm from the median, for each of `freedoms`, which are enough to find the weight of the tails.
    Scale 0 where more than half of the values are the same.
    """
    middle = float(np.median(x))
    spread = float(np.median(np.abs(x - middle)))
    best = (-math.inf, middle, 0.0, freedoms[0])
    if spread == 0.0:
        return best[1:]
    for v in freedoms:
        location, scale = middle, spread
        for _ in range(100):
            weight = (v + 1.0) / (v + ((x - location) / scale) ** 2)
            moved = float((weight * x).sum() / weight.sum())
            wide = math.sqrt(float((weight * (x - moved) ** 2).mean()))
            near = abs(moved - location) < 1e-5 * scale and abs(wide - scale) < 1e-4 * scale
            location, scale = moved, max(wide, 1e-12)
            if near:
                break
        constant = math.lgamma((v + 1) / 2) - math.lgamma(v / 2) - 0.5 * math.log(v) - math.log(scale)
        u2 = ((x - location) / scale) ** 2
        likelihood = len(x) * constant - 0.5 * (v + 1.0) * float(np.log1p(u2 / v).sum())
        best = max(best, (likelihood, location, scale, v))
    return best[1:]


def student_influence(u: Array, freedom: float) -> Array:
    """Influence of each value on the location of Student's t, in scales: ψ(u) ÷ mean ψ′."""
    slope = (freedom + 1.0) * (freedom - u * u) / (freedom + u * u) ** 2
    values: Array = (freedom + 1.0) * u / (freedom + u * u) / max(float(slope.mean()), 1e-6)
    return values


def one_sided(above: int, below: int, level: float = 0.05) -> bool:
    """Do outliers fall on one side more often than a fair coin would have it? (Sign test, two-sided.)"""
    n = above + below
    return n > 0 and 2.0 * coin_below(min(above, below), n) < level


def autocorrelation(values: Array) -> float:
    """Lag-1 autocorrelation, corrected for its bias, between 0 and 0.9.

    E r ≈ ρ − (1 + 3ρ) ÷ n when the mean is estimated (Kendall 1954; Marriott and Pope 1954). Negative
    values are taken as 0: they would narrow the interval, and a drift inside pairs makes them.
    """
    v = values - values.mean()
    square = float((v * v).sum())
    if square == 0.0:
        return 0.0
    r = float((v[1:] * v[:-1]).sum()) / square
    return min(max(r + (1.0 + 3.0 * r) / len(v), 0.0), 0.9)


def inflation(rho: float) -> float:
    """Variance of a mean of AR(1) values ÷ that of independent ones: (1 + ρ) ÷ (1 − ρ), for many values.

    Source: Priestley, Spectral Analysis and Time Series (1981), §5.3.
    """
    return (1.0 + rho) / (1.0 - rho)


def _finish(
    log: float,
    influence: Array,
    method: Method,
    outliers: int,
    widen: bool = True,
) -> _WithInfluence:
    n = len(influence)
    rho = autocorrelation(influence) if widen and n >= FEW else 0.0
    factor = inflation(rho)
    independent = math.sqrt(float((influence * influence).sum()) / (n - 1) / n)
    # Dependent pairs know less of their own spread, too: as many as would be independent count.
    freedom = max((n - 1) / factor, min(2.0, n - 1.0))
    error = independent * math.sqrt(factor)
    return _WithInfluence(Estimate(log, error, freedom, n, method, rho, outliers), influence)


def _rates(values: Sequence[float] | Array) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError("rates must be a flat sequence")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError("rates must be finite and not negative")
    return array
