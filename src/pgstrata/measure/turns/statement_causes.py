"""Asks why statements of a replay are slower, and what helps, after they were executed alone.

All clusters are up with the data that the rounds began with. What reads only is looked into as a query is
(`measure.turns.causes`), with the values of its first execution in the log; remedies of more than one
statement are tried on the other ones with the largest share of the time, too.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgstrata.judge.statements import Executions, largest_first, totals
from pgstrata.measure.turns.arms import ArmTurns
from pgstrata.measure.turns.causes import Differing, search_causes
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.store.statement import Statement
from pgstrata.workload.core.language import AloneStatement, SingleQueries, Sql, Step
from pgstrata.workload.core.queries import query_step

LIMIT_SECONDS = 30.0
"""After which an execution of a statement is cancelled."""

MOST_OTHERS = 20
"""Statements on which the effect of a remedy is measured."""

WORDS = ("statement is slower", "statements are slower")


@dataclass(frozen=True)
class Slower:
    """A statement that is slower on a variant, alone, too. alone: how it is executed so; seconds: of an
    execution, by the label of the variant."""

    statement: Statement
    variant: Participant
    alone: AloneStatement
    seconds: Mapping[str, float]


def search_statement_causes(group: Group, base: Participant, step: Step, slower: Sequence[Slower]) -> None:
    """Looks into the statements that read only, and keeps what it finds with the step of their variant.

    slower: those that matter most first. Raises Interrupted.
    """
    differing = [
        Differing(slowed.statement.name, slowed.variant, True, slowed.seconds, has_cpu=False)
        for slowed in slower
        if slowed.alone.text
    ]
    if not differing:
        return
    statements = {slowed.statement: slowed.alone for slowed in slower if slowed.alone.text}
    rounds = {side.label: totals(side.rounds()) for side in group.here}
    assert base.measurement is not None
    with base.measurement.scratch("causes") as folder:
        statements |= _others(step, rounds, statements, folder)
    others = {
        statement.name: {
            label: of_all[statement].mean for label, of_all in rounds.items() if statement in of_all
        }
        for statement in statements
    }
    single = single_statements({statement.name: alone for statement, alone in statements.items()}, step)
    turns = ArmTurns(
        single,
        group.interrupts,
        group.attempt,
        time.monotonic() + group.settings.why_seconds,
        confined=step.confined,
        settings={statement.name: alone.settings for statement, alone in statements.items()},
    )
    search_causes(base, differing, others, turns, group.settings.margin, WORDS)


def single_statements(statements: Mapping[str, AloneStatement], step: Step) -> SingleQueries:
    """Returns the statements of a step as queries that can be executed one at a time, by their names."""

    def make(name: str, executions: int) -> Step:
        alone = statements[name]
        query = Sql.verbatim(alone.text, name=name, record=True, on_error="record")
        single_step = query_step(
            step.name,
            [[query]],
            LIMIT_SECONDS,
            group=step.group,
            measured=True,
            start=[Sql.verbatim(text, name="setting") for text in alone.settings],
        )
        assert single_step.single is not None
        return single_step.single.step(name, executions)

    return SingleQueries(list(statements), make, LIMIT_SECONDS)


def _others(
    step: Step,
    rounds: Mapping[str, Mapping[Statement, Executions]],
    known: Mapping[Statement, AloneStatement],
    folder: Path,
) -> dict[Statement, AloneStatement]:
    """Returns those remaining statements with the largest share of the time that read only."""
    assert step.alone is not None
    others = [statement for statement in largest_first(rounds.values()) if statement not in known]
    largest = others[: 3 * MOST_OTHERS]
    # Of each its text is wanted, for which one execution is enough.
    by_number = step.alone({statement.number: LIMIT_SECONDS for statement in largest}, folder)
    reading = {
        statement: by_number[statement.number] for statement in largest if by_number[statement.number].text
    }
    return dict(list(reading.items())[:MOST_OTHERS])


__all__ = ["Slower", "search_statement_causes", "single_statements"]
