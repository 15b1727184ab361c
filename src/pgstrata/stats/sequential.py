"""Intervals that stay valid when one looks at them again and again, and stops when one likes.

**With an end.** Where it is known beforehand how much is measured at most, the interval has the same number
of standard errors at every look, so many that it leaves out the truth at some look with a probability of
1 − confidence: *repeated confidence intervals* (Pocock 1977; Jennison and Turnbull 1989). What is looked at
is a Brownian motion W in the amount t of what was measured, from the first look at t₀ to the end at t₁, and

    P(|W(t)| ≥ c √t at some look) ≈ 2 c φ(c) · ∫ exp(−0.583 x) dx/x + 2 Φ(−c)

with x from c √(d/t₁) to c √(d/t₀), for looks d apart (Siegmund, Sequential Analysis, 1985, §4.2 and §9.3; the
exponential allows for how far the walk jumps beyond the bound at a look; φ and Φ are of the normal
distribution). For standard errors that are estimated it is the quantile of Student's t at the same level
(Jennison and Turnbull 2000, §4.4).

**Without one.**

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
from functools import lru_cache
from statistics import NormalDist

from pgstrata.stats.criterion import CONFIDENCE, FIRST, USUAL, Criterion, check_share
from pgstrata.stats.distributions import exponential_integral, student_below, student_quantile
from pgstrata.stats.estimate import AGREEMENT, DISAGREE, Array, Estimate, estimate
from pgstrata.stats.verdict import Bounds, Verdict, judge, widened

SPREAD = 0.1
"""Prior variance g of difference ÷ standard deviation of a pair.

Any value is valid, it decides where the interval is tightest. Chosen by simulation: at 0.1 the false
alarms stay lowest while a difference of 5 % is still found in a third of 60 pairs.
"""

APART = 0.15
"""Where the end is known: between two looks so much is measured, of what the first one sees. It is a quarter;
less allows for few values, with which Student's t leaves out the truth a little too often at many looks."""

OVERSHOOT = 0.5826
"""By so many standard deviations of a step a normal walk jumps beyond a bound (Siegmund 1985, §10.2)."""


def look(
    base: Sequence[float] | Array,
    other: Sequence[float] | Array,
    blocks: Sequence[int] = (),
    by_totals: bool = False,
    starts: int = 0,
    *,
    criterion: Criterion = USUAL,
    first: int = FIRST,
    span: float | None = None,
) -> Verdict:
    """Returns the verdict after the pairs so far; stop when it is `decided`, or when the time is over.

    base and other are *all* pairs since the beginning, blocks, by_totals and starts as for
    `verdict.compare`. May be called after every pair, any number of times: over the whole comparison the
    interval leaves out the true ratio at some look with probability 1 − confidence at most. span: how many
    times as much as at the first look is measured at most, known before it; None where it is not.
    """
    # Two ways to estimate disagree by chance more often the more often one looks.
    disagree = DISAGREE if span is None else _errors(span, AGREEMENT)
    e = estimate(base, other, blocks, by_totals, starts, disagree=disagree)
    if e.n < first:
        verdict = judge(e, (-math.inf, math.inf), 1.0, criterion)
        return replace(verdict, reason=f"{e.n} of at least {first} pairs")
    return judge(e, *bounds(e, span, criterion.confidence), criterion)


def bounds(e: Estimate, span: float | None, confidence: float = CONFIDENCE) -> Bounds:
    """Returns the interval of the log ratio and the p-value of no difference that hold at any look. span: as
    in `look`."""
    if span is not None:
        return interval_within(e, span, confidence), p_value_within(e, span)
    return interval(e, confidence), min(1.0, math.exp(-log_e_value(e)))


def interval_within(e: Estimate, span: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Returns the interval of the log ratio at any look until `span` times as much is measured as at the
    first one; infinite without an error. Raises ValueError for a span below 1."""
    check_share("confidence", confidence)
    if not math.isfinite(e.standard_error) or e.freedom <= 0:
        return -math.inf, math.inf
    return widened(e, errors_within(e.freedom, span, confidence) * e.standard_error, confidence)


def errors_within(freedom: float, span: float, confidence: float) -> float:
    """Returns how many standard errors with so many degrees of freedom that interval reaches to each side.
    Raises ValueError for a span below 1."""
    return student_quantile(freedom, NormalDist().cdf(_errors(span, confidence)))


def p_value_within(e: Estimate, span: float) -> float:
    """Returns the probability that equal sides were as far apart as this at some look, in terms of their
    error at it."""
    if not math.isfinite(e.standard_error) or e.freedom <= 0:
        return 1.0
    if e.error == 0:
        return 1.0 if e.log == 0 else 0.0
    tail = student_below(e.freedom, -abs(e.log) / e.error)
    return _leaves_out(-NormalDist().inv_cdf(tail), span) if tail > 0 else 0.0


def _leaves_out(errors: float, span: float) -> float:
    """Returns the probability that the truth is further away than `errors` standard errors at some look."""
    if errors <= 0.0:
        return 1.0
    normal = NormalDist()
    jump = OVERSHOOT * errors * math.sqrt(APART)
    crossed = exponential_integral(jump / math.sqrt(span)) - exponential_integral(jump)
    return min(1.0, 2.0 * errors * normal.pdf(errors) * crossed + 2.0 * normal.cdf(-errors))


@lru_cache(maxsize=64)
def _errors(span: float, confidence: float) -> float:
    """Returns the number of standard errors to each side of an interval that may be looked at all the time.
    Raises ValueError for a span below 1."""
    if not span >= 1.0:
        raise ValueError(f"the end lies before the first look: {span} times as much")
    low, high = 0.0, 40.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _leaves_out(middle, span) > 1.0 - confidence else (low, middle)
    return high


def interval(e: Estimate, confidence: float = CONFIDENCE, spread: float = SPREAD) -> tuple[float, float]:
    """Returns the confidence sequence of the log ratio at its present size; infinite while there are too few
    pairs.

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
    return widened(e, half, confidence)


def log_e_value(e: Estimate, log_ratio: float = 0.0, spread: float = SPREAD) -> float:
    """Returns the log of the evidence against a log ratio, by default "no difference".

    exp(−this), at most 1, is a p-value valid at any time of stopping.
    """
    v = e.freedom
    if not math.isfinite(e.standard_error) or v <= 0:
        return 0.0
    if e.error == 0:
        return 0.0 if e.log == log_ratio else math.inf
    t2 = ((e.log - log_ratio) / e.error) ** 2
    grown = 1.0 + (v + 1.0) * e.worth * spread
    return 0.5 * (v + 1.0) * (math.log1p(t2 / v) - math.log1p(t2 / (v * grown))) - 0.5 * math.log(grown)
