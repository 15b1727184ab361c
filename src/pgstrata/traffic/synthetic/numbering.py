"""Values of a type that have an order and a distance, as whole numbers: what lies between two of them can be
drawn. Of other types only the values that are known can."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

LARGEST = {"smallint": 2**15 - 1, "integer": 2**31 - 1, "bigint": 2**63 - 1}
"""Of the types of whole numbers."""

MOST_DIGITS = 12
"""Behind the point of a number that is drawn."""

_EPOCH = datetime(2000, 1, 1)
_WHEN = re.compile(
    r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d(?:\.\d{1,6})?)(?:[+-]\d\d(?::?\d\d){0,2})?\Z", re.ASCII
)


class Numbering(NamedTuple):
    """number: of a value's text, ValueError for what has no place (infinity, years before Christ). text: of
    a number."""

    number: Callable[[str], int]
    text: Callable[[int], str]


def base_type(type: str) -> str:
    """Returns a type without its limits: `numeric(10,2)` is numeric, `timestamp(3) with time zone` has its
    zone."""
    return re.sub(r"\s*\([^)]*\)", "", type)


def numbering_of(type: str, values: Iterable[str]) -> Numbering | None:
    """Returns how values of a type are counted; None for a type whose values are not. values: some of them,
    whose digits behind the point say how many a value has."""
    match base_type(type):
        case "smallint" | "integer" | "bigint" | "oid":
            return Numbering(int, str)
        case "numeric" | "double precision" | "real" | "money":
            return _decimal(values)
        case "date":
            return Numbering(
                lambda text: date.fromisoformat(text).toordinal(),
                lambda number: date.fromordinal(number).isoformat(),
            )
        case "timestamp without time zone":
            return Numbering(_moment, _moment_text)
        case "timestamp with time zone":
            # Statistics are asked for in UTC.
            return Numbering(_moment, lambda number: _moment_text(number) + "+00")
    return None


def _decimal(values: Iterable[str]) -> Numbering:
    digits = max((_digits(value) for value in values), default=0)
    unit = Decimal(10) ** digits

    def number(text: str) -> int:
        try:
            return int((Decimal(text) * unit).to_integral_value())
        except (InvalidOperation, OverflowError):
            raise ValueError(text) from None

    def text(number: int) -> str:
        return format((Decimal(number) / unit).quantize(1 / unit) if digits else Decimal(number), "f")

    return Numbering(number, text)


def _digits(text: str) -> int:
    try:
        exponent = Decimal(text).as_tuple().exponent
    except InvalidOperation:
        return 0
    return min(MOST_DIGITS, -exponent) if isinstance(exponent, int) and exponent < 0 else 0


def _moment(text: str) -> int:
    """Returns the microseconds since 2000."""
    match = _WHEN.match(text)
    if match is None:
        raise ValueError(text)
    return (datetime.fromisoformat(f"{match[1]} {match[2]}") - _EPOCH) // timedelta(microseconds=1)


def _moment_text(number: int) -> str:
    return (_EPOCH + timedelta(microseconds=number)).isoformat(" ")


__all__ = ["LARGEST", "Numbering", "base_type", "numbering_of"]
