"""Pairs of slices: of the same length their rates are compared, of the same work their times."""

from __future__ import annotations

import math

import pytest

from pgstrata.judge.pairs import pairs_of
from pgstrata.stats.estimate import estimate
from pgstrata.store.record import Slice


def turns(*times: float) -> list[Slice]:
    """Slices of 100 operations each, which take so many seconds."""
    return [Slice(pair=n, seconds=t, rate=100 / t) for n, t in enumerate(times, 1)]


def test_slices_without_a_partner_are_left_out() -> None:
    ours, theirs = turns(1.0, 2.0, 4.0), turns(2.0, 2.0)
    assert pairs_of(ours, theirs, "slices") == ([100, 50], [50, 50])
    assert pairs_of(ours, theirs, "frozen") == ([2.0, 2.0], [1.0, 2.0])


def test_both_kinds_agree_on_a_steady_difference() -> None:
    ours, theirs = turns(*[0.10, 0.11] * 20), turns(*[0.05, 0.055] * 20)
    for kind in ("windows", "frozen"):
        assert math.exp(estimate(*pairs_of(ours, theirs, kind)).log) == pytest.approx(2.0)


def test_a_stall_counts_with_as_long_as_it_took() -> None:
    """The other does every tenth stretch in fifty times the time: 100 stretches take 10 s, and 59 s."""
    ours = turns(*(0.1 + n % 7 / 1000 for n in range(100)))
    theirs = turns(*(5.0 if n % 10 == 9 else 0.1 + n % 3 / 1000 for n in range(100)))
    found = estimate(*pairs_of(ours, theirs, "frozen"))
    assert found.method == "total"
    assert math.exp(found.log) == pytest.approx(10.3 / 59.0, rel=0.01)
    assert math.exp(estimate(*pairs_of(ours, theirs, "windows")).log) > 0.9, (
        "as if it were a tenth of the time"
    )
