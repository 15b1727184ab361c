"""Published ratios of rates, and whether one's own verdicts agree with them.

A published ratio has no interval of its own: it is one run on each side, on another machine, and as exact as
its last digit. So it is held against the interval measured here, and never the other way round.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgstrata.errors import UsageError
from pgstrata.files.user_files import read_text, shown
from pgstrata.stats.verdict import Verdict

NAME = "published.csv"
"""Beside a campaign file: ratios that its report shows, where a study is called as the campaign."""

COLUMNS = ("study", "source", "date", "step", "clients", "base", "version", "ratio")
MOST_BYTES = 8 << 20
MOST_TEXT = 200

Agreement = Literal["inside", "same direction", "not", "open"]
"""`inside`: of the interval measured here, as far as its digits tell. `same direction`: outside, but both
slower, both faster, or both the same. `open`: there is no interval."""

_RATIO = re.compile(r"\d{1,6}(?:\.(?P<digits>\d{1,6}))?")
_VERSION = re.compile(r"(?:9\.\d{1,2}|\d{2})(?:\.\d{1,3}|(?:beta|rc|alpha)\d{1,2})?")


@dataclass(frozen=True)
class Rounded:
    """A ratio between two bounds: as many digits as were published leave it open within them."""

    value: float
    low: float
    high: float

    def over(self, base: Rounded) -> Rounded:
        """Returns the ratio of two such ratios."""
        return Rounded(self.value / base.value, self.low / base.high, self.high / base.low)


ONE = Rounded(1.0, 1.0, 1.0)
"""A base against itself."""


@dataclass(frozen=True)
class Published:
    """A ratio of rates that somebody published: `version` ÷ `base` at a step."""

    study: str
    source: str
    date: str
    step: str
    clients: int | None
    base: str
    version: str
    ratio: Rounded


def read_published(file: Path) -> list[Published]:
    """Reads a CSV file of published ratios. Raises UsageError, which names the line."""
    text = read_text(file, "file of published ratios", most=MOST_BYTES)
    reader = csv.DictReader(text.splitlines(), strict=True)
    try:
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise UsageError(
                f"{shown(file)}, line 1: its columns are not those of published ratios", _columns()
            )
        return [_row(file, reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise UsageError(f"{shown(file)}, line {reader.line_num}: {error}", _columns()) from None


def _columns() -> str:
    return f"write: {','.join(COLUMNS)}"


def _row(file: Path, line: int, row: Mapping[str, str | None]) -> Published:
    def refuse(what: str) -> UsageError:
        return UsageError(f"{shown(file)}, line {line}: {what}", _columns())

    cells = {name: row.get(name) or "" for name in COLUMNS}
    if None in row or any(len(c) > MOST_TEXT or not c.isprintable() for c in cells.values()):
        raise refuse("more cells than columns, or a text that cannot be shown")
    if missing := [name for name in COLUMNS if not cells[name] and name != "clients"]:
        raise refuse(f"{missing[0]} is empty")
    if re.fullmatch(r"\d{4}-\d\d-\d\d", cells["date"]) is None:
        raise refuse(f"{shown(cells['date'], 40)} is not a date like 2026-04-30")
    for name in ("base", "version"):
        if _VERSION.fullmatch(cells[name]) is None:
            raise refuse(f"{shown(cells[name], 40)} is not a version of PostgreSQL")
    if cells["clients"] and re.fullmatch(r"[1-9]\d{0,5}", cells["clients"]) is None:
        raise refuse(f"{shown(cells['clients'], 40)} is not a number of clients")
    match = _RATIO.fullmatch(cells["ratio"])
    if match is None or float(cells["ratio"]) <= (half := 0.5 * 10.0 ** -len(match["digits"] or "")):
        raise refuse(f"{shown(cells['ratio'], 40)} is not a ratio like 0.97")
    value = float(cells["ratio"])
    return Published(
        **{name: cells[name] for name in ("study", "source", "date", "step", "base", "version")},
        clients=int(cells["clients"]) if cells["clients"] else None,
        ratio=Rounded(value, value - half, value + half),
    )


def agreement(published: Rounded, verdict: Verdict) -> Agreement:
    """Returns whether a verdict measured here agrees with a published ratio of the same two versions.

    A verdict that was called unclear for a reason from outside its figures, as of a disturbed step, tells
    nothing.
    """
    if verdict.aside or not verdict.is_bounded:
        return "open"
    if published.low <= verdict.high and verdict.low <= published.high:
        return "inside"
    narrow = 1 - verdict.margin
    value = published.value
    direction = "slower" if value < narrow else "faster" if value > 1 / narrow else "same"
    return "same direction" if verdict.word == direction else "not"


def same_version(version: str, others: Iterable[str], versions: Sequence[str]) -> list[str]:
    """Returns which versions measured here stand for a published one: itself; else the only one of its major
    version, where the study has no other of it, `others` being all of the study."""
    if version in versions:
        return [version]
    major = major_of(version)
    alike = sorted({candidate for candidate in versions if major_of(candidate) == major})
    only = {other for other in others if major_of(other) == major} <= {version}
    return alike if only and len(alike) == 1 else []


def major_of(version: str) -> str:
    """Returns `17` of `17.6` and `18beta1`, `9.6` of `9.6.24`."""
    match = re.match(r"9\.\d+|\d+", version)
    return match[0] if match else version


__all__ = [
    "COLUMNS",
    "NAME",
    "ONE",
    "Agreement",
    "Published",
    "Rounded",
    "agreement",
    "major_of",
    "read_published",
    "same_version",
]
