"""Slower, faster, same or unclear: what an interval says about two rates.

Rules, with m the margin (a share, default 0.02) and everything on the log scale so that exchanging
base and other exchanges slower and faster:

- **slower** / **faster**: the interval of the ratio leaves out 1, and the estimate is beyond the margin,
  which is below 1 − m or above 1 ÷ (1 − m);
- **same**: the interval lies inside the margin, [1 − m, 1 ÷ (1 − m)];
- **unclear**: everything else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, TypedDict, cast

from pgstrata.finite import finite
from pgstrata.stats.criterion import CONFIDENCE, LEAST_BLOCKS, USUAL, Criterion, check_share
from pgstrata.stats.distributions import student_below, student_quantile
from pgstrata.stats.estimate import Array, Estimate, estimate

Word = Literal["slower", "faster", "same", "unclear"]

Bounds = tuple[tuple[float, float], float]
"""An interval of the log ratio, and the p-value of no difference."""


@dataclass(frozen=True)
class Verdict:
    """A word with its evidence.

    `ratio`, `low`, `high`: other rate ÷ base rate and its interval; low 0 and high infinite where
    there is none. `margin`: a share. `n`: pairs behind it, or runs of the side that has fewer. `p_value`:
    of "no difference at all"; `adjusted_p`: over all steps of the campaign, None until adjusted.
    `single_run`: there was one run on each side. `run_spread`: the standard deviation from run to run, a
    share of the rate, that is in the interval; None where it was not needed or is not known. `reason`: one
    clause a person can read. `aside`: called unclear for a reason from outside the figures, or because too
    few batches or opposed ones make them; nothing is excluded by the interval then.
    """

    word: Word
    ratio: float
    low: float
    high: float
    margin: float
    confidence: float
    n: int
    p_value: float
    adjusted_p: float | None
    reason: str
    single_run: bool = False
    aside: bool = False
    run_spread: float | None = None

    @property
    def decided(self) -> bool:
        return self.word != "unclear"

    @property
    def is_bounded(self) -> bool:
        """True where the interval has two ends."""
        return is_bounded(self.low, self.high)

    @property
    def criterion(self) -> Criterion:
        """What it is held against."""
        return Criterion(self.margin, self.confidence)

    def record(self) -> VerdictRecord:
        """Returns the verdict as JSON, with None for a number that is not finite, or rests on no pair."""
        ratio = self.ratio if self.n else None
        return cast(VerdictRecord, finite({**asdict(self), "ratio": ratio}))


class VerdictRecord(TypedDict):
    """A verdict as JSON."""

    word: Word
    ratio: float | None
    low: float | None
    high: float | None
    margin: float
    confidence: float
    n: int
    p_value: float | None
    adjusted_p: float | None
    reason: str
    single_run: bool
    aside: bool
    run_spread: float | None


def is_bounded(low: float, high: float) -> bool:
    """Returns True if an interval of a ratio has two ends: it is neither open nor not a number."""
    return low > 0 and math.isfinite(high)


def compare(
    base: Sequence[float] | Array,
    other: Sequence[float] | Array,
    blocks: Sequence[int] = (),
    by_totals: bool = False,
    starts: int = 0,
    *,
    criterion: Criterion = USUAL,
) -> Verdict:
    """Returns the verdict on pairs of rates whose number was fixed beforehand.

    base[i] and other[i] were taken next to each other (slices in A B B A order, or repeats) over
    equally long times. See `estimate` for assumptions, blocks, by_totals and starts. Looking at this
    verdict to decide whether to go on measuring makes its error rate wrong; `sequential.look` is for that.
    """
    e = estimate(base, other, blocks, by_totals, starts)
    return judge(e, *bounds(e, criterion.confidence), criterion)


def bounds(e: Estimate, confidence: float = CONFIDENCE) -> Bounds:
    """Returns the interval of the log ratio and the p-value of no difference, for a sample of fixed size."""
    return interval(e, confidence), p_value(e)


def interval(e: Estimate, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Returns Student's interval of the log ratio, for a sample of fixed size; infinite without an error."""
    check_share("confidence", confidence)
    if not math.isfinite(e.standard_error) or e.freedom <= 0:
        return -math.inf, math.inf
    half = student_quantile(e.freedom, 0.5 + confidence / 2) * e.standard_error
    return widened(e, half, confidence)


def widened(e: Estimate, half: float, confidence: float) -> tuple[float, float]:
    """Returns the interval of an estimate, `half` to each side by its pairs, widened by the error of a start.
    That error is drawn once, however often one looks."""
    half = math.hypot(half, student_quantile(math.inf, 0.5 + confidence / 2) * e.start_error)
    return e.log - half, e.log + half


def p_value(e: Estimate) -> float:
    """Returns Student's two-sided p-value of a log ratio of 0; 1 where there is no standard error."""
    if not math.isfinite(e.standard_error) or e.freedom <= 0:
        return 1.0
    if e.error == 0:
        return 1.0 if e.log == 0 else 0.0
    return 2.0 * student_below(e.freedom, -abs(e.log) / e.error)


def judge(
    e: Estimate,
    logs: tuple[float, float],
    p: float,
    criterion: Criterion = USUAL,
) -> Verdict:
    """Applies the rules to an estimate and an interval, both as logs of other ÷ base."""
    margin = criterion.margin
    low, high = logs
    bound = -math.log1p(-margin)
    word, reason = _word(e, low, high, bound, margin)
    if e.method == "total":
        reason += "; outliers lie on one side, so the ratio of the totals is taken"
    return Verdict(
        word,
        math.exp(e.log),
        math.exp(low),
        math.exp(high) if high < 700 else math.inf,
        margin,
        criterion.confidence,
        e.n,
        p,
        None,
        reason,
        aside=e.too_few or _is_opposed(e, low, high, bound),
    )


def set_aside(verdict: Verdict, reason: str) -> Verdict:
    """Returns the same figures, called unclear for a reason from outside them: a variant failed, say."""
    return replace(verdict, word="unclear", reason=reason, aside=True)


def _is_opposed(e: Estimate, low: float, high: float, bound: float) -> bool:
    """Returns whether blocks oppose a difference that the interval of their mean says is beyond the
    margin."""
    return (high < 0 or low > 0) and abs(e.log) > bound and e.disagreeing


def _word(e: Estimate, low: float, high: float, bound: float, margin: float) -> tuple[Word, str]:
    if e.n == 0:
        return "unclear", "nothing was measured"
    if e.too_few:
        return "unclear", (
            f"{e.blocks} batches with connections of their own are too few to tell chance from a difference; "
            f"at least {LEAST_BLOCKS}: measure longer"
        )
    if not (math.isfinite(low) and math.isfinite(high)):
        if e.n == 1:
            return "unclear", "one pair has no interval: repeat the measurement"
        return "unclear", f"{e.n} pairs are not enough for an interval"
    chance = ""
    if e.start_error > e.standard_error:
        chance = f", and {e.start_error:.1%} is what a start of a server is by chance: repeats lessen it"
    inside = -bound <= low and high <= bound
    if inside:
        return "same", f"the interval lies within ± {margin:.1%}"
    apart = high < 0 or low > 0
    if _is_opposed(e, low, high, bound):
        return "unclear", f"only {e.agreeing} of {e.blocks} batches agree on the direction"
    if apart and abs(e.log) > bound:
        return (
            "slower" if e.log < 0 else "faster"
        ), f"the interval leaves out 1 and the estimate is beyond {margin:.1%}"
    if apart:
        return (
            "unclear",
            f"there is a difference, but whether it is beyond {margin:.1%} is not known{chance}",
        )
    return "unclear", f"the interval holds both no difference and one beyond the margin{chance}"
