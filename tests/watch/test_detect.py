"""The detector of changes: simulated series with and without changes, and its bound on false alarms."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.watch.detect import Change, Point, find_changes

ERROR = 0.0003
SMALLEST = math.log1p(0.002)


def series(rng: np.random.Generator, levels: np.ndarray, error: float = ERROR) -> list[Point]:
    values = levels + rng.normal(0, error, len(levels))
    return [Point(position, float(value), error) for position, value in enumerate(values)]


def steps(n: int, *changes: tuple[int, float]) -> np.ndarray:
    """Levels of n commits, which change by so much at these positions."""
    levels = np.zeros(n)
    for position, size in changes:
        levels[position:] += size
    return levels


def test_a_change_is_dated_to_its_commit_as_soon_as_it_is_there() -> None:
    rng = np.random.default_rng(1)
    for size in (0.003, -0.01, 0.05, -0.1):
        points = series(rng, steps(201, (200, size)))
        (change,) = find_changes(points, SMALLEST, 1000.0)
        assert (change.before, change.after) == (199, 200)
        assert abs(change.log_ratio - size) < 4 * change.error + 1e-9


def test_several_changes_are_told_apart() -> None:
    rng = np.random.default_rng(2)
    planted = ((40, -0.01), (90, 0.02), (91, -0.03), (180, 0.004))
    changes = find_changes(series(rng, steps(300, *planted)), SMALLEST, 1000.0)
    assert [change.after for change in changes] == [position for position, _ in planted]
    for change, (_, size) in zip(changes, planted, strict=True):
        assert abs(change.log_ratio - size) < 4 * change.error


def test_a_change_among_commits_that_are_not_measured_lies_between_its_neighbours() -> None:
    rng = np.random.default_rng(3)
    points = [point for point in series(rng, steps(400, (203, -0.02))) if point.position % 16 == 0]
    (change,) = find_changes(points, SMALLEST, 1000.0)
    assert (change.before, change.after) == (192, 208)


def test_a_change_lies_after_the_last_commit_that_a_value_holds_for() -> None:
    rng = np.random.default_rng(3)
    points = [point for point in series(rng, steps(400, (203, -0.02))) if point.position % 16 == 0]
    points[12] = replace(points[12], last=202)
    points[13] = replace(points[13], position=203, last=208)
    (change,) = find_changes(points, SMALLEST, 1000.0)
    assert (change.before, change.after) == (202, 203)


def test_a_change_below_the_smallest_is_passed_over() -> None:
    rng = np.random.default_rng(4)
    assert find_changes(series(rng, steps(400, (200, 0.0008))), SMALLEST, 1000.0) == []


@pytest.mark.long
def test_without_a_change_alarms_are_as_rare_as_promised() -> None:
    """After each commit of 200 watches of 100 commits: one alarm in 100 commits at most, so 200 at most; the
    smallest change is set to nothing, so that only the evidence keeps alarms away."""
    rng = np.random.default_rng(5)
    alarms = 0
    for _ in range(200):
        points = series(rng, np.zeros(100))
        alarms += any(find_changes(points[:n], 0.0, 100.0) for n in range(2, 101))
    assert alarms <= 200 * (1 - math.exp(-1)) * 0.7


def test_errors_that_are_too_small_are_widened() -> None:
    rng = np.random.default_rng(6)
    points = [Point(p.position, p.log_ratio, ERROR) for p in series(rng, np.zeros(300), error=0.005)]
    assert find_changes(points, SMALLEST, 1000.0) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 500), st.floats(-1, 1), st.floats(1e-5, 0.1)),
        max_size=40,
        unique_by=lambda item: item[0],
    ),
    st.floats(0, 0.1),
)
def test_any_series_has_an_answer(items: list[tuple[int, float, float]], smallest: float) -> None:
    points = [Point(*item) for item in items]
    changes = find_changes(points, smallest, 1000.0)
    measured = {point.position for point in points}
    for change in changes:
        assert {change.before, change.after} <= measured
        assert change.before < change.after
        assert isinstance(change, Change) and change.error > 0
    assert [c.after for c in changes] == sorted(c.after for c in changes)
    for earlier, two in pairwise(changes):
        assert earlier.before < two.after
