"""Queries whose plan has another shape than the base's, both plans side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping

from pgstrata import numbers
from pgstrata.judge.plan_shape import shape
from pgstrata.judge.plan_text import outline, side_by_side
from pgstrata.judge.queries import Timing, faster
from pgstrata.page.blocks import Block, Cell, Column, Listing, Prose, Row, Table, words
from pgstrata.page.queries import Queries, relative
from pgstrata.page.results import RunSet, WorkloadResults

MOST_LISTINGS = 40
"""Pairs of plans that are spelled out, those whose duration changed most first."""

ByVariant = Mapping[str, Mapping[str, Timing]]


def changed_plans(
    results: RunSet, workload: WorkloadResults, by_variant: ByVariant, queries: Queries, name: str
) -> list[Block]:
    """Returns a table called `name`, and both plans of each query whose plan changed."""
    base = queries.plans.get(results.base)
    if base is None or not results.others:
        return []
    changes: list[tuple[float, str, str, float | None]] = []
    compared_plans = 0
    for variant in results.others:
        for query, plan in queries.plans.get(variant, {}).items():
            if query not in base:
                continue
            compared_plans += 1
            if shape(plan) != shape(base[query]):
                ratio = faster(
                    by_variant.get(results.base, {}).get(query), by_variant.get(variant, {}).get(query)
                )
                weight = abs(math.log(ratio)) if ratio else 0.0
                changes.append((weight, query, variant, ratio))
    if not compared_plans:
        return []
    if not changes:
        return [
            Prose(f"Of {numbers.counted(compared_plans, 'plan')} each has the shape of the base's.", "even")
        ]
    changes.sort(key=lambda c: (-c[0], c[1], c[2]))
    table = Table(
        name,
        f"Changed plans: {len(changes)} of {compared_plans}",
        [
            Column("query", "Query", align="left"),
            Column("variant", "Variant", align="left"),
            Column("relative", "Relative"),
            Column("nodes_base", "Nodes", results.base),
            Column("nodes", "Nodes", "variant"),
        ],
        [
            Row(
                [
                    words(query),
                    words(variant),
                    Cell(None, numbers.UNKNOWN) if ratio is None else relative(results, ratio),
                    Cell(n := len(outline(base[query])), numbers.count(n)),
                    Cell(n := len(outline(queries.plans[variant][query])), numbers.count(n)),
                ],
                variant=variant,
            )
            for _, query, variant, ratio in changes
        ],
        "Queries whose plan has other nodes, joins or indexes than the base's: the usual reason for another "
        "duration. Those whose duration changed most come first; both plans stand side by side below.",
        keys=(("workload", workload.name),),
        notes=(f"The first {MOST_LISTINGS} are spelled out.",) if len(changes) > MOST_LISTINGS else (),
    )
    listings = [
        Listing(
            f"{query}: {results.base} and {variant}"
            + (f", relative {numbers.ratio(ratio)}" if ratio else ""),
            side_by_side(
                outline(base[query]), outline(queries.plans[variant][query]), (results.base, variant)
            ),
        )
        for _, query, variant, ratio in changes[:MOST_LISTINGS]
    ]
    return [table, *listings]
