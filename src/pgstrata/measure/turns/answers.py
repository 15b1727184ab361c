"""The answers of a replay's statements that read only, on each variant with the same data and values.

All clusters are up with the data that the rounds began with. A few executions of each statement, with other
values, are done again on each variant.
Where answers differ, it is executed again with other plans: an answer that then is another on the same server
depends on the order of rows or on the moment, and is compared with none. Where a query asks for an order, and
the order differs, it is asked for it with what its ORDER BY leaves open in both directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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
from pgstrata.workload.core.recorded import answer_in_any_order, digest_of_lines, lines_of, rows_from

MOST_STATEMENTS = 500
"""Whose answers are compared, those with the largest share of the time first."""

MOST_EXECUTIONS = 2500
"""Of all statements together, each with its share."""

MOST_SECONDS = 60.0
"""Of the first executions of all on one variant, by the times of the rounds."""

MORE_SECONDS = 10.0
"""Of those with other values."""

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


class Execution(NamedTuple):
    """A statement with the values of one of its executions. place: among those of the statement."""

    statement: Statement
    place: int


Answers = dict[Execution, Json]
"""By execution its row as in the table `queries`."""


def compare_answers(group: Group, base: Participant, step: Step) -> None:
    """Keeps with the step of each participant what its statements answered. Raises Interrupted."""
    assert step.alone is not None
    if base.error is not None or base.measurement is None or len(group.here) < 2:
        return
    chosen = _chosen(group.here)
    with base.measurement.scratch("answers") as folder:
        by_number = step.alone({statement.number: LIMIT_SECONDS for statement in chosen}, folder)
        statements = {
            statement: by_number[statement.number]
            for statement in chosen
            if by_number[statement.number].texts
        }
    steady = {statement: alone for statement, alone in statements.items() if not alone.varies}
    if steady:
        text = numbers.counted(len(steady), "statement")
        base.run.progress.say(f"  answers of {text} that read only are compared")
    texts = {
        Execution(statement, place): text
        for statement, alone in steady.items()
        for place, text in enumerate(alone.texts[: chosen[statement]])
    }
    ask = partial(_asked, group, step, {statement: alone.settings for statement, alone in steady.items()})
    first = ask({each: [text] for each, text in texts.items()}, (), _answer)
    differing = {each: [text] for each, text in texts.items() if _differs(each, text, first)}
    again = ask(differing, OTHER_PLANS, _answer)
    varying = {
        each.statement
        for each in differing
        if any(
            _digest(again[label], each) not in (None, _digest(side_answers, each))
            for label, side_answers in first.items()
        )
    }
    directions = {
        each: both
        for each, (text,) in differing.items()
        if each.statement not in varying and (both := in_both_directions(text, _columns(each, first)))
    }
    unknown = _put_in_order(ask(directions, (), _order), directions, first)
    executions: dict[Statement, list[Execution]] = {statement: [] for statement in statements}
    for each in texts:
        if each.statement not in varying and each not in unknown:
            executions[each.statement].append(each)
    for statement, alone in statements.items():
        _keep(group.here, statement, alone, executions[statement], first)


def _put_in_order(
    orders: Mapping[str, Mapping[Execution, Order | None]],
    texts: Mapping[Execution, Sequence[str]],
    answers: Mapping[str, Answers],
) -> set[Execution]:
    """Puts the digest of the order that each query asks for in the place of that in any order; returns those
    of which it is not known whether that order is the same."""
    unknown = set()
    for each, (text, _) in texts.items():
        sides = [label for label, side_answers in answers.items() if _digest(side_answers, each) is not None]
        known = [order for label in sides if (order := orders[label].get(each)) is not None]
        if len(known) == len(sides):
            digests, is_unknown = digests_of(known)
            for label, digest in zip(sides, digests, strict=True):
                answers[label][each]["digest"] = digest
        else:
            is_cut = text[end_of_order(text) :].strip(" ;\n") != ""
            is_unknown = is_cut or len({_digest(answers[label], each) for label in sides}) == 1
        if is_unknown:
            unknown.add(each)
    return unknown


def _keep(
    here: Sequence[Participant],
    statement: Statement,
    alone: AloneStatement,
    executions: Sequence[Execution],
    answers: Mapping[str, Answers],
) -> None:
    """Keeps one answer of a statement: that of its executions which can be compared. It varies where there
    are none."""
    answering = [side_answers for side_answers in answers.values() if side_answers]
    compared = [
        each
        for each in executions
        if all(_digest(side_answers, each) is not None for side_answers in answering)
    ]
    for side in here:
        if side.measurement is None:
            continue
        side_answers = answers[side.label]
        digests = [
            digest
            for each in compared or executions[:1]
            if (digest := _digest(side_answers, each)) is not None
        ]
        side.measurement.answers.append(
            AnswerRecord(
                number=statement.number,
                name=statement.name,
                digest=digest_of_lines([digest.encode() for digest in digests])
                if len(digests) > 1
                else next(iter(digests), None),
                varies=not executions,
                reason=_why_not(side_answers.get(Execution(statement, 0)), alone),
            )
        )


def _chosen(here: Sequence[Participant]) -> dict[Statement, int]:
    """Returns how often each statement is executed: statements that went well at least once and fit into the
    time, those that took most of it first."""
    sides = [totals(side.rounds()) for side in here]
    means: dict[Statement, float] = {}
    left = MOST_SECONDS
    for statement in largest_first(sides)[:MOST_STATEMENTS]:
        mean = max(side[statement].mean for side in sides if statement in side and side[statement].went_well)
        if mean <= left:
            left -= mean
            means[statement] = max(mean, 1e-6)
    number = max(1, len(means))
    seconds, most = min(left, MORE_SECONDS) / number, MOST_EXECUTIONS // number
    return {statement: max(1, min(most, 1 + int(seconds / mean))) for statement, mean in means.items()}


def _asked(
    group: Group,
    step: Step,
    settings: Mapping[Statement, Sequence[str]],
    texts: Mapping[Execution, Sequence[str]],
    more: Sequence[str],
    keep: Callable[[Sequence[StatementDone], Path], T],
) -> dict[str, dict[Execution, T]]:
    """Executes the texts of each execution and returns what is kept of them by the label of each participant.

    settings: of the log; more: settings beside those; keep: called with what was done of an execution and the
    folder of the rows.
    """
    by_settings: dict[tuple[str, ...], dict[str, Execution]] = {}
    for each in texts:
        name = f"{each.statement.number} {each.place}"
        by_settings.setdefault(tuple(settings[each.statement]), {})[name] = each
    asked: dict[str, dict[Execution, T]] = {side.label: {} for side in group.here}
    for own_settings, by_name in by_settings.items():
        named = [(name, text) for name, each in by_name.items() for text in texts[each]]
        queries = _step(step, named, (*own_settings, *more))
        for side in group.here:
            group.interrupts.check()
            if side.measurement is None or side.error is not None:
                continue
            with side.measurement.scratch("rows") as rows:
                try:
                    done = side.measurement.execute(queries, rows)
                except DriverError:
                    group.attempt(side, Participant.accepts_connections)
                    continue
                events: dict[Execution, list[StatementDone]] = {}
                for event in done.statements:
                    events.setdefault(by_name[event.name], []).append(event)
                asked[side.label] |= {each: keep(own_events, rows) for each, own_events in events.items()}
    return asked


def _answer(events: Sequence[StatementDone], rows: Path) -> Json:
    """Returns the row of an execution; with the digest in its order and the number of columns where it has
    rows."""
    (row,) = rows_from(events, rows, LIMIT_SECONDS, answer_in_any_order)
    if row["digest"] is not None:
        lines = lines_of(rows / str(events[0].result))
        row["in_order"] = digest_of_lines(lines)
        row["columns"] = lines[0].count(b"\t") + 1 if lines else 1
    return row


def _order(events: Sequence[StatementDone], rows: Path) -> Order | None:
    """Returns the order of an answer; None where the query takes no other columns into its ORDER BY."""
    files = [rows / event.result for event in events if event.error is None and event.result]
    if len(files) != 2:
        return None
    return order_of(*map(lines_of, files))


def _step(step: Step, texts: Sequence[tuple[str, str]], settings: Sequence[str]) -> Step:
    """Returns the step of a single session that executes each text once."""
    queries = query_step(
        step.name,
        [[Sql.verbatim(text, name=name, record=True, on_error="record") for name, text in texts]],
        LIMIT_SECONDS,
        group=step.group,
        measured=False,
        start=[
            *(Sql.verbatim(text, name="setting") for text in settings),
            READ_ONLY,
            limited_to(LIMIT_SECONDS),
        ],
    )
    return replace(queries, confined=step.confined)


def _digest(answers: Answers, execution: Execution) -> str | None:
    row = answers.get(execution)
    return row["digest"] if row is not None else None


def _answered(execution: Execution, answers: Mapping[str, Answers]) -> list[Json]:
    """Returns the rows of all participants that answered an execution."""
    rows = (side_answers.get(execution) for side_answers in answers.values())
    return [row for row in rows if row is not None and row["digest"] is not None]


def _differs(execution: Execution, text: str, answers: Mapping[str, Answers]) -> bool:
    """Returns whether the rows differ, or the order of rows where the query asks for an order."""
    rows = _answered(execution, answers)
    if len({row["digest"] for row in rows}) > 1:
        return True
    return len({row["in_order"] for row in rows}) > 1 and end_of_order(text) is not None


def _columns(execution: Execution, answers: Mapping[str, Answers]) -> int:
    return max(int(row["columns"]) for row in _answered(execution, answers))


def _why_not(row: Json | None, alone: AloneStatement) -> str:
    """Returns why there is no answer; an empty text where there is."""
    if alone.varies:
        return "its words make the answer another at each execution"
    if row is None:
        return "the session in which it was executed did not come to its end"
    return row["error"] or ""


__all__ = ["compare_answers"]
