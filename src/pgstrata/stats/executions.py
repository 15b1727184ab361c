"""The verdict on single executions in pairs, from the third pair on, however often it is looked at.

Before `ENOUGH` pairs the evidence is that of the t test with a normal prior on the standardised effect
(`stats.sequential`), mixed over priors of very different widths: narrow ones find a difference of a few
percent, wide ones a factor in three pairs. A mixture of test martingales is a test martingale (Robbins 1970;
Howard, Ramdas, McAuliffe and Sekhon 2021). From there on repeated confidence intervals, narrower because they
have an end (`MOST` pairs), find what takes many pairs. Both share the probability of an error, so together
the interval leaves out the truth at some look with probability 1 − confidence at most.

The t test assumes independent, normal pairs. Heavy tails make it conservative (Benjamini 1983). Pairs that
share a state of the machine do not: three pairs of one state agree better than three pairs of several, and so
few do not show it. So before `ENOUGH` pairs the interval is wider by `GUARD` to each side, and from there on
the error is that of batches of pairs (`stats.estimate`). Where many queries take turns, the pairs of one lie
seconds apart: then it is that of blocks of pairs that were taken together, however few each has.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from pgstrata.stats import sequential
from pgstrata.stats.criterion import FIRST_EXECUTIONS as FIRST
from pgstrata.stats.criterion import USUAL, Criterion
from pgstrata.stats.estimate import Array, Estimate, estimate, log_ratios, mean_of
from pgstrata.stats.verdict import Verdict, judge, widened

ENOUGH = 16
"""Pairs from which on their own scatter says how much they differ by chance."""

MOST = 1000
"""Pairs that are taken at most: at this end repeated confidence intervals aim."""

EARLY = 0.2
"""Share of the probability of an error that looks before `ENOUGH` pairs may spend."""

GUARD = math.log(1.25)
"""By this much, as a log ratio, fewer pairs may be off together."""

SPREADS = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Prior variances of difference ÷ standard deviation of a pair, each with the same weight."""

LEAST_SCATTER = 0.005
"""Standard deviation of a pair of executions, as a log ratio, that is taken at least before `ENOUGH` pairs:
a clock with few digits makes them equal."""

ALLOWANCE = 5.0
"""The evidence must be this many times as strong as that of independent pairs: neighbouring executions share
states of the machine, of which a few dozen pairs show little. Simulation (tests/stats/test_executions.py)
shows that it is enough."""

ALLOWANCE_APART = 2.0
"""The same from `ENOUGH` blocks on, which were taken many seconds apart: what they still share is less."""

_FURTHEST = 1e9
"""Standard errors beyond which no bound is looked for."""


def look(
    base: Sequence[float] | Array,
    other: Sequence[float] | Array,
    *,
    criterion: Criterion = USUAL,
    starts: int = 0,
    blocks: Sequence[int] = (),
) -> Verdict:
    """Returns the verdict after the pairs so far; stop when it is `decided`, or when the time is over.

    base and other: executions for each second of all pairs since the beginning, in their order; starts: as
    of `estimate`; blocks: so many pairs each were taken within some seconds, others later. May be called
    after every pair, any number of times. Raises ValueError as `estimate` does.
    """
    apart = blocks if len(blocks) >= ENOUGH else ()
    allowance = ALLOWANCE_APART if apart else ALLOWANCE
    e, guard = _estimate(base, other, starts, apart)
    if e.n < FIRST:
        verdict = judge(e, (-math.inf, math.inf), 1.0, criterion)
        return replace(verdict, reason=f"{e.n} of at least {FIRST} pairs")
    if e.n >= ENOUGH:
        half, p = _within(e, criterion.confidence, allowance / (1.0 - EARLY))
        return judge(e, widened(e, half, criterion.confidence), p, criterion)
    half = math.inf
    if math.isfinite(e.standard_error):
        half = _errors(e, criterion.confidence, allowance / EARLY) * e.standard_error + guard
    beyond = max(0.0, abs(e.log) - guard)
    # What a start is by chance is drawn once, however often one looks.
    evidence = _log_evidence(replace(e, standard_error=e.error), beyond)
    p = min(1.0, allowance / EARLY * math.exp(-evidence))
    return judge(e, widened(e, half, criterion.confidence), p, criterion)


def _within(e: Estimate, confidence: float, allowance: float) -> tuple[float, float]:
    """Returns how far the interval reaches to each side, as a log ratio, and the p-value of no difference,
    from `ENOUGH` pairs on."""
    if not math.isfinite(e.standard_error) or e.freedom <= 0:
        return math.inf, 1.0
    span = max(MOST, e.n) / ENOUGH
    errors = sequential.errors_within(e.freedom, span, 1.0 - (1.0 - confidence) / allowance)
    return errors * e.standard_error, min(1.0, allowance * sequential.p_value_within(e, span))


def _estimate(
    base: Sequence[float] | Array, other: Sequence[float] | Array, starts: int, batches: Sequence[int]
) -> tuple[Estimate, float]:
    """Returns the estimate, and by how much its interval is wider than its error says."""
    e = estimate(base, other, starts=starts, batches=batches)
    if e.n < FIRST or e.n >= ENOUGH:
        return e, 0.0
    # The mean, in which outliers count in full.
    e = mean_of(log_ratios(np.asarray(base, dtype=np.float64), np.asarray(other, dtype=np.float64)))
    return replace(e, standard_error=max(e.standard_error, LEAST_SCATTER / math.sqrt(e.n))), GUARD


def _log_evidence(e: Estimate, distance: float) -> float:
    """Returns the log of the evidence against a log ratio this far from the estimate."""
    if not math.isfinite(e.standard_error) or e.freedom <= 0:
        return 0.0
    logs = [sequential.log_e_value(e, e.log - distance, spread) for spread in SPREADS]
    return float(np.logaddexp.reduce(logs)) - math.log(len(SPREADS))


def _errors(e: Estimate, confidence: float, allowance: float) -> float:
    """Returns how many standard errors the interval reaches to each side; infinite where no distance, however
    large, would be evidence enough."""
    if not math.isfinite(e.standard_error) or e.freedom <= 0:
        return math.inf
    if e.standard_error == 0:
        return 0.0
    return _errors_of(e.freedom, e.worth, confidence, allowance)


@lru_cache(maxsize=4096)
def _errors_of(freedom: float, worth: float, confidence: float, allowance: float) -> float:
    """Returns the same for every estimate of this freedom and worth, whatever its error."""
    e = Estimate(0.0, 1.0, freedom, ENOUGH, "mean", worth=worth)
    needed = -math.log((1.0 - confidence) / allowance)
    if _log_evidence(e, _FURTHEST) < needed:
        return math.inf
    low, high = 0.0, math.log(_FURTHEST)
    for _ in range(60):
        middle = 0.5 * (low + high)
        enough = _log_evidence(e, math.expm1(middle)) >= needed
        low, high = (low, middle) if enough else (middle, high)
    return math.expm1(high)


__all__ = ["ENOUGH", "FIRST", "GUARD", "MOST", "look"]
