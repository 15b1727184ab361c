"""The statements of a replay, each judged by itself: slower, faster, same or unclear, and its share of time.

What a statement comes to in one round (a whole replay) of each variant is a pair: its executions for each
second that they took. The procedures are those of steps (`judge.compare`): a sample of fixed size, or a
confidence sequence where measuring stopped when enough was known; the p-values of all statements and variants
are adjusted together. Rounds in which other programs disturbed a side are left out as pairs of a step are
(`judge.pairs`), and on a disturbed step nothing is known of any statement.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import NamedTuple

from pgstrata.judge.alone import AloneVerdict, agreed, alone_in
from pgstrata.judge.compare import margin_of, undisturbed
from pgstrata.judge.pairs import disturbed_pairs
from pgstrata.judge.query_causes import QueryCause, judge_cause
from pgstrata.judge.query_parts import QueryParts, query_parts
from pgstrata.judge.single_queries import QuerySide, mean_of_pairs
from pgstrata.stats import sequential
from pgstrata.stats.criterion import USUAL, Criterion
from pgstrata.stats.multiplicity import adjust_verdicts
from pgstrata.stats.verdict import Verdict, compare, set_aside
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import QueryCauseRecord, QueryTurns
from pgstrata.store.statement import Statement, recorded_statement, statement_of

WEIGHTY = 0.01
"""Share of all time, on either side, from which on a statement is waited for (`until = "verdict"`) and missed
where nothing is known of it."""

FEW = 5
"""Executions in a round below which a statement is called rare: one that is late moves its mean."""

FAILURES_APART = 0.01
"""A statement that fails more often by this share of its executions did not do the same on both sides."""


class Executions(NamedTuple):
    """What executions of one statement came to. seconds: of all of them, those that failed too."""

    calls: int
    errors: int
    seconds: float

    def plus(self, other: Executions) -> Executions:
        """Returns the sum of both."""
        return Executions(self.calls + other.calls, self.errors + other.errors, self.seconds + other.seconds)

    @property
    def mean(self) -> float:
        """Seconds of one execution."""
        return self.seconds / self.calls if self.calls else 0.0

    @property
    def went_well(self) -> bool:
        """At least once."""
        return self.errors < self.calls


NOTHING = Executions(0, 0, 0.0)

RoundKey = tuple[str, int, int]
"""Comparison, repeat and number of a round."""

Rounds = Mapping[RoundKey, Mapping[Statement, Executions]]
"""What each statement came to in each round of one variant. Only equal keys are pairs."""

NONE_LEFT_OUT: Mapping[str, Collection[RoundKey]] = MappingProxyType({})


@dataclass(frozen=True)
class StatementVerdict:
    """One statement on a variant against the base. base, other: over all rounds that are not left out;
    base_share, other_share: of the time of all statements there, 0 to 1; rounds: of these, in which both
    sides asked it."""

    statement: Statement
    base: Executions
    other: Executions
    base_share: float
    other_share: float
    rounds: int
    verdict: Verdict
    alone: AloneVerdict | None = None
    """Where the rounds called it slower or faster, and it may have been executed alone."""
    cause: QueryCause | None = None
    """Why it is slower, where that was looked into."""
    parts: QueryParts | None = None
    """Where its time went in the turns of that, alone; None where too few of them tell it, or they do not
    say that it is slower."""

    @property
    def share(self) -> float:
        """The larger of the two: what is little on one side may be most of the time on the other."""
        return max(self.base_share, self.other_share)

    @property
    def longer(self) -> float:
        """How many times as long an execution takes as on the base; 1 where nothing is known."""
        return 1 / self.verdict.ratio if self.verdict.ratio > 0 else 1.0

    @property
    def rare(self) -> bool:
        """Whether it was asked so seldom that little can be known of it."""
        return self.rounds == 0 or min(self.base.calls, self.other.calls) < FEW * self.rounds


@dataclass(frozen=True)
class JudgedStatements:
    """All statements of a variant against the base, those with the largest share of the time first.

    left_out: rounds in which other programs disturbed a side, and which are in no figure; disturbance: what
    disturbed the step so much that nothing is known of any statement, empty where nothing did.
    """

    statements: Sequence[StatementVerdict]
    left_out: int = 0
    disturbance: str = ""


def rounds_of(measured: Sequence[MeasuredStep]) -> Rounds:
    """Returns the rounds from the runs of one variant. A step that was not taken in turn is one round of its
    repeat.

    Raises StoreError where a table is damaged.
    """
    rounds: dict[RoundKey, dict[Statement, Executions]] = {}
    for measured_step in measured:
        statements = {
            each.name: statement_of(each) for each in measured_step.record.headline.statements_by_name
        }
        table = measured_step.run.table(
            "statements", ["step", "part", "statement", "calls", "errors", "seconds"]
        )
        for step, part, name, calls, errors, seconds in table.values:
            if step == measured_step.record.name and calls:
                rounds.setdefault((measured_step.run.comparison or "", measured_step.run.repeat, part), {})[
                    statements.get(name) or recorded_statement(None, name)
                ] = Executions(calls, errors, seconds)
    return rounds


def totals(rounds: Rounds) -> dict[Statement, Executions]:
    """Returns the executions of each statement in all rounds together."""
    sums: dict[Statement, Executions] = {}
    for statements in rounds.values():
        for statement, asked in statements.items():
            sums[statement] = sums.get(statement, NOTHING).plus(asked)
    return sums


def largest_first(sides: Iterable[Mapping[Statement, Executions]]) -> list[Statement]:
    """Returns the statements that went well at least once, by the seconds on the side where they took
    longest. sides: `totals` of each variant."""
    seconds: dict[Statement, float] = {}
    for of_all in sides:
        for statement, executions in of_all.items():
            if executions.went_well:
                seconds[statement] = max(seconds.get(statement, 0.0), executions.seconds)
    return sorted(seconds, key=lambda candidate: -seconds[candidate])


def judge_statements(
    base: Rounds,
    others: Mapping[str, Rounds],
    *,
    watched: bool,
    criterion: Criterion = USUAL,
    left_out: Mapping[str, Collection[RoundKey]] = NONE_LEFT_OUT,
    disturbances: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, list[StatementVerdict]]:
    """Judges, by variant, the statements of either side, those with the largest share of the time first.

    watched: measuring stopped when enough was known. left_out: by variant rounds that make no pair;
    disturbances: by variant what keeps all its statements from a verdict.
    """
    used = {variant: _without(base, rounds, left_out.get(variant, ())) for variant, rounds in others.items()}
    whole = {variant: totals(here) for variant, (here, _) in used.items()}
    by_variant = {variant: totals(there) for variant, (_, there) in used.items()}
    judged: dict[tuple[str, Statement], Verdict] = {}
    rounds: dict[tuple[str, Statement], int] = {}
    for variant, there in by_variant.items():
        for statement in dict.fromkeys((*whole[variant], *there)):
            ours, theirs = _paired(*used[variant], statement)
            look = sequential.look if watched else compare
            verdict = look(ours, theirs, criterion=criterion)
            rounds[variant, statement] = len(ours)
            verdict = _aside(verdict, whole[variant].get(statement, NOTHING), there.get(statement, NOTHING))
            if disturbance := disturbances.get(variant):
                verdict = set_aside(verdict, disturbance)
            judged[variant, statement] = verdict
    verdicts: dict[str, list[StatementVerdict]] = {variant: [] for variant in others}
    base_seconds = {variant: _seconds(here) for variant, here in whole.items()}
    seconds = {variant: _seconds(there) for variant, there in by_variant.items()}
    for (variant, statement), verdict in adjust_verdicts(judged).items():
        here, now = whole[variant].get(statement, NOTHING), by_variant[variant].get(statement, NOTHING)
        verdicts[variant].append(
            StatementVerdict(
                statement,
                here,
                now,
                here.seconds / base_seconds[variant] if base_seconds[variant] else 0.0,
                now.seconds / seconds[variant] if seconds[variant] else 0.0,
                rounds[variant, statement],
                verdict,
            )
        )
    return {
        variant: sorted(of_variant, key=lambda verdict: -verdict.share)
        for variant, of_variant in verdicts.items()
    }


def judge_measured(
    base: Sequence[MeasuredStep], others: Mapping[str, Sequence[MeasuredStep]]
) -> dict[str, JudgedStatements]:
    """Judges the statements of runs as `judge_statements` does, with the margin of their comparison. Raises
    StoreError where a table is damaged."""
    runs = [measured_step.run for measured_step in base]
    rounds = {variant: rounds_of(measured) for variant, measured in others.items()}
    disturbed = {variant: _disturbed(base, measured) for variant, measured in others.items()}
    left_out = {variant: keys for variant, (keys, _) in disturbed.items()}
    disturbances = {variant: reason for variant, (_, reason) in disturbed.items()}
    judged = judge_statements(
        rounds_of(base),
        rounds,
        watched=any(run.record.comparison and run.record.comparison.until == "verdict" for run in runs),
        criterion=Criterion(margin_of(runs)),
        left_out=left_out,
        disturbances=disturbances,
    )
    judged = {variant: _agreed(statements, base, others[variant]) for variant, statements in judged.items()}
    return {
        variant: JudgedStatements(
            statements, len(left_out[variant] & rounds[variant].keys()), disturbances[variant]
        )
        for variant, statements in judged.items()
    }


def enough_known(
    base: Rounds,
    others: Mapping[str, Rounds],
    criterion: Criterion,
    left_out: Mapping[str, Collection[RoundKey]] = NONE_LEFT_OUT,
) -> bool:
    """Returns whether all statements that weigh something have their verdicts: when a comparison of replays
    may end."""
    judged = judge_statements(base, others, watched=True, criterion=criterion, left_out=left_out)
    return all(
        statement.verdict.decided or statement.verdict.aside
        for statements in judged.values()
        for statement in statements
        if statement.share >= WEIGHTY
    )


def _agreed(
    statements: Sequence[StatementVerdict], base: Sequence[MeasuredStep], other: Sequence[MeasuredStep]
) -> list[StatementVerdict]:
    """Returns the statements with a verdict of slower or faster only if they have it when executed alone,
    too; unchanged if none were executed alone, as in repeats."""
    there = {_in_turn(step): step for step in other}
    sides = [(first, second) for first in base if (second := there.get(_in_turn(first))) is not None]
    records = [
        (first.record.alone, second.record.alone, first.record.load_limit)
        for first, second in sides
        if first.record.alone is not None and second.record.alone is not None
    ]
    if not records:
        return list(statements)
    results = []
    for statement in statements:
        verdict = statement.verdict
        if verdict.decided and verdict.word != "same":
            alone = alone_in(statement.statement, records, verdict.criterion)
            statement = replace(statement, verdict=agreed(verdict, alone), alone=alone)
            if statement.verdict.word == "slower":
                statement = _explained(statement, sides)
        results.append(statement)
    return results


def _explained(
    statement: StatementVerdict, sides: Sequence[tuple[MeasuredStep, MeasuredStep]]
) -> StatementVerdict:
    """Returns a slower statement with its cause and parts, from the last comparison that has looked for them;
    unchanged if none has."""
    if statement.alone is None or statement.alone.verdict is None:
        return statement
    for ours, theirs in reversed(sides):
        name = statement.statement.name
        record = next((cause for cause in theirs.record.query_causes if cause.name == name), None)
        if record is not None:
            labels = ours.run.variant, theirs.run.variant
            alone, limit = statement.alone.verdict, theirs.record.load_limit
            cause = judge_cause(record, labels, alone, limit, alone.criterion, None)
            return replace(statement, cause=cause, parts=parts_of_turns(record, limit))
    return statement


def parts_of_turns(record: QueryCauseRecord, load_limit: float) -> QueryParts | None:
    """Returns where the time of a slower statement went in its turns; None where too few of them tell it, or
    their means do not say that it is slower."""
    if record.cpu is None:
        return None
    base, new = (
        QuerySide(QueryTurns(name=record.name, slices=slices, cpu=cpu), load_limit)
        for slices, cpu in zip((record.base, record.new), record.cpu, strict=True)
    )
    means = mean_of_pairs([(base, new)])
    if means is None or means.other.seconds <= means.base.seconds:
        return None
    return query_parts(means, record.files, record.planning_seconds)


def _in_turn(measured: MeasuredStep) -> tuple[str, int]:
    return measured.run.comparison or "", measured.run.repeat


def _without(base: Rounds, other: Rounds, left_out: Collection[RoundKey]) -> tuple[Rounds, Rounds]:
    """Returns both sides without the rounds left out, or as they are where none of them would remain: figures
    are shown of a disturbed step, too."""
    remaining = [
        {key: statements for key, statements in side.items() if key not in left_out} for side in (base, other)
    ]
    return (remaining[0], remaining[1]) if all(remaining) else (base, other)


def _disturbed(base: Sequence[MeasuredStep], other: Sequence[MeasuredStep]) -> tuple[set[RoundKey], str]:
    """Returns the rounds in which other programs disturbed a side, all of them on a machine on which they
    disturbed the step; and why all are disturbed, an empty text where they are not."""
    here, there = ({step.run.repeat: step for step in side} for side in (base, other))
    undisturbed_base, _, reason = undisturbed(here, there)
    rounds = {
        (here[repeat].run.comparison or "", repeat, part.pair)
        for repeat in here.keys() - undisturbed_base.keys()
        for part in here[repeat].record.slices
    }
    for repeat in undisturbed_base.keys() & there.keys():
        run, second = here[repeat].run, there[repeat].run
        if run.comparison == second.comparison:
            pairs = disturbed_pairs(here[repeat].record, there[repeat].record)
            rounds |= {(run.comparison or "", repeat, pair) for pair in pairs}
    return rounds, reason


def _seconds(statements: Mapping[Statement, Executions]) -> float:
    return sum(executions.seconds for executions in statements.values())


def _paired(base: Rounds, other: Rounds, statement: Statement) -> tuple[list[float], list[float]]:
    """Returns the executions for each second, of the rounds in which both sides asked it."""
    pairs = list(_both(base, other, statement))
    return [executions.calls / executions.seconds for executions, _ in pairs], [
        executions.calls / executions.seconds for _, executions in pairs
    ]


def _both(base: Rounds, other: Rounds, statement: Statement) -> Iterator[tuple[Executions, Executions]]:
    for key in sorted(base.keys() & other.keys()):
        ours, theirs = base[key].get(statement), other[key].get(statement)
        if ours is not None and theirs is not None and ours.seconds > 0 and theirs.seconds > 0:
            yield ours, theirs


def _aside(verdict: Verdict, base: Executions, other: Executions) -> Verdict:
    """Sets aside the verdict on a statement that one side never executed or that fails more often on one
    side: it did other work there, and its time says nothing."""
    if not base.calls or not other.calls:
        return set_aside(verdict, "only one side was asked it")
    if abs(other.errors / other.calls - base.errors / base.calls) >= FAILURES_APART:
        return set_aside(
            verdict,
            f"it failed {other.errors:,} of {other.calls:,} times, and {base.errors:,} of {base.calls:,} "
            "on the other side: times of failures are no comparison",
        )
    return verdict


__all__ = [
    "FEW",
    "NOTHING",
    "WEIGHTY",
    "Executions",
    "JudgedStatements",
    "RoundKey",
    "Rounds",
    "StatementVerdict",
    "enough_known",
    "judge_measured",
    "judge_statements",
    "parts_of_turns",
    "rounds_of",
    "totals",
]
