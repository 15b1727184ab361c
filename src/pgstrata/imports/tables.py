"""Tables of the field's scripts (mdcallag/mytools): `qps.abs`, `qps.rel`, `o.met` and `mrg`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pgstrata.imports.model import FormatError, Found, Lines, number
from pgstrata.numbers import counted
from pgstrata.store.imported import ImportedStep

_BASE = "Relative to: "
_NAME = re.compile(r"col-(?P<at>\d{1,3}) : (?P<name>.+)$")
_HEAD = re.compile(r"col-1(?:\tcol-\d{1,3})*$")
_MET = "cpu/o\t\tcs/o\tr/o\trKB/o\twKB/o\to/s\tdbms"
_COSTS = ("cpu/o", "cs/o", "r/o", "rKB/o", "wKB/o")
_CLIENTS = re.compile(r"\.dop(\d{1,6})$")
_MRG = re.compile(r"ips\tqps\t(?:[a-z0-9]+\t)+(?:maxop\t)(?:[a-z0-9]+\t)*tag$")
_QUERIES = re.compile(r"(?:mrg\.)?q")
_NO_COSTS = {"ips", "qps", "tag"}


def fits_columns(file: Lines) -> bool:
    """Returns whether the file is a `qps.abs` or `qps.rel` table."""
    return any(_NAME.match(line) for line in file.lines[:2])


def read_columns(file: Lines) -> list[Found]:
    """Returns a step for each row and column. Raises FormatError for rows of another length."""
    file.check_end()
    names, base, begin = _names(file)
    unit = f"relative to {base}" if base else "queries/s"
    entries: list[Found] = []
    seen: set[str] = set()
    for at in range(begin, len(file.lines)):
        line = file.lines[at]
        if not line or _HEAD.match(line) or line.startswith("- "):
            continue
        *cells, step = line.split("\t")
        if len(cells) != len(names) or not step.strip():
            raise FormatError(
                f"{counted(len(cells), 'number')} and a name, where the head names "
                f"{counted(len(names), 'column')}",
                at + 1,
            )
        if step in seen:
            raise FormatError(f"a second row of {step}", at + 1)
        seen.add(step)
        variants = [(base, "1")] if base else []
        for variant, cell in [*variants, *zip(names, cells, strict=True)]:
            if cell:
                rate = number(cell, step, at + 1)
                entries.append(
                    Found(ImportedStep(name=step, unit=unit, rate=rate), "sysbench", "mytools", variant)
                )
    if not entries:
        raise FormatError("the table has no rows")
    return entries


def _names(file: Lines) -> tuple[list[str], str, int]:
    """Returns the names of the columns, the base of ratios, and where the rows begin."""
    base, begin = "", 0
    if file.lines[0].startswith(_BASE):
        base, begin = file.lines[0].removeprefix(_BASE).strip(), 1
    names: list[str] = []
    while begin < len(file.lines) and (match := _NAME.match(file.lines[begin])):
        if int(match["at"]) != len(names) + 1:
            raise FormatError("columns are not named in their order", begin + 1)
        names.append(match["name"].strip())
        begin += 1
    if len({*names, base}) != len(names) + 1 or not all(names):
        raise FormatError("columns have no names of their own")
    return names, base, begin


def fits_met(file: Lines) -> bool:
    """Returns whether the file is an `o.met` table."""
    return _MET in file.lines


def read_met(file: Lines) -> list[Found]:
    """Returns a step for each absolute row. Raises FormatError."""
    file.check_end()
    entries: list[Found] = []
    for step, begin, several in _blocks(file):
        match = _CLIENTS.search(step)
        name = _CLIENTS.sub("", step).replace("sb.met.", "").replace("sb.prepare.met.", "")
        at = begin
        while at < len(file.lines) and (line := file.lines[at]) and not line.startswith("---"):
            cells = [cell for cell in line.split("\t") if cell]
            if len(cells) != 7:
                raise FormatError(
                    f"{len(cells)} cells where {len(_COSTS) + 2} belong: is it cut off?", at + 1
                )
            figures = dict(zip(_COSTS, (number(c, "a cost", at + 1) for c in cells[:5]), strict=True))
            imported_step = ImportedStep(
                name=name,
                unit="queries/s",
                rate=number(cells[5], "o/s", at + 1),
                clients=max(1, int(match[1])) if match and not several else None,
                figures=figures,
            )
            entries.append(Found(imported_step, "sysbench", "mytools", cells[6]))
            at += 1
        if at == begin:
            raise FormatError(f"no rows of {step}", begin)
    return entries


def _blocks(file: Lines) -> Iterator[tuple[str, int, bool]]:
    """Yields each step, the place of its first absolute row, and whether rows are of other numbers of clients
    than its name says."""
    step, at, several = "", 0, False
    while at < len(file.lines):
        line = file.lines[at]
        if line.startswith("sb."):
            step, several = line.strip(), False
        several = several or line.startswith("base1 ")
        if line == "--- absolute":
            if not step or file.lines[at + 1 : at + 2] != [_MET]:
                raise FormatError("a block without the name of its step, or with other columns", at + 1)
            yield step, at + 2, several
            step = ""
        at += 1


def fits_mrg(file: Lines) -> bool:
    """Returns whether the file is a `mrg` table of the Insert Benchmark."""
    return bool(file.lines and _MRG.match(file.lines[0]))


def read_mrg(file: Lines) -> list[Found]:
    """Returns a step for each row; the step's name is that of the file. Raises FormatError."""
    file.check_end()
    keys = file.lines[0].split("\t")
    name = file.name.removeprefix("mrg.")
    rate = "qps" if _QUERIES.match(file.name) else "ips"
    entries: list[Found] = []
    for at, line in enumerate(file.lines[1:], 2):
        if line in ("", "-"):
            continue
        cells = line.split("\t")
        if len(cells) != len(keys):
            raise FormatError(f"{len(cells)} cells where {len(keys)} belong: is it cut off?", at)
        values = dict(zip(keys, cells, strict=True))
        figures = {key: number(value, key, at) for key, value in values.items() if key not in _NO_COSTS}
        imported_step = ImportedStep(
            name=name,
            unit="queries/s" if rate == "qps" else "inserts/s",
            rate=number(values[rate], rate, at),
            figures=figures,
        )
        entries.append(Found(imported_step, "insert", "mytools", _tag(values["tag"], entries, at)))
    if not entries:
        raise FormatError("the table has no rows")
    return entries


def _tag(tag: str, entries: Sequence[Found], line: int) -> str:
    if not tag or any(entry.variant == tag for entry in entries):
        raise FormatError(f"a row without a tag of its own: {tag or 'none'}", line)
    return tag


__all__ = ["fits_columns", "fits_met", "fits_mrg", "read_columns", "read_met", "read_mrg"]
