"""Whether the steps of a series multiply to its whole, and both measures of a step have one sign."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pgstrata.search.bisect.procedure import BUILD_ERROR, PROOF, By
from pgstrata.search.bisect.search import Outcome
from pgstrata.search.bisect.text import changed, though
from pgstrata.search.bisect.ways import disagree
from pgstrata.stats.distributions import NORMAL_95


@dataclass(frozen=True)
class Ratio:
    """A measured ratio and the ends of its interval; word: the verdict on it."""

    value: float
    low: float
    high: float
    word: str = ""

    def error(self, by: By) -> float:
        """Returns the standard error of the ratio's logarithm, including the error that stays with a start
        and a build."""
        if not 0 < self.low <= self.high < math.inf:
            return math.inf
        return math.hypot(math.log(self.high / self.low) / (2 * NORMAL_95), BUILD_ERROR[by])

    def outcome(self, by: By) -> Outcome:
        """Converts the ratio to a log ratio that is below 0 where it is worse, with its error."""
        log = math.log(self.value) if 0 < self.value < math.inf else 0.0
        return Outcome(-log if by == "instructions" else log, self.error(by))


def contradicts(parts: Sequence[Ratio], whole: Ratio, margin: float, by: By) -> bool:
    """Returns whether the product of the parts is provenly another ratio than that of the whole, or differs
    by more than the margin from a whole that is called the same."""
    if not all(ratio.value > 0 for ratio in (*parts, whole)):
        return False
    off = abs(sum(math.log(part.value) for part in parts) - math.log(whole.value))
    error = math.hypot(*(ratio.error(by) for ratio in (*parts, whole)))
    return off > PROOF * error or (whole.word == "same" and off > margin)


def sentence(step: str, parts: Sequence[Ratio], whole: Ratio, by: By) -> str:
    """Returns a sentence on which ratios contradict each other, with advice."""
    digits = 5 if by == "instructions" else 3
    shown = " × ".join(f"{part.value:.{digits}f}" for part in parts)
    product = math.prod(part.value for part in parts)
    helps = "--by instructions" if by == "rate" else "--by rate"
    return (
        f"{step} contradicts itself: {shown} = {product:.{digits}f}, but all together are "
        f"{whole.value:.{digits}f}; do not trust these: measure again, longer, or {helps}"
    )


def disagreement(title: str, step: str, rate: Ratio, instructions: Ratio) -> str | None:
    """Returns a sentence where a step is proven slower with fewer instructions, or faster with more; None
    where it is not."""
    timed, counted = rate.outcome("rate"), instructions.outcome("instructions")
    if not disagree(timed, counted):
        return None
    return (
        f"{title}: {step} is {changed(timed, 'rate')}, {though(counted, 'instructions')}; "
        "instructions are not speed"
    )


__all__ = ["Ratio", "contradicts", "disagreement", "sentence"]
