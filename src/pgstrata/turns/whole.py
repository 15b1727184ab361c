"""Whole steps: a step that only reads and cannot be cut is repeated, all clusters up."""

from __future__ import annotations

from typing import Final

from pgstrata import numbers
from pgstrata.store.record import ComparisonRecord, TurnKind
from pgstrata.turns.model import Least, Length, Neighbours, Pairs, least_parts, pairs_by_rate
from pgstrata.turns.slices import Slices


class Whole:
    """Repeats of a step that leaves the data as it is."""

    name: TurnKind = "whole"
    part: Final = "round"
    pair: Final = "round"
    keeps_connections: Final = False
    from_snapshot: Final = False

    def cost(self, length: Length) -> float:
        """Returns the same cost as that of slices that are as long as the step."""
        return Slices().cost(length)

    def least(self, part_seconds: float) -> Least:
        """Returns the rounds that are measured before the first look at a verdict."""
        return least_parts("rounds", part_seconds)

    def pairs(self, neighbours: Neighbours, blocks: tuple[int, ...]) -> Pairs:
        """Returns the pairs with the rates of whole steps."""
        return pairs_by_rate(neighbours, blocks)

    def describe(self, parts: int, comparison: ComparisonRecord) -> str:
        """Describes how often the step was repeated."""
        del comparison
        return f"in turn, {numbers.counted(parts, 'round')}"


__all__ = ["Whole"]
