"""Values of extended statistics are read from text as they were meant, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.traffic.upgrade.planned.extended_values import (
    Combination,
    read_dependencies,
    read_distinct,
    read_expressions,
    read_rows,
    read_shown,
    write_dependencies,
    write_distinct,
)

CHECKS: dict[str, Callable[[str], bool]] = {"null_frac": str.isdigit, "histogram_bounds": bool}

NUMBERS = st.integers(-8, 1600).filter(bool)
ATTRIBUTES = st.lists(NUMBERS, min_size=2, max_size=8, unique=True).map(tuple)
CELLS = st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)


def written(rows: list[tuple[str | None, ...]]) -> str:
    """As array_out of the server writes arrays of text: quotes where it must."""

    def cell(text: str | None) -> str:
        if text is None:
            return "NULL"
        if text and text.upper() != "NULL" and not set('{}",\\ \t\n\r\v\f') & set(text):
            return text
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return "{" + ",".join("{" + ",".join(map(cell, row)) + "}" for row in rows) + "}"


@given(st.integers(1, 8).flatmap(lambda n: st.lists(st.tuples(*[CELLS] * n), min_size=1, max_size=5)))
def test_every_combination_of_values_comes_back(rows: list[tuple[str | None, ...]]) -> None:
    assert read_rows(written(rows)) == tuple(rows)


@given(st.lists(st.builds(Combination, ATTRIBUTES, st.integers(1, 2**62)), min_size=1, max_size=9))
def test_every_number_of_distinct_values_comes_back(combinations: list[Combination]) -> None:
    assert read_distinct(write_distinct(combinations)) == tuple(combinations)
    before_19 = json.dumps({", ".join(map(str, c.attributes)): c.value for c in combinations})
    if len({c.attributes for c in combinations}) == len(combinations):
        assert read_shown(before_19) == tuple(combinations)


@given(st.lists(st.builds(Combination, ATTRIBUTES, st.floats(0, 1)), min_size=1, max_size=9))
def test_every_dependency_comes_back(combinations: list[Combination]) -> None:
    assert read_dependencies(write_dependencies(combinations)) == tuple(combinations)


def test_what_servers_before_19_show() -> None:
    assert read_shown('{"3 => 4": 1.000000, "3, 6 => -1": 0.25}') == (
        Combination((3, 4), 1.0),
        Combination((3, 6, -1), 0.25),
    )


@pytest.mark.parametrize("read", [read_distinct, read_dependencies, read_rows, read_shown])
@given(text=st.text(st.sampled_from('[]{}",:\\ \n019e.-NULattributesdg'), max_size=80))
def test_any_text_is_a_value_or_an_error(read: Callable[[str], Any], text: str) -> None:
    try:
        read(text)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (read_distinct, "[]"),
        (read_distinct, '[{"attributes": [1, 1], "ndistinct": 2}]'),
        (read_distinct, '[{"attributes": [1], "ndistinct": 2}]'),
        (read_distinct, '[{"attributes": [1, 0], "ndistinct": 2}]'),
        (read_distinct, '[{"attributes": [1, 1601], "ndistinct": 2}]'),
        (read_distinct, '[{"attributes": [1, true], "ndistinct": 2}]'),
        (read_distinct, '[{"attributes": [1, 2], "ndistinct": 2.5}]'),
        (read_distinct, '[{"attributes": [1, 2], "ndistinct": 2, "more": 1}]'),
        (read_distinct, '[{"attributes": [1, 2, 3, 4, 5, 6, 7, 8, 9], "ndistinct": 2}]'),
        (read_distinct, "[" * 100_000),
        (read_distinct, json.dumps([{"attributes": [1, 2], "ndistinct": 2}] * 1017)),
        (read_dependencies, '[{"attributes": [1], "dependency": 1, "degree": 1.0}]'),
        (read_dependencies, '[{"attributes": [1], "dependency": 2, "degree": NaN}]'),
        (read_dependencies, '[{"attributes": [1], "dependency": 2, "degree": 1e999}]'),
        (read_dependencies, '[{"attributes": [1], "dependency": 2, "degree": "1"}]'),
        (read_rows, "{}"),
        (read_rows, "{{1,2},{1}}"),
        (read_rows, "{{1,2}}x"),
        (read_rows, "{{1,2},}"),
        (read_rows, '{{1,"2}}'),
        (read_rows, "{{1,2,3,4,5,6,7,8,9}}"),
        (read_rows, "{" + ",".join(["{1,2}"] * 10_001) + "}"),
        (lambda text: read_expressions(text, CHECKS), '{"null_frac": "1"}'),
        (lambda text: read_expressions(text, CHECKS), '[{"null_frac": "x"}]'),
        (lambda text: read_expressions(text, CHECKS), '[{"null_frac": 1}]'),
        (lambda text: read_expressions(text, CHECKS), '[{"null_fraction": "1"}]'),
        (lambda text: read_expressions(text, CHECKS), "[1]"),
        (
            lambda text: read_expressions(text, CHECKS),
            "[null, null, null, null, null, null, null, null, null]",
        ),
    ],
)
def test_what_is_none(read: Callable[[str], Any], text: str) -> None:
    with pytest.raises(ValueError):
        read(text)


def test_expressions() -> None:
    text = '[{"null_frac": "1", "histogram_bounds": null}, null]'
    assert read_expressions(text, CHECKS) == ({"null_frac": "1"}, None)
