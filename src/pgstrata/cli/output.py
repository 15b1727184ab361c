"""Tables for people and for programs: aligned text, CSV, JSON."""

from __future__ import annotations

import csv
import itertools
import json
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from pgstrata.finite import finite


class Format(StrEnum):
    """How a table is printed."""

    table = "table"
    csv = "csv"
    json = "json"


FITTED_ROWS = 1000
WIDEST = 60
"""Characters of a column; a longer cell moves the rest of its own row only."""

_TOGETHER = str.maketrans({"\0": " "})

Rows = list[dict[str, Any]]
"""A table in JSON whose columns are those of an answer."""

Function = TypeVar("Function", bound=Callable[..., Any])


def prints(*places: str) -> Callable[[Function], Function]:
    """Sets the types of what a command prints as JSON, each as `module:attribute`: `pgstrata schema` makes
    its schema of them when it is asked for one."""

    def mark(function: Function) -> Function:
        function.__dict__["json_places"] = places
        return function

    return mark


class VerdictFormat(StrEnum):
    """How verdicts are printed."""

    table = "table"
    json = "json"
    markdown = "markdown"
    junit = "junit"
    github = "github"


class TextOrJson(StrEnum):
    """How something that is no table is printed."""

    text = "text"
    json = "json"


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[Any]], form: Format = Format.table) -> None:
    """Prints rows in the wanted form on standard output as they arrive: there may be more than fit in memory.

    The columns of a table are as wide as its first `FITTED_ROWS` need.
    """
    match form:
        case Format.json:
            _print_objects(columns, rows)
        case Format.csv:
            writer = csv.writer(sys.stdout, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(["" if v is None else _plain(v) for v in row] for row in rows)
        case Format.table:
            rest = iter(rows)
            first = list(itertools.islice(rest, FITTED_ROWS))
            fitted = _Fitted(columns, first)
            for line in fitted.lines(first):
                print(line)
            for row in rest:
                print("\n".join(fitted.row([_cell(value) for value in row])))


def left_out(broken: Iterable[object]) -> None:
    """Prints the names of damaged runs, which are missing from the printed output, on standard error."""
    for run in broken:
        print(f"left out: {''.join(c if c.isprintable() else '?' for c in str(run))}", file=sys.stderr)


def print_json(value: Any) -> None:
    """Prints a value as JSON on standard output."""
    print(_json(value))


def _json(value: Any) -> str:
    return json.dumps(finite(value), indent=1, ensure_ascii=False, default=_plain)


def _print_objects(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints a JSON list of objects, laid out as `print_json` does."""
    before = "["
    for row in rows:
        text = _json(dict(zip(columns, row, strict=True))).replace("\n", "\n ")
        print(f"{before}\n {text}", end="")
        before = ","
    print("[]" if before == "[" else "\n]")


def aligned(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Returns lines of text columns as wide as they need, to `WIDEST`; numbers are aligned to the right.

    Where standard output is a narrower terminal, heads and texts are broken between words, but not within
    an interval, if the table fits it then.
    """
    return _Fitted(columns, rows).lines(rows)


class _Fitted:
    """How wide the columns are, on which side their cells stand, and whether texts are broken."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        self._columns = [str(name) for name in columns]
        self._numeric = [
            bool(rows)
            and all(v is None or _is_number(v) for v in column)
            and any(v is not None for v in column)
            for column in zip(*rows, strict=True)
        ] or [False] * len(columns)
        self._widths = [max(len(name), 1) for name in self._columns]
        for row in rows:
            for i, value in enumerate(row):
                self._widths[i] = max(self._widths[i], min(len(_cell(value)), WIDEST))
        self._is_broken = sys.stdout.isatty() and self._narrow(rows, shutil.get_terminal_size().columns)

    def _narrow(self, rows: Sequence[Sequence[Any]], screen: int) -> bool:
        """Makes columns of text narrower, the widest first, no word being cut. Returns False where the table
        fits the screen as it is, or not even then."""
        texts = [[name, *(_cell(row[i]) for row in rows)] for i, name in enumerate(self._columns)]
        widths = [max(map(len, column)) for column in texts]
        least = [max((len(word) for text in column for word in _words(text)), default=1) for column in texts]
        room = screen - 2 * (len(widths) - 1)
        if sum(widths) <= room or sum(least) > room:
            return False
        while sum(widths) > room:
            widest = max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))
            widths[widest] -= 1
        self._widths = widths
        return True

    def lines(self, rows: Sequence[Sequence[Any]]) -> list[str]:
        """Returns the heads, a rule, and these rows as lines."""
        rule = ["-" * width for width in self._widths]
        lines = [line for r in rows for line in self.row(list(map(_cell, r)))]
        return [*self.row(self._columns), self._line(rule), *lines]

    def row(self, cells: Sequence[str]) -> list[str]:
        """Returns the lines of a row: one, where no text is broken."""
        if not self._is_broken:
            return [self._line(cells)]
        broken = [
            textwrap.wrap(" ".join(_words(cell)), width, break_long_words=False, break_on_hyphens=False)
            for cell, width in zip(cells, self._widths, strict=True)
        ]
        return [self._line(parts) for parts in itertools.zip_longest(*broken, fillvalue="")] or [""]

    def _line(self, cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, self._widths, self._numeric, strict=True)
        ]
        return "  ".join(padded).translate(_TOGETHER).rstrip()


def _words(text: str) -> list[str]:
    """Returns the parts between which a text may be broken; an interval, `0.98 … 1.02`, is one."""
    return text.replace(" … ", "\0…\0").split()


def without_empty(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Returns a table without the columns in which nothing stands in any row."""
    kept = [i for i in range(len(columns)) if any(row[i] not in (None, "") for row in rows)]
    return [columns[i] for i in kept], [[row[i] for i in kept] for row in rows]


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
    text = str(_plain(value))
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


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
