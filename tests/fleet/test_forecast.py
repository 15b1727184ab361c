"""Planning on paper."""

from __future__ import annotations

import pytest

from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.forecast import enough, forecast


def of(*times: float) -> list[Assignment]:
    return [Assignment(f"w{number}", 1, seconds) for number, seconds in enumerate(times)]


def test_one_machine_does_all_one_after_the_other() -> None:
    estimate = forecast(of(10, 20, 30), 1)
    assert (estimate.seconds, estimate.busy) == (60, 1)


def test_long_ones_first_fill_the_machines() -> None:
    assert forecast(of(10, 10, 10, 30), 2).seconds == 30


def test_more_machines_than_comparisons_wait_for_the_longest() -> None:
    assert forecast(of(10, 20, 30), 50).seconds == 30


def test_enough_is_the_fewest_that_are_as_quick() -> None:
    assert enough(of(10, 20, 30)).machines == 2
    assert enough(of(10, 10, 10, 10)).machines == 4
    assert enough(of(100, 1, 1, 1)).machines == 2


def test_qualification_comes_before_the_first() -> None:
    assert forecast(of(10), 1, qualify_seconds=8).seconds > 10 + 2 * 8


@pytest.mark.parametrize("machines", [1, 3, 7])
def test_never_quicker_than_the_bounds(machines: int) -> None:
    times = [(7 * n) % 23 + 1.0 for n in range(40)]
    estimate = forecast(of(*times), machines)
    bound = max(sum(times) / machines, max(times))
    assert bound <= estimate.seconds <= bound + max(times)
