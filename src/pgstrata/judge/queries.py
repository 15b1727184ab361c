"""Durations of single queries over variants: what all of them ran, totals, ratios. Pure functions."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

SUB_MILLISECOND = 1e-3
"""Below this duration, in seconds, a ratio says more about the measurement than about the query."""


VARIES = "varies"
"""The answer of a query that is another at each execution by its nature: it is held against none."""


@dataclass(frozen=True)
class Timing:
    """A variant's executions of one query.

    seconds: their median, None where the server rejected it each time. answer: `different` if any was,
    else `not run` if any was, else `same`; None where answers were not checked. digests: of its answers.
    """

    seconds: float | None
    executions: int
    timed_out: bool = False
    answer: str | None = None
    sqlstate: str | None = None
    error: str | None = None
    digests: frozenset[str] = frozenset()


def timings(rows: Iterable[Mapping[str, Any]]) -> dict[str, Timing]:
    """Returns the timings by query, from rows of the view `queries` of one variant; repeats and streams are
    taken together."""
    grouped: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        grouped[str(row["query"])].append(row)
    return {query: _timing(query_rows) for query, query_rows in grouped.items()}


def _timing(rows: Sequence[Mapping[str, Any]]) -> Timing:
    ran = [r for r in rows if r["error"] is None or r["timed_out"]]
    failed = next((r for r in rows if r["error"] is not None), None)
    answers = {r["answer"] for r in rows}
    return Timing(
        seconds=statistics.median(r["seconds"] for r in ran) if ran else None,
        executions=len(rows),
        timed_out=any(r["timed_out"] for r in rows),
        answer=next((a for a in ("different", "not run", VARIES, "same") if a in answers), None),
        sqlstate=failed["sqlstate"] if failed else None,
        error=failed["error"] if failed else None,
        digests=frozenset(digest for r in rows if (digest := r.get("digest")) is not None),
    )


def against_base(by_variant: Mapping[str, Mapping[str, Timing]], base: str) -> dict[str, dict[str, Timing]]:
    """Returns the timings with each answer compared to that of the base, by digest.

    The base's own are `same` where all its executions gave one answer, else `different`. Where the base
    has no answer, nothing is known of others.
    """
    right = by_variant.get(base, {})
    return {
        variant: {
            query: replace(timing, answer=_verdict(timing, right.get(query)))
            for query, timing in timings.items()
        }
        for variant, timings in by_variant.items()
    }


def changed_answers(by_variant: Mapping[str, Mapping[str, Timing]], base: str) -> dict[str, list[str]]:
    """Returns the queries whose answer is not that of the base, by variant; none of a query that the base
    itself answers in several ways."""
    changed: dict[str, list[str]] = {}
    for variant, timings in by_variant.items():
        for query, timing in timings.items():
            right = by_variant.get(base, {}).get(query)
            if variant == base or right is None or VARIES in (timing.answer, right.answer):
                continue
            if len(right.digests) == 1 and timing.digests and timing.digests != right.digests:
                changed.setdefault(variant, []).append(query)
    return changed


def _verdict(timing: Timing, right: Timing | None) -> str | None:
    if not timing.digests:
        return "not run"
    if timing.answer == VARIES:
        return VARIES
    if right is None or not right.digests:
        return None
    return "same" if timing.digests == right.digests and len(timing.digests) == 1 else "different"


def common(by_variant: Mapping[str, Mapping[str, Timing]]) -> list[str]:
    """Returns the queries that every variant ran, sorted; a query over its limit was run, a rejected query
    was not."""
    sets = [{q for q, t in timings.items() if t.seconds is not None} for timings in by_variant.values()]
    return sorted(set.intersection(*sets)) if sets else []


def total(timings: Mapping[str, Timing], queries: Sequence[str]) -> float:
    """Returns the seconds of these queries together; each has to have been run."""
    return math.fsum(timings[q].seconds or 0.0 for q in queries)


def geometric_mean(timings: Mapping[str, Timing], queries: Sequence[str]) -> float | None:
    """Returns the geometric mean of the seconds: exp of the mean logarithm, every query weighing the same;
    None without queries.

    A duration of 0 counts as a microsecond, the clock's resolution.
    """
    if not queries:
        return None
    return math.exp(math.fsum(math.log(max(1e-6, timings[q].seconds or 0.0)) for q in queries) / len(queries))


def faster(base: Timing | None, timing: Timing | None) -> float | None:
    """Returns the base's seconds divided by the variant's; None if either did not run or both met the
    limit."""
    if base is None or timing is None or base.seconds is None or not timing.seconds:
        return None
    if base.timed_out and timing.timed_out:
        return None
    return base.seconds / timing.seconds


@dataclass(frozen=True)
class QueryShift:
    """How single queries moved between two variants: shares 0 … 1 of all that both ran.

    slower, faster, even: of the queries that took the base a millisecond or more; unsure: the others.
    """

    queries: int
    slower: float
    faster: float
    even: float
    unsure: float


def shift(
    base: Mapping[str, Timing], other: Mapping[str, Timing], thresholds: tuple[float, float]
) -> QueryShift | None:
    """Returns the shares of queries that became slower or faster; None without queries in common. thresholds:
    relative rates (base seconds ÷ seconds) that count as slower and as faster."""
    both = common({"base": base, "other": other})
    if not both:
        return None
    worse, better = thresholds
    counts = {"slower": 0, "faster": 0, "even": 0, "unsure": 0}
    for query in both:
        before, after = base[query].seconds or 0.0, other[query].seconds or 0.0
        if before < SUB_MILLISECOND:
            counts["unsure"] += 1
            continue
        relative = before / after if after > 0 else math.inf
        counts["slower" if relative <= worse else "faster" if relative >= better else "even"] += 1
    return QueryShift(len(both), **{name: n / len(both) for name, n in counts.items()})
