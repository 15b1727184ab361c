"""What forbids a word on counted instructions although its interval allows it.

A count is exact, so what differs between its starts, and what is left out of it, is no noise to be averaged:
the starts did not do the same work, or the verdict does not cover all of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from pgstrata.stats.criterion import CONFIDENCE
from pgstrata.stats.distributions import student_quantile
from pgstrata.store.record import CountedRole


@dataclass(frozen=True)
class LeftOut:
    """Instructions that were executed for an operation and are not judged (`timed` of the record)."""

    base: float
    """Share of all instructions of an operation of the base."""
    other: float
    """The same of the other side."""
    difference: float
    """Other less base, as a share of all instructions of the base."""
    low: float
    """Lower end of the difference's interval."""
    high: float
    """Upper end of the difference's interval."""

    @property
    def is_proven(self) -> bool:
        """True where the starts prove that there is a difference."""
        return self.low > 0 or self.high < 0


def left_out(base: CountedRole, other: CountedRole, confidence: float = CONFIDENCE) -> LeftOut | None:
    """Returns what is left out on both sides; None where it was not told apart.

    The interval is Student's of two samples with one variance, as that of the judged part (Student 1908).
    """
    if not base.timed or not other.timed or not base.instructions or not other.instructions:
        return None
    whole = mean(base.instructions) + mean(base.timed)
    other_whole = mean(other.instructions) + mean(other.timed)
    if whole <= 0 or other_whole <= 0:
        return None
    difference = (mean(other.timed) - mean(base.timed)) / whole
    freedom = len(base.timed) + len(other.timed) - 2
    half = math.inf
    if freedom > 0:
        squares = sum((v - mean(side)) ** 2 for side in (base.timed, other.timed) for v in side)
        error = math.sqrt(squares / freedom * (1 / len(base.timed) + 1 / len(other.timed))) / whole
        half = student_quantile(freedom, 0.5 + confidence / 2) * error
    return LeftOut(
        mean(base.timed) / whole,
        mean(other.timed) / other_whole,
        difference,
        difference - half,
        difference + half,
    )


def left_out_doubt(word: str, ratio: float, beside: LeftOut | None, margin: float) -> str:
    """Returns why a word does not hold for all that was executed; empty where it does.

    It does not where what is left out differs beyond the margin of the whole, provenly, and the word says
    that nothing differs, that nothing is known of it, or that the whole went the other way. ratio: of the
    judged part, other ÷ base.
    """
    if beside is None or not beside.is_proven or abs(beside.difference) <= margin:
        return ""
    judged = (ratio - 1.0) * (1.0 - beside.base)
    whole = judged + beside.difference
    if word in ("more", "fewer") and abs(whole) > margin and whole * judged > 0:
        return ""
    return (
        f"what is left out of the count differs by {beside.difference:+.2%} of an operation "
        f"({beside.base:.2%} of it before, {beside.other:.2%} after)"
    )


def spread(starts: Sequence[float]) -> float:
    """Returns the largest start ÷ the smallest − 1; 0 for fewer than two."""
    return max(starts) / min(starts) - 1.0 if len(starts) > 1 and min(starts) > 0 else 0.0


def spread_note(name: str, starts: Sequence[float], margin: float) -> str:
    """Returns a clause that says that the starts of a variant differ beyond the margin; empty if they do
    not."""
    width = spread(starts)
    if width <= margin:
        return ""
    return f"starts of {name} differ by {width:.2%} ({min(starts):,.0f} … {max(starts):,.0f})"


def spread_hides(base: Sequence[float], other: Sequence[float]) -> bool:
    """Returns True where the starts of one side differ by more than the sides do: which starts were drawn
    would decide the word."""
    apart = max(min(other) / max(base), min(base) / max(other)) - 1.0
    return apart <= max(spread(base), spread(other))
