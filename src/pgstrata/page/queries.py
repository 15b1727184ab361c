"""The queries of a workload, read from its run folders once: durations by step and variant, and plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pgstrata import numbers
from pgstrata.judge.estimates import kept_plans
from pgstrata.judge.marks import Mark, relative_mark
from pgstrata.judge.queries import Timing, timings
from pgstrata.page.blocks import Cell, missing
from pgstrata.page.results import RunSet, WorkloadResults

Json = dict[str, Any]

COLUMNS = ("step", "query", "seconds", "answer", "timed_out", "sqlstate", "error")


@dataclass(frozen=True)
class Queries:
    """by_step: step → variant → query → timing. plans: variant → query → plan. buffers: variant → query →
    column of the view `queries` → bytes."""

    by_step: Mapping[str, Mapping[str, Mapping[str, Timing]]]
    plans: Mapping[str, Mapping[str, Any]]
    buffers: Mapping[str, Mapping[str, Json]]


def read(results: RunSet, workload: WorkloadResults) -> Queries:
    """Returns the queries of a workload, with variants in the order of the campaign; variants without queries
    are left out."""
    rows: dict[str, dict[str, list[Json]]] = {}
    plans: dict[str, dict[str, Any]] = {}
    buffers: dict[str, dict[str, Json]] = {}
    for variant in results.variants:
        for run in workload.runs:
            if run.variant != variant:
                continue
            for row in run.table("queries"):
                rows.setdefault(row["step"], {}).setdefault(variant, []).append(row)
                if row["shared_hit_bytes"] is not None:
                    buffers.setdefault(variant, {})[row["query"]] = row
            if kept := kept_plans([run]):
                plans.setdefault(variant, {}).update(kept)
    by_step = {
        step: {variant: timings(variant_rows) for variant, variant_rows in variants.items()}
        for step, variants in rows.items()
    }
    return Queries(_as_judged(results, workload, by_step), plans, buffers)


def _as_judged(
    results: RunSet, workload: WorkloadResults, by_step: Mapping[str, Mapping[str, Mapping[str, Timing]]]
) -> dict[str, dict[str, dict[str, Timing]]]:
    """Returns the timings with the seconds of the verdicts in place of those of the one pass before, where a
    query has verdicts of its own: one figure for one thing."""
    judged = {step: {v: dict(of_variant) for v, of_variant in by.items()} for step, by in by_step.items()}
    for comparison in results.comparisons:
        for step in comparison.steps:
            if step.workload != workload.name or step.step not in judged:
                continue
            for query in step.queries:
                name = query.step.removeprefix(f"{step.step}.")
                for variant, rate in (
                    (results.base, query.base_rate),
                    (comparison.other, query.other_rate),
                ):
                    timing = judged[step.step].get(variant, {}).get(name)
                    if rate and timing is not None and timing.seconds is not None and not timing.timed_out:
                        judged[step.step][variant][name] = replace(timing, seconds=1 / rate)
    return judged


def facts(workload: WorkloadResults, variant: str, *path: str) -> Any:
    """Returns a fact that the workload found out about its data, of the variant's last run that has it."""
    for run in reversed(workload.runs):
        if run.variant == variant:
            value: Any = run.record.facts
            for name in path:
                value = value.get(name) if isinstance(value, dict) else None
            if value is not None:
                return value
    return None


def has(workload: WorkloadResults, fact: str) -> bool:
    """Returns whether any run of the workload has this fact, which tells what kind of workload it is."""
    return any(run.record.facts.get(fact) is not None for run in workload.runs)


def relative(results: RunSet, value: float | None) -> Cell:
    """Returns the cell of the base's duration divided by the variant's."""
    if value is None:
        return missing("the base has none")
    return Cell(value, numbers.ratio(value), time_mark(results, value))


def time_mark(results: RunSet, ratio: float) -> Mark:
    """Returns the mark of a query's relative time, which proves nothing: none unless thresholds are asked
    for."""
    return relative_mark(ratio, results.thresholds) if results.by_thresholds else ""
