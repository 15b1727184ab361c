"""When enough is known of a step for its verdicts to be final."""

from __future__ import annotations

from collections.abc import Sequence

from pgstrata.judge.pairs import pairs_of
from pgstrata.judge.statements import enough_known
from pgstrata.measure.comparison.participant import Participant
from pgstrata.stats import sequential
from pgstrata.stats.multiplicity import holds
from pgstrata.stats.verdict import Verdict


class Looks:
    """Looks at each step of a comparison. Made anew for each.

    base: label of the variant the others are held against; comparisons: verdicts that the campaign will have.
    """

    def __init__(self, base: str, margin: float, comparisons: int) -> None:
        self.base, self.margin, self.comparisons = base, margin, comparisons
        self._different = 0

    def known(self, here: Sequence[Participant]) -> bool:
        """Whether every variant has its verdict on the present step against the base (against the first,
        without the base), one that stays among those of all steps, and of a replay every statement that
        weighs something has its own."""
        if not all(self._holds(verdict) for verdict in self._verdicts(here)):
            return False
        first, others = self._sides(here)
        return enough_known(first.rounds(), {other.label: other.rounds() for other in others}, self.margin)

    def step_ends(self, here: Sequence[Participant]) -> None:
        """What is known of the present step now is final."""
        holding = [verdict for verdict in self._verdicts(here) if self._holds(verdict)]
        self._different += sum(verdict.word != "same" for verdict in holding)

    def _holds(self, verdict: Verdict) -> bool:
        return holds(verdict, self._different, self.comparisons)

    def _verdicts(self, here: Sequence[Participant]) -> list[Verdict]:
        first, others = self._sides(here)
        return [sequential.look(*pairs_of(first, other), margin=self.margin) for other in others]

    def _sides(self, here: Sequence[Participant]) -> tuple[Participant, list[Participant]]:
        first = next((one for one in here if one.label == self.base), here[0])
        return first, [other for other in here if other is not first]


__all__ = ["Looks"]
