"""Steps that run each query of a folder once: their rates over the queries that every side ran.

A version that rejects a query has less to do: the rest in less time is no faster server. So a query that one
side rejects counts on none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from pgstrata.numbers import counted
from pgstrata.store import Run
from pgstrata.store.record import StepRecord
from pgstrata.units import rate_of

QUERIES_PER_HOUR = "queries/h"
"""Unit of steps that run each query once."""

StepKey = tuple[str, str]
"""Workload and step."""


@dataclass(frozen=True)
class Shared:
    """How many of the queries of a step all sides ran."""

    common: int
    every: int

    def __str__(self) -> str:
        return f"over the {self.common} of {counted(self.every, 'query', 'queries')} that no side rejected"


Rows = list[dict[str, Any]]


def over_common(sides: Sequence[Sequence[Run]]) -> tuple[list[list[Run]], dict[StepKey, Shared]]:
    """Takes the rates of such steps over the queries that every side ran.

    Returns the runs of all sides, and the steps in which that are not all queries. A side rejects a query if
    it did in any of its runs; a query over its limit was run. Raises StoreError where a table is damaged.
    """
    ran: dict[StepKey, list[set[str]]] = {}
    asked: dict[StepKey, set[str]] = {}
    rows: dict[tuple[str, str], Rows] = {}
    for run in (run for runs in sides for run in runs):
        for step, step_rows in _rows(run).items():
            names = {row["query"] for row in step_rows}
            rows[run.run_id, step] = step_rows
            ran.setdefault((run.workload, step), []).append(
                names - {row["query"] for row in step_rows if _rejected(row)}
            )
            asked.setdefault((run.workload, step), set()).update(names)
    common = {key: set.intersection(*sets) for key, sets in ran.items()}
    common = {key: queries for key, queries in common.items() if queries != asked[key]}
    if not common:
        return [list(runs) for runs in sides], {}

    def over(run: Run, step: StepRecord) -> StepRecord:
        queries, run_rows = common.get((run.workload, step.name)), rows.get((run.run_id, step.name))
        if queries is None or run_rows is None:
            return step
        rate = rate_of_queries([row for row in run_rows if row["query"] in queries], step.rate_unit)
        return structs.replace(step, rate=rate)

    changed = [
        [
            replace(run, record=structs.replace(run.record, steps=tuple(over(run, s) for s in run.steps)))
            for run in runs
        ]
        for runs in sides
    ]
    return changed, {key: Shared(len(queries), len(asked[key])) for key, queries in common.items()}


def _rows(run: Run) -> dict[str, Rows]:
    """Returns, by step, the executions of its queries; steps that are judged in another way are left out."""
    steps = {step.name for step in run.steps if step.measured and step.rate_unit == QUERIES_PER_HOUR}
    by_step: dict[str, Rows] = {}
    if steps:
        table = run.table("queries", ["step", "query", "stream", "seconds", "timed_out", "error"])
        for row in table:
            if row["step"] in steps:
                by_step.setdefault(row["step"], []).append(row)
    return by_step


def _rejected(row: Mapping[str, Any]) -> bool:
    return row["error"] is not None and not row["timed_out"]


def rate_of_queries(rows: Sequence[Mapping[str, Any]], unit: str = QUERIES_PER_HOUR) -> float | None:
    """Returns executions ÷ time of the stream that took longest, in the unit; None without executions.

    A query over its limit counts as one execution of twice the limit; one that the server rejected counts in
    neither.
    """
    seconds: defaultdict[int, float] = defaultdict(float)
    executions = 0
    for row in rows:
        if not _rejected(row):
            seconds[row["stream"]] += row["seconds"]
            executions += 1
    longest = max(seconds.values(), default=0.0)
    return rate_of(executions, longest, unit) if longest > 0 else None


__all__ = ["QUERIES_PER_HOUR", "Shared", "over_common", "rate_of_queries"]
