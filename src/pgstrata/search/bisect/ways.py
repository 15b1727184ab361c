"""Both measures of a search, rate and instructions: how the ends are measured, and which one it goes by.

Instructions are not speed: a commit may execute fewer and be slower. So the ends are measured both ways, and
`--by both` goes on with the measure that shows the change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgstrata.search.bisect.procedure import Asked, By, Procedure, Task
from pgstrata.search.bisect.search import Outcome

OTHER_WAY: Mapping[By, int] = {"rate": 2, "instructions": 1}
"""How often the ends are measured by what the search does not go by."""

DISAGREE = 2.0
"""Standard errors by which both measures must differ from nothing before their signs are said to disagree."""


def disagree(outcome: Outcome, other: Outcome) -> bool:
    """True if two measures of one change are proven to have different signs."""
    proven = all(abs(o.log_ratio) >= DISAGREE * o.error for o in (outcome, other))
    return proven and outcome.log_ratio * other.log_ratio < 0


def other_way(by: By) -> By:
    """Returns the other measure."""
    return "rate" if by == "instructions" else "instructions"


@dataclass(frozen=True)
class Ways:
    """The search by each measure. is_single: the ends are measured as asked only."""

    asked: Asked
    procedures: Mapping[By, Procedure]
    is_single: bool = False

    @property
    def leading(self) -> By:
        """What the search goes by. Of both: the rate, unless instructions show the change as well, or alone;
        they are exact and quick to count."""
        if self.asked != "both":
            return self.asked
        rate, instructions = self._effect("rate"), self._effect("instructions")
        if self.procedures["instructions"].ends != "open" or instructions is None:
            return "rate"
        agrees = rate is None or rate.log_ratio * instructions.log_ratio > 0
        return "instructions" if agrees or self.procedures["rate"].ends != "open" else "rate"

    def next(self) -> tuple[By, Task] | None:
        """Returns the next measurement and the measure it uses; None at the end."""
        order: tuple[By, ...] = ("instructions", "rate") if self.asked == "both" else (self.asked,)
        for by in order:
            if self.procedures[by].ends == "ends" and (task := self.procedures[by].next()) is not None:
                return by, task
        leading = self.procedures[self.leading]
        by = other_way(self.leading)
        other = self.procedures[by]
        if not (self.is_single or leading.ends_are_the_same) and other.times_of_ends < OTHER_WAY[by]:
            return by, Task(0, other.n, "ends")
        task = leading.next()
        return None if task is None else (self.leading, task)

    def disagreement(self) -> Outcome | None:
        """Returns what the other measure says of the ends, where its sign is another one."""
        effect, other = self._effect(self.leading), self._effect(other_way(self.leading))
        return other if effect is not None and other is not None and disagree(effect, other) else None

    def _effect(self, by: By) -> Outcome | None:
        return self.procedures[by].effect


__all__ = ["OTHER_WAY", "Ways", "disagree", "other_way"]
