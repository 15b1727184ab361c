"""Pairs of slices: of the same length their rates are compared, of the same work their times."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from pgstrata.judge.pairs import pairs_of
from pgstrata.stats.estimate import estimate
from pgstrata.store.record import Slice, TurnKind


@dataclass
class Taken:
    turns: TurnKind
    slices: list[Slice]
    blocks: tuple[int, ...] = ()


def taken(turns: TurnKind, *times: float, blocks: tuple[int, ...] = ()) -> Taken:
    """Slices of 100 operations each, which take so many seconds."""
    return Taken(turns, [Slice(pair=n, seconds=t, rate=100 / t) for n, t in enumerate(times, 1)], blocks)


def test_slices_without_a_partner_are_left_out() -> None:
    for turns, expected in (("slices", ([100, 50], [50, 50])), ("frozen", ([2.0, 2.0], [1.0, 2.0]))):
        kind: TurnKind = "frozen" if turns == "frozen" else "slices"
        assert pairs_of(taken(kind, 1.0, 2.0, 4.0), taken(kind, 2.0, 2.0)) == (*expected, ())


def test_blocks_are_counted_in_pairs_that_are_there() -> None:
    base, other = (
        taken("windows", *[1.0] * 9, blocks=(3, 6, 9)),
        taken("windows", *[1.0] * 9, blocks=(3, 6, 9)),
    )
    del other.slices[1], base.slices[-1]
    assert pairs_of(base, other)[2] == (2, 3, 2)


def test_both_kinds_agree_on_a_steady_difference() -> None:
    ours, theirs = [0.10, 0.11] * 20, [0.05, 0.055] * 20
    for kind in ("windows", "frozen"):
        found = estimate(*pairs_of(taken(kind, *ours), taken(kind, *theirs)))
        assert math.exp(found.log) == pytest.approx(2.0)


def test_a_stall_counts_with_as_long_as_it_took() -> None:
    """The other does every tenth stretch in fifty times the time: 100 stretches take 10 s, and 59 s."""
    ours = [0.1 + n % 7 / 1000 for n in range(100)]
    theirs = [5.0 if n % 10 == 9 else 0.1 + n % 3 / 1000 for n in range(100)]
    found = estimate(*pairs_of(taken("frozen", *ours), taken("frozen", *theirs)))
    assert found.method == "total"
    assert math.exp(found.log) == pytest.approx(10.3 / 59.0, rel=0.01)
    by_rate = estimate(*pairs_of(taken("windows", *ours), taken("windows", *theirs)))
    assert math.exp(by_rate.log) > 0.9, "as if it were a tenth of the time"
