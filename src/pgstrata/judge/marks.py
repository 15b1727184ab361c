"""Which numbers of a table are coloured: by what is proven, or by the rules of the field's reports.

A mark is a word, not a colour: whoever writes the table turns it into one and adds a sign for people
who do not see it. `good` and `bad`; `same`; `even` where it is not known which, or between two thresholds;
`missed` where the SLA was missed and
the number cannot be compared; `missing` where there is no number; nothing for all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pgstrata.errors import UsageError
from pgstrata.stats.verdict import Word

Mark = Literal["", "good", "bad", "same", "even", "missed", "missing"]

QUARTER = 0.25
CLOSE = 0.80  # no red where the smallest value is within this share of the largest
THRESHOLDS = (0.95, 1.05)


def check_thresholds(thresholds: tuple[float, float]) -> None:
    """Raises UsageError unless 0 < worse ≤ 1 ≤ better."""
    worse, better = thresholds
    if not 0 < worse <= 1 <= better:
        raise UsageError(
            f"thresholds {worse:g} and {better:g} do not lie around 1",
            "give the relative rates that count as worse and as better, like 0.95 and 1.05",
        )


def column_marks(values: Sequence[float | None], sla_met: Sequence[bool | None] = ()) -> list[Mark]:
    """Returns the marks of a column of absolute rates, where more is better.

    The best quarter of the range between the column's smallest and largest value is good, the worst
    quarter bad; nothing is bad where the smallest value is at least 80 % of the largest, and nothing is
    coloured where all are equal. Values whose SLA was missed take no part.
    """
    missed = [met is False for met in sla_met] or [False] * len(values)
    judged = [value for value, out in zip(values, missed, strict=True) if value is not None and not out]
    low, high = min(judged, default=0.0), max(judged, default=0.0)
    margin = QUARTER * (high - low)

    def mark(value: float | None, out: bool) -> Mark:
        if value is None:
            return "missing"
        if out:
            return "missed"
        if low == high:
            return ""
        if value >= high - margin:
            return "good"
        if value <= low + margin and low < CLOSE * high:
            return "bad"
        return ""

    return [mark(value, out) for value, out in zip(values, missed, strict=True)]


def relative_mark(
    ratio: float | None, thresholds: tuple[float, float] = THRESHOLDS, *, comparable: bool = True
) -> Mark:
    """Returns the mark of a relative rate: at most the first threshold bad, at least the second good.

    comparable: False where this rate's or the base's SLA was missed.
    """
    if ratio is None:
        return "missing"
    if not comparable:
        return "missed"
    worse, better = thresholds
    return "bad" if ratio <= worse else "good" if ratio >= better else "even"


def verdict_mark(word: Word | None) -> Mark:
    """Returns the mark of a verdict: a colour only for proven differences. None: there is no verdict."""
    marks: dict[Word | None, Mark] = {"slower": "bad", "faster": "good", "same": "same"}
    return marks.get(word, "even")


def background_mark(met: bool | None) -> Mark:
    """Returns the mark of a background write rate: bad below 95 % of its target."""
    return "missing" if met is None else "" if met else "bad"
