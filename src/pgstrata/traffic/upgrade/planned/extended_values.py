"""Values of extended statistics (CREATE STATISTICS) as pg_restore_extended_stats of PostgreSQL 19 takes them.

Names and forms of the arguments are those of extended_stats_funcs.c, mvdistinct.c and dependencies.c of the
source. Everything that reads a text raises ValueError with what is wrong.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from pgstrata import numbers

MOST_DIMENSIONS = 8
"""Columns and expressions of an object: STATS_MAX_DIMENSIONS of the source."""

MOST_ITEMS = 10_000
"""Combinations of common values: STATS_MCVLIST_MAX_ITEMS of the source."""

MOST_COMBINATIONS = 1_016
"""Dependencies among eight columns, of which there are more than sets of columns."""

MOST_COLUMNS = 1_600

_BLANK = r" \t\n\r\v\f"
_ELEMENT = rf'"(?:[^"\\]|\\.)*"|[^{{}}",\\{_BLANK}]+'
_ROW = re.compile(rf"\{{((?:{_ELEMENT})(?:,(?:{_ELEMENT}))*)\}}(,|\}}\Z)", re.DOTALL)
_CELL = re.compile(_ELEMENT, re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


@dataclass(frozen=True)
class Combination:
    """A number that belongs to several columns.

    attributes: numbers of columns, below zero of expressions; of a dependency the last is the column that the
    others decide. value: how many distinct values they have, or the degree of the dependency.
    """

    attributes: tuple[int, ...]
    value: float


@dataclass(frozen=True)
class CommonValues:
    """The most common combinations of values. rows: in the order of columns and expressions, None for null;
    base_frequencies: what they would be if columns were independent."""

    rows: tuple[tuple[str | None, ...], ...]
    frequencies: tuple[float, ...]
    base_frequencies: tuple[float, ...]


def read_distinct(text: str) -> tuple[Combination, ...]:
    """Returns the numbers of distinct values of sets of columns."""
    return tuple(
        Combination(_attributes(entry["attributes"], 2), _integer(entry["ndistinct"]))
        for entry in _entries(text, {"attributes", "ndistinct"})
    )


def read_dependencies(text: str) -> tuple[Combination, ...]:
    """Returns the functional dependencies."""
    return tuple(
        Combination(
            _attributes([*_list(entry["attributes"]), entry["dependency"]], 2), _number(entry["degree"])
        )
        for entry in _entries(text, {"attributes", "dependency", "degree"})
    )


def write_distinct(combinations: Sequence[Combination]) -> str:
    """Returns the numbers of distinct values as the input function of pg_ndistinct takes them."""
    return json.dumps([{"attributes": c.attributes, "ndistinct": int(c.value)} for c in combinations])


def write_dependencies(combinations: Sequence[Combination]) -> str:
    """Returns the dependencies as the input function of pg_dependencies takes them."""
    return json.dumps(
        [
            {"attributes": c.attributes[:-1], "dependency": c.attributes[-1], "degree": c.value}
            for c in combinations
        ]
    )


def read_shown(text: str) -> tuple[Combination, ...]:
    """Reads what servers before 19 show of pg_ndistinct (`{"1, 2": 3}`) and pg_dependencies
    (`{"1, 2 => 3": 1.000000}`)."""
    pairs = _json(text, object_pairs_hook=list)
    if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
        raise ValueError("it is no object of JSON")
    return tuple(
        Combination(tuple(int(part) for part in re.split(", | => ", key)), _number(value))
        for key, value in pairs
    )


def read_rows(text: str) -> tuple[tuple[str | None, ...], ...]:
    """Reads an array of arrays of text, each as long as the first."""
    rows: list[tuple[str | None, ...]] = []
    at, end = 1, ","
    while end == "," and len(rows) < MOST_ITEMS and (match := _ROW.match(text, at)):
        row = tuple(map(_cell, _CELL.findall(match[1])))
        if len(row) > MOST_DIMENSIONS or (rows and len(row) != len(rows[0])):
            raise ValueError(f"combination {len(rows) + 1} has {len(row)} values")
        rows.append(row)
        at, end = match.end(), match[2]
    if not text.startswith("{") or end == ",":
        raise ValueError(f"it is no array of up to {MOST_ITEMS:,} arrays of values")
    return tuple(rows)


def _cell(text: str) -> str | None:
    if text.startswith('"'):
        return _ESCAPED.sub(r"\1", text[1:-1])
    return None if text.upper() == "NULL" else text


def read_expressions(
    text: str, checks: Mapping[str, Callable[[str], bool]]
) -> tuple[Mapping[str, str] | None, ...]:
    """Reads the statistics of expressions, None for one that has none. checks: whether a text is the value of
    a statistic, by its name."""
    expressions = _list(_json(text))
    if len(expressions) > MOST_DIMENSIONS:
        raise ValueError(f"there are {len(expressions)} expressions")
    return tuple(
        None if expression is None else _expression(expression, checks) for expression in expressions
    )


def _expression(expression: Any, checks: Mapping[str, Callable[[str], bool]]) -> Mapping[str, str]:
    if not isinstance(expression, dict):
        raise ValueError("an expression is no object")
    statistics = {name: value for name, value in expression.items() if value is not None}
    for name, value in statistics.items():
        if name not in checks:
            raise ValueError(f"an expression has a statistic that pgstrata does not know: {name[:40]}")
        if not isinstance(value, str) or not checks[name](value):
            raise ValueError(f"{name} of an expression is none")
    return statistics


def _entries(text: str, keys: set[str]) -> Iterator[Mapping[str, Any]]:
    entries = _list(_json(text))
    if not 0 < len(entries) <= MOST_COMBINATIONS:
        raise ValueError(f"it has {numbers.counted(len(entries), 'combination')}")
    for entry in entries:
        if not isinstance(entry, dict) or entry.keys() != keys:
            raise ValueError(f"a combination has not the keys {', '.join(sorted(keys))}")
        yield entry


def _json(text: str, **options: Any) -> Any:
    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is no number")

    try:
        return json.loads(text, parse_constant=refuse, **options)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("it is no array of JSON")
    return value


def _attributes(value: Any, least: int) -> tuple[int, ...]:
    numbers = tuple(map(_integer, _list(value)))
    if (
        not least <= len(set(numbers)) == len(numbers) <= MOST_DIMENSIONS
        or 0 in numbers
        or not all(-MOST_DIMENSIONS <= number <= MOST_COLUMNS for number in numbers)
    ):
        raise ValueError("a combination has no numbers of columns")
    return numbers


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**63:
        raise ValueError("a number is no integer")
    return value


def _number(value: Any) -> float:
    if isinstance(value, int):
        return _integer(value)
    if not isinstance(value, float) or not math.isfinite(value):
        raise ValueError("a number is none")
    return value


__all__ = [
    "Combination",
    "CommonValues",
    "read_dependencies",
    "read_distinct",
    "read_expressions",
    "read_rows",
    "read_shown",
    "write_dependencies",
    "write_distinct",
]
