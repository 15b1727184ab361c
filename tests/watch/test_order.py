"""Which commit comes next: the newest, then what is new, then the past from coarse to fine."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgstrata.watch.order import next_position


def order(newest: int, known: int = 0, widest: int = 1, skipped: frozenset[int] = frozenset()) -> list[int]:
    measured: set[int] = set()
    positions = []
    while (position := next_position(newest, measured, skipped, known, widest)) is not None:
        measured.add(position)
        positions.append(position)
    return positions


def test_the_newest_comes_first_then_the_past_is_halved() -> None:
    assert order(8, known=8) == [8, 4, 6, 2, 7, 5, 3, 1]


def test_new_commits_come_before_the_past() -> None:
    measured = {16}
    positions = []
    while (position := next_position(20, measured, set(), 16, 1)) is not None:
        measured.add(position)
        positions.append(position)
    assert sorted(positions[:4]) == [17, 18, 19, 20]
    assert positions[0] == 20


def test_a_change_is_narrowed_down_first_also_in_a_past_that_is_coarse() -> None:
    measured = {32, 16, 24, 8}
    positions = []
    while (position := next_position(32, measured, set(), 32, 8, [(16, 24)])) is not None:
        measured.add(position)
        positions.append(position)
    assert sorted(positions) == [17, 18, 19, 20, 21, 22, 23]
    assert positions[0] == 20


def test_the_past_may_be_coarse() -> None:
    assert order(32, known=32, widest=8) == [32, 16, 24, 8]


@given(
    st.integers(1, 60), st.integers(0, 60), st.integers(1, 70), st.frozensets(st.integers(1, 60), max_size=20)
)
def test_every_commit_comes_once_unless_it_is_skipped(
    newest: int, known: int, widest: int, skipped: frozenset[int]
) -> None:
    positions = order(newest, known, widest, skipped)
    assert len(set(positions)) == len(positions)
    assert not skipped & set(positions)
    assert all(1 <= position <= newest for position in positions)
    if widest == 1:
        assert set(positions) == set(range(1, newest + 1)) - skipped
