"""Tables for people and for programs: aligned text, CSV, JSON."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID


class Format(StrEnum):
    """How a table is printed."""

    table = "table"
    csv = "csv"
    json = "json"


class TextOrJson(StrEnum):
    """How something that is no table is printed."""

    text = "text"
    json = "json"


def print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], form: Format = Format.table) -> None:
    """Rows in the wanted form, on standard output."""
    match form:
        case Format.json:
            print_json([dict(zip(columns, row, strict=True)) for row in rows])
        case Format.csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows([["" if v is None else _plain(v) for v in row] for row in rows])
        case Format.table:
            for line in aligned(columns, rows):
                print(line)


def print_json(value: Any) -> None:
    """JSON on standard output."""
    print(json.dumps(_finite(value), indent=1, ensure_ascii=False, default=_plain))


def _finite(value: Any) -> Any:
    """null where a number is not finite: JSON has no NaN."""
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {str(key): _finite(item) for key, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value


def aligned(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Text columns as wide as they need; numbers to the right."""
    texts = [[_cell(value) for value in row] for row in rows]
    numeric = [
        bool(rows) and all(v is None or _is_number(v) for v in column) and any(v is not None for v in column)
        for column in zip(*rows, strict=True)
    ] or [False] * len(columns)
    widths = [max(len(str(name)), *(len(t[i]) for t in texts), 1) for i, name in enumerate(columns)]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    return [line([str(c) for c in columns]), line(["-" * width for width in widths]), *map(line, texts)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:,.6g}" if abs(value) < 100 else f"{value:,.1f}"
    # One line for each row, and nothing that a terminal would take for a command.
    return "".join(c if c.isprintable() else " " for c in str(_plain(value)))


def _plain(value: Any) -> Any:
    match value:
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case Decimal():
            return float(value)
        case bytes():
            return value.hex()
        case Path() | UUID():
            return str(value)
        case list() | dict() | tuple():
            return json.dumps(value, default=_plain, ensure_ascii=False)
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)
