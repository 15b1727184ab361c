"""What a replay proves of each variant against the base: its statements one by one, plans, and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pgstrata.judge.plan_shape import changed_plans
from pgstrata.judge.statements import StatementVerdict, judge_measured
from pgstrata.page.results import Repeats, RunSet, StepResults
from pgstrata.stats.verdict import Word
from pgstrata.store.record import QueryPlan, ReplayFailureRecord, ReplayRecord
from pgstrata.workload.custom.reaches import UNREACHABLE


@dataclass(frozen=True)
class NewError:
    """What a statement fails with on a variant and not on the base. then: its SQLSTATE in the original, None
    where it succeeded; count: of all rounds."""

    statement: str
    sqlstate: str
    then: str | None
    count: int
    message: str

    def steady(self, rounds: int) -> bool:
        """Whether it comes in every round, and not of the order in which sessions met (class 40: deadlocks
        and serialization failures)."""
        return self.count >= rounds and not self.sqlstate.startswith("40")


@dataclass(frozen=True)
class Judged:
    """A replay on one variant against the base. plans: of each statement whose plan has another shape both
    shapes; planned: how many statements have a plan on both sides; rounds: of the replay on the variant."""

    variant: str
    statements: Sequence[StatementVerdict]
    plans: Mapping[str, tuple[str, str]]
    planned: int
    new_errors: Sequence[NewError]
    gone_errors: Sequence[NewError]
    rounds: int
    margin: float

    def of(self, word: Word) -> list[StatementVerdict]:
        """Those with this verdict, with the largest share of the time first."""
        return [one for one in self.statements if one.verdict.word == word]

    def share(self, word: Word) -> float:
        """Of the time of all statements on the base that those with this verdict take, 0 to 1."""
        return sum(one.base_share for one in self.of(word))


def judged(results: RunSet, step: StepResults) -> dict[str, Judged]:
    """By variant, of those that were measured as the base was. Raises StoreError."""
    base = step.by_variant.get(results.base)
    others = {v: own for v in results.others if (own := step.by_variant.get(v)) is not None}
    if base is None or not others:
        return {}
    verdicts = judge_measured(base.repeats, {v: own.repeats for v, own in others.items()})
    found = {}
    for variant, own in others.items():
        here, there = plans_of(base), plans_of(own)
        statements = verdicts[variant]
        found[variant] = Judged(
            variant,
            statements,
            changed_plans(here, there),
            len({one.name for one in here} & {one.name for one in there}),
            _only_there(replays_of(base), replays_of(own)),
            _only_there(replays_of(own), replays_of(base)),
            rounds_in(own),
            statements[0].verdict.margin if statements else 0.0,
        )
    return found


def plans_of(own: Repeats) -> Sequence[QueryPlan]:
    """Of the last repeat that has plans."""
    return next((m.record.plans for m in reversed(own.repeats) if m.record.plans), ())


def replays_of(own: Repeats) -> list[ReplayRecord]:
    """What the repeats of a replay say of themselves."""
    return [m.record.replay for m in own.repeats if m.record.replay is not None]


def rounds_in(own: Repeats) -> int:
    """How often the whole was replayed."""
    return sum(max(1, len(m.record.slices)) for m in own.repeats)


def reaches_outside(failure: ReplayFailureRecord) -> bool:
    """Whether the server refused a statement because of the role that replays, and not of its version.

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


def _only_there(here: Sequence[ReplayRecord], there: Sequence[ReplayRecord]) -> list[NewError]:
    known = {(one.statement, one.now) for replay in here for one in replay.failures if one.now is not None}
    left_out = {f.statement for replay in (*here, *there) for f in replay.failures if reaches_outside(f)}
    found: dict[tuple[str, str], NewError] = {}
    for one in (failure for replay in there for failure in replay.failures):
        if one.now is None or (one.statement, one.now) in known or one.statement in left_out:
            continue
        before = found.get((one.statement, one.now))
        count = one.count + (before.count if before is not None else 0)
        found[one.statement, one.now] = NewError(one.statement, one.now, one.then, count, one.message)
    return sorted(found.values(), key=lambda error: -error.count)


__all__ = ["Judged", "NewError", "judged", "plans_of", "reaches_outside", "replays_of", "rounds_in"]
