"""Both measures of a search: the ends are measured both ways, the one that shows the change is followed."""

from __future__ import annotations

import pytest

from pgstrata.search.bisect.procedure import Asked, By, Procedure, Task, TaskOutcome
from pgstrata.search.bisect.ways import OTHER_WAY, Ways, other_way

N = 8


def ways(asked: Asked, rate: list[float], instructions: list[float], *, is_single: bool = False) -> Ways:
    """A search whose ends were measured like this."""
    seen: dict[By, list[TaskOutcome]] = {
        "rate": [TaskOutcome(0, N, value, 0.002, "rate", "ends") for value in rate],
        "instructions": [TaskOutcome(0, N, v, 0.0001, "instructions", "ends") for v in instructions],
    }
    smallest: dict[By, float] = {"rate": 0.01, "instructions": 0.002}
    return Ways(asked, {by: Procedure(N, seen[by], smallest=smallest[by]) for by in seen}, is_single)


@pytest.mark.parametrize("asked", ["rate", "instructions"])
def test_the_ends_are_measured_both_ways_before_anything_between(asked: By) -> None:
    done: dict[By, list[float]] = {"rate": [], "instructions": []}
    order = []
    while (next_ := ways(asked, done["rate"], done["instructions"]).next()) is not None:
        by, task = next_
        if task.why != "ends":
            break
        assert task == Task(0, N, "ends")
        order.append(by)
        done[by].append(-0.05)
    assert next_ is not None and next_[0] == asked and next_[1].why == "search"
    assert order == [asked] * 2 + [other_way(asked)] * OTHER_WAY[other_way(asked)]


def test_ends_that_do_not_differ_are_measured_the_other_way_too() -> None:
    next_ = ways("rate", [0.0] * 3, []).next()
    assert next_ == ("instructions", Task(0, N, "ends"))
    assert ways("rate", [0.0] * 3, [0.0]).next() is None


def test_one_way_only_where_the_other_cannot() -> None:
    next_ = ways("rate", [-0.05] * 2, [], is_single=True).next()
    assert next_ is not None and next_[1].why == "search"
    assert ways("rate", [], [], is_single=True).next() == ("rate", Task(0, N, "ends"))


@pytest.mark.parametrize(
    ("rate", "instructions", "leading"),
    [
        (-0.05, -0.02, "instructions"),  # both show it: the exact one
        (-0.04, 0.0055, "rate"),  # fewer instructions, and slower
        (-0.05, 0.0, "rate"),
        (0.0, -0.02, "instructions"),
        (0.0, 0.0, "rate"),
    ],
)
def test_both_goes_by_the_measure_that_shows_the_change(
    rate: float, instructions: float, leading: By
) -> None:
    search_ways = ways("both", [rate] * 3, [instructions] * 2)
    assert search_ways.leading == leading
    next_ = search_ways.next()
    assert next_ is None if rate == instructions == 0 else next_ is not None and next_[0] == leading


@pytest.mark.parametrize("asked", ["rate", "instructions", "both"])
def test_a_disagreement_of_sign_is_told_where_both_are_proven(asked: Asked) -> None:
    against = ways(asked, [-0.04] * 2, [0.0055] * 2).disagreement()
    assert against is not None and abs(against.log_ratio) == pytest.approx(
        0.0055 if asked != "instructions" else 0.04
    )
    assert ways(asked, [-0.04] * 2, [-0.0055] * 2).disagreement() is None
    assert ways(asked, [-0.004] * 2, [0.0055] * 2).disagreement() is None
    assert ways(asked, [-0.04] * 2, []).disagreement() is None


def test_ends_of_the_same_code_are_not_measured() -> None:
    each: dict[By, Procedure] = {"rate": Procedure(N, same={N: 0}), "instructions": Procedure(N, same={N: 0})}
    for asked in ("rate", "instructions", "both"):
        search_ways = Ways(asked, each)
        assert search_ways.next() is None
        assert search_ways.procedures[search_ways.leading].conclusion().state == "none"
