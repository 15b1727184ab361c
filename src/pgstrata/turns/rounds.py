"""Rounds: a step that writes is repeated whole, each time from a snapshot and with no other cluster up."""

from __future__ import annotations

from typing import Final

from pgstrata import numbers
from pgstrata.store.record import ComparisonRecord, TurnKind
from pgstrata.turns.model import COPIED_BYTES, Least, Length, Neighbours, Pairs, least_parts, pairs_by_rate

AROUND_ROUND_SECONDS = 1.5
"""Starting and stopping a server, a new driver, its connections, and reading the statistics."""


class Rounds:
    """Repeats of a step that writes, one variant after the other."""

    name: TurnKind = "rounds"
    part: Final = "round"
    pair: Final = "round"
    keeps_connections: Final = False
    from_snapshot: Final = True

    def cost(self, length: Length) -> float:
        """Returns the cost of the rounds in seconds, each with its snapshot put back and its server
        started."""
        restored = length.data_bytes / COPIED_BYTES
        return length.count * (length.seconds + length.warmup + AROUND_ROUND_SECONDS + restored)

    def least(self, part_seconds: float) -> Least:
        """Returns the rounds that are measured before the first look at a verdict."""
        return least_parts("rounds", part_seconds)

    def pairs(self, neighbours: Neighbours, blocks: tuple[int, ...]) -> Pairs:
        """Returns the pairs with the rates of whole rounds."""
        return pairs_by_rate(neighbours, blocks)

    def describe(self, parts: int, comparison: ComparisonRecord) -> str:
        """Describes how many rounds were measured."""
        del comparison
        return f"in turn, {numbers.counted(parts, 'round')}"


__all__ = ["AROUND_ROUND_SECONDS", "Rounds"]
