"""Queries that were executed one at a time in pairs: each is slower, faster, the same or unclear by itself.

A query that one side rejects is no comparison. One that runs into its limit on one side only is slower there,
where the other side ends clearly before it.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from msgspec import structs

from pgstrata import numbers
from pgstrata.judge.alone import AloneTurns, disturbed_by
from pgstrata.judge.bounded import BY_CPU_TIME, judge_bounded
from pgstrata.judge.pairs import disturbed_pairs, neighbours, pairs_of, together
from pgstrata.judge.query_parts import MeanExecutions, mean_executions
from pgstrata.stats import executions
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.verdict import Verdict, Word, set_aside
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import OTHER_LOAD, QueryPairs, QueryTurns

UNIT = "queries/s"
"""Of the rates of a single query: executions for each second that they took."""

CLEAR = 1.25
"""A query is slower than another that runs into its limit only where it ends so many times earlier: one
execution is no pair."""


LIKE_PLANS = 2.0
"""A sample of ANALYZE may decide between plans of which one takes this many times as long as the other: a
smaller difference is not known to be one of the variants."""


class QuerySide(NamedTuple):
    """A query on one variant. load_limit: share of the CPUs that other programs may use."""

    turns: QueryTurns
    load_limit: float = OTHER_LOAD


@dataclass(frozen=True)
class PhaseTimes:
    """Seconds of one phase of a query, parsing and planning or execution: the median of all turns of base and
    other, and what the phase is by itself."""

    base: float
    other: float
    word: Word


@dataclass(frozen=True)
class Phases:
    """Planning and execution of a query, told apart by the protocol: the server answers Bind when it has
    planned."""

    planning: PhaseTimes
    execution: PhaseTimes

    @property
    def without_words(self) -> Phases:
        """The times alone: where nothing is known of the query, nothing is known of its phases."""
        return Phases(replace(self.planning, word="unclear"), replace(self.execution, word="unclear"))

    def record(self) -> dict[str, Any]:
        """Returns the phases in the form JSON can hold."""
        return {"planning": asdict(self.planning), "execution": asdict(self.execution)}


@dataclass(frozen=True)
class QueryVerdict:
    """The verdict on one query before it is adjusted for the number of all of them. means: of what differs.

    base_rate, other_rate: in `UNIT`, None of a side on which no execution came to its end; where there are
    pairs, that of the other side is that of the base × the ratio of the verdict. ends: of both sides, as in
    `QueryTurns`.
    """

    name: str
    verdict: Verdict
    base_rate: float | None
    other_rate: float | None
    ends: tuple[str, str]
    phases: Phases | None = None
    means: MeanExecutions | None = None


def judge_query(
    parts: Sequence[tuple[QuerySide, QuerySide]],
    limit_seconds: float,
    labels: tuple[str, str],
    criterion: Criterion,
) -> Verdict:
    """Returns the verdict on the pairs so far, of one comparison or of several; it may be looked at after
    every pair. parts: of base and other; labels: what these are called.
    """
    turns = [_turns(*both) for both in parts]
    pairs = together([pairs_of(*both) for both in turns])
    verdict = executions.look(
        pairs.base, pairs.other, criterion=criterion, starts=_starts(parts), blocks=pairs.blocks
    )
    here, there = (_in_all([both[place].turns for both in parts]) for place in (0, 1))
    if here.end or there.end:
        return _ended(verdict, here, there, limit_seconds, labels)
    if disturbance := disturbed_by(turns):
        bounded = judge_bounded(turns, criterion)
        if bounded is None:
            return set_aside(verdict, disturbance)
        return replace(bounded, reason=f"by so much at least, {BY_CPU_TIME}: {disturbance}")
    if verdict.word == "unclear":
        why = next((side.turns.reason for both in parts for side in both if side.turns.reason), "")
        if why:
            return replace(verdict, reason=f"{verdict.reason}; {why}")
    return verdict


def scatter_of_pairs(base: QuerySide, other: QuerySide) -> float:
    """Returns the standard deviation of the log ratio of a pair, half of the distance between its 16th and
    84th percentile; 0 below two pairs."""
    turns = _turns(base, other)
    logs = [
        math.log(ours.rate / theirs.rate) for ours, theirs in neighbours(*turns) if ours.rate and theirs.rate
    ]
    if len(logs) < 2:
        return 0.0
    low, high = np.quantile(logs, (0.16, 0.84))
    return float(high - low) / 2


def _starts(parts: Sequence[tuple[QuerySide, QuerySide]]) -> int:
    """Returns how many starts of the servers all pairs are from; 0 where that was not counted."""
    counts = [side.turns.starts for both in parts for side in both]
    return 0 if None in counts else sum(count or 0 for count in counts) // 2


def _in_all(turns: Sequence[QueryTurns]) -> QueryTurns:
    """Returns how a side ended in several comparisons, with the most seconds of those in which an execution
    came to its end: one that was cut in one of them may have ended in another."""
    ends = [each for each in turns if each.end]
    rejected = next((each for each in ends if each.end == "rejected"), None)
    known = [each.seconds for each in turns if each.seconds is not None]
    return structs.replace(rejected or (ends or turns)[0], seconds=max(known, default=None))


def _ended(
    verdict: Verdict, base: QueryTurns, other: QueryTurns, limit_seconds: float, labels: tuple[str, str]
) -> Verdict:
    """Returns the verdict on a query that a side no longer executes."""
    limit = f"{limit_seconds:g} s"
    if base.end == other.end == "rejected":
        words = base.reason if base.reason == other.reason else f"{base.reason}; {labels[1]}: {other.reason}"
        return set_aside(verdict, f"both sides reject it: {words}")
    if "rejected" in (base.end, other.end):
        label, side = (labels[0], base) if base.end == "rejected" else (labels[1], other)
        return set_aside(verdict, f"{label} rejects it: {side.reason}")
    if base.end == other.end:
        return set_aside(verdict, f"both sides run into its limit of {limit}")
    label, ends = (labels[1], base) if other.end else (labels[0], other)
    cut = other if other.end else base
    if cut.seconds is not None:
        return set_aside(verdict, f"{label} runs into its limit of {limit}, and has ended before it, too")
    share = (ends.seconds or limit_seconds) / limit_seconds
    if share >= min(1 / CLEAR, 1 - verdict.margin):
        return set_aside(verdict, f"{label} runs into its limit of {limit}, the other side nearly")
    word: Word = "slower" if other.end else "faster"
    low, high, ratio = (0.0, share, share) if other.end else (1 / share, float("inf"), 1 / share)
    reason = (
        f"{label} runs into its limit of {limit}, and the other side takes {numbers.duration(ends.seconds)}"
    )
    return Verdict(word, ratio, low, high, verdict.margin, verdict.confidence, 1, 0.0, None, reason)


def judge_queries(
    base: Mapping[int, MeasuredStep],
    other: Mapping[int, MeasuredStep],
    criterion: Criterion,
) -> list[QueryVerdict]:
    """Returns the verdicts on the queries of a step in the order of their names; none where they were not
    executed in pairs. base, other: by repeat."""
    parts: dict[str, list[tuple[QuerySide, QuerySide]]] = {}
    labels, limit = ("", ""), 0.0
    for repeat in sorted(base.keys() & other.keys()):
        ours, theirs = base[repeat], other[repeat]
        here, there = ours.record.query_pairs, theirs.record.query_pairs
        if here is None or there is None or ours.run.comparison != theirs.run.comparison:
            continue
        labels, limit = (ours.run.variant, theirs.run.variant), here.limit_seconds
        second = _by_name(there)
        for query in here.queries:
            if query.name in second:
                both = (
                    QuerySide(query, ours.record.load_limit),
                    QuerySide(second[query.name], theirs.record.load_limit),
                )
                parts.setdefault(query.name, []).append(both)
    queries = []
    for name, sides in sorted(parts.items(), key=lambda item: in_order(item[0])):
        ends = _end(side.turns for side, _ in sides), _end(side.turns for _, side in sides)
        verdict = _but_for_samples(judge_query(sides, limit, labels, criterion), sides, labels)
        base_rate = rate_of([side.turns for side, _ in sides])
        other_rate = rate_of([side.turns for _, side in sides])
        if base_rate is not None and other_rate is not None and verdict.n:
            other_rate = base_rate * verdict.ratio
        differs = verdict.word in ("slower", "faster")
        means = mean_of_pairs(sides) if differs else None
        phases = _phases(sides, criterion)
        queries.append(QueryVerdict(name, verdict, base_rate, other_rate, ends, phases, means))
    return queries


def _but_for_samples(
    verdict: Verdict, parts: Sequence[tuple[QuerySide, QuerySide]], labels: tuple[str, str]
) -> Verdict:
    """Returns the verdict on a query, unclear where the rows that ANALYZE sampled may have made it: with
    others a variant takes another plan."""
    several = [
        label
        for place, label in enumerate(labels)
        if any((both[place].turns.plans or 0) > 1 for both in parts)
    ]
    if verdict.word not in ("slower", "faster") or not several:
        return verdict
    hangs = f"the plan of {' and '.join(several)} hangs on the rows that ANALYZE samples"
    if abs(math.log(verdict.ratio)) < math.log(LIKE_PLANS):
        return set_aside(verdict, f"{verdict.word} with these statistics, but {hangs}")
    return replace(verdict, reason=f"{verdict.reason}; {hangs}")


def mean_of_pairs(parts: Sequence[tuple[QuerySide, QuerySide]]) -> MeanExecutions | None:
    """Returns the mean executions of the pairs that a verdict takes; one by CPU time takes all. None where
    too few of them tell what they took of the CPUs."""
    turns = [_turns(*both) for both in parts]
    takes_all = bool(disturbed_by(turns))
    return mean_executions(
        [
            (base.turns, other.turns, frozenset() if takes_all else disturbed_pairs(*both))
            for (base, other), both in zip(parts, turns, strict=True)
        ]
    )


def _turns(base: QuerySide, other: QuerySide) -> tuple[AloneTurns, AloneTurns]:
    ours, theirs = (
        AloneTurns(side.turns.slices, side.load_limit, blocks=side.turns.blocks) for side in (base, other)
    )
    return ours, theirs


def _phases(parts: Sequence[tuple[QuerySide, QuerySide]], criterion: Criterion) -> Phases | None:
    """Returns planning and execution by themselves; None where fewer than half of the pairs do."""
    both: list[tuple[_Apart, _Apart]] = []
    pairs = 0
    for base, other in parts:
        out = disturbed_pairs(*_turns(base, other))
        pairs += min(len(base.turns.slices), len(other.turns.slices)) - len(out)
        ours, theirs = _apart(base.turns), _apart(other.turns)
        both += [(ours[pair], theirs[pair]) for pair in ours if pair in theirs and pair not in out]
    if not both or 2 * len(both) < pairs:
        return None
    planning, execution = (
        _phase([ours[n] for ours, _ in both], [theirs[n] for _, theirs in both], criterion, _starts(parts))
        for n in (0, 1)
    )
    phases = Phases(planning, execution)
    return phases.without_words if disturbed_by([_turns(*sides) for sides in parts]) else phases


_Apart = tuple[float, float]
"""Seconds of planning and of execution."""


def _apart(turns: QueryTurns) -> dict[int, _Apart]:
    """Returns the seconds of planning and execution by the number of the pair; at least 1 ns each, since a
    clock with few digits may leave nothing of a phase."""
    return {
        part.pair: (max(planning, 1e-9), max(1 / part.rate - planning, 1e-9))
        for part, planning in zip(turns.slices, turns.planning, strict=False)
        if planning is not None and part.rate > 0
    }


def _phase(base: Sequence[float], other: Sequence[float], criterion: Criterion, starts: int) -> PhaseTimes:
    verdict = executions.look(
        [1 / x for x in base], [1 / x for x in other], criterion=criterion, starts=starts
    )
    return PhaseTimes(statistics.median(base), statistics.median(other), verdict.word)


def _end(turns: Iterable[QueryTurns]) -> str:
    return next((each.end for each in turns if each.end), "")


def in_order(name: str) -> list[tuple[int, str]]:
    """Returns the key to sort names of queries by: numbers within are numbers, `q2` comes before `q10`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"([0-9]+)", name)]


def _by_name(pairs: QueryPairs) -> dict[str, QueryTurns]:
    return {query.name: query for query in pairs.queries}


def rate_of(turns: Sequence[QueryTurns]) -> float | None:
    """Returns executions of one query for each second that they took: the median of its turns, or of the
    pass over all queries where there is no turn; None where none came to its end."""
    rates = [part.rate for each in turns for part in each.slices]
    rates = rates or [1 / each.seconds for each in turns if each.seconds]
    return statistics.median(rates) if rates else None


__all__ = [
    "UNIT",
    "Phases",
    "QuerySide",
    "QueryVerdict",
    "in_order",
    "judge_queries",
    "judge_query",
    "mean_of_pairs",
    "rate_of",
    "scatter_of_pairs",
]
