"""What is proven of a series: changes dated by their searches, and what lies between two commits."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.watch.detect import is_proven
from pgstrata.watch.history import Alarms, History, Moved
from pgstrata.watch.measure import Series
from pgstrata.watch.moves import Move, Moves, moves_at, moves_of
from pgstrata.watch.site.command import read_known
from support.watched import STEPS, make_watch, raise_alarm

FIRST = f"pgbench {STEPS[0]}"
SECOND = f"pgbench {STEPS[1]}"


def of(*moves: tuple[int, int, float, float], smallest: float = 0.002) -> Moves:
    series = Series("s", "s", "instructions", None, "", smallest)  # type: ignore[arg-type]
    return Moves(series, [Move(first, last, Moved(size, error)) for first, last, size, error in moves])


def test_a_commit_before_a_change_and_one_behind_it_are_at_two_levels() -> None:
    moves = of((3, 3, -0.05, 0.001), (6, 8, 0.02, 0.001))
    assert [moves.level_at(p) for p in range(10)] == [0, 0, 0, 1, 1, 1, None, None, 2, 2]
    assert [moves.mark(0, moves.level_at(p)) for p in (0, 2, 3, 6, 8)] == ["", "", "bad", "", "bad"]
    assert moves.mark(1, 2) == "good"


def test_a_change_that_went_away_is_none() -> None:
    moves = of((3, 3, -0.05, 0.001), (6, 6, 0.0501, 0.001))
    assert moves.mark(0, 1) == "bad" and moves.mark(1, 2) == "good"
    assert moves.mark(0, 2) == ""


@given(st.lists(st.tuples(st.floats(-0.2, 0.2), st.floats(1e-5, 0.01)), min_size=1, max_size=8))
def test_differences_add_up_and_only_proven_ones_are_coloured(sizes: list[tuple[float, float]]) -> None:
    moves = of(*((5 * n, 5 * n, size, error) for n, (size, error) in enumerate(sizes, 1)))
    for first in range(len(sizes)):
        for last in range(first + 1, len(sizes) + 1):
            total = moves.total(first, last)
            assert math.isclose(total.log_ratio, sum(s for s, _ in sizes[first:last]), abs_tol=1e-12)
            assert total.error >= max(error for _, error in sizes[first:last]) - 1e-15
            mark = moves.mark(first, last)
            if last - first > 1:
                assert bool(mark) == is_proven(total.log_ratio, total.error, 0.002)
            assert mark in ("", "bad" if total.log_ratio < 0 else "good")


@pytest.mark.program
def test_the_search_dates_a_change_and_says_its_size(tmp_path: Path) -> None:
    file = make_watch(tmp_path, [f"change {n}" for n in range(1, 31)], {12: -0.05}, unmeasured=[11, 12])
    known = read_known(file)
    (move,) = moves_of(known)[FIRST].moves
    assert (move.first, move.last) == (11, 13), "between the commits that are measured"
    assert abs(move.moved.log_ratio + 0.05) < 0.001
    assert moves_of(known)[SECOND].moves == []
    raise_alarm(file, 12, -0.0512)
    known = read_known(file)
    (move,) = moves_of(known)[FIRST].moves
    assert (move.first, move.last, move.moved.log_ratio) == (12, 12, -0.0512)
    assert list(moves_at(moves_of(known), 12)) == [FIRST] and moves_at(moves_of(known), 13) == {}


@pytest.mark.program
def test_a_change_that_its_search_disproved_is_none(tmp_path: Path) -> None:
    file = make_watch(tmp_path, [f"change {n}" for n in range(1, 21)], {12: -0.05})
    alarm = raise_alarm(file, 12, -0.05)
    alarm.state, alarm.commits = "unproven", []
    History(read_known(file).watch.folder).save_alarms(Alarms(alarms=[alarm]))
    assert moves_of(read_known(file))[FIRST].moves == []
