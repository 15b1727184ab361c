"""What a replay proves of each variant against the base: its statements one by one, plans, and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from pgstrata import numbers
from pgstrata.judge.answers import NOT_COMPARED, ComparedAnswers, answers_of, compare
from pgstrata.judge.plan_shape import changed_plans
from pgstrata.judge.statements import Rounds, StatementVerdict, judge_measured, rounds_of
from pgstrata.page.results import Repeats, RunSet, StepResults
from pgstrata.stats.verdict import Word
from pgstrata.store.record import QueryPlan, ReplayFailureRecord, ReplayRecord
from pgstrata.store.statement import Statement, recorded_statement
from pgstrata.workload.core.language import Json
from pgstrata.workload.custom.reaches import UNREACHABLE

BY_ORDER: Mapping[str, str] = {
    "23503": "a foreign key: what it points to depends on the order in which sessions met",
    "23505": "a key that is there: which session comes first is chance",
    "25P02": "follows from an earlier error of its transaction",
    "40001": "a serialization failure: which sessions meet is chance",
    "40P01": "a deadlock: which sessions meet is chance",
}
"""Errors that come of the order in which sessions met, or of an error before them, and why (SQLSTATE)."""


@dataclass(frozen=True)
class NewError:
    """What a statement fails with on one side and not on the other. then: its SQLSTATE in the original, None
    where it succeeded; count: of all rounds; apart: why it says nothing of the version, else empty."""

    statement: Statement
    sqlstate: str
    then: str | None
    count: int
    message: str
    apart: str = ""

    def record(self) -> Json:
        """Returns the error as JSON."""
        return {**vars(self), "statement": self.statement.name, "number": self.statement.number}


@dataclass(frozen=True)
class Judged:
    """A replay on one variant against the base.

    plans: of each statement whose plan has another shape both shapes; planned: how many statements have a
    plan on both sides; rounds: of the replay on the variant; left_out: of them, those in which other programs
    disturbed a side; disturbance: what disturbed the step so much that nothing is known of any statement;
    new_errors, gone_errors: in every round on one side and in none on the other; apart_errors: what only the
    variant fails with and says nothing of it (`NewError.apart`); answers: of the statements that read only.
    """

    variant: str
    statements: Sequence[StatementVerdict]
    plans: Mapping[str, tuple[str, str]]
    planned: int
    new_errors: Sequence[NewError]
    gone_errors: Sequence[NewError]
    rounds: int
    margin: float
    apart_errors: Sequence[NewError] = ()
    left_out: int = 0
    disturbance: str = ""
    answers: ComparedAnswers = NOT_COMPARED

    @property
    def counted_rounds(self) -> int:
        """Rounds whose executions are in the figures of the statements: all where none would be left."""
        return max(1, self.rounds - self.left_out if self.left_out < self.rounds else self.rounds)

    def of(self, word: Word) -> list[StatementVerdict]:
        """Returns the statements with this verdict, with the largest share of the time first."""
        return [statement for statement in self.statements if statement.verdict.word == word]

    def share(self, word: Word) -> float:
        """Returns the share, 0 to 1, of the time of all statements on the base that the statements with this
        verdict take."""
        return sum(statement_verdict.base_share for statement_verdict in self.of(word))


def judged(results: RunSet, step: StepResults) -> dict[str, Judged]:
    """Returns the judged statements by variant, of the variants that were measured as the base was. Raises
    StoreError."""
    base = step.by_variant.get(results.base)
    others = {v: other for v in results.others if (other := step.by_variant.get(v)) is not None}
    if base is None or not others:
        return {}
    verdicts = judge_measured(base.repeats, {v: other.repeats for v, other in others.items()})
    by_variant = {}
    for variant, other in others.items():
        here, there = plans_of(base), plans_of(other)
        statements = verdicts[variant].statements
        new = _only_there(base, other)
        by_variant[variant] = Judged(
            variant,
            statements,
            changed_plans(here, there),
            len({plan.name for plan in here} & {plan.name for plan in there}),
            [error for error in new if not error.apart],
            [error for error in _only_there(other, base) if not error.apart],
            rounds_in(other),
            statements[0].verdict.margin if statements else 0.0,
            [error for error in new if error.apart],
            verdicts[variant].left_out,
            verdicts[variant].disturbance,
            compare(answers_of(base.repeats), answers_of(other.repeats)),
        )
    return by_variant


def plans_of(repeats: Repeats) -> Sequence[QueryPlan]:
    """Returns the plans of the last repeat that has plans."""
    return next((m.record.plans for m in reversed(repeats.repeats) if m.record.plans), ())


def replays_of(repeats: Repeats) -> list[ReplayRecord]:
    """Returns the replay records of the repeats."""
    return [m.record.replay for m in repeats.repeats if m.record.replay is not None]


def rounds_in(repeats: Repeats) -> int:
    """Returns how often the whole log was replayed."""
    return sum(max(1, len(m.record.slices)) for m in repeats.repeats)


def reaches_outside(failure: ReplayFailureRecord) -> bool:
    """Returns whether the server refused a statement because of the role that replays, and not of its
    version.

    What a role without rights on a table is refused for (`SET ROLE` in the log) is an error like others.
    """
    if failure.now is None or failure.then == failure.now:
        return False
    confined = failure.now == "42501" and not _OF_A_TABLE.match(failure.message)
    return confined or f'"{UNREACHABLE}" has no handler' in failure.message


# aclchk.c: what an owner of the database's own objects has and another role of the log may lack.
_OF_A_TABLE = re.compile(
    r"(?:permission denied for|must be owner of) "
    r"(?:table|relation|view|materialized view|sequence|schema|type|index|database) (?!pg_)"
)


def _only_there(here: Repeats, there: Repeats) -> list[NewError]:
    """Returns the statements that fail there with a code that never comes here; `apart` says whether that is
    the version."""
    known = {
        (_statement(replay_failure), replay_failure.now)
        for replay in replays_of(here)
        for replay_failure in replay.failures
        if replay_failure.now is not None
    }
    both = (*replays_of(here), *replays_of(there))
    left_out = {_statement(f) for replay in both for f in replay.failures if reaches_outside(f)}
    new_errors: dict[tuple[Statement, str], NewError] = {}
    for failed in (failure for replay in replays_of(there) for failure in replay.failures):
        statement = _statement(failed)
        if failed.now is None or (statement, failed.now) in known or statement in left_out:
            continue
        before = new_errors.get((statement, failed.now))
        count = failed.count + (before.count if before is not None else 0)
        new_errors[statement, failed.now] = NewError(
            statement, failed.now, failed.then, count, failed.message
        )
    if not new_errors:
        return []
    rounds = rounds_of(here.repeats), rounds_of(there.repeats)
    judged = [replace(error, apart=_why_apart(error, *rounds)) for error in new_errors.values()]
    return sorted(judged, key=lambda error: -error.count)


def _statement(failure: ReplayFailureRecord) -> Statement:
    return recorded_statement(failure.number, failure.statement)


def _why_apart(error: NewError, here: Rounds, there: Rounds) -> str:
    """Returns the reason why an error of one side is no effect of its version; empty if it is one."""
    if error.sqlstate in BY_ORDER:
        return BY_ORDER[error.sqlstate]
    rounds = [asked[error.statement] for asked in there.values() if error.statement in asked]
    if not all(asked.errors for asked in rounds):
        failed = sum(asked.errors > 0 for asked in rounds)
        return f"in {failed} of {numbers.counted(len(rounds), 'round')} only"
    if any(asked[error.statement].errors for asked in here.values() if error.statement in asked) and not all(
        asked.errors >= asked.calls for asked in rounds
    ):
        return "it fails on the other version, too, with another code"
    return ""


__all__ = ["Judged", "NewError", "judged", "plans_of", "reaches_outside", "replays_of", "rounds_in"]
