"""Kinds of turns: each has its files, and only the place that chooses compares their names."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import pgstrata
from pgstrata.measure.turns.table import MEASURES
from pgstrata.store.record import TurnKind
from pgstrata.turns.table import KINDS, kind_of

SOURCE = Path(pgstrata.__file__).parent

NAMES = {*get_args(TurnKind), "interleaved"}

MAY_COMPARE = {SOURCE / "campaign/plan/order.py"}
"""It chooses the kind of each step."""


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields line and text of every comparison with the name of a kind of turns or with `interleaved`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and "evidence" not in ast.unparse(node.left):
            literals = [part for side in (node.left, *node.comparators) for part in ast.walk(side)]
        elif isinstance(node, ast.MatchValue):
            literals = [node.value]
        else:
            continue
        if any(isinstance(part, ast.Constant) and part.value in NAMES for part in literals):
            yield node.lineno, ast.unparse(node)


@pytest.mark.parametrize("kind", get_args(TurnKind))
def test_a_kind_has_two_files_and_a_line_in_both_tables(kind: TurnKind) -> None:
    words = importlib.import_module(f"pgstrata.turns.{kind}")
    measuring = importlib.import_module(f"pgstrata.measure.turns.{kind}")
    assert KINDS[kind].name == kind
    assert type(KINDS[kind]).__module__ == words.__name__
    assert MEASURES[kind] is measuring.measure


def test_steps_without_turns_are_measured_too() -> None:
    assert MEASURES.keys() - KINDS.keys() == {"once", "queries"}


def test_a_record_without_a_kind_is_read_by_what_its_step_does() -> None:
    assert kind_of(None).name == "slices"
    assert kind_of(None, reads_only=False).name == "rounds"
    assert kind_of("frozen", reads_only=False).name == "frozen"


def test_no_other_module_compares_names_of_kinds() -> None:
    seen = {}
    for file in SOURCE.rglob("*.py"):
        if file in MAY_COMPARE or file.is_relative_to(SOURCE / "campaign/file"):
            continue
        for line, text in compared(ast.parse(file.read_text())):
            seen[f"{file.relative_to(SOURCE)}:{line}"] = text
    assert not seen


def test_a_comparison_is_seen() -> None:
    tree = ast.parse('a.turns == "frozen"; b in ("rounds", "x"); match(c)\nmatch d:\n  case "windows": pass')
    assert [line for line, _ in compared(tree)] == [1, 1, 3]
    assert not list(compared(ast.parse('e.turns = "frozen"; f = {"order": "interleaved"}; g == "x"')))
