"""How far the planner's row counts were from the truth, by query, and whether another server's are nearer."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from pgstrata import numbers
from pgstrata.judge.plan_times import RowEstimate, executed_estimates
from pgstrata.store import Run

Word = Literal["better", "worse", "alike"]

FACTOR = 2.0
"""The estimates of a query got better or worse where its worst factor changed by more than this."""

_BITMAPS = frozenset(("Bitmap Index Scan", "BitmapAnd", "BitmapOr"))
"""Nodes that give a bitmap and may report 0 rows."""


class PlanEstimateRecord(TypedDict):
    """The estimates of one plan as JSON."""

    factor: float
    node: str
    estimated_rows: float
    actual_rows: float
    median_factor: float


class QueryEstimateRecord(TypedDict):
    """The estimates of a query on both sides as JSON."""

    query: str
    word: Word
    base: PlanEstimateRecord
    other: PlanEstimateRecord


class EstimatesRecord(TypedDict):
    """The estimates of two sides as JSON."""

    workload: NotRequired[str]
    base_factor: float
    other_factor: float
    better: int
    worse: int
    queries: list[QueryEstimateRecord]


@dataclass(frozen=True)
class QueryEstimates:
    """The estimates of one executed plan. median: of the factors of all its nodes."""

    worst: RowEstimate
    median: float

    def record(self) -> PlanEstimateRecord:
        """Returns it as JSON can hold it."""
        return {
            "factor": self.worst.factor,
            "node": self.worst.title,
            "estimated_rows": self.worst.estimated,
            "actual_rows": self.worst.actual,
            "median_factor": self.median,
        }


@dataclass(frozen=True)
class EstimateComparison:
    """The estimates of two variants, by the queries of which both have executed plans; at least one."""

    base: str
    other: str
    queries: Mapping[str, tuple[QueryEstimates, QueryEstimates]]

    @property
    def means(self) -> tuple[float, float]:
        """Geometric means of the worst factors, of base and other."""
        base, other = zip(*self.queries.values(), strict=True)
        return _mean(base), _mean(other)

    def gain(self, query: str) -> float:
        """Returns the base's worst factor divided by the other's: above 1 the other estimates better."""
        base, other = self.queries[query]
        return base.worst.factor / other.worst.factor

    def word(self, query: str) -> Word:
        """Returns whether the other estimates a query better or worse, by more than `FACTOR`."""
        gain = self.gain(query)
        return "better" if gain > FACTOR else "worse" if gain < 1 / FACTOR else "alike"

    def count(self, word: Word) -> int:
        """Returns how many queries have this word."""
        return sum(self.word(query) == word for query in self.queries)

    def sentence(self) -> str:
        """Returns the answer over all queries."""
        base, other = map(numbers.significant, self.means)
        better, worse = self.count("better"), self.count("worse")
        return (
            f"Over {numbers.counted(len(self.queries), 'query', 'queries')}, the worst estimate of a plan is "
            f"off by a factor of {base} under {self.base}, {other} under {self.other} (geometric means). "
            f"{self.other} estimates {better} better and {worse} worse by more than a factor of {FACTOR:g}."
        )

    def record(self) -> EstimatesRecord:
        """Returns it as JSON can hold it."""
        base, other = self.means
        return {
            "base_factor": base,
            "other_factor": other,
            "better": self.count("better"),
            "worse": self.count("worse"),
            "queries": [
                {"query": name, "word": self.word(name), "base": first.record(), "other": two.record()}
                for name, (first, two) in self.queries.items()
            ],
        }


def _mean(queries: Sequence[QueryEstimates]) -> float:
    return statistics.geometric_mean(query.worst.factor for query in queries)


def query_estimates(plan: Any) -> QueryEstimates | None:
    """Returns the estimates of an EXPLAIN (ANALYZE, FORMAT JSON); None where no node has actual rows."""
    nodes = [node for node in executed_estimates(plan) if node.kind not in _BITMAPS]
    if not nodes:
        return None
    worst = max(nodes, key=lambda node: (node.factor, node.actual))
    return QueryEstimates(worst, statistics.median(node.factor for node in nodes))


def estimates_of(plans: Mapping[str, Any]) -> dict[str, QueryEstimates]:
    """Returns the estimates of plans by query, without the queries that were not executed."""
    return {
        name: estimates for name, plan in plans.items() if (estimates := query_estimates(plan)) is not None
    }


def compare_estimates(
    base: str, other: str, ours: Mapping[str, QueryEstimates], theirs: Mapping[str, QueryEstimates]
) -> EstimateComparison | None:
    """Returns the comparison of two variants; None where they have no executed plan of one query."""
    both = {name: (ours[name], theirs[name]) for name in ours if name in theirs}
    return EstimateComparison(base, other, both) if both else None


def kept_plans(runs: Iterable[Run]) -> dict[str, Any]:
    """Returns the plans of recorded queries by name, of the last run that has one."""
    return {
        str(entry.get("name")): entry.get("plan")
        for run in runs
        for entries in run.plans().values()
        for entry in entries
        if isinstance(entry, dict)
    }


def estimate_records(base: Sequence[Run], other: Sequence[Run]) -> list[EstimatesRecord]:
    """Returns the comparisons of estimates of two sides' runs, one for each workload, as JSON holds them."""
    records: list[EstimatesRecord] = []
    for workload in dict.fromkeys(run.workload for run in base):
        ours, theirs = (
            estimates_of(kept_plans(run for run in runs if run.done and run.workload == workload))
            for runs in (base, other)
        )
        if (comparison := compare_estimates("base", "other", ours, theirs)) is not None:
            records.append({**comparison.record(), "workload": workload})
    return records


__all__ = [
    "EstimateComparison",
    "EstimatesRecord",
    "QueryEstimates",
    "compare_estimates",
    "estimate_records",
    "estimates_of",
    "kept_plans",
    "query_estimates",
]
