"""Units of rates, such as `queries/h`, and every conversion between a rate and the time of an operation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

PERIODS: Mapping[str, float] = {"s": 1.0, "min": 60.0, "h": 3600.0}
"""Seconds of each period that a unit may name behind its slash."""

PATTERN = r"(?s)^(?P<counted>.+)/(?P<period>s|min|h)(?P<note> .+)?$"
"""Of a unit that is understood."""

_UNIT = re.compile(PATTERN)


@dataclass(frozen=True)
class RateUnit:
    """A unit split into its parts: `statements/s of their time` counts `statements` in a period of 1 s."""

    counted: str
    period_seconds: float
    note: str = ""

    @property
    def noun(self) -> str:
        """What a time per operation is called after: `row` for every kind of rows, else `operation`."""
        return "row" if "rows" in self.counted.split() else "operation"


def parse_unit(text: str) -> RateUnit:
    """Parses `rows/s`, `queries/h` and the like. Raises ValueError when the text names no known period."""
    match = _UNIT.fullmatch(text)
    if match is None:
        raise ValueError(
            f"{text!r} is no unit of a rate: write what is counted and its period, as in `queries/s` or "
            f"`loads/h` ({', '.join(PERIODS)})"
        )
    return RateUnit(match["counted"], PERIODS[match["period"]], (match["note"] or "").strip())


def rate_of(amount: float, seconds: float, unit: str) -> float:
    """Returns the rate of an amount done in some seconds, in the unit; 0 where no time went by.

    Raises ValueError for a unit without a known period.
    """
    return amount * parse_unit(unit).period_seconds / seconds if seconds > 0 else 0.0


def rate_per_second(rate: float, unit: str) -> float:
    """Returns a rate given in the unit as one per second. Raises ValueError as `parse_unit` does."""
    return rate / parse_unit(unit).period_seconds


def seconds_per_operation(rate: float, unit: str, clients: int = 1) -> float:
    """Returns how long one operation takes a client that works without pause: clients × period ÷ rate.

    Raises ValueError for a rate that is not positive and for a unit without a known period.
    """
    if rate <= 0:
        raise ValueError(f"a rate of {rate:g} {unit} has no time per operation")
    return clients / rate_per_second(rate, unit)
