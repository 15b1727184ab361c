"""How far the mean rate of one run is known from the seconds inside it.

It knows how a rate moves within a run and nothing of how it moves from run to run (memory layout, plan
choice, position on disk), which is often more: `stats.runs` adds that, and without it nothing is proven.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pgstrata.stats.estimate import Array, Estimate

RESAMPLES = 1000

LONGER = 2.0
"""Blocks are this much longer than is best for the variance's mean square error.

An interval suffers more from a variance that is too small than from one that is uncertain: in simulated
runs of 180 s with an autocorrelation of 0.5 the 95 % interval misses 8 to 9 % of the time instead of 11 %.
"""

CHUNK = 500_000
"""Values resampled at once: bounds the memory of long series to some 20 MB."""


def estimate_series(
    base: Sequence[float] | Array,
    other: Sequence[float] | Array,
    *,
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> Estimate:
    """Returns the log ratio of the mean rates, with the standard error of a stationary bootstrap of both
    series.

    The series are independent of each other and may have different lengths. Degrees of freedom after
    Welch and Satterthwaite, each series counting as many values as it has blocks: a few long blocks
    tell little of their own spread, which a percentile interval would not show.
    `n` is the length of the shorter series. Same seed, same result. Assumes that each series is stationary
    after its warm-up.
    """
    rng = np.random.default_rng(seed)
    parts = []
    for name, values in (("base", base), ("other", other)):
        x = np.asarray(values, dtype=np.float64)
        if x.ndim != 1 or not np.isfinite(x).all() or (x < 0).any():
            raise ValueError(f"{name}: rates must be finite and not negative")
        parts.append(x)
    n = min(len(x) for x in parts)
    if n < 2 or any(x.sum() == 0 for x in parts):
        return Estimate(0.0, math.inf, 0.0, n if n < 2 else 0, "mean")
    log = math.log(parts[1].mean() / parts[0].mean())
    variances, freedoms = [], []
    for x in parts:
        length = max(1.0, min(LONGER * block_length(x), len(x) / 3.0))
        means = resample(x, length, resamples, rng) / x.mean()
        # A resample of a mean leaves out 1/n of the variance, as every bootstrap of a mean does.
        variances.append(float(means.var()) * len(x) / (len(x) - 1))
        freedoms.append(max(len(x) / length - 1.0, 1.0))
    total = sum(variances)
    if total == 0.0:
        return Estimate(log, 0.0, float(n - 1), n, "mean")
    freedom = total**2 / sum(v**2 / f for v, f in zip(variances, freedoms, strict=True))
    return Estimate(log, math.sqrt(total), freedom, n, "mean")


def resample(x: Array, length: float, resamples: int, rng: np.random.Generator) -> Array:
    """Returns means of stationary bootstrap resamples: blocks of geometric length, wrapped at the end.

    Source: Politis and Romano 1994. `length`: mean block length in values, at least 1.
    """
    n = len(x)
    place = np.arange(n)
    means: list[Array] = []
    left = resamples
    while left > 0:
        rows = min(left, max(1, CHUNK // n))
        begins = rng.random((rows, n)) < 1.0 / length
        begins[:, 0] = True
        begun = np.maximum.accumulate(np.where(begins, place, 0), axis=1)
        starts = np.take_along_axis(rng.integers(0, n, (rows, n)), begun, axis=1)
        means.append(x[(starts + place - begun) % n].mean(axis=1))
        left -= rows
    return np.concatenate(means)


def block_length(x: Array) -> float:
    """Returns the mean block length of the stationary bootstrap for the mean, in values, chosen from the
    data.

    Source: Politis and White 2004, with the correction of Patton, Politis and White 2009:
    b = (2 G² n ÷ (2 g²))^(1/3) with G = Σ λ(k/M) |k| R(k) and g = Σ λ(k/M) R(k), λ the flat-top kernel,
    M twice the lag after which autocorrelations stay small. At least 1, at most 3 √n and n/3.
    """
    n = len(x)
    v = x - x.mean()
    variance = float((v * v).mean())
    if n < 8 or variance == 0.0:
        return 1.0
    run = max(5, math.ceil(math.sqrt(math.log10(n))))
    lags = min(math.ceil(math.sqrt(n)) + run, n - 1)
    covariances = np.array([float((v[k:] * v[: n - k]).sum()) / n for k in range(lags + 1)])
    small = np.abs(covariances / variance) < 2.0 * math.sqrt(math.log10(n) / n)
    last = lags
    for start in range(1, lags + 1):
        if small[start : start + run].all() and start + run <= lags + 1:
            last = start - 1
            break
    else:
        large = np.flatnonzero(~small[1:])
        last = int(large[-1]) + 1 if len(large) else 0
    m = min(2 * max(last, 1), lags)
    k = np.arange(1, m + 1)
    window = np.minimum(1.0, 2.0 * (1.0 - k / m))
    long_run = variance + 2.0 * float((window * covariances[1 : m + 1]).sum())
    slope = 2.0 * float((window * k * covariances[1 : m + 1]).sum())
    top = min(3.0 * math.sqrt(n), n / 3.0)
    if long_run <= 0.0:
        return top
    return float(min(max((slope**2 * n / long_run**2) ** (1.0 / 3.0), 1.0), top))
