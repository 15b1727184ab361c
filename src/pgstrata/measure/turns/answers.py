"""The answers of a replay's statements, on each variant with the same data and values.

A few executions of each statement, with other values, are done again on each variant. Where answers of what
reads only differ, it is executed again with other plans: an answer that then is another on the same server
depends on the order of rows or on the moment, and is compared with none. So does one whose LIMIT, without an
ORDER BY, cuts through the same rows. Where a query asks for an order, and
the order differs, it is asked for it with what its ORDER BY leaves open in both directions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pgstrata import numbers
from pgstrata.driver.events import StatementDone
from pgstrata.judge.statements import largest_first, totals
from pgstrata.measure.turns.changes import compare_changes
from pgstrata.measure.turns.executions import LIMIT_SECONDS, OTHER_PLANS, Asking, Execution
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.store.record import AnswerRecord
from pgstrata.store.statement import Statement
from pgstrata.workload.core.language import AloneStatement, Step
from pgstrata.workload.core.ordered import (
    Order,
    all_rows_of,
    digests_of,
    end_of_order,
    in_both_directions,
    order_of,
)
from pgstrata.workload.core.recorded import answer_in_any_order, digest_of_lines, lines_of, rows_from

MOST_STATEMENTS = 500
"""Whose answers are compared, those with the largest share of the time first."""

MOST_EXECUTIONS = 2500
"""Of all statements together, each with its share."""

MOST_SECONDS = 60.0
"""Of the first executions of all on one variant, by the times of the rounds."""

MORE_SECONDS = 10.0
"""Of those with other values."""

CHANGES_ROWS = "25006"
"""SQLSTATE of what a transaction that only reads refuses."""

Json = dict[str, Any]
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
        queries = {
            statement: by_number[statement.number]
            for statement in chosen
            if by_number[statement.number].texts
        }
        changes = {
            statement: by_number[statement.number]
            for statement in chosen
            if by_number[statement.number].changes
        }
    if queries or changes:
        reading = numbers.counted(len(queries), "statement")
        writing = numbers.counted(len(changes), "change")
        base.run.progress.say(f"  answers of {reading} that read, and of {writing} of rows, are compared")
    settings = {statement: alone.settings for statement, alone in (*queries.items(), *changes.items())}
    asking = Asking(group, step, settings)
    refused = _compare_queries(asking, queries, chosen)
    of_changes = {statement: alone.changes for statement, alone in changes.items()}
    of_changes |= {statement: queries[statement].texts for statement in refused}
    compare_changes(
        asking,
        {
            Execution(statement, place): text
            for statement, texts in of_changes.items()
            for place, text in enumerate(texts[: chosen[statement]])
        },
        {statement for statement in of_changes if by_number[statement.number].varies},
    )


def _compare_queries(
    asking: Asking, statements: Mapping[Statement, AloneStatement], chosen: Mapping[Statement, int]
) -> list[Statement]:
    """Keeps what queries answered; returns those that every server refuses as long as nothing may change."""
    texts = {
        Execution(statement, place): text
        for statement, alone in statements.items()
        for place, text in enumerate(alone.texts[: chosen[statement]])
        if not alone.varies
    }
    first = asking.ask({each: [text] for each, text in texts.items()}, (), _answer)
    differing = {each: [text] for each, text in texts.items() if _differs(each, text, first)}
    again = asking.ask(differing, OTHER_PLANS, _answer)
    varying = {
        each.statement
        for each in differing
        if any(
            _digest(again.get(label, {}), each) not in (None, _digest(side_answers, each))
            for label, side_answers in first.items()
        )
    }
    varying |= _cut_anywhere(asking, {each: text for each, (text,) in differing.items()}, varying)
    directions = {
        each: both
        for each, (text,) in differing.items()
        if each.statement not in varying and (both := in_both_directions(text, _columns(each, first)))
    }
    unknown = _put_in_order(asking.ask(directions, (), _order), directions, first)
    executions: dict[Statement, list[Execution]] = {statement: [] for statement in statements}
    for each in texts:
        if each.statement not in varying and each not in unknown:
            executions[each.statement].append(each)
    refused = [statement for statement in statements if _is_refused(Execution(statement, 0), first)]
    for statement, alone in statements.items():
        if statement not in refused:
            _keep(asking.group.here, statement, alone, executions[statement], first)
    return refused


def _cut_anywhere(
    asking: Asking, differing: Mapping[Execution, str], varying: Collection[Statement]
) -> set[Statement]:
    """Returns the statements whose LIMIT takes others of the same rows, or of rows that are too many to be
    compared: without an ORDER BY any of them are right."""
    by_statement: dict[Statement, Execution] = {}
    for each in differing:
        if each.statement not in varying:
            by_statement.setdefault(each.statement, each)
    whole = {each: [text] for each in by_statement.values() if (text := all_rows_of(differing[each]))}
    answers = asking.ask(whole, (), _answer) if whole else {}
    return {
        each.statement
        for each in whole
        if None in (digests := {_digest(side_answers, each) for side_answers in answers.values()})
        or len(digests) == 1
    }


def _is_refused(execution: Execution, answers: Mapping[str, Answers]) -> bool:
    rows = [side_answers[execution] for side_answers in answers.values() if execution in side_answers]
    return bool(rows) and all(row["sqlstate"] == CHANGES_ROWS for row in rows)


def _put_in_order(
    orders: Mapping[str, Mapping[Execution, Order | None]],
    texts: Mapping[Execution, Sequence[str]],
    answers: Mapping[str, Answers],
) -> set[Execution]:
    """Puts the digest of the order that each query asks for in the place of that in any order; returns those
    of which it is not known whether that order is the same."""
    unknown = set()
    for each, (text, _) in texts.items():
        # A participant whose server has ended meanwhile was not asked.
        sides = [label for label in orders if _digest(answers[label], each) is not None]
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
        return "its words make the answer another at each execution or on each server"
    if row is None:
        return "the session in which it was executed did not come to its end"
    return row["error"] or ""


__all__ = ["compare_answers"]
