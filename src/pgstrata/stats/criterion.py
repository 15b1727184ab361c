"""What counts as a difference, and how sure a verdict has to be."""

from __future__ import annotations

from dataclasses import dataclass

MARGIN = 0.02
"""Smallest relative difference that counts, where nothing else is asked for."""

CONFIDENCE = 0.95
"""Of intervals, likewise."""

FIRST = 10
"""Pairs before the first look: fewer do not tell noise from outliers."""

FIRST_EXECUTIONS = 3
"""Pairs of single executions before the first look."""

LEAST_BLOCKS = 8
"""Blocks of slices without which nothing is called slower, faster or same: what a process is by chance (its
CPU, its connection, where its memory lies) lasts as long as its block, so fewer do not tell chance from a
difference. Were each of eight blocks one of two states, all would agree by chance in 2 of 256 comparisons."""

LEAST_POINTS = 3
"""Numbers of clients that make a curve."""


def check_share(name: str, value: float) -> None:
    """Raises ValueError unless 0 < value < 1."""
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, not {value}")


@dataclass(frozen=True)
class Criterion:
    """What a verdict is held against.

    margin: smallest relative difference that counts, 0.02 is 2 %. confidence: probability with which an
    interval holds the true ratio. Raises ValueError unless both lie between 0 and 1.
    """

    margin: float = MARGIN
    confidence: float = CONFIDENCE

    def __post_init__(self) -> None:
        check_share("margin", self.margin)
        check_share("confidence", self.confidence)


USUAL = Criterion()
"""Differences of 2 %, intervals of 95 %."""


__all__ = [
    "CONFIDENCE",
    "FIRST",
    "FIRST_EXECUTIONS",
    "LEAST_BLOCKS",
    "MARGIN",
    "USUAL",
    "Criterion",
    "check_share",
]
