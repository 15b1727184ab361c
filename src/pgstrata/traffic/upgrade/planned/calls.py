"""A file of planner statistics: what `pg_dump --statistics-only` and `pgstrata export-statistics` write.

Both write calls of pg_restore_relation_stats and pg_restore_attribute_stats (PostgreSQL 18) and of
pg_restore_extended_stats (19) with literal arguments. The file is read as such calls and never executed:
another statement, another function and another argument are errors with their line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pgstrata import numbers
from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.traffic.upgrade.planned.extended_values import (
    Combination,
    CommonValues,
    read_dependencies,
    read_distinct,
    read_expressions,
    read_rows,
    write_dependencies,
    write_distinct,
)
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.sql import MOST_STATEMENT_BYTES, SqlStatement, items

_T = TypeVar("_T")

MOST_CALLS = 500_000
"""Tables, indexes and columns of a file."""

MOST_NAME_BYTES = 255

WRITE = (
    "pg_dump --statistics-only of PostgreSQL 18 writes one, pgstrata export-statistics any other version's"
)

RELATION: Mapping[str, str] = {
    "relpages": "integer",
    "reltuples": "real",
    "relallvisible": "integer",
    "relallfrozen": "integer",
}
"""Arguments that are statistics of a table or an index, and their types."""

COLUMN: Mapping[str, str] = {
    "null_frac": "real",
    "avg_width": "integer",
    "n_distinct": "real",
    "most_common_vals": "text",
    "most_common_freqs": "real[]",
    "histogram_bounds": "text",
    "correlation": "real",
    "most_common_elems": "text",
    "most_common_elem_freqs": "real[]",
    "elem_count_histogram": "real[]",
    "range_length_histogram": "text",
    "range_empty_frac": "real",
    "range_bounds_histogram": "text",
}
"""Arguments that are statistics of a column."""

EXTENDED: Mapping[str, str] = {
    "n_distinct": "pg_ndistinct",
    "dependencies": "pg_dependencies",
    "most_common_vals": "text[]",
    "most_common_freqs": "double precision[]",
    "most_common_base_freqs": "double precision[]",
    "exprs": "jsonb",
}
"""Arguments that are values of extended statistics."""

_CALL = re.compile(
    r"SELECT\s+(?:\*\s+FROM\s+)?(?:pg_catalog\.)?pg_restore_(relation|attribute|extended)_stats\s*\(", re.I
)
_ARGUMENT = re.compile(
    r"\s*(?:[eE]'(?P<escaped>(?:[^'\\]++|''|\\.)*+)'|'(?P<plain>(?:[^']++|'')*+)'|(?P<null>NULL))"
    r"\s*(?:::\s*[a-zA-Z_.]+(?:\s[a-z]+)?(?:\[\])?)?\s*(?P<end>[,)])\s*",
    re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)|''", re.DOTALL)
_HARMLESS = re.compile(
    r"SET\s+[a-z_]+\s*(?:=|TO)\s*(?:'[^']*'|[\w.-]+)\Z"
    r"|SELECT\s+pg_catalog\.set_config\('search_path',\s*'',\s*false\)\Z",
    re.I,
)
_ARRAY = re.compile(r"\{[^{}\"\\]*\}")
_BOOLEANS = {"t": True, "true": True, "on": True, "f": False, "false": False, "off": False}


@dataclass(frozen=True)
class RelationCall:
    """Statistics of a table or an index, by the names of `RELATION`."""

    schema: str
    name: str
    values: Mapping[str, str]
    line: int

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class ColumnCall:
    """Statistics of a column, by the names of `COLUMN`. column: its name, or its number where that is given,
    as for an expression of an index; inherited: of the table with those that inherit from it."""

    schema: str
    table: str
    column: str | int
    inherited: bool
    values: Mapping[str, str]
    line: int

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.schema}.{self.table}.{self.column}{' with its children' if self.inherited else ''}"


@dataclass(frozen=True)
class ExtendedCall:
    """Values of an object of CREATE STATISTICS. schema, table: what it is of; statistics_schema, statistics:
    its own name; expressions: their statistics by the names of `COLUMN`, None where there are none."""

    schema: str
    table: str
    statistics_schema: str
    statistics: str
    inherited: bool
    distinct: tuple[Combination, ...]
    dependencies: tuple[Combination, ...]
    common: CommonValues | None
    expressions: tuple[Mapping[str, str] | None, ...]
    line: int

    @property
    def title(self) -> str:
        """Its name for people."""
        return f"{self.statistics_schema}.{self.statistics}{' with its children' if self.inherited else ''}"

    @property
    def arguments(self) -> Mapping[str, str | list[float] | list[list[str | None]]]:
        """The values by the names of `EXTENDED`, arrays as lists."""
        arguments: dict[str, str | list[float] | list[list[str | None]]] = {}
        if self.distinct:
            arguments["n_distinct"] = write_distinct(self.distinct)
        if self.dependencies:
            arguments["dependencies"] = write_dependencies(self.dependencies)
        if self.common is not None:
            arguments["most_common_vals"] = [list(row) for row in self.common.rows]
            arguments["most_common_freqs"] = list(self.common.frequencies)
            arguments["most_common_base_freqs"] = list(self.common.base_frequencies)
        if self.expressions:
            arguments["exprs"] = json.dumps(self.expressions)
        return arguments


@dataclass(frozen=True)
class PlannerStatistics:
    """What a file holds."""

    relations: tuple[RelationCall, ...]
    columns: tuple[ColumnCall, ...]
    extended: tuple[ExtendedCall, ...] = ()


def read_statistics(file: Path) -> PlannerStatistics:
    """Reads a file of statistics. Raises UsageError, with its line, for what is none."""
    _check_file(file)
    relations: dict[tuple[str, str], RelationCall] = {}
    columns: dict[tuple[str, str, str | int, bool], ColumnCall] = {}
    extended: dict[tuple[str, str, bool], ExtendedCall] = {}
    for number, item in enumerate(items(file)):
        if number == MOST_CALLS:
            raise UsageError(f"{shown(file)} has more than {MOST_CALLS:,} statements", WRITE)
        if isinstance(item, SqlStatement) and _HARMLESS.match(item.text):
            continue
        call = _CALL.match(item.text)
        if call is None or not isinstance(item, SqlStatement):
            what = shown(" ".join(item.text.split()), 60)
            raise _Damaged(file, item.line, f"{what} is no call that restores statistics")
        values = _arguments(file, item, call.end())
        kind = call[1].lower()
        if kind == "relation":
            relation_call = RelationCall(
                *_name(file, item, values), _of(RELATION, file, item, values), item.line
            )
            relations[relation_call.schema, relation_call.name] = relation_call
        elif kind == "attribute":
            column = _column(file, item, values)
            columns[column.schema, column.table, column.column, column.inherited] = column
        else:
            object_ = _extended(file, item, values)
            extended[object_.statistics_schema, object_.statistics, object_.inherited] = object_
    if not relations and not columns:
        raise UsageError(f"{shown(file)} holds no statistics: the server it is of was never analyzed", WRITE)
    return PlannerStatistics(tuple(relations.values()), tuple(columns.values()), tuple(extended.values()))


def _check_file(file: Path) -> None:
    digest_of(file)  # which says what is wrong with a file that is none
    if not file.is_file():
        raise UsageError(f"{shown(file)} is a folder", f"statistics are a file of SQL: {WRITE}")
    if file.stat().st_size > MOST_STATEMENT_BYTES:
        most = numbers.size(MOST_STATEMENT_BYTES)
        raise UsageError(
            f"{shown(file)} has more than {most} of statistics",
            "export the schemas that matter: pg_dump --statistics-only -n NAME",
        )
    with file.open("rb") as opened:
        if opened.read(5) == b"PGDMP":
            raise UsageError(
                f"{shown(file)} is an archive of pg_dump",
                "write the statistics as SQL: pg_dump without -F, or pg_restore -f stats.sql",
            )


class _Damaged(UsageError):
    """What is wrong with one statement of a file."""

    def __init__(self, file: Path, line: int, what: str) -> None:
        super().__init__(f"{shown(file)}, line {line}: {what}", WRITE)


def _arguments(file: Path, item: SqlStatement, at: int) -> dict[str, str]:
    """Returns the arguments of a call by their names; those that are NULL are left out."""
    arguments: list[str | None] = []
    end = ","
    while end == "," and (match := _ARGUMENT.match(item.text, at)):
        arguments.append(_text(file, item, match))
        at, end = match.end(), match["end"]
    if end != ")" or at != len(item.text):
        line = item.line + item.text.count("\n", 0, at)
        raise _Damaged(file, line, "the arguments of a call are not literals between commas")
    if len(arguments) % 2 or None in arguments[::2]:
        raise _Damaged(file, item.line, "the arguments of a call are not pairs of a name and a value")
    pairs = zip(arguments[::2], arguments[1::2], strict=True)
    return {str(name): value for name, value in pairs if value is not None}


def _text(file: Path, item: SqlStatement, match: re.Match[str]) -> str | None:
    if match["null"] is not None:
        return None
    if match["plain"] is not None:
        return match["plain"].replace("''", "'")

    def of(escape: re.Match[str]) -> str:
        if escape[1] not in (None, "\\", "'"):
            raise _Damaged(file, item.line, f"a text holds the escape {shown(escape[0])}")
        return escape[1] or "'"

    return _ESCAPED.sub(of, match["escaped"])


def _name(
    file: Path,
    item: SqlStatement,
    values: dict[str, str],
    schema: str = "schemaname",
    relation: str = "relname",
) -> tuple[str, str]:
    names = values.pop(schema, ""), values.pop(relation, "")
    for key, name in zip((schema, relation), names, strict=True):
        if not 0 < len(name.encode()) <= MOST_NAME_BYTES:
            raise _Damaged(file, item.line, f"a call has no `{key}`, or none that is a name")
    return names


def _column(file: Path, item: SqlStatement, values: dict[str, str]) -> ColumnCall:
    schema, table = _name(file, item, values)
    name, number = values.pop("attname", None), values.pop("attnum", None)
    column: str | int
    if name is not None and number is None and 0 < len(name.encode()) <= MOST_NAME_BYTES:
        column = name
    elif name is None and number is not None and re.fullmatch("[0-9]{1,5}", number):
        column = int(number)
    else:
        raise _Damaged(file, item.line, "a call needs one of `attname` and `attnum`")
    inherited = _inherited(file, item, values)
    return ColumnCall(schema, table, column, inherited, _of(COLUMN, file, item, values), item.line)


def _inherited(file: Path, item: SqlStatement, values: dict[str, str]) -> bool:
    inherited = _BOOLEANS.get(values.pop("inherited", "").lower())
    if inherited is None:
        raise _Damaged(file, item.line, "`inherited` is neither true nor false")
    return inherited


def _extended(file: Path, item: SqlStatement, values: dict[str, str]) -> ExtendedCall:
    names = _name(file, item, values)
    own_names = _name(file, item, values, "statistics_schemaname", "statistics_name")
    inherited = _inherited(file, item, values)
    texts = _of(EXTENDED, file, item, values)

    def read(name: str, reader: Callable[[str], tuple[_T, ...]]) -> tuple[_T, ...]:
        try:
            return reader(texts[name]) if name in texts else ()
        except ValueError as error:
            raise _Damaged(file, item.line, f"{name}: {error}") from error

    rows = read("most_common_vals", read_rows)
    frequencies, base = (
        tuple(map(float, _cells(texts.get(name, "{}"))))
        for name in ("most_common_freqs", "most_common_base_freqs")
    )
    if not len(rows) == len(frequencies) == len(base):
        raise _Damaged(file, item.line, "most common values and their frequencies are not equally many")
    common = CommonValues(rows, frequencies, base) if rows else None
    return ExtendedCall(
        *names,
        *own_names,
        inherited,
        read("n_distinct", read_distinct),
        read("dependencies", read_dependencies),
        common,
        read("exprs", lambda text: read_expressions(text, _OF_COLUMN)),
        item.line,
    )


def _of(
    known: Mapping[str, str], file: Path, item: SqlStatement, values: Mapping[str, str]
) -> Mapping[str, str]:
    """Returns the statistics among the arguments, each checked; `version`, the server they are of, is left
    out."""
    for name, value in values.items():
        if name == "version":
            continue
        if name not in known:
            raise _Damaged(file, item.line, f"{shown(name, 60)} is no statistic that pgstrata knows")
        if not _CHECKS[known[name]](value):
            raise _Damaged(file, item.line, f"{name} is no {known[name]}: {shown(value, 40)}")
    return {name: value for name, value in values.items() if name != "version"}


def _is_integer(text: str) -> bool:
    return re.fullmatch("-?[0-9]{1,10}", text) is not None and -(2**31) <= int(text) < 2**31


def _is_real(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and "_" not in text
    except ValueError:
        return False


def _is_list(text: str) -> bool:
    return _ARRAY.fullmatch(text) is not None and all(map(_is_real, _cells(text)))


def _cells(text: str) -> Iterator[str]:
    return (cell for cell in text[1:-1].split(",") if cell.strip() or text != "{}")


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "integer": _is_integer,
    "real": _is_real,
    "real[]": _is_list,
    "text": lambda text: text.startswith(("{", "[")) and text.endswith("}"),
    "double precision[]": _is_list,
    # The rest is checked by what reads it.
    "text[]": lambda text: True,
    "pg_ndistinct": lambda text: True,
    "pg_dependencies": lambda text: True,
    "jsonb": lambda text: True,
}
_OF_COLUMN: Mapping[str, Callable[[str], bool]] = {name: _CHECKS[type_] for name, type_ in COLUMN.items()}


__all__ = [
    "COLUMN",
    "RELATION",
    "ColumnCall",
    "ExtendedCall",
    "PlannerStatistics",
    "RelationCall",
    "read_statistics",
]
