"""A call graph as stacks: nothing is lost, and what several call is divided by what it cost each."""

from __future__ import annotations

from pgstrata.count.flames import unfolded
from pgstrata.judge.functions import Cost


def test_a_function_with_two_callers_is_divided_by_what_each_call_cost() -> None:
    side = Cost(
        {"main": 100, "scan": 200, "sort": 300, "copy": 400},
        {"scan": {"main": 500}, "sort": {"main": 400}, "copy": {"scan": 300, "sort": 100}},
    )
    assert unfolded(side) == {
        "main": 100,
        "main;scan": 200,
        "main;sort": 300,
        "main;scan;copy": 300,
        "main;sort;copy": 100,
    }


def test_functions_that_call_each_other_in_a_circle_end() -> None:
    stacks = unfolded(Cost({"main": 10, "a": 50, "b": 40}, {"a": {"main": 90, "b": 45}, "b": {"a": 90}}))
    assert 90 <= sum(stacks.values()) <= 110
    assert all(stack.count(";") < 3 for stack in stacks)
