"""A difference in time that parts divide: what they add up to, and what they leave."""

from __future__ import annotations

import math
from collections.abc import Sequence

TOLERANCE = 0.1
"""Parts add up where their sum is off by this share of the difference at most."""


class TwoSides:
    """Seconds on both sides."""

    base: float
    other: float

    @property
    def difference(self) -> float:
        """By how much the other side takes longer."""
        return self.other - self.base


class Divided(TwoSides):
    """Seconds on both sides, and parts of them."""

    parts: Sequence[TwoSides]

    @property
    def sum(self) -> float:
        """Of the differences of all parts."""
        return math.fsum(part.difference for part in self.parts)

    @property
    def unexplained(self) -> float | None:
        """What the parts leave of the difference; None where they add up."""
        rest = self.difference - self.sum
        return rest if abs(rest) > TOLERANCE * abs(self.difference) else None


__all__ = ["TOLERANCE", "Divided", "TwoSides"]
