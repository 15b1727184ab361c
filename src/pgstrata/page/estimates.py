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


def estimate_blocks(results: RunSet, workload: WorkloadResults, found: Queries, name: str) -> list[Block]:
    """Returns a sentence for each variant and a table called `name`, the largest changes first; nothing where
    fewer than two variants have executed plans of one query."""
    own = {v: estimates for v, plans in found.plans.items() if (estimates := estimates_of(plans))}
    if len(own) < 2:
        return []
    base = results.base if results.base in own else next(iter(own))
    others = [variant for variant in own if variant != base]
    made = (compare_estimates(base, other, own[base], own[other]) for other in others)
    compared = [one for one in made if one is not None]
    if not compared:
        return []
    shown = [base, *(one.other for one in compared)]
    changes: dict[str, float] = {}
    for one in compared:
        for query in one.queries:
            changes[query] = max(changes.get(query, 0.0), abs(math.log(one.gain(query))))
    table = Table(
        name,
        "Estimated against actual rows — less is better",
        [
            Column("query", "Query", align="left"),
            *(column for variant in shown for column in _columns(variant)),
            *(Column("change", "Estimates", one.other, align="left", rule=True) for one in compared),
        ],
        [
            Row(
                [
                    words(query),
                    *(cell for variant in shown for cell in _cells(own[variant].get(query))),
                    *(_change(one, query) for one in compared),
                ]
            )
            for query in sorted(changes, key=lambda query: -changes[query])
        ],
        _HOW,
        keys=(("workload", workload.name),),
    )
    return [*(Prose(one.sentence()) for one in compared), table]


def _columns(variant: str) -> list[Column]:
    return [
        Column("worst", "Worst factor", variant, rule=True),
        Column("median", "Median", variant),
        Column("node", "Worst node", variant, align="left"),
    ]


def _cells(own: QueryEstimates | None) -> list[Cell]:
    if own is None:
        return [missing("not executed")] * 3
    worst = own.worst
    rows = f"estimated {numbers.count(worst.estimated)}, actual {numbers.count(worst.actual)}"
    return [
        Cell(worst.factor, numbers.significant(worst.factor)),
        Cell(own.median, numbers.significant(own.median)),
        Cell(f"{worst.title}: {rows}", worst.title, small=rows),
    ]


def _change(one: EstimateComparison, query: str) -> Cell:
    if query not in one.queries:
        return missing("not executed")
    word = one.word(query)
    gain = one.gain(query)
    times = "" if word == "alike" else f", {numbers.significant(max(gain, 1 / gain))} times"
    # neither good nor bad: nothing is proven
    return words(f"{word}{times}")
