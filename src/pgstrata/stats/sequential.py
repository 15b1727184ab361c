"""Intervals that stay valid when one looks at them after every pair and stops when one likes.

A fixed-size 95 % interval looked at again and again leaves out the truth, at some look, far more often
than 5 %. A *confidence sequence* contains it at all looks at once with that probability, so measuring
may stop as soon as the verdict is clear, at a price: it is wider (about 1.6 times after 60 pairs).

The sequence is the inversion of the Bayes factor of the one-sample t test with a normal prior
N(0, g) on the standardised effect and the right Haar prior on the unknown spread,

    E = (1 + n g)^(−1/2) · [ (1 + t²/ν) ÷ (1 + t²/(ν (1 + n g))) ]^((ν+1)/2),    ν = n − 1

(Gönen, Johnson, Lu and Westfall 2005). For independent normal values E is a test martingale whatever
the spread, so P(E ≥ 1/α at any n) ≤ α by Ville's inequality (Lai 1976; Hendriksen, de Heide and
Grünwald 2021; Wang and Ramdas 2024). Here t comes from the robust estimate, and n is the number of
independent pairs that the autocorrelated ones are worth, ν its degrees of freedom: so the guarantee is
asymptotic, and simulation (tests, `benchmarks/sensitivity/simulate.py`) shows that it holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from pgstrata.stats.estimate import Array, Estimate, estimate
from pgstrata.stats.verdict import CONFIDENCE, MARGIN, Verdict, check_share, judge

SPREAD = 0.1
"""Prior variance g of difference ÷ standard deviation of a pair.

Any value is valid, it decides where the interval is tightest. Chosen by simulation: at 0.1 the false
alarms stay lowest while a difference of 5 % is still found in a third of 60 pairs.
"""

FIRST = 10
"""Pairs before the first look: fewer do not tell noise from outliers."""


def look(
    base: Sequence[float] | Array,
    other: Sequence[float] | Array,
    blocks: Sequence[int] = (),
    by_totals: bool = False,
    *,
    margin: float = MARGIN,
    confidence: float = CONFIDENCE,
    first: int = FIRST,
) -> Verdict:
    """The verdict after the pairs so far; stop when it is `decided`, or when the time is over.

    base and other are *all* pairs since the beginning, blocks and by_totals as for `verdict.compare`. May be
    called after every pair, any number of times: over the whole comparison the interval leaves out the
    true ratio at some look with probability 1 − confidence at most.
    """
    e = estimate(base, other, blocks, by_totals)
    if e.n < first:
        verdict = judge(e, (-math.inf, math.inf), 1.0, margin=margin, confidence=confidence)
        return replace(verdict, reason=f"{e.n} of at least {first} pairs")
    p = min(1.0, math.exp(-log_e_value(e)))
    return judge(e, interval(e, confidence), p, margin=margin, confidence=confidence)


def interval(e: Estimate, confidence: float = CONFIDENCE, spread: float = SPREAD) -> tuple[float, float]:
    """Confidence sequence of the log ratio at its present size; infinite while there are too few pairs.

    The log ratios whose E value is below 1 ÷ (1 − confidence), solved for t².
    """
    check_share("confidence", confidence)
    v = e.freedom
    if not math.isfinite(e.standard_error) or v <= 0:
        return -math.inf, math.inf
    grown = 1.0 + (v + 1.0) * e.worth * spread
    bar = math.exp((math.log(grown) - 2.0 * math.log(1.0 - confidence)) / (v + 1.0))
    if bar >= grown:  # so few pairs that no t, however large, would reach the bar
        return -math.inf, math.inf
    half = e.standard_error * math.sqrt(v * (bar - 1.0) / (1.0 - bar / grown))
    return e.log - half, e.log + half


def log_e_value(e: Estimate, log_ratio: float = 0.0, spread: float = SPREAD) -> float:
    """Log of the evidence against a log ratio, by default "no difference".

    exp(−this), at most 1, is a p-value valid at any time of stopping.
    """
    v = e.freedom
    if not math.isfinite(e.standard_error) or v <= 0:
        return 0.0
    if e.standard_error == 0:
        return 0.0 if e.log == log_ratio else math.inf
    t2 = ((e.log - log_ratio) / e.standard_error) ** 2
    grown = 1.0 + (v + 1.0) * e.worth * spread
    return 0.5 * (v + 1.0) * (math.log1p(t2 / v) - math.log1p(t2 / (v * grown))) - 0.5 * math.log(grown)
