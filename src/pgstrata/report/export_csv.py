"""The tables of a report as CSV: one file per kind of table, values unrounded, units in the header."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from pgstrata.page.blocks import Cell, Table

# Spreadsheets run what begins like this as a formula (OWASP, "CSV Injection"): such text gets an
# apostrophe in front. Numbers are written by us and need none.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def plain(value: float | int | str | bool | None) -> str:
    """Returns a value as a CSV cell, safe to open in a spreadsheet."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return "'" + value if value.startswith(_FORMULA) else value


def header(table: Table) -> list[str]:
    """Returns the names of the columns: keys first, units in brackets, `marks` last."""
    names = [name for name, _ in table.keys]
    names += [f"{c.key} [{c.unit}]" if c.unit else c.key for c in table.columns]
    return [plain(name) for name in [*names, "marks"]]


def _mark(title: str, cell: Cell) -> str:
    if cell.mark == "missed":
        return f"{title}: {cell.note or 'SLA missed'}"
    if cell.mark in ("good", "bad", "same"):
        return f"{title}: {cell.note or cell.mark}"
    if cell.mark == "missing":
        return f"{title}: {cell.note or 'no data'}"
    return ""


def write_csv(tables: Iterable[Table]) -> dict[str, str]:
    """Returns file name → text. Tables of one name share a file; a table whose columns differ from the first
    of its name gives the file more columns at its end, never shifted ones."""
    grouped: dict[str, list[Table]] = {}
    for table in tables:
        grouped.setdefault(table.name, []).append(table)
    return {f"{name}.csv": _file(parts) for name, parts in grouped.items()}


def _file(tables: list[Table]) -> str:
    names: list[str] = []
    for table in tables:
        names += [name for name in header(table)[:-1] if name not in names]
    names.append("marks")
    out = io.StringIO()
    writer = csv.DictWriter(out, names, restval="", lineterminator="\r\n")  # RFC 4180
    writer.writeheader()
    for table in tables:
        columns = header(table)
        keys = [plain(value) for _, value in table.keys]
        for row in table.rows:
            if row.kind == "group":
                continue
            marks = [_mark(c.title, cell) for c, cell in zip(table.columns, row.cells, strict=True)]
            cells = [plain(cell.value) for cell in row.cells]
            marked = plain("; ".join(mark for mark in marks if mark))
            writer.writerow(dict(zip(columns, [*keys, *cells, marked], strict=True)))
    return out.getvalue()
