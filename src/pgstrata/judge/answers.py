"""Whether statements of a replay answer as they do on the base. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pgstrata import numbers
from pgstrata.judge.queries import VARIES, Timing, changed_answers
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import AnswerRecord
from pgstrata.store.statement import Statement, recorded_statement


@dataclass(frozen=True)
class ComparedAnswers:
    """The statements by what came of their answers, and of the rows that they wrote.

    changed: another than on the base; written: in a few words which numbers of rows are others, by statement,
    where any are; varying: by nature; unanswered: on one side or both.
    """

    changed: Sequence[Statement] = ()
    written: Mapping[Statement, str] = field(default_factory=dict)
    same: int = 0
    varying: Sequence[Statement] = ()
    unanswered: int = 0


NOT_COMPARED = ComparedAnswers()


def compare(base: Iterable[AnswerRecord], other: Iterable[AnswerRecord]) -> ComparedAnswers:
    """Compares the answers of all repeats of a variant with those of the base."""
    here, there = list(base), list(other)
    sides = {"base": _by_statement(here), "other": _by_statement(there)}
    by_name = {
        label: {known_statement.name: timing for known_statement, timing in side.items()}
        for label, side in sides.items()
    }
    names = set(changed_answers(by_name, "base").get("other", ()))
    changed, varying, same, unanswered = [], [], 0, 0
    for statement, other_timing in sides["other"].items():
        right = sides["base"].get(statement)
        if statement.name in names:
            changed.append(statement)
        elif VARIES in (other_timing.answer, right.answer if right is not None else None):
            varying.append(statement)
        elif right is None or not right.digests or not other_timing.digests:
            unanswered += 1
        else:
            same += 1
    rows = _written(here), _written(there)
    written = {
        changed_statement: difference
        for changed_statement in changed
        if (difference := _otherwise(*(counts.get(changed_statement, {}) for counts in rows)))
    }
    return ComparedAnswers(changed, written, same, varying, unanswered)


def _written(records: Iterable[AnswerRecord]) -> dict[Statement, Mapping[str, int]]:
    return {
        recorded_statement(record.number, record.name): record.written for record in records if record.written
    }


def _otherwise(base: Mapping[str, int], other: Mapping[str, int]) -> str:
    """Returns the counts that differ, `rows inserted into public.history: 30 → 0`; what the statement itself
    counts comes last."""
    differing = sorted(
        (part == "rows", part)
        for part in base.keys() | other.keys()
        if base.get(part, 0) != other.get(part, 0)
    )
    return ", ".join(
        f"{part}: {numbers.count(base.get(part, 0))} → {numbers.count(other.get(part, 0))}"
        for _, part in differing
    )


def answers_of(repeats: Iterable[MeasuredStep]) -> list[AnswerRecord]:
    """Returns what the statements of a step answered in all repeats of a variant."""
    return [answer for measured in repeats for answer in measured.record.answers]


def _by_statement(records: Iterable[AnswerRecord]) -> dict[Statement, Timing]:
    by_statement: dict[Statement, list[AnswerRecord]] = {}
    for record in records:
        by_statement.setdefault(recorded_statement(record.number, record.name), []).append(record)
    timings = {}
    for statement, answers in by_statement.items():
        digests = frozenset(record.digest for record in answers if record.digest is not None)
        varies = len(digests) > 1 or any(record.varies for record in answers)
        timings[statement] = Timing(None, len(answers), answer=VARIES if varies else None, digests=digests)
    return timings


__all__ = ["NOT_COMPARED", "ComparedAnswers", "answers_of", "compare"]
