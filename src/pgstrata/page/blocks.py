"""What a report is made of, before anybody decides how it is written.

Sections hold blocks: tables, charts, bars, prose, listings. HTML, Markdown, CSV and the terminal
each write the same blocks in their own way, so that a number is computed and worded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pgstrata.judge.marks import Mark

Align = Literal["right", "left"]

SIGNS: dict[str, str] = {"good": "▲", "bad": "▼", "same": "=", "missed": "✕"}


@dataclass(frozen=True)
class Span:
    """An interval on an axis whose middle is no change, as shares 0…1 of its width.

    narrow, wide: the ends of the margin, inside of which differences do not count.
    """

    low: float
    middle: float
    high: float
    narrow: float
    wide: float


@dataclass(frozen=True)
class Cell:
    """One cell: `value` as stored (for CSV), `text` as read, `mark` how it is coloured.

    note: a longer word about this cell, shown on hovering and listed as a mark in the CSV.
    shade: 0…1, strength of a neutral background where the size of numbers is to be seen at once.
    small: a second, quieter text behind the first (a range, an interval).
    span: an interval that is drawn before the text.
    href: address of the page that the cell leads to, relative to its own.
    """

    value: float | int | str | bool | None
    text: str
    mark: Mark = ""
    note: str = ""
    shade: float | None = None
    small: str = ""
    span: Span | None = None
    href: str = ""

    @property
    def sign(self) -> str:
        """The second sign beside the colour, for people who do not see it."""
        return SIGNS.get(self.mark, "")


def words(text: str, note: str = "", mark: Mark = "", href: str = "") -> Cell:
    """Returns a cell of plain text."""
    return Cell(text, text, mark, note, href=href)


def missing(note: str = "not measured") -> Cell:
    """Returns a cell without a value: it says so instead of staying blank."""
    return Cell(None, "no data", "missing", note)


@dataclass(frozen=True)
class Column:
    """A column: `key` names it in the CSV, `unit` stands below the title."""

    key: str
    title: str
    unit: str = ""
    align: Align = "right"
    hint: str = ""
    rule: bool = False  # a line before this column
    href: str = ""
    """Address of the page that the title leads to."""


@dataclass(frozen=True)
class Row:
    """A row.

    kind: `target` for what was asked of the variants, `group` for a heading in between, `next` for a row
    whose first cells repeat those of the row above.
    """

    cells: Sequence[Cell]
    kind: Literal["", "target", "group", "base", "next"] = ""
    variant: str = ""


@dataclass(frozen=True)
class Table:
    """A table. `name` is the name of its CSV file, without ending.

    keys: leading columns of the CSV that the page shows as headings around the table (workload,
    step). Tables of one name go to one file, one below the other.
    lead: how many columns at the left stay in view when the table is scrolled sideways or split.
    stacked: on a narrow screen each row stands as a list of its cells, for tables of texts.
    sortable: the page sorts it by a column, and shows proven rows only if asked.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    how: str
    keys: Sequence[tuple[str, str]] = ()
    lead: int = 1
    notes: Sequence[str] = ()
    legend: Sequence[tuple[Mark, str]] = ()
    stacked: bool = False
    sortable: bool = False


@dataclass(frozen=True)
class Chart:
    """A Plotly figure as plain data: `data` and `layout` go to the script as they are."""

    id: str
    title: str
    data: Sequence[dict[str, Any]]
    layout: dict[str, Any]
    height: int
    how: str = ""


@dataclass(frozen=True)
class Bar:
    """One bar: `share` 0…1 of the longest; `low` and `high` bound the repeats, as shares."""

    label: str
    share: float | None
    text: str
    color: int
    mark: Mark = ""
    small: str = ""
    low: float | None = None
    high: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Bars:
    """A bar chart drawn by the page itself: no script needed, prints as it is."""

    title: str
    bars: Sequence[Bar]
    how: str = ""


@dataclass(frozen=True)
class Prose:
    """A paragraph; `mark` `bad` for what went wrong, `even` for a quiet remark; `anchor` leads on."""

    text: str
    mark: Mark = ""
    anchor: str = ""


@dataclass(frozen=True)
class Listing:
    """Text to be shown as it is: the tail of a log, a config file."""

    title: str
    text: str
    open: bool = False


@dataclass(frozen=True)
class Term:
    """One line of a list of facts."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class Facts:
    """A list of facts: name and value."""

    terms: Sequence[Term]


@dataclass(frozen=True)
class Finding:
    """What the campaign says about one variant, worst first."""

    variant: str
    color: int
    headline: str
    items: Sequence[tuple[Mark, str, Sequence[tuple[str, str, str]]]]  # mark, words, (step, ratio, anchor)


@dataclass(frozen=True)
class Findings:
    """The answer in the first screenful: each variant against the base."""

    title: str
    findings: Sequence[Finding]


@dataclass(frozen=True)
class Picture:
    """A drawing in a file of its own beside the page, loaded when it is looked at."""

    file: str
    title: str
    how: str = ""
    variant: str = ""


Block = Picture | Table | Chart | Bars | Prose | Listing | Facts | Findings


@dataclass(frozen=True)
class Section:
    """A part of the page with a heading and a place in the navigation.

    folded: shown closed at first, for parts that come in dozens.
    quiet: subsections are left out of the navigation.
    """

    id: str
    title: str
    blocks: Sequence[Block] = ()
    parts: Sequence[Section] = field(default=())
    folded: bool = False
    quiet: bool = False
    brief: str = ""
