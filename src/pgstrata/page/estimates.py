"""Estimated against actual rows of recorded queries, by variant."""

from __future__ import annotations

import math

from pgstrata import numbers
from pgstrata.judge.estimates import EstimateComparison, QueryEstimates, compare_estimates, estimates_of
from pgstrata.page.blocks import Block, Cell, Column, Prose, Row, Table, missing, words
from pgstrata.page.queries import Queries
from pgstrata.page.results import RunSet, WorkloadResults

_HOW = (
    "From EXPLAIN (ANALYZE), rows per loop. The factor is estimated ÷ actual rows or the reverse, whichever "
    "is larger, each taken as at least one row. Worst: the node whose factor is the largest; median: over "
    "the nodes of the plan. Left out are nodes that were not executed or were ended early, and those that "
    "make bitmaps. Better and worse: the worst factor changed by more than two times. ANALYZE draws a "
    "sample, so a single change may be chance."
)


def estimate_blocks(results: RunSet, workload: WorkloadResults, queries: Queries, name: str) -> list[Block]:
    """Returns a sentence for each variant and a table called `name`, the largest changes first; nothing where
    fewer than two variants have executed plans of one query."""
    estimated = {v: estimates for v, plans in queries.plans.items() if (estimates := estimates_of(plans))}
    if len(estimated) < 2:
        return []
    base = results.base if results.base in estimated else next(iter(estimated))
    others = [variant for variant in estimated if variant != base]
    comparisons = (compare_estimates(base, other, estimated[base], estimated[other]) for other in others)
    compared = [comparison for comparison in comparisons if comparison is not None]
    if not compared:
        return []
    shown = [base, *(comparison.other for comparison in compared)]
    changes: dict[str, float] = {}
    for comparison in compared:
        for query in comparison.queries:
            changes[query] = max(changes.get(query, 0.0), abs(math.log(comparison.gain(query))))
    table = Table(
        name,
        "Estimated against actual rows — less is better",
        [
            Column("query", "Query", align="left"),
            *(column for variant in shown for column in _columns(variant)),
            *(
                Column("change", "Estimates", comparison.other, align="left", rule=True)
                for comparison in compared
            ),
        ],
        [
            Row(
                [
                    words(query),
                    *(cell for variant in shown for cell in _cells(estimated[variant].get(query))),
                    *(_change(comparison, query) for comparison in compared),
                ]
            )
            for query in sorted(changes, key=lambda query: -changes[query])
        ],
        _HOW,
        keys=(("workload", workload.name),),
    )
    return [*(Prose(comparison.sentence()) for comparison in compared), table]


def _columns(variant: str) -> list[Column]:
    return [
        Column("worst", "Worst factor", variant, rule=True),
        Column("median", "Median", variant),
        Column("node", "Worst node", variant, align="left"),
    ]


def _cells(estimates: QueryEstimates | None) -> list[Cell]:
    if estimates is None:
        return [missing("not executed")] * 3
    worst = estimates.worst
    rows = f"estimated {numbers.count(worst.estimated)}, actual {numbers.count(worst.actual)}"
    return [
        Cell(worst.factor, numbers.significant(worst.factor)),
        Cell(estimates.median, numbers.significant(estimates.median)),
        Cell(f"{worst.title}: {rows}", worst.title, small=rows),
    ]


def _change(comparison: EstimateComparison, query: str) -> Cell:
    if query not in comparison.queries:
        return missing("not executed")
    word = comparison.word(query)
    gain = comparison.gain(query)
    times = "" if word == "alike" else f", {numbers.significant(max(gain, 1 / gain))} times"
    # neither good nor bad: nothing is proven
    return words(f"{word}{times}")
