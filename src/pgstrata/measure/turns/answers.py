"""The answers of a replay's statements that read only, on each variant with the same data and values.

All clusters are up with the data that the rounds began with. Each statement is executed once on each variant.
Where answers differ, it is executed again with other plans: an answer that then is another on the same server
depends on the order of rows or on the moment, and is compared with none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pgstrata import numbers
from pgstrata.errors import DriverError
from pgstrata.judge.statements import largest_first, totals
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.store.record import AnswerRecord
from pgstrata.store.statement import Statement
from pgstrata.workload.core.language import AloneStatement, Sql, Step
from pgstrata.workload.core.queries import READ_ONLY, limited_to, query_step
from pgstrata.workload.core.recorded import answer_in_any_order, rows_from

MOST_STATEMENTS = 500
"""Whose answers are compared, those with the largest share of the time first."""

MOST_SECONDS = 60.0
"""Of all executions on one variant, by the times of the rounds."""

LIMIT_SECONDS = 30.0
"""After which an execution is cancelled."""

OTHER_PLANS = (
    *(f"SET enable_{name} = off" for name in ("hashagg", "hashjoin", "indexscan", "indexonlyscan")),
    "SET enable_bitmapscan = off",
    "SET max_parallel_workers_per_gather = 0",
    "SET work_mem = '64kB'",
)
"""Under which another order of rows is likely."""

Json = dict[str, Any]
Answers = dict[Statement, Json]
"""By statement its row as in the table `queries`."""


def compare_answers(group: Group, base: Participant, step: Step) -> None:
    """Keeps with the step of each participant what its statements answered. Raises Interrupted."""
    assert step.alone is not None
    if base.error is not None or base.measurement is None or len(group.here) < 2:
        return
    chosen = _chosen(group.here)
    with base.measurement.scratch("answers") as folder:
        made = step.alone({one.number: LIMIT_SECONDS for one in chosen}, folder)
        statements = {one: made[one.number] for one in chosen if made[one.number].text}
    steady = {one: alone for one, alone in statements.items() if not alone.varies}
    if steady:
        text = numbers.counted(len(steady), "statement")
        base.run.progress.say(f"  answers of {text} that read only are compared")
    first = _asked(group, step, steady, ())
    differing = {one: alone for one, alone in steady.items() if _differs(one, first)}
    again = _asked(group, step, differing, OTHER_PLANS)
    varying = {
        one
        for one in differing
        if any(_digest(again[label], one) not in (None, _digest(own, one)) for label, own in first.items())
    }
    for side in group.here:
        if side.measurement is not None:
            own = first.get(side.label, {})
            side.measurement.answers = [
                AnswerRecord(
                    number=one.number,
                    name=one.name,
                    digest=_digest(own, one),
                    varies=alone.varies or one in varying,
                    reason=_why_not(own.get(one), alone),
                )
                for one, alone in statements.items()
            ]


def _chosen(here: Sequence[Participant]) -> list[Statement]:
    """The statements that went well at least once and fit into the time, those that took most of it first."""
    sides = [totals(side.rounds()) for side in here]
    chosen, used = [], 0.0
    for one in largest_first(sides)[:MOST_STATEMENTS]:
        mean = max(side[one].mean for side in sides if one in side and side[one].went_well)
        if used + mean <= MOST_SECONDS:
            used += mean
            chosen.append(one)
    return chosen


def _asked(
    group: Group, step: Step, statements: Mapping[Statement, AloneStatement], more: Sequence[str]
) -> dict[str, Answers]:
    """The answers by the label of each participant. more: statements before those of the log."""
    by_settings: dict[tuple[str, ...], list[Statement]] = {}
    for one, alone in statements.items():
        by_settings.setdefault(tuple(alone.settings), []).append(one)
    found: dict[str, Answers] = {side.label: {} for side in group.here}
    for settings, own in by_settings.items():
        texts = {one: statements[one].text for one in own}
        made = _step(step, texts, (*settings, *more))
        for side in group.here:
            group.interrupts.check()
            found[side.label] |= _executed(side, made, own, group.attempt)
    return found


def _step(step: Step, texts: Mapping[Statement, str], settings: Sequence[str]) -> Step:
    """One session that executes each statement once."""
    made = query_step(
        step.name,
        [
            [
                Sql.verbatim(text, name=str(one.number), record=True, on_error="record")
                for one, text in texts.items()
            ]
        ],
        LIMIT_SECONDS,
        group=step.group,
        measured=False,
        start=[
            *(Sql.verbatim(text, name="setting") for text in settings),
            READ_ONLY,
            limited_to(LIMIT_SECONDS),
        ],
    )
    return replace(made, confined=step.confined)


def _executed(
    side: Participant,
    step: Step,
    statements: Sequence[Statement],
    leave: Callable[[Participant, Callable[[Participant], object]], None],
) -> Answers:
    """What a participant answers; nothing where its session does not come to its end."""
    if side.measurement is None or side.error is not None:
        return {}
    by_number = {str(one.number): one for one in statements}
    with side.measurement.scratch("rows") as rows:
        try:
            done = side.measurement.execute(step, rows)
        except DriverError:
            leave(side, Participant.accepts_connections)
            return {}
        events = rows_from(done.statements, rows, LIMIT_SECONDS, answer_in_any_order)
        return {by_number[row["query"]]: row for row in events}


def _digest(answers: Answers, statement: Statement) -> str | None:
    row = answers.get(statement)
    return row["digest"] if row is not None else None


def _differs(statement: Statement, answers: Mapping[str, Answers]) -> bool:
    digests = {_digest(own, statement) for own in answers.values()} - {None}
    return len(digests) > 1


def _why_not(row: Json | None, alone: AloneStatement) -> str:
    """Returns why there is no answer; an empty text where there is."""
    if alone.varies:
        return "its words make the answer another at each execution"
    if row is None:
        return "the session in which it was executed did not come to its end"
    return row["error"] or ""


__all__ = ["compare_answers"]
