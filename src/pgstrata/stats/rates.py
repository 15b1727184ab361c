"""Rates of steps: their spread over seconds, their mean over repeats, and one against another."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

PERCENTILES = (50, 75, 90, 95, 99)


def rate_percentiles(rates: Sequence[float]) -> dict[str, float | None]:
    """Returns the percentiles over the per-second rates of a step, counted from the fast end.

    `p99` is the rate (per second) that 99 % of the seconds reached or exceeded, so a write stall shows
    at the high percentiles. Nearest rank, as the Insert Benchmark's scripts do it. Null without seconds.
    """
    ordered = sorted(rates, reverse=True)
    return {
        f"p{percent}": ordered[max(0, math.ceil(percent * len(ordered) / 100) - 1)] if ordered else None
        for percent in PERCENTILES
    }


FEWEST_SECONDS = 10
"""Of which the field takes percentiles."""


def client_percentiles(rates: Sequence[float], clients: int) -> dict[str, float | None]:
    """Returns p50 and p99 over the per-second rates of one client, as the scripts of the Insert Benchmark
    take them.

    Their rank, counted from the fast end, is the share of the seconds rounded to the nearest (of two, to the
    even one), and there is none below ten seconds. They look at the first client; this is the mean client:
    the rate of all ÷ clients. Source: mdcallag/mytools, bench/ibench (`np.sh`, `etl.sh`).
    """
    ordered = sorted(rates, reverse=True)
    if len(ordered) < FEWEST_SECONDS:
        return {"p50": None, "p99": None}
    return {f"p{p}": ordered[round(p * len(ordered) / 100) - 1] / clients for p in (50, 99)}


def per_second(
    series: Iterable[Mapping[str, object]], role: str, counts: str = "operations"
) -> list[tuple[float, float]]:
    """Returns the seconds of one role as (start, rate per second), from rows of the view `series`.

    counts: `operations` or `rows`. The last second of a step may be short; it counts by its length, and
    one shorter than half a second is left out, because a handful of operations says little about a rate.
    """
    points = []
    for row in series:
        if row["role"] != role:
            continue
        length = float(row["seconds"] or 0.0)  # type: ignore[arg-type]
        if length >= 0.5:
            points.append((float(row["second"]), float(row[counts] or 0) / length))  # type: ignore[arg-type]
    return points


def pooled(parts: Iterable[tuple[int, float, float]]) -> tuple[float, float] | None:
    """Returns mean and standard deviation (of the population) of all values together; None if there are no
    values.

    parts: of each part the number of values, their mean and their deviation. Exact: the squares add up.
    """
    known = [part for part in parts if part[0]]
    count = sum(n for n, _, _ in known)
    if not count:
        return None
    mean_ = sum(n * m for n, m, _ in known) / count
    square = sum(n * (s**2 + m**2) for n, m, s in known) / count
    return mean_, max(0.0, square - mean_**2) ** 0.5


@dataclass(frozen=True)
class Rate:
    """The rate of one step and variant over its repeats, per second.

    `value` is their geometric mean (the one rate where there is one): the mean of the log ratios of paired
    repeats, which verdicts are made of (`stats.estimate`), is the ratio of two such means. `std_error` is the
    standard error of the arithmetic mean, s ÷ √n, None for n = 1; it assumes that repeats are independent,
    which holds for runs with a cluster of their own each.
    """

    n: int
    value: float
    low: float
    high: float
    mean: float
    std_error: float | None


def middle(rates: Sequence[float]) -> float:
    """Returns the geometric mean of rates, 0 if one of them is 0. Raises ValueError without rates."""
    if not rates:
        raise ValueError("no rates have no mean")
    low, high = min(rates), max(rates)
    return 0.0 if low <= 0 else min(high, max(low, statistics.geometric_mean(rates)))


def over_repeats(rates: Sequence[float]) -> Rate | None:
    """Returns the repeats of a rate taken together; None if there are no repeats."""
    if not rates:
        return None
    return Rate(
        n=len(rates),
        value=middle(rates),
        low=min(rates),
        high=max(rates),
        mean=mean(rates),
        std_error=stdev(rates) / math.sqrt(len(rates)) if len(rates) > 1 else None,
    )


@dataclass(frozen=True)
class Relative:
    """A rate against the base's: > 1 is better.

    `low` and `high` are the ratios of the extremes (worst of this ÷ best of base, and the reverse).
    `std_error` is that of the ratio, by the delta method for independent means:
    value × √((se ÷ mean)² + (se_base ÷ mean_base)²); None unless both sides have repeats. It is a spread of
    what was measured, not a verdict: with few repeats it is itself uncertain.
    """

    value: float
    low: float
    high: float
    std_error: float | None


def relative(rate: Rate | None, base: Rate | None) -> Relative | None:
    """Returns rate ÷ base; None where one of them is missing or the base is 0."""
    if rate is None or base is None or base.value <= 0:
        return None
    value = rate.value / base.value
    std_error = None
    if rate.std_error is not None and base.std_error is not None and rate.mean > 0 and base.mean > 0:
        std_error = value * math.hypot(rate.std_error / rate.mean, base.std_error / base.mean)
    return Relative(
        value=value,
        low=rate.low / base.high,
        high=rate.high / base.low if base.low > 0 else math.inf,
        std_error=std_error,
    )


def geometric_mean(ratios: Sequence[float]) -> float | None:
    """Returns the mean of ratios that treats 2 and ½ alike; None if there are no ratios or one is not
    positive."""
    if not ratios or min(ratios) <= 0:
        return None
    return math.exp(sum(math.log(ratio) for ratio in ratios) / len(ratios))
