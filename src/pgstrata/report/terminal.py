"""The summary in the terminal: the three tables of each workload, never wider than the screen.

Numbers are never cut: a table that does not fit is split by its columns into several, each with the
variant's name in front. Names and reasons longer than a third of the screen are broken into lines.
"""

from __future__ import annotations

import textwrap
from dataclasses import replace

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from pgstrata.errors import harmless
from pgstrata.page.blocks import SIGNS, Cell, Column, Findings, Prose, Row, Table
from pgstrata.page.results import RunSet
from pgstrata.report.parts import report_parts
from pgstrata.report.profile_changes import profile_lines
from pgstrata.report.sections.curves import curve_lines
from pgstrata.report.sections.findings import findings
from pgstrata.report.sections.published import agreement_sentence
from pgstrata.report.sections.query_causes import cause_lines
from pgstrata.report.sections.query_verdicts import query_table
from pgstrata.report.sections.step_verdicts import pair_table
from pgstrata.report.sections.summary import absolute_table, background_table, relative_table
from pgstrata.report.sections.times import times_table

WIDTH = 100

LEAST_TEXT = 20
"""Letters of a text that stay in one line on any screen."""

SMALL_TEXT = 11
"""Letters of what stands small below a text, `1,484 pairs of slices`, in one line, where a table fits the
screen only so."""

_GAP = 2

_STYLES = {
    "good": "green",
    "bad": "red",
    "even": "bright_black",
    "missed": "bright_black",
    "missing": "italic bright_black",
}


MOST_LOG_LINES = 5
MOST_QUERIES = 100
"""Rows of the table of queries; the report has all of them."""


def print_summary(results: RunSet, console: Console | None = None) -> None:
    """Prints the findings and the summary tables of a campaign, as plain text where there is no terminal."""
    console = console or Console(highlight=False)
    if not console.is_terminal:
        console.width = max(WIDTH, console.width)
    for block in findings(results):
        if isinstance(block, Prose):
            console.print(Text(block.text, _STYLES.get(block.mark, "")))
        elif isinstance(block, Findings):
            _findings(block, console)
    for line in _last_words(results):
        console.print(Text(line, "bright_black"), soft_wrap=True)
    for workload in results.workloads:
        if not workload.compared:
            continue
        if (queries := query_table(results, workload, MOST_QUERIES)) is not None:
            _table(queries, console)
        for title, text in cause_lines(results, workload):
            console.print()
            console.print(Text.assemble((title, "bold"), " ", text), soft_wrap=not console.is_terminal)
        decided = pair_table(results, workload, why=False)
        shown_tables = (
            *(
                (decided,)
                if decided
                else (absolute_table(results, workload), relative_table(results, workload))
            ),
            times_table(results, workload),
            background_table(results, workload),
        )
        for table in shown_tables:
            if table is not None:
                _table(table, console)
        if lines := curve_lines(results, workload):
            console.print()
        for line in lines:
            console.print(Text(line), soft_wrap=not console.is_terminal)
    if lines := _profile_lines(results):
        console.print()
    for line in lines:
        console.print(Text(line), soft_wrap=not console.is_terminal)
    if text := agreement_sentence(results):
        console.print()
        console.print(Text(text), soft_wrap=not console.is_terminal)
    for part in report_parts():
        for table in part.terminal_tables(results):
            _table(table, console)


def _last_words(results: RunSet) -> list[str]:
    """Returns the last lines of the server's log of the first run that failed and has any."""
    for run in results.failed:
        tail = run.record.error.log_tail.strip().splitlines() if run.record.error else []
        if tail:
            head = f"The server's last words ({run.variant}, {run.workload}):"
            return [head, *(f"  {harmless(line)}" for line in tail[-MOST_LOG_LINES:])]
    return []


def _profile_lines(results: RunSet) -> list[str]:
    """Returns what profiles prove of functions, of each variant but the base; nothing of steps in which they
    prove nothing."""
    return [
        f"{comparison.other}, {line}" if len(results.others) > 1 else line
        for comparison in results.comparisons
        for step in comparison.steps
        for line in profile_lines(step.step, [profile for profile in step.profiles if profile.proven])
    ]


def _findings(block: Findings, console: Console) -> None:
    if block.title:
        console.print(Text(block.title))
    for finding in block.findings:
        console.print(Text.assemble((finding.variant, "bold"), " ", finding.headline))


def _table(table: Table, console: Console) -> None:
    console.print()
    console.print(Text(table.title, "bold"))
    for index, (columns, rows) in enumerate(split(table, console.width)):
        if index:
            console.print()
        rich_table = RichTable(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0)
        )
        for column in columns:
            heading = Text(f"{column.title}\n{column.unit}" if column.unit else column.title)
            rich_table.add_column(heading, justify=column.align, no_wrap=True)
        for row in rows:
            style = "bold" if row.kind == "group" else "italic" if row.kind == "target" else ""
            rich_table.add_row(*map(_text, row.cells), style=style)
        screen = console.width
        # where not even one column of numbers fits the screen, the line is longer than it, never cut
        console.width = max(screen, _width(columns, rows))
        console.print(rich_table, crop=False)
        console.width = screen
    signs = [f"{SIGNS[mark]} {text}" for mark, text in table.legend if mark in SIGNS]
    if legend := ", ".join(signs):
        console.print(Text(legend, "bright_black"))


def _lines(cell: Cell) -> list[str]:
    """Returns a cell as lines: sign and number, then the range of the repeats where there is one."""
    first = f"{cell.sign} {cell.text}".strip().splitlines() or [""]
    return [*first, *cell.small.replace(" – ", "–").splitlines()]


def _text(cell: Cell) -> Text:
    lines = _lines(cell)
    quiet = len(cell.small.splitlines())
    text = Text("\n".join(lines[: len(lines) - quiet]), _STYLES.get(cell.mark, ""))
    for line in lines[len(lines) - quiet :]:
        text.append(f"\n{line}", "bright_black")
    return text


def _broken(table: Table, most: int) -> Table:
    """Returns the table with long texts broken into lines of at most `most` letters."""
    rows = [
        row
        if row.kind == "group"
        else replace(
            row,
            cells=[replace(c, text=_wrapped(c.text, most), small=_wrapped(c.small, most)) for c in row.cells],
        )
        for row in table.rows
    ]
    return replace(table, rows=rows)


def _with_short_notes(table: Table) -> Table:
    """Returns the table with what stands small below texts broken into short lines, between words."""

    def short(cell: Cell) -> Cell:
        text = cell.small.replace(" – ", "–")
        lines = textwrap.wrap(text, SMALL_TEXT, break_long_words=False, break_on_hyphens=False)
        return replace(cell, small="\n".join(lines))

    return replace(table, rows=[replace(row, cells=list(map(short, row.cells))) for row in table.rows])


def _wrapped(text: str, most: int) -> str:
    return "\n".join(textwrap.wrap(text, most, break_on_hyphens=False)) if len(text) > most else text


def split(table: Table, width: int) -> list[tuple[list[Column], list[Row]]]:
    """Splits the table into parts of at most `width` characters, each with the leading columns in front.

    A part has at least one column of numbers, however wide: numbers are never cut. The columns are dealt
    out evenly, so that no part is left with a single one where the others are full.
    """
    table = _broken(table, max(width // 3, LEAST_TEXT))
    parts = _deal(table, width, len(table.columns))
    if len(parts) > 1 and len(_deal(tight := _with_short_notes(table), width, len(table.columns))) == 1:
        table, parts = tight, [[]]
    most = -(-(len(table.columns) - table.lead) // len(parts))
    lead = list(range(table.lead))
    return [_part(table, lead + chosen) for chosen in _deal(table, width, most)]


def _deal(table: Table, width: int, most: int) -> list[list[int]]:
    """Returns which columns go into which part, at most `most` in each."""
    room = width - sum(_column_width(table, i) + _GAP for i in range(table.lead))
    parts: list[list[int]] = [[]]
    left = room
    for index in range(table.lead, len(table.columns)):
        needed = _column_width(table, index)
        if parts[-1] and (needed > left or len(parts[-1]) == most):
            parts.append([])
            left = room
        parts[-1].append(index)
        left -= needed + _GAP
    return parts


def _part(table: Table, chosen: list[int]) -> tuple[list[Column], list[Row]]:
    rows = [
        row if row.kind == "group" else Row([row.cells[i] for i in chosen], row.kind, row.variant)
        for row in table.rows
    ]
    return [table.columns[i] for i in chosen], rows


def _column_width(table: Table, index: int) -> int:
    column = table.columns[index]
    lines = [line for row in table.rows if row.kind != "group" for line in _lines(row.cells[index])]
    return max(cell_len(line) for line in (column.title, column.unit, *lines))


def _width(columns: list[Column], rows: list[Row]) -> int:
    part = Table("", "", columns, rows, "")
    return sum(_column_width(part, i) + _GAP for i in range(len(columns)))
