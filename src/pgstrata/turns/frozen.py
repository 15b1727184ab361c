"""Frozen turns: rounds of all variants at the same time; all but one are stopped at any moment."""

from __future__ import annotations

from typing import Final

from pgstrata import numbers
from pgstrata.store.record import ComparisonRecord, TurnKind
from pgstrata.turns.model import Least, Length, Neighbours, Pairs, least_parts
from pgstrata.turns.rounds import Rounds

LEAST_OPERATIONS = 50
"""Of each connection of the judged role, without which a step makes no stretches."""

FROZEN_ROUNDS = 2
"""Rounds before the first look at a verdict: what a server's processes are by chance lasts as long as they
do."""

TURN_SECONDS = 30.0
"""Longest turn: a variant that has not ended its stretch by then goes on with it in its next turn."""


class Frozen:
    """The same work of all variants, in short turns of which each does the same stretch."""

    name: TurnKind = "frozen"
    part: Final = "pair"
    pair: Final = "pair"
    keeps_connections: Final = True
    from_snapshot: Final = True

    def cost(self, length: Length) -> float:
        """Returns the same cost as that of rounds: no variant works while another does."""
        return Rounds().cost(length)

    def least(self, part_seconds: float) -> Least:
        """Returns the turns that are measured before the first look at a verdict."""
        return least_parts("turns", part_seconds)

    def pairs(self, neighbours: Neighbours, blocks: tuple[int, ...]) -> Pairs:
        """Returns pairs of times, because both sides did the same work: the other's as those of the base, and
        the other way round. Such pairs are judged by their totals: a stall counts with as long as it took."""
        base = [theirs.seconds for _, theirs in neighbours]
        other = [ours.seconds for ours, _ in neighbours]
        return Pairs(base, other, blocks, by_totals=True)

    def describe(self, parts: int, comparison: ComparisonRecord) -> str:
        """Describes how long turns were, and how many pairs they made."""
        about = numbers.duration(comparison.window_seconds or 0.0)
        return f"in frozen turns of about {about}, {numbers.counted(parts, 'pair')} of the same work"


__all__ = ["FROZEN_ROUNDS", "LEAST_OPERATIONS", "TURN_SECONDS", "Frozen"]
