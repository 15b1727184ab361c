"""Executions of a replay that found no row: many where the data is older or newer than the log, or its keys
are others."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pgstrata import numbers
from pgstrata.page.blocks import Column, Row, Table, words
from pgstrata.page.results import StepResults
from pgstrata.store.statement import Statement
from pgstrata.traffic.replay.blocks import per_round
from pgstrata.traffic.replay.judged import replays_of, rounds_in
from pgstrata.traffic.replay.totals import totals_of

MOST_ROWS = 100

_FINDS = re.compile(r"(?:SELECT|UPDATE|DELETE|WITH|MERGE|TABLE)\b", re.IGNORECASE)


def finds(statement: Statement) -> bool:
    """Returns whether a statement looks for rows, and so may find none."""
    return _FINDS.match(statement.text) is not None


@dataclass(frozen=True)
class Emptiness:
    """Of the statements of a replay on one variant that look for rows, in one round. asked: executions of
    each that went well; found_nothing: those of them that found no row, of statements that had such;
    seconds: of all executions of each."""

    variant: str
    asked: dict[Statement, float]
    found_nothing: dict[Statement, float]
    seconds: dict[Statement, float]

    @property
    def all_asked(self) -> float:
        """Executions of a round."""
        return sum(self.asked.values())

    @property
    def all_empty(self) -> float:
        """Of these, those that found no row."""
        return sum(self.found_nothing.values())


def emptiness_in(step: StepResults) -> list[Emptiness]:
    """Returns by variant how often statements found no row; nothing for a variant whose driver did not count
    it."""
    return list(_by_variant(step))


def _by_variant(step: StepResults) -> Iterator[Emptiness]:
    for variant, repeats in step.by_variant.items():
        replays = replays_of(repeats)
        if not replays or any(replay.found_nothing is None for replay in replays):
            continue
        rounds = max(1, rounds_in(repeats))
        empty: Counter[str] = Counter()
        for replay in replays:
            empty.update(replay.found_nothing or {})
        totals = {
            statement: t
            for statement, t in totals_of(m.record for m in repeats.repeats).items()
            if finds(statement)
        }
        yield Emptiness(
            variant,
            {statement: total.succeeded / rounds for statement, total in totals.items()},
            {statement: empty[statement.name] / rounds for statement in totals if empty[statement.name]},
            {statement: total.seconds for statement, total in totals.items()},
        )


def emptiness_table(emptinesses: Sequence[Emptiness], keys: Sequence[tuple[str, str]] = ()) -> Table | None:
    """Returns the table of the statements with an execution that found no row on any variant; None if there
    is none."""
    statements = {statement for emptiness in emptinesses for statement in emptiness.found_nothing}
    if not statements:
        return None
    first = emptinesses[0]
    ordered = sorted(statements, key=lambda statement: (-first.seconds.get(statement, 0.0), statement))
    return Table(
        name="replay_found_nothing",
        title="Statements that found no row",
        columns=[
            Column("statement", "Statement", align="left"),
            Column("asked", "Asked", "a round"),
            *(
                Column(f"empty_{n}", f"No row, {emptiness.variant}", "a round")
                for n, emptiness in enumerate(emptinesses)
            ),
        ],
        rows=[
            Row(
                [
                    words(statement.text),
                    per_round(first.asked.get(statement, 0.0)),
                    *(per_round(emptiness.found_nothing.get(statement, 0.0)) for emptiness in emptinesses),
                ]
            )
            for statement in ordered[:MOST_ROWS]
        ],
        how="Of statements that look for rows, those with the largest share of the time first. Finding none "
        "may be right: the log does not say whether the original found one. Many more than the application "
        "expects mean that the data is older or newer than the log, or has other keys.",
        keys=keys,
        notes=[f"With less time: {numbers.counted(len(ordered) - MOST_ROWS, 'more statement')}."]
        if len(ordered) > MOST_ROWS
        else [],
    )


__all__ = ["Emptiness", "emptiness_in", "emptiness_table", "finds"]
