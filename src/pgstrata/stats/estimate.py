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

from pgstrata.stats.criterion import LEAST_BLOCKS
from pgstrata.stats.distributions import coin_below

Array = NDArray[np.float64]
Method = Literal["mean", "huber", "student", "total", "time", "machines"]

HUBER = 1.345
"""Bend of Huber's function in robust standard deviations: 95 % efficiency under normal noise."""

FEW = 8
"""Below this many pairs a robust scale cannot be estimated; plain mean and t."""

MANY = 200
"""From this many pairs on their distribution is known well enough to weigh them by it."""

FREEDOMS = (1.0, 2.0, 5.0, 30.0)
"""Degrees of freedom of Student's t that are tried: from very heavy tails to nearly normal ones."""

BATCHES = 16
"""Of pairs of the same work, at least, where there are as many: their number stays, and they grow with the
pairs until each is a block, so that they come to hold all that neighbours share (Schmeiser 1982)."""

ORDERS = 2
"""Blocks of slices come in this many orders in turn: servers that start anew do so in the opposite order
before every second block."""

LEAST_ROUNDS = 4
"""Rounds of the same work from which on their spread is known well enough to be an error."""

LEAST_GROUPS = 8
"""Groups of neighbouring batches, at least, whose spread is an estimate of the error."""

AGREE = 0.01
"""Blocks on one side of no difference must be this unlikely by chance (sign test) before a word is said."""

AGREEMENT = 0.99
"""Share of comparisons in which the ratio of totals and the location of pairs are not called different where
they are the same."""

DISAGREE = 2.58
"""Standard errors between them that this makes, looked at once: beyond, the one replaces the other."""

START_ERROR = 0.006
"""Standard deviation of the log ratio of two equal servers from start to start, which no pair of one start
tells: of points-covered-si the ratio of 14 comparisons spread by 0.63 % at an error of 0.26 % of their pairs
(benchmarks/results/layouts.md); of queries of TPC-DS 0.4 to 0.5 % (benchmarks/results/queries.md)."""

STALLED = math.log(1000.0)
"""A slice without any operation counts as 1000 times slower: an outlier whose size does not matter."""


@dataclass(frozen=True)
class Estimate:
    """Log of (other rate ÷ base rate) with what is known of its error.

    `method`: `mean` of log ratios, `huber` or `student` location of log ratios, ratio of the `total`s, or
    of the whole `time` of the same work, or mean over `machines`.
    """

    log: float
    standard_error: float
    freedom: float
    """Degrees of freedom of the standard error: the number of batches it comes from, less those used up."""
    n: int
    method: Method
    outliers: int = 0
    """Pairs further than 3 robust standard deviations from the location."""
    worth: float = 1.0
    """How many independent pairs know as much as one batch does."""
    blocks: int = 0
    """Blocks with connections of their own; 0 where there are none."""
    agreeing: int = 0
    """Blocks whose own ratio lies on the same side of 1 as the ratio of all."""
    too_few: bool = False
    """There are blocks, but fewer than `LEAST_BLOCKS`: no word can rest on them."""
    start_error: float = 0.0
    """What the starts of the servers add to the error by chance, where pairs do not tell it."""

    @property
    def error(self) -> float:
        """The standard error with that of starts."""
        return math.hypot(self.standard_error, self.start_error)

    @property
    def disagreeing(self) -> bool:
        """True where blocks do not agree on the direction more than chance explains (`AGREE`)."""
        against = self.blocks - self.agreeing
        return self.blocks > 0 and 2.0 * coin_below(min(against, self.agreeing), self.blocks) > AGREE


def estimate(
    base: Sequence[float] | Array,
    other: Sequence[float] | Array,
    blocks: Sequence[int] = (),
    by_totals: bool = False,
    starts: int = 0,
    *,
    batches: Sequence[int] = (),
    many: float = MANY,
    disagree: float = DISAGREE,
) -> Estimate:
    """Returns the location of the log ratios other ÷ base of pairs, or the log ratio of their totals, and its
    standard error.

    From 8 pairs on: Huber's M-estimator, whose influence values give the standard error. It assumes that the
    noise of a log ratio is symmetric, which interleaving earns: a disturbance hits both sides alike. Where
    the outliers lie mostly on one side (sign test, 5 %), they are no noise but part of the difference — one
    variant stalls, say — and the ratio of the totals is taken instead, which counts every operation. From
    `many` pairs on, which short slices give: the location of Student's t, whose tails are fitted. A pair of
    slices of some milliseconds is either taken in one state of the machine, and then hardly noisy, or it is
    not and says little: Huber's function would give too much weight to those. What one variant loses in rare
    stalls has no weight here, so the ratio of totals is taken where the two differ by more than their noise
    explains (Hausman 1978), which is `disagree` standard errors. Fewer pairs: mean of log ratios; this
    assumes independent, roughly normal pairs.

    The standard error comes from batches: sums of the influence of neighbouring pairs, long enough to be
    nearly independent (nonoverlapping batch means; their number stays small and Student's t has as many
    degrees of freedom, less one: fixed-b critical values, Kiefer and Vogelsang 2005; Lazarus, Lewis, Stock
    and Watson 2018). Several lengths are tried as long as there are 8 batches, and the largest error is
    taken: a dependence that lasts longer than a short batch shows in a longer one.

    by_totals: the ratio of the totals, however many pairs there are. Where a pair is the same work, the time
    that all of it takes is what is asked: a checkpoint is in few of the pairs and stays in the time. Its
    standard error is that of a ratio of means (Cochran 1977, §6.4), from batches of neighbouring pairs: what
    comes a pair earlier on one side than on the other is no difference.

    blocks: so many pairs each, one after the other, belong together: connections, CPU and often servers were
    new for each of them, and what these are by chance is part of all of a block. Every block is one value
    then: Student's location of its pairs, with scale and tails of all pairs, or the ratio of its totals where
    the two differ by more than the blocks' errors explain. Pairs of slices belong
    to servers that start in one order before every second block and in the opposite one before the others:
    what the order does cancels in the mean, and is no noise, so each order has its own level and K − 2
    degrees of freedom are left. Fewer than 8 blocks of slices are `too_few`.

    batches: so many pairs each were taken together, and those of two batches apart: they are the only batches
    then. Not with blocks.

    starts: of servers that lived through many pairs each; what they are by chance becomes `start_error`. 0
    where servers started so often that the pairs tell.

    Pairs in which both sides did nothing are left out. Raises ValueError when the sides have
    different lengths, blocks have another number of pairs, or a rate is negative or not finite.
    """
    b, o = _rates(base), _rates(other)
    if len(b) != len(o):
        raise ValueError(f"pairs need two sides of equal length, not {len(b)} and {len(o)}")
    if blocks and sum(blocks) != len(b):
        raise ValueError(f"blocks of {sum(blocks)} pairs, and {len(b)} pairs")
    if batches and (blocks or by_totals or sum(batches) != len(b)):
        raise ValueError(f"batches of {sum(batches)} pairs, and {len(b)} pairs")
    some = (b > 0) | (o > 0)
    together = np.repeat(np.arange(len(batches)), batches)[some] if batches else None
    number = (
        np.repeat(np.arange(len(blocks)), blocks)[some] if blocks else np.zeros(some.sum(), dtype=np.intp)
    )
    of_pairs = _of_pairs(b[some], o[some], number, len(blocks), by_totals, many, disagree, together)
    return replace(of_pairs, start_error=START_ERROR / math.sqrt(starts)) if starts else of_pairs


def _of_pairs(
    b: Array,
    o: Array,
    number: NDArray[np.intp],
    blocks: int,
    by_totals: bool,
    many: float,
    disagree: float,
    together: NDArray[np.intp] | None,
) -> Estimate:
    """Returns the estimate of the pairs by the method that suits them. number: of the block of each pair;
    blocks: how many blocks there are; together: as of `_from_batches`."""
    if by_totals and len(number) > 1 and b.sum() > 0 and o.sum() > 0:
        return _of_rounds(_of_same_work(b, o, number), number)
    if blocks:
        return _of_blocks(b, o, number, blocks, disagree)
    return _from_batches(_or_totals(_estimate(b, o, many), b, o, disagree), together=together)


def mean_of(logs: Array) -> Estimate:
    """Returns the mean of independent log ratios with the error of `estimate`: of batches of neighbours."""
    return _from_batches(_finish(float(logs.mean()), logs - logs.mean(), "mean", 0))


def estimate_of_blocks(values: Array, orders: int = ORDERS) -> Estimate:
    """Returns the mean of one value per block with the error of `estimate`: the orders in which servers start
    have levels of their own (1: there are none), and neighbouring blocks may be alike."""
    return _of_values(values, orders)


@dataclass(frozen=True)
class _WithInfluence:
    """An estimate, and what each pair had a part in it, as a difference of the log."""

    estimate: Estimate
    influence: Array


def _of_blocks(b: Array, o: Array, number: NDArray[np.intp], count: int, disagree: float) -> Estimate:
    """Returns the estimate with each block as a single value: its own location, or the ratio of its totals.
    number: of the block of each pair; count: number of blocks, including those without a pair."""
    x = log_ratios(b, o)
    parts = _by_block(x, number) if len(x) else []
    if not parts:
        return Estimate(0.0, math.inf, 0.0, 0, "mean", too_few=True)
    # What little is left of a block tells less than the others do.
    least = 0.25 * max(map(len, parts))
    used = [k for k, part in enumerate(parts) if len(part) >= least]
    values = _locations(parts)[used]
    sums = [(p.sum(), q.sum()) for p, q in zip(_by_block(b, number), _by_block(o, number), strict=True)]
    totals = np.array([log_ratios(np.array([sums[k][0]]), np.array([sums[k][1]]))[0] for k in used])
    # In both orders as often: where a block is missing, the levels of the orders cannot be told.
    orders = ORDERS if len(used) == count else 1
    apart = _of_values(totals - values, orders)
    method: Method = "student"
    if abs(apart.log) > disagree * apart.standard_error:
        values, method = totals, "total"
    e = _of_values(values, orders)
    agreeing = int((np.sign(values) == np.sign(e.log)).sum())
    within = float(np.mean([part.var(ddof=1) for part in parts if len(part) > 1] or [0.0]))
    variance = e.standard_error**2
    worth = max(1.0, within / len(values) / variance) if 0 < variance < math.inf else 1.0
    return replace(
        e,
        n=len(x),
        method=method,
        worth=worth,
        blocks=len(values),
        agreeing=agreeing,
        too_few=len(values) < LEAST_BLOCKS,
    )


def _locations(parts: list[Array]) -> Array:
    """Returns the location of each block's log ratios. Scale and tails of pairs are those of all blocks
    together."""
    middles = [float(np.median(part)) for part in parts]
    rest = np.concatenate([part - middle for part, middle in zip(parts, middles, strict=True)])
    if len(rest) < MANY:
        return np.array([huber(part)[0] for part in parts])
    _, scale, freedom = student(rest)
    if scale == 0.0:
        return np.array([part.mean() for part in parts])
    return np.array([_student_location(part, scale, freedom) for part in parts])


def _student_location(x: Array, scale: float, freedom: float) -> float:
    """Returns Student's location of values whose scale and degrees of freedom are known, from the median."""
    location = float(np.median(x))
    for _ in range(50):
        weight = (freedom + 1.0) / (freedom + ((x - location) / scale) ** 2)
        moved = float((weight * x).sum() / weight.sum())
        if abs(moved - location) < 1e-6 * scale:
            break
        location = moved
    return location


def _of_rounds(pairs: _WithInfluence, number: NDArray[np.intp]) -> Estimate:
    """Returns the estimate with the error of whole rounds if that is larger than the error of the batches
    within them."""
    e, n = pairs.estimate, len(pairs.influence)
    rounds = _by_block(pairs.influence, number)
    if len(rounds) < LEAST_ROUNDS or not math.isfinite(e.standard_error):
        return e
    variance = _variance(rounds, n)
    if variance <= e.standard_error**2:
        return e
    worth = max(1.0, (e.freedom + 1.0) * e.worth / len(rounds) * e.standard_error**2 / variance)
    return replace(e, standard_error=math.sqrt(variance), freedom=len(rounds) - 1.0, worth=worth)


def _of_values(values: Array, orders: int = 1) -> Estimate:
    """Returns the mean of values of blocks, and its error: the largest of batches of neighbours, from 8
    values on."""
    n = len(values)
    if n < 2:
        return Estimate(float(values.sum()), math.inf, 0.0, n, "mean")
    orders = orders if n > orders else 1
    mean = float(values.mean())
    return _from_batches(_finish(mean, values - mean, "mean", 0), orders)


def _from_batches(
    values: _WithInfluence, orders: int = 1, together: NDArray[np.intp] | None = None
) -> Estimate:
    """Returns the estimate with the largest error of batches of one, two, four … neighbours, as long as there
    are 8 batches. together: the number of the batch of each pair, where that is known."""
    e, n = values.estimate, len(values.influence)
    if not math.isfinite(e.standard_error):
        return e
    chosen = e
    if together is None:
        ways = [(np.array_split(values.influence, n // length), length) for length in _lengths(n)]
    else:
        ways = [(_by_block(values.influence, together), 1)]
    for groups, length in ways:
        levels = orders if length == 1 else 1
        variance = _variance(groups, n, levels)
        if length == 1 or variance > chosen.standard_error**2:
            chosen = replace(e, standard_error=math.sqrt(variance), freedom=float(len(groups) - levels))
    if chosen.freedom < n - 1 and chosen.standard_error > 0:
        worth = n / (chosen.freedom + 1.0) * (e.standard_error / chosen.standard_error) ** 2
        chosen = replace(chosen, worth=max(1.0, worth))
    return chosen


def _lengths(n: int) -> list[int]:
    """Returns the numbers of values in a batch that are tried: one; a sixteenth and an eighth of many values,
    else twice as many as long as there are 8 batches."""
    if n >= MANY:
        return [1, n // (2 * LEAST_GROUPS), n // LEAST_GROUPS]
    return [1, *(length for length in (2, 4, 8) if n // length >= LEAST_GROUPS)]


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
        return _finish(float(x.mean()), x - x.mean(), "mean", 0)
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
    """Returns the ratio of totals, its error from batches of pairs. number: of the block of each pair."""
    n = len(b)
    influence = o / o.mean() - b / b.mean()
    blocks = _by_block(influence, number)
    each = math.ceil(BATCHES / len(blocks))
    batches = [part for block in blocks for part in np.array_split(block, min(each, len(block)))]
    variance = _variance(batches, n)
    of_pairs = float((influence * influence).sum()) / (n - 1) / n
    worth = max(1.0, n / len(batches) * of_pairs / variance) if variance > 0 else 1.0
    log = math.log(o.sum() / b.sum())
    estimate = Estimate(log, math.sqrt(variance), len(batches) - 1.0, n, "time", worth=worth)
    return _WithInfluence(estimate, influence)


def _variance(parts: Sequence[Array], n: int, orders: int = 1) -> float:
    """Returns the variance of the mean of n values, from the sums over parts of them. orders: number of
    levels that the parts have in turn; 1 means the mean alone, which is already subtracted from the
    values."""
    sums = np.array([part.sum() for part in parts])
    if orders > 1:
        for first in range(orders):
            sums[first::orders] -= sums[first::orders].mean()
    return float((sums * sums).sum()) / n**2 * len(sums) / (len(sums) - orders)


def log_ratios(base: Array, other: Array) -> Array:
    """Returns the natural log of other ÷ base, pair by pair, within ± log 1000."""
    with np.errstate(divide="ignore"):
        logs: Array = np.clip(np.log(other) - np.log(base), -STALLED, STALLED)
    return logs


def huber(x: Array, bend: float = HUBER) -> tuple[float, float]:
    """Returns Huber's location with the scale fixed at 1.4826 × MAD; (location, scale).

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
    """Returns the influence of each value on Huber's location, in scales, from standardised residuals u.

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


def _or_totals(location: _WithInfluence, b: Array, o: Array, disagree: float) -> _WithInfluence:
    """Returns the ratio of totals if the location of Student's t differs from it by more than noise explains,
    else the location."""
    if location.estimate.method != "student" or b.sum() == 0 or o.sum() == 0:
        return location
    total = _of_totals(b, o, location.estimate.outliers)
    difference = total.estimate.log - location.estimate.log
    apart = _from_batches(_finish(difference, total.influence - location.influence, "total", 0))
    return total if abs(apart.log) > disagree * apart.standard_error else location


def student(x: Array, freedoms: Sequence[float] = FREEDOMS) -> tuple[float, float, float]:
    """Returns location, scale and degrees of freedom of Student's t that are most likely to give x.

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
    """Returns the influence of each value on the location of Student's t, in scales: ψ(u) ÷ mean ψ′."""
    slope = (freedom + 1.0) * (freedom - u * u) / (freedom + u * u) ** 2
    values: Array = (freedom + 1.0) * u / (freedom + u * u) / max(float(slope.mean()), 1e-6)
    return values


def one_sided(above: int, below: int, level: float = 0.05) -> bool:
    """Returns whether outliers fall on one side more often than a fair coin would have it (sign test,
    two-sided)."""
    n = above + below
    return n > 0 and 2.0 * coin_below(min(above, below), n) < level


def _finish(log: float, influence: Array, method: Method, outliers: int) -> _WithInfluence:
    """Returns the estimate with the error of independent pairs."""
    n = len(influence)
    error = math.sqrt(float((influence * influence).sum()) / (n - 1) / n)
    return _WithInfluence(Estimate(log, error, n - 1.0, n, method, outliers), influence)


def _rates(values: Sequence[float] | Array) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError("rates must be a flat sequence")
    if not np.isfinite(array).all() or (array < 0).any():
        raise ValueError("rates must be finite and not negative")
    return array
