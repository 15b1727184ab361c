"""A call graph as stacks: nothing is lost, and what several call is divided by what it cost each."""

from __future__ import annotations

from pgstrata.count.flames import unfolded


def function(name: str, instructions: float) -> dict[str, object]:
    return {"object": "postgres", "function": name, "instructions": instructions}


def call(caller: str, callee: str, instructions: float) -> dict[str, object]:
    ends = {"caller_object": "postgres", "callee_object": "postgres"}
    return {**ends, "caller": caller, "callee": callee, "instructions": instructions}


def test_a_function_with_two_callers_is_divided_by_what_each_call_cost() -> None:
    functions = [function("main", 100), function("scan", 200), function("sort", 300), function("copy", 400)]
    calls = [
        call("main", "scan", 500),
        call("main", "sort", 400),
        call("scan", "copy", 300),
        call("sort", "copy", 100),
    ]
    stacks = unfolded(functions, calls)
    assert stacks == {
        "main": 100,
        "main;scan": 200,
        "main;sort": 300,
        "main;scan;copy": 300,
        "main;sort;copy": 100,
    }


def test_functions_that_call_each_other_in_a_circle_end() -> None:
    functions = [function("main", 10), function("a", 50), function("b", 40)]
    stacks = unfolded(functions, [call("main", "a", 90), call("a", "b", 90), call("b", "a", 45)])
    assert 90 <= sum(stacks.values()) <= 110
    assert all(stack.count(";") < 3 for stack in stacks)
