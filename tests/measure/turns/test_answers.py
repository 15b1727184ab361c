"""Answers of a replay's statements, on servers that are made for it: one ends while it is asked again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgstrata.driver.events import StatementDone
from pgstrata.errors import DriverError, PgstrataError, ServerError
from pgstrata.judge.statements import Executions, Rounds
from pgstrata.measure.turns.answers import compare_answers
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.store.record import AnswerRecord
from pgstrata.store.statement import Statement
from pgstrata.workload.core.language import AloneStatement, Script, Sql, Step
from pgstrata.workload.core.queries import query_step

STATEMENT = Statement(1, "#1 SELECT a FROM t")


class Side:
    """A participant that answers with these lines, and whose server ends at the execution of this number."""

    def __init__(self, label: str, lines: bytes, folder: Path, ends_at: int | None = None) -> None:
        self.label = label
        self.error: PgstrataError | None = None
        self.answers: list[AnswerRecord] = []
        self._lines, self._folder, self._ends_at, self._asked = lines, folder / label, ends_at, 0
        self._folder.mkdir()
        self.measurement = self
        self.run = SimpleNamespace(progress=SimpleNamespace(say=lambda text: None))

    def rounds(self) -> Rounds:
        return {("", 1, 1): {STATEMENT: Executions(1, 0, 0.001)}}

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        yield self._folder

    def execute(self, step: Step, rows: Path) -> SimpleNamespace:
        self._asked += 1
        if self._asked == self._ends_at:
            raise DriverError("server closed the connection unexpectedly")
        (script,) = step.roles[0].scripts
        assert isinstance(script, Script)
        names = [op.name for op in script.ops if isinstance(op, Sql)]
        for number in range(len(names)):
            (rows / f"{number}.tsv").write_bytes(self._lines)
        done = [
            StatementDone(
                role="query",
                client=0,
                name=name,
                start=0.0,
                seconds=0.001,
                planning_seconds=None,
                rows=2,
                error=None,
                result=f"{number}.tsv",
            )
            for number, name in enumerate(names)
        ]
        return SimpleNamespace(statements=done)

    def accepts_connections(self) -> None:
        raise ServerError("the server has ended")


class Sides:
    """The group of these participants; one whose server has ended leaves."""

    def __init__(self, *sides: Side) -> None:
        self._sides = sides
        self.interrupts = SimpleNamespace(check=lambda: None)

    @property
    def here(self) -> list[Side]:
        return [side for side in self._sides if side.error is None]

    def attempt(self, side: Any, work: Callable[[Any], object]) -> None:
        try:
            side.accepts_connections()
        except PgstrataError as error:
            side.error = error


def alone(numbers: Mapping[int, float], folder: Path, text: str) -> dict[int, AloneStatement]:
    return {number: AloneStatement(None, number, texts=(text,)) for number in numbers}


@pytest.mark.parametrize(
    ("text", "lines", "ends_at", "same"),
    [
        # Rows differ, so others are asked again with other plans.
        ("SELECT a FROM t", (b"1\n2\n", b"1\n2\n", b"1\n3\n"), 1, False),
        # The order of rows differs, so others are asked for it after that.
        ("SELECT a FROM t ORDER BY b", (b"1\n2\n", b"2\n1\n", b"1\n2\n"), 2, True),
    ],
)
def test_a_server_that_ends_while_it_is_asked_leaves_the_others(
    text: str, lines: tuple[bytes, bytes, bytes], ends_at: int, same: bool, tmp_path: Path
) -> None:
    base, other, third = (
        Side(label, own_lines, tmp_path, ends_at if label == "new" else None)
        for label, own_lines in zip(("old", "new", "third"), lines, strict=True)
    )
    step = query_step("replay", [[Sql.verbatim("SELECT 1", name="q")]], 30.0, group="g", measured=True)
    step = replace(step, alone=lambda numbers, folder: alone(numbers, folder, text))
    compare_answers(cast(Group, Sides(base, other, third)), cast(Participant, base), step)
    assert other.error is not None and other.answers == []
    (ours,), (theirs,) = base.answers, third.answers
    assert ours.digest is not None and (ours.digest == theirs.digest) == same
