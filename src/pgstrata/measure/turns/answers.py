"""The answers of a replay's statements that read only, on each variant with the same data and values.

All clusters are up with the data that the rounds began with. Each statement is executed once on each variant.
Where answers differ, it is executed again with other plans: an answer that then is another on the same server
depends on the order of rows or on the moment, and is compared with none. Where a query asks for an order, and
the order differs, it is asked for it with what its ORDER BY leaves open in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pgstrata import numbers
from pgstrata.driver.events import StatementDone
from pgstrata.errors import DriverError
from pgstrata.judge.statements import largest_first, totals
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.store.record import AnswerRecord
from pgstrata.store.statement import Statement
from pgstrata.workload.core.language import AloneStatement, Sql, Step
from pgstrata.workload.core.ordered import Order, digests_of, end_of_order, in_both_directions, order_of
from pgstrata.workload.core.queries import READ_ONLY, limited_to, query_step
from pgstrata.workload.core.recorded import answer_in_any_order, answer_in_order, lines_of, rows_from

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

T = TypeVar("T")
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
    texts = {one: [alone.text] for one, alone in steady.items()}
    first = _asked(group, step, steady, texts, (), _answer)
    differing = {one: alone for one, alone in steady.items() if _differs(one, alone, first)}
    again = _asked(group, step, differing, texts, OTHER_PLANS, _answer)
    varying = {
        one
        for one in differing
        if any(_digest(again[label], one) not in (None, _digest(own, one)) for label, own in first.items())
    }
    varying |= _put_in_order(
        group, step, {one: alone for one, alone in differing.items() if one not in varying}, first
    )
    for side in group.here:
        if side.measurement is not None:
            own = first[side.label]
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


def _put_in_order(
    group: Group, step: Step, statements: Mapping[Statement, AloneStatement], answers: Mapping[str, Answers]
) -> set[Statement]:
    """Puts the digest of the order that each query asks for in the place of that in any order; returns the
    queries of which it is not known whether that order is the same."""
    texts = {}
    for one, alone in statements.items():
        columns = max(row["columns"] for own in answers.values() if (row := own.get(one)) and row["digest"])
        if (both := in_both_directions(alone.text, columns)) is not None:
            texts[one] = both
    orders = _asked(group, step, {one: statements[one] for one in texts}, texts, (), _order)
    unknown = set()
    for one in texts:
        sides = [label for label, own in answers.items() if _digest(own, one) is not None]
        known = [order for label in sides if (order := orders[label].get(one)) is not None]
        if len(known) == len(sides):
            digests, is_unknown = digests_of(known)
            for label, digest in zip(sides, digests, strict=True):
                answers[label][one]["digest"] = digest
        else:
            is_unknown = len({_digest(answers[label], one) for label in sides}) == 1
        if is_unknown:
            unknown.add(one)
    return unknown


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
    group: Group,
    step: Step,
    statements: Mapping[Statement, AloneStatement],
    texts: Mapping[Statement, Sequence[str]],
    more: Sequence[str],
    keep: Callable[[Sequence[StatementDone], Path], T],
) -> dict[str, dict[Statement, T]]:
    """Executes the texts of each statement and returns what is kept of them by the label of each participant.

    more: settings beside those of the log; keep: called with the executions of a statement and the folder of
    their rows.
    """
    by_settings: dict[tuple[str, ...], list[Statement]] = {}
    for one, alone in statements.items():
        by_settings.setdefault(tuple(alone.settings), []).append(one)
    asked: dict[str, dict[Statement, T]] = {side.label: {} for side in group.here}
    for settings, own in by_settings.items():
        made = _step(step, [(one, text) for one in own for text in texts[one]], (*settings, *more))
        by_number = {str(one.number): one for one in own}
        for side in group.here:
            group.interrupts.check()
            if side.measurement is None or side.error is not None:
                continue
            with side.measurement.scratch("rows") as rows:
                try:
                    done = side.measurement.execute(made, rows)
                except DriverError:
                    group.attempt(side, Participant.accepts_connections)
                    continue
                events: dict[Statement, list[StatementDone]] = {}
                for event in done.statements:
                    events.setdefault(by_number[event.name], []).append(event)
                asked[side.label] |= {one: keep(each, rows) for one, each in events.items()}
    return asked


def _answer(events: Sequence[StatementDone], rows: Path) -> Json:
    """The row of an execution; with the digest in its order and the number of columns where it has rows."""
    (row,) = rows_from(events, rows, LIMIT_SECONDS, answer_in_any_order)
    if row["digest"] is not None:
        lines = lines_of(rows / str(events[0].result))
        row["in_order"] = answer_in_order(rows / str(events[0].result))
        row["columns"] = lines[0].count(b"\t") + 1 if lines else 1
    return row


def _order(events: Sequence[StatementDone], rows: Path) -> Order | None:
    """The order of an answer; None where the query takes no other columns into its ORDER BY."""
    files = [rows / event.result for event in events if event.error is None and event.result]
    if len(files) != 2:
        return None
    return order_of(*map(lines_of, files))


def _step(step: Step, texts: Sequence[tuple[Statement, str]], settings: Sequence[str]) -> Step:
    """One session that executes each text once."""
    made = query_step(
        step.name,
        [[Sql.verbatim(text, name=str(one.number), record=True, on_error="record") for one, text in texts]],
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


def _digest(answers: Answers, statement: Statement) -> str | None:
    row = answers.get(statement)
    return row["digest"] if row is not None else None


def _differs(statement: Statement, alone: AloneStatement, answers: Mapping[str, Answers]) -> bool:
    """Whether the rows differ, or the order of rows where the query asks for one."""
    rows = [row for own in answers.values() if (row := own.get(statement)) and row["digest"] is not None]
    if len({row["digest"] for row in rows}) > 1:
        return True
    return len({row["in_order"] for row in rows}) > 1 and end_of_order(alone.text) is not None


def _why_not(row: Json | None, alone: AloneStatement) -> str:
    """Returns why there is no answer; an empty text where there is."""
    if alone.varies:
        return "its words make the answer another at each execution"
    if row is None:
        return "the session in which it was executed did not come to its end"
    return row["error"] or ""


__all__ = ["compare_answers"]
