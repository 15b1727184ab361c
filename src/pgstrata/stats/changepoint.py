"""Many versions in a row: between which two the level of a rate shifted.

Model: log rate = a level that is constant between shifts + normal noise of one size, independent from
observation to observation. The noise is taken from, in this order: the standard errors given; the
scatter of repeats within versions; the scatter of the versions around their levels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgstrata.stats.criterion import USUAL, Criterion
from pgstrata.stats.distributions import student_quantile
from pgstrata.stats.estimate import Array

DRAWS = 4000
"""Simulated rows of versions without a shift behind a p-value: known to ± 0.0035 at 0.05."""


@dataclass(frozen=True)
class Version:
    """One place in the row: its label and the rates (any one unit) of its repeats, at least one.

    standard_error: of the mean log rate, where it is known from elsewhere (a verdict's interval).
    """

    label: str
    rates: tuple[float, ...]
    standard_error: float | None = None


@dataclass(frozen=True)
class Shift:
    """The level changed from the version before `label` to `label`.

    `index`: of that version in the row. `first`, `last`: labels of the versions between which the
    shift began with the asked confidence, given that there is one. `ratio`, `low`, `high`: level after ÷
    level before, and its interval, given the place; low 0 and high infinite where a version on each
    side is all there is. `p_value`: of no shift in this stretch of the row.
    """

    label: str
    index: int
    first: str
    last: str
    ratio: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True)
class _Row:
    """Versions as numbers: mean log rates, weights (1 ÷ variance, up to a common factor) and the noise.

    `variance` is that of a value of weight 1 with `freedom` degrees of freedom (infinite: known); both
    None where only the values themselves can tell.
    """

    x: Array
    w: Array
    variance: float | None
    freedom: float | None

    def part(self, start: int, end: int) -> _Row:
        return _Row(self.x[start:end], self.w[start:end], self.variance, self.freedom)


def shifts(
    versions: Sequence[Version],
    *,
    criterion: Criterion = USUAL,
    seed: int = 1,
) -> list[Shift]:
    """Returns the shifts of level in a row of versions, in the order of the row.

    Binary segmentation (Scott and Knott 1974): the best place in the whole row is tested, then the
    stretches on both sides of it. The test is the largest likelihood ratio over all places, its
    distribution without a shift simulated at a fixed seed, so that having looked everywhere is counted
    (for a known variance: Hawkins 1977). Places are then fitted once more between their neighbours
    (Bai 1997). Shifts whose estimate is within the margin are left out.

    With one rate per version and no standard errors, a shift at the very ends, or in a row of fewer
    than 4, cannot be told from noise and is not found.
    """
    confidence = criterion.confidence
    row = _row(versions)
    n = len(row.x)
    places = sorted(_segment(row, 0, n, 1.0 - confidence, seed))
    refined: list[int] = []
    for i, place in enumerate(places):
        start = refined[-1] if refined else 0
        end = places[i + 1] if i + 1 < len(places) else n
        refined.append(start + _best(row.part(start, end))[0] if end - start > 1 else place)
    levels = []
    for i, place in enumerate(refined):
        start = refined[i - 1] if i else 0
        end = refined[i + 1] if i + 1 < len(refined) else n
        part = row.part(start, end)
        first, last = _where(part, confidence)
        log, low, high = _size(part, place - start, confidence)
        if abs(log) <= -math.log1p(-criterion.margin):
            continue
        levels.append(
            Shift(
                versions[place].label,
                place,
                versions[start + first].label,
                versions[start + last].label,
                math.exp(log),
                math.exp(low),
                math.exp(high) if high < 700 else math.inf,
                _p_value(part, seed),
            )
        )
    return levels


def _row(versions: Sequence[Version]) -> _Row:
    logs = []
    for version in versions:
        rates = np.asarray(version.rates, dtype=np.float64)
        if len(rates) == 0 or not np.isfinite(rates).all() or (rates <= 0).any():
            raise ValueError(f"{version.label}: rates must be positive, and at least one")
        logs.append(np.log(rates))
    x = np.array([float(values.mean()) for values in logs])
    errors = [version.standard_error for version in versions]
    known = [e for e in errors if e is not None and e > 0 and math.isfinite(e)]
    if versions and len(known) == len(versions):
        return _Row(x, np.array([e**-2 for e in known]), 1.0, math.inf)
    counts = np.array([float(len(values)) for values in logs])
    freedom = float(counts.sum() - len(counts))
    within = sum(float(((values - values.mean()) ** 2).sum()) for values in logs)
    # Two degrees of freedom or fewer say less about the noise than the row does.
    if freedom > 2 and within > 0:
        return _Row(x, counts, within / freedom, freedom)
    return _Row(x, counts, None, None)


def _gains(x: Array, w: Array) -> Array:
    """Returns for each place k = 1 … n−1 how much a shift there lowers the weighted sum of squares.

    x may hold many rows; the last axis is the row's.
    """
    before = np.cumsum(w)[:-1]
    after = w.sum() - before
    sums = np.cumsum(x * w, axis=-1)
    total = sums[..., -1:]
    difference = sums[..., :-1] / before - (total - sums[..., :-1]) / after
    gains: Array = difference**2 * before * after / w.sum()
    return gains


def _total(x: Array, w: Array) -> Array:
    """Returns the weighted sum of squares around the weighted mean."""
    mean = (x * w).sum(axis=-1, keepdims=True) / w.sum()
    total: Array = (w * (x - mean) ** 2).sum(axis=-1)
    return total


def _best(row: _Row) -> tuple[int, float]:
    gains = _gains(row.x, row.w)
    best = int(gains.argmax())
    return best + 1, float(gains[best])


def _p_value(row: _Row, seed: int) -> float:
    """Returns the p-value of the largest gain over all places, against simulated rows without a shift."""
    n = len(row.x)
    if n < 2:
        return 1.0
    rng = np.random.default_rng(seed)
    draws: NDArray[np.float64] = rng.standard_normal((DRAWS, n)) / np.sqrt(row.w)
    gain = _best(row)[1]
    simulated = _gains(draws, row.w).max(axis=-1)
    if row.variance is not None and row.freedom is not None:
        statistic = gain / row.variance
        if math.isfinite(row.freedom):
            simulated = simulated / (rng.chisquare(row.freedom, DRAWS) / row.freedom)
    else:
        if n < 4:
            return 1.0
        total = float(_total(row.x, row.w))
        if total == 0.0:
            return 1.0
        statistic = gain / total
        simulated = simulated / _total(draws, row.w)
    return (1.0 + float((simulated >= statistic).sum())) / (DRAWS + 1.0)


def _segment(row: _Row, start: int, end: int, level: float, seed: int) -> list[int]:
    part = row.part(start, end)
    if end - start < 2 or _p_value(part, seed) >= level:
        return []
    place = start + _best(part)[0]
    return [place, *_segment(row, start, place, level, seed), *_segment(row, place, end, level, seed)]


def _where(row: _Row, confidence: float) -> tuple[int, int]:
    """Returns the smallest set of places that holds the shift with this confidence, as its first and last
    place.

    Posterior under flat priors on place and levels (and log of the noise, where it is not known); Smith
    1975. Weight of a place: (w₁ w₂)^(−½) × likelihood of its residual sum of squares.
    """
    before = np.cumsum(row.w)[:-1]
    prior = -0.5 * np.log(before * (row.w.sum() - before))
    rest = np.maximum(float(_total(row.x, row.w)) - _gains(row.x, row.w), 0.0)
    if row.variance is not None and row.freedom is not None:
        if math.isfinite(row.freedom):
            pooled = rest + row.variance * row.freedom
            logs = prior - 0.5 * (row.freedom + len(row.x) - 2) * np.log(pooled)
        else:
            logs = prior - 0.5 * rest / row.variance
    else:
        logs = prior - 0.5 * (len(row.x) - 2) * np.log(np.maximum(rest, 1e-300))
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    enough = int(np.searchsorted(np.cumsum(weights[order]), confidence - 1e-12)) + 1
    chosen = order[:enough]
    return int(chosen.min()) + 1, int(chosen.max()) + 1


def _size(row: _Row, place: int, confidence: float) -> tuple[float, float, float]:
    """Returns the log of level after ÷ level before, with Student's interval given the place."""
    (x1, w1), (x2, w2) = (row.x[:place], row.w[:place]), (row.x[place:], row.w[place:])
    log = float((x2 * w2).sum() / w2.sum() - (x1 * w1).sum() / w1.sum())
    rest = float(_total(x1, w1) + _total(x2, w2))
    variance, freedom = row.variance, row.freedom
    if variance is None or freedom is None:
        freedom = len(row.x) - 2.0
        if freedom <= 0:
            return log, -math.inf, math.inf
        variance = rest / freedom
    error = math.sqrt(variance * (1.0 / w1.sum() + 1.0 / w2.sum()))
    half = student_quantile(freedom, 0.5 + confidence / 2) * error
    return log, log - half, log + half
