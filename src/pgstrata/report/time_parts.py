"""Rows of the tables that show where time went, in ms of a query or µs of an operation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pgstrata import numbers
from pgstrata.judge.divided import TOLERANCE, Divided
from pgstrata.page.blocks import Cell, Column, Row, words

Unit = Literal["ms", "µs"]

LEAST = 0.1
"""Share of the difference from which a part is named in a sentence."""

_PER_SECOND: dict[Unit, float] = {"ms": 1e3, "µs": 1e6}


def part_columns(base: str, variant: str, unit: Unit) -> list[Column]:
    """Returns the columns of such a table. base, variant: titles of two."""
    key = "ms" if unit == "ms" else "us"
    return [
        Column("part", "Part", align="left"),
        Column(f"base_{key}", base, unit),
        Column(key, variant, unit),
        Column(f"difference_{key}", "Difference", unit, rule=True),
        Column("share", "Of it", "%"),
    ]


def part_rows(
    parts: Divided, names: Sequence[Cell], whole: Cell, unit: Unit, errors: Sequence[float | None] = ()
) -> list[Row]:
    """Returns the rows of all parts, of their sum, of the whole, and of what they leave of it. names: of the
    parts; errors: of their differences, none where none is known."""
    difference = parts.difference
    rows = [
        _part_row(name, part.base, part.other, part.difference, difference, unit, error=error)
        for name, part, error in zip(names, parts.parts, errors or [None] * len(names), strict=True)
    ]
    base, other = (sum(getattr(part, side) for part in parts.parts) for side in ("base", "other"))
    rows.append(_part_row(words("all parts"), base, other, parts.sum, difference, unit))
    rows.append(_part_row(whole, parts.base, parts.other, difference, difference, unit))
    if (rest := parts.unexplained) is not None:
        name = words("unexplained", f"Beyond {TOLERANCE:.0%}.")
        rows.append(_part_row(name, None, None, rest, difference, unit, is_rest=True))
    return rows


def _part_row(
    name: Cell,
    base: float | None,
    other: float | None,
    difference: float,
    whole: float,
    unit: Unit,
    *,
    error: float | None = None,
    is_rest: bool = False,
) -> Row:
    """Returns the row of a part in seconds, and its share of the whole difference. error: of its difference,
    where it is known; is_rest: it is what the parts leave."""
    scale = _PER_SECOND[unit]
    sides = (
        Cell(None, "") if value is None else Cell(scale * value, time(value, unit)) for value in (base, other)
    )
    small = "" if error is None else f"± {time(error, unit)}"
    return Row(
        [
            name,
            *sides,
            Cell(scale * difference, signed(difference, unit), "bad" if is_rest else "", small=small),
            _share(difference / whole) if whole else Cell(None, numbers.UNKNOWN),
        ]
    )


def _share(share: float) -> Cell:
    percent = round(100 * share)
    return Cell(share, f"{'−' if percent < 0 else ''}{abs(percent):,}")


def signed(seconds: float, unit: Unit) -> str:
    """Formats seconds in a unit, with their sign."""
    return f"{'−' if seconds < 0 else '+'} {time(abs(seconds), unit)}"


def time(seconds: float, unit: Unit) -> str:
    """Formats seconds in a unit, without its name."""
    return numbers.significant(_PER_SECOND[unit] * seconds)


__all__ = ["LEAST", "Unit", "part_columns", "part_rows", "signed", "time"]
