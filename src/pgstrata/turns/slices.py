"""Slices: a step that only reads is cut into parts, with new connections for each, all clusters up."""

from __future__ import annotations

from typing import Final

from pgstrata import numbers
from pgstrata.store.record import ComparisonRecord, TurnKind
from pgstrata.turns.model import AGAIN_SECONDS, Least, Length, Neighbours, Pairs, least_parts, pairs_by_rate

AROUND_SLICE_SECONDS = 0.15
"""A new driver, its connections, and reading the statistics before and after."""


class Slices:
    """Parts of equal length of a step that only reads."""

    name: TurnKind = "slices"
    part: Final = "slice"
    pair: Final = "pair"
    keeps_connections: Final = False
    from_snapshot: Final = False

    def cost(self, length: Length) -> float:
        """Returns the cost of the slices in seconds, each with its warm-up and its new driver."""
        return length.count * (length.seconds + AGAIN_SECONDS + AROUND_SLICE_SECONDS)

    def least(self, part_seconds: float) -> Least:
        """Returns the slices that are measured before the first look at a verdict."""
        return least_parts("slices", part_seconds)

    def pairs(self, neighbours: Neighbours, blocks: tuple[int, ...]) -> Pairs:
        """Returns the pairs with the rates of slices: both slices of a pair take equally long."""
        return pairs_by_rate(neighbours, blocks)

    def describe(self, parts: int, comparison: ComparisonRecord) -> str:
        """Describes how many slices were measured, and how long each is."""
        return f"in turn, {numbers.counted(parts, 'slice')} of {numbers.duration(comparison.slice_seconds)}"


__all__ = ["AROUND_SLICE_SECONDS", "Slices"]
