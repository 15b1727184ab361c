"""How far row counts of plans were off, and whether another server's were nearer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.estimates import compare_estimates, estimates_of, query_estimates
from pgstrata.judge.plan_times import wrong_estimates


def node(kind: str, estimated: float, actual: float | None, *below: Any, **more: Any) -> dict[str, Any]:
    executed = {} if actual is None else {"Actual Rows": actual, "Actual Loops": more.pop("loops", 1)}
    keys = {key.replace("_", " "): value for key, value in more.items()}
    return {"Node Type": kind, "Plan Rows": estimated, "Plans": list(below), **executed, **keys}


def test_the_worst_node_and_the_median_of_a_plan() -> None:
    scan = node("Seq Scan", 10, 1000, Relation_Name="t")
    estimates = query_estimates([{"Plan": node("Aggregate", 1, 1, node("Hash Join", 40, 20, scan))}])
    assert estimates is not None
    assert (estimates.worst.title, estimates.worst.estimated, estimates.worst.actual) == (
        "Seq Scan on t",
        10,
        1000,
    )
    assert (estimates.worst.factor, estimates.median) == (100, 2)


def test_nodes_that_tell_no_rows_are_left_out() -> None:
    never = node("Index Scan", 500, 0, loops=0)
    bitmap = node("Bitmap Heap Scan", 10, 10, node("BitmapAnd", 100, 0, node("Bitmap Index Scan", 100, 0)))
    estimates = query_estimates(node("Append", 10, 10, never, bitmap))
    assert estimates is not None and (estimates.worst.factor, estimates.median) == (1, 1)
    assert query_estimates(node("Seq Scan", 10, None)) is None, "only estimated"
    assert query_estimates(None) is None
    assert query_estimates(node("Seq Scan", float("inf"), 1)) is None


def test_few_rows_are_not_called_wrong_and_count_all_the_same() -> None:
    plan = node("Seq Scan", 1, 40)
    estimates = query_estimates(plan)
    assert estimates is not None and estimates.worst.factor == 40
    assert wrong_estimates(plan) == []


def test_two_variants_are_compared_on_the_queries_that_both_executed() -> None:
    ours = {"a": 800, "b": 8, "c": 8, "d": 8}
    theirs = {"a": 8, "b": 16, "c": 80, "e": 8}
    old, new = (
        estimates_of({name: node("Seq Scan", rows, 1) for name, rows in row_counts.items()})
        for row_counts in (ours, theirs)
    )
    comparison = compare_estimates("pg13", "pg17", old, new)
    assert comparison is not None
    assert {name: comparison.word(name) for name in comparison.queries} == {
        "a": "better",
        "b": "alike",
        "c": "worse",
    }
    assert comparison.means == pytest.approx(((800 * 8 * 8) ** (1 / 3), (8 * 16 * 80) ** (1 / 3)))
    assert comparison.sentence() == (
        "Over 3 queries, the worst estimate of a plan is off by a factor of 37.1 under pg13, 21.7 under pg17 "
        "(geometric means). pg17 estimates 1 better and 1 worse by more than a factor of 2."
    )
    assert compare_estimates("pg13", "pg17", old, {}) is None


rows = st.floats(0, 1e15)


@given(rows, rows)
def test_a_factor_is_at_least_one_and_the_same_both_ways(estimated: float, actual: float) -> None:
    forward, reverse = (
        query_estimates(node("Seq Scan", estimated, actual)),
        query_estimates(node("Seq Scan", actual, estimated)),
    )
    assert forward is not None and reverse is not None
    assert forward.worst.factor == reverse.worst.factor >= 1


@given(st.lists(st.tuples(rows, rows), min_size=1), st.lists(st.tuples(rows, rows), min_size=1))
def test_the_other_way_round_better_is_worse(ours: list[Any], theirs: list[Any]) -> None:
    first, two = (
        estimates_of({str(n): node("Seq Scan", *counts) for n, counts in enumerate(node_counts)})
        for node_counts in (ours, theirs)
    )
    there, back = compare_estimates("a", "b", first, two), compare_estimates("b", "a", two, first)
    assert there is not None and back is not None
    assert (there.count("better"), there.count("worse")) == (back.count("worse"), back.count("better"))
    assert there.means == back.means[::-1]
