"""Why a query is slower or faster than on the base, from the turns of three: the base, the variant, and the
variant with the base's plan; and which remedy is proven.

All figures for people are times: how many times as long as the base an execution takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, cast, get_args

from msgspec import structs

from pgstrata import numbers
from pgstrata.finite import finite
from pgstrata.judge.alone import AloneTurns, disturbed_by
from pgstrata.judge.bounded import BY_CPU_TIME, bounded_interval, judge_bounded
from pgstrata.judge.pairs import pairs_of
from pgstrata.judge.single_queries import PhaseTimes
from pgstrata.sql_with import on_one_line
from pgstrata.stats import executions
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.verdict import Verdict, is_bounded, set_aside
from pgstrata.store.record import (
    FOR_ONE_QUERY,
    NodeMoved,
    QueryCauseRecord,
    RemedyKind,
    RemedyTrial,
    Slice,
    TrialTurns,
)

CauseOf = Literal["planner", "executor", "both", "partly planner", "partly executor", "unknown"]
Word = CauseOf | Literal["schema", "planning", "executor and planning"]
"""Whose a difference is. `schema`: the planner's, because an index is missing; `partly`: a part of it is
proven to be, and of the rest nothing; `planning`: the plan is the same, and takes longer to be made."""

SETTLED: tuple[CauseOf, ...] = ("planner", "executor", "both")
"""Words after which more turns say no more."""

LEFT = 0.25
"""A side is named alone where the other side has at most this share of the change, as a logarithm."""

ALIKE = 0.9
"""Proven remedies within this share of the best one are about as good: the simplest is named."""


def look(
    base: Sequence[Slice],
    other: Sequence[Slice],
    load_limit: float,
    criterion: Criterion,
    looks: int = 1,
    starts: int = 0,
) -> Verdict:
    """Returns the verdict on the pairs of two series of turns, which may be looked at after every pair.

    Where other programs disturbed most of them, it is one by CPU time. looks: how many candidates there are
    of which the best is taken; the interval allows for it. starts: as of `stats.executions.look`, 0 for turns
    of one server.
    """
    turns = AloneTurns(base, load_limit), AloneTurns(other, load_limit)
    pairs = pairs_of(*turns)
    criterion = Criterion(criterion.margin, 1 - (1 - criterion.confidence) / max(1, looks))
    verdict = executions.look(pairs.base, pairs.other, criterion=criterion, starts=starts)
    if not (disturbance := disturbed_by([turns])):
        return verdict
    bounded = judge_bounded([turns], criterion) or bounded_interval([turns], criterion)
    if bounded is None:
        return set_aside(replace(verdict, low=0.0, high=math.inf), disturbance)
    return replace(bounded, reason=f"{BY_CPU_TIME}: {disturbance}")


class TimesRecord(TypedDict):
    """How many times as long something takes, as JSON."""

    ratio: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Times:
    """How many times as long something takes, with its interval."""

    ratio: float
    low: float
    high: float

    def __str__(self) -> str:
        if is_bounded(self.low, self.high):
            return f"{numbers.ratio(self.ratio)} ({self.interval})"
        return numbers.ratio(self.ratio)

    @property
    def interval(self) -> str:
        """Its bounds."""
        if not is_bounded(self.low, self.high):
            return numbers.UNKNOWN
        return f"{numbers.ratio(self.low)} … {numbers.ratio(self.high)}"

    def record(self) -> TimesRecord:
        """Returns the times in the form JSON can hold."""
        return {"ratio": finite(self.ratio), "low": finite(self.low), "high": finite(self.high)}


def times(verdict: Verdict) -> Times:
    """Returns the inverse of a verdict's rates."""
    return Times(_inverse(verdict.ratio), _inverse(verdict.high), _inverse(verdict.low))


def _inverse(value: float) -> float:
    return math.inf if value <= 0 else 1 / value


def attribution(change: Verdict, remaining: Verdict, removed: Verdict) -> CauseOf:
    """Returns whose the change is. change: the variant against the base; remaining: the variant with the
    base's plan against the base, which is the executor's part; removed: the variant against itself with that
    plan, which is the planner's."""
    whole = math.log(change.ratio) if change.ratio > 0 else 0.0
    if not whole:
        return "unknown"
    of_executor, of_planner = _part(remaining, whole), _part(removed, whole)
    if of_executor[1] < LEFT and of_planner[0] > 0:
        return "planner"
    if of_planner[1] < LEFT and of_executor[0] > 0:
        return "executor"
    if of_planner[0] > 0:
        return "both" if of_executor[0] > 0 else "partly planner"
    return "partly executor" if of_executor[0] > 0 else "unknown"


def _bounded(verdict: Verdict) -> bool:
    return verdict.n > 0 and verdict.is_bounded


def _part(verdict: Verdict, whole: float) -> tuple[float, float]:
    """Returns the bounds of a part of the change, as a share of the whole; infinite where they are not
    known."""
    if not _bounded(verdict):
        return -math.inf, math.inf
    low, high = math.log(verdict.low) / whole, math.log(verdict.high) / whole
    return min(low, high), max(low, high)


@dataclass(frozen=True)
class Effect:
    """What a remedy does to another query: how many times as long it takes with it."""

    query: str
    word: str
    times: Times | None


@dataclass(frozen=True)
class Remedy:
    """A remedy that was measured. times: with it ÷ without; at_most: it is a bound, since the query runs into
    its limit without; word: faster where it is proven to help."""

    kind: RemedyKind
    sql: tuple[str, ...]
    word: str
    times: Times | None
    pairs: int
    at_most: bool
    effects: tuple[Effect, ...]
    reason: str

    @property
    def is_proven(self) -> bool:
        """Whether it makes the query faster."""
        return self.word == "faster"

    @property
    def on_others(self) -> str:
        """Its effect on other queries in words; empty where it was not measured."""
        if self.kind in FOR_ONE_QUERY:
            return "none sees it"
        slower = ", ".join(f"{e.query} {e.times}" for e in self.effects if e.word == "slower")
        count = [effect.word for effect in self.effects].count
        words = {"slower": "slower", "faster": "faster", "same": "the same", "unclear": "unclear"}
        return ", ".join(
            f"{count(word)} {text}" + (f" ({slower})" if word == "slower" else "")
            for word, text in words.items()
            if count(word)
        )

    def record(self) -> RemedyRecord:
        """Returns the remedy in the form JSON can hold."""
        return {
            "kind": self.kind,
            "sql": list(self.sql),
            "word": self.word,
            "times": None if self.times is None else self.times.record(),
            "at_most": self.at_most,
            "pairs": self.pairs,
            "reason": self.reason,
            "others": [
                {"query": e.query, "word": e.word, "times": None if e.times is None else e.times.record()}
                for e in self.effects
            ],
        }


class EffectRecord(TypedDict):
    """What a remedy does to another query, as JSON."""

    query: str
    word: str
    times: TimesRecord | None


class RemedyRecord(TypedDict):
    """A remedy as JSON."""

    kind: str
    sql: list[str]
    word: str
    times: TimesRecord | None
    at_most: bool
    pairs: int
    reason: str
    others: list[EffectRecord]


class CauseRecord(TypedDict):
    """Why a query differs, as JSON."""

    word: Word
    sentence: str
    advice: str
    differences: list[list[str]]
    old_plan: list[str]
    own_plan: TimesRecord | None
    with_old_plan: TimesRecord | None
    nodes: list[NodeMoved]
    all_nodes: NodeMoved | None
    remedies: list[RemedyRecord]
    notes: list[str]


@dataclass(frozen=True)
class QueryCause:
    """Why a query differs. word: whose the difference is; with_old_plan, own_plan: times of the variant with
    the base's plan and with its own ÷ those of the base; remedies: the one to be taken first, then others in
    the order they were tried."""

    word: Word
    sentence: str
    differences: tuple[tuple[str, str], ...]
    old_plan: tuple[str, ...]
    own_plan: Times | None
    with_old_plan: Times | None
    nodes: tuple[NodeMoved, ...]
    all_nodes: NodeMoved | None
    remedies: tuple[Remedy, ...]
    has_looked_for_remedies: bool
    notes: tuple[str, ...]

    @property
    def remedy(self) -> Remedy | None:
        """The best proven remedy; None where there is none."""
        return next((remedy for remedy in self.remedies if remedy.is_proven), None)

    @property
    def advice(self) -> str:
        """What helps, in a sentence; empty where nothing was looked for."""
        best = self.remedy
        if best is not None and best.times is not None:
            most = " at most" if best.at_most else ""
            others = f"; other queries: {best.on_others}" if best.on_others else ""
            sql = "; ".join(map(on_one_line, best.sql))
            return f"{sql}: the query takes {best.times} of its time{most}{others}"
        if not self.has_looked_for_remedies:
            return ""
        if not self.remedies:
            return "nothing found"
        return f"nothing proven ({numbers.counted(len(self.remedies), 'remedy', 'remedies')} tried)"

    def record(self) -> CauseRecord:
        """Returns the cause in the form JSON can hold."""
        return {
            "word": self.word,
            "sentence": self.sentence,
            "advice": self.advice,
            "differences": [list(pair) for pair in self.differences],
            "old_plan": list(self.old_plan),
            "own_plan": None if self.own_plan is None else self.own_plan.record(),
            "with_old_plan": None if self.with_old_plan is None else self.with_old_plan.record(),
            "nodes": [_whole(node) for node in self.nodes],
            "all_nodes": None if self.all_nodes is None else _whole(self.all_nodes),
            "remedies": [remedy.record() for remedy in self.remedies],
            "notes": list(self.notes),
        }


def _whole(node: NodeMoved) -> NodeMoved:
    """Returns a node as JSON has it, with the fields that have their usual values."""
    return cast(NodeMoved, structs.asdict(node))


def judge_cause(
    record: QueryCauseRecord,
    labels: tuple[str, str],
    verdict: Verdict,
    load_limit: float,
    criterion: Criterion,
    base_seconds: float | None,
    planning: PhaseTimes | None = None,
) -> QueryCause:
    """Returns the cause that was measured.

    labels: of base and variant; verdict: on the query itself; base_seconds: of an execution on the base;
    planning: the part of its turns that plans the query, where the protocol tells it; else EXPLAIN does.
    """
    word: Word = "unknown"
    own_times = forced = by_bounds = None
    base, variant = labels
    planning, planned = _planning(record, planning, verdict, base_seconds)
    if not record.differences:
        own_times = times(verdict)
        word = "executor" if planned < LEFT else "planning" if planned > 1 - LEFT else "executor and planning"
        whose = {"executor": "the executor", "planning": "the time to plan it"}.get(word, word)
        sentence = f"{whose}: the same plan takes {own_times} times as long on {variant} as on {base}"
        by_bounds = verdict
    elif not record.forced:
        why = f"nothing tried brings the plan of {base} ({record.asked:,} plans asked for)"
        if record.old_plan or not record.asked:
            why = "; ".join(record.notes) or "it was not executed with the other plan"
        differs = f"the plan differs ({_difference(record.differences[0])}), and "
        sentence = f"not known: {differs if any(record.differences[0]) else ''}{why}"
    else:
        remaining = look(record.base, record.forced, load_limit, criterion, starts=1)
        forced = times(remaining)
        if record.new:
            change = look(record.base, record.new, load_limit, criterion, starts=1)
            # A remedy with the old plan may have gone on with the turns of the same two.
            more = [(each.turns.with_it, each.turns.without) for each in record.remedies if each.plan_is_old]
            longest = max([(record.forced, record.new), *more], key=lambda both: len(both[1]))
            removed = look(*longest, load_limit, criterion)
            word, own_times = attribution(change, remaining, removed), times(change)
        elif _bounded(remaining) and math.log(remaining.low) > LEFT * math.log(verdict.ratio):
            word = "planner"  # the variant runs into its limit with its own plan
        if word == "planner" and any(" INDEX " in sql.partition(" ON ")[0] for sql in record.old_plan):
            word = "schema"
        sentence = _sentence(word, labels, own_times, forced, record.old_plan, remaining)
        by_bounds = remaining
    if by_bounds is not None and BY_CPU_TIME in by_bounds.reason:
        sentence += f" ({by_bounds.reason})"
    if planning is not None and planned >= LEFT:
        ours, theirs = (numbers.milliseconds(seconds) for seconds in (planning.base, planning.other))
        sentence += f"; to plan it takes {ours} ms on {base}, {theirs} ms on {variant}"
    remedies = _ranked(
        [_remedy(remedy, load_limit, criterion, len(record.remedies)) for remedy in record.remedies]
    )
    return QueryCause(
        word,
        sentence,
        record.differences,
        record.old_plan,
        own_times,
        forced,
        record.nodes,
        record.all_nodes,
        remedies,
        verdict.word == "slower",
        record.notes,
    )


def _planning(
    record: QueryCauseRecord, planning: PhaseTimes | None, verdict: Verdict, base_seconds: float | None
) -> tuple[PhaseTimes | None, float]:
    """Returns the time to plan, by EXPLAIN where the protocol does not tell it, and its share of the
    difference; 0 where that is not known."""
    if planning is None and record.planning_seconds and record.execution_seconds:
        planning = PhaseTimes(*record.planning_seconds, "unclear")
        whole = planning.other - planning.base + record.execution_seconds[1] - record.execution_seconds[0]
    elif planning is None or base_seconds is None or not _bounded(verdict):
        return planning, 0.0
    else:
        whole = base_seconds * (1 / verdict.ratio - 1)
    return planning, max(0.0, (planning.other - planning.base) / whole) if whole else 0.0


def _difference(pair: tuple[str, str]) -> str:
    base, other = (text.partition(";")[0] or "nothing" for text in pair)
    if base == other:
        base, other = pair
    return f"{base} → {other}"


def _sentence(
    word: Word,
    labels: tuple[str, str],
    own_times: Times | None,
    forced: Times,
    how: Sequence[str],
    remaining: Verdict,
) -> str:
    base, variant = labels
    same = f"is the same as {base}, {forced}"
    longer = f"takes {forced} times as long as {base}"
    whose = {
        "planner": "the planner",
        "schema": "the plan, for want of an index",
        "executor": "the executor, though the plan differs",
        "both": "planner and executor",
        "partly planner": "the planner, at least in part",
        "partly executor": "the executor, at least in part",
        "unknown": "not known",
    }[word]
    its = (
        f"with its own plan {own_times}"
        if own_times is not None
        else "with its own plan it runs into its limit"
    )
    return (
        f"{whose}: with the plan of {base} ({'; '.join(how)}) {variant} "
        f"{same if remaining.word == 'same' else longer}, {its}"
    )


def _remedy(trial: RemedyTrial, load_limit: float, criterion: Criterion, looks: int) -> Remedy:
    turns = trial.turns
    effects = tuple(_effect(other, load_limit, criterion) for other in trial.others)
    if trial.limit_without is not None:
        seconds = [1 / part.rate for part in turns.with_it if part.rate > 0]
        if not seconds:
            return Remedy(trial.kind, trial.sql, "unclear", None, 0, False, (), turns.reason)
        share = max(seconds) / trial.limit_without
        word = "faster" if share < ALIKE else "unclear"
        return Remedy(
            trial.kind, trial.sql, word, Times(share, 0.0, share), len(seconds), True, effects, turns.reason
        )
    verdict = look(turns.without, turns.with_it, load_limit, criterion, looks)
    gain = times(verdict) if verdict.n else None
    return Remedy(
        trial.kind, trial.sql, verdict.word, gain, verdict.n, False, effects, turns.reason or verdict.reason
    )


def _effect(turns: TrialTurns, load_limit: float, criterion: Criterion) -> Effect:
    verdict = look(turns.without, turns.with_it, load_limit, criterion)
    return Effect(turns.name, verdict.word, times(verdict) if verdict.n else None)


def _ranked(remedies: Sequence[Remedy]) -> tuple[Remedy, ...]:
    """Returns the remedies with the recommended one first: the simplest of those proven remedies that save
    about the most time."""
    proven = [remedy for remedy in remedies if remedy.is_proven and remedy.times is not None]
    if not proven:
        return tuple(remedies)
    least = min(remedy.times.ratio for remedy in proven if remedy.times is not None)
    near = [remedy for remedy in proven if remedy.times is not None and remedy.times.ratio <= least / ALIKE]
    best = min(near, key=lambda remedy: get_args(RemedyKind).index(remedy.kind))
    return (best, *(remedy for remedy in remedies if remedy is not best))


def best_trial(trials: Sequence[RemedyTrial], load_limit: float, criterion: Criterion) -> RemedyTrial | None:
    """Returns the trial of the remedy that will be named; None where none is proven."""
    remedies = [_remedy(trial, load_limit, criterion, len(trials)) for trial in trials]
    best = _ranked(remedies)[0] if remedies else None
    if best is None or not best.is_proven:
        return None
    return next(trial for trial in trials if trial.sql == best.sql)


__all__ = [
    "SETTLED",
    "Effect",
    "QueryCause",
    "Remedy",
    "Times",
    "attribution",
    "best_trial",
    "judge_cause",
    "look",
    "times",
]
