"""What counts as a difference, and how sure a verdict has to be."""

from __future__ import annotations

from dataclasses import dataclass

MARGIN = 0.02
"""Smallest relative difference that counts, where nothing else is asked for."""

CONFIDENCE = 0.95
"""Of intervals, likewise."""


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


__all__ = ["CONFIDENCE", "MARGIN", "USUAL", "Criterion", "check_share"]
