"""Where in a row of versions the level shifted."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstrata.stats.changepoint import Version, _best, _row, _where, shifts
from pgstrata.stats.criterion import Criterion

ANY = Criterion(1e-6)
"""Of the smallest differences."""


def row(
    levels: list[float], noise: float, repeats: int, rng: np.random.Generator, known: bool = False
) -> list[Version]:
    """Versions v0, v1, … at these log levels, each repeat with its own noise."""
    return [
        Version(
            f"v{i}",
            tuple(1000 * np.exp(level + noise * rng.standard_normal(repeats))),
            noise / math.sqrt(repeats) if known else None,
        )
        for i, level in enumerate(levels)
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.floats(min_value=1, max_value=1e6), min_size=1, max_size=4), max_size=12))
def test_any_row_gives_ordered_shifts(rates: list[list[float]]) -> None:
    all_shifts = shifts([Version(f"v{i}", tuple(r)) for i, r in enumerate(rates)])
    places = [s.index for s in all_shifts]
    assert places == sorted(set(places))
    for s in all_shifts:
        assert 0 < s.index < len(rates)
        assert int(s.first[1:]) <= s.index <= int(s.last[1:])
        assert s.low <= s.ratio <= s.high


@given(st.lists(st.floats(min_value=1, max_value=100), min_size=2, max_size=10), st.data())
def test_the_best_place_lowers_the_squares_most(rates: list[float], data: st.DataObject) -> None:
    counts = data.draw(st.lists(st.integers(1, 3), min_size=len(rates), max_size=len(rates)))
    part = _row([Version(f"v{i}", (r,) * n) for i, (r, n) in enumerate(zip(rates, counts, strict=True))])
    values = [np.repeat(math.log(r), n) for r, n in zip(rates, counts, strict=True)]

    def squares(groups: list[np.ndarray]) -> float:
        together = np.concatenate(groups)
        return float(((together - together.mean()) ** 2).sum())

    rests = [squares(values[:k]) + squares(values[k:]) for k in range(1, len(rates))]
    place, gain = _best(part)
    assert squares(values) - gain == pytest.approx(min(rests), abs=1e-9)
    assert rests[place - 1] == pytest.approx(min(rests), abs=1e-9)


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("known", [False, True])
def test_a_shift_in_the_middle_is_found_with_its_size(repeats: int, known: bool) -> None:
    rng = np.random.default_rng(1)
    all_shifts = shifts(row([0.0] * 5 + [-0.1] * 5, 0.01, repeats, rng, known))
    assert [s.label for s in all_shifts] == ["v5"]
    assert (all_shifts[0].first, all_shifts[0].last) == ("v5", "v5")
    assert all_shifts[0].low < math.exp(-0.1) < all_shifts[0].high
    assert all_shifts[0].low > 0.8 and all_shifts[0].high < 0.95
    assert all_shifts[0].p_value < 0.01


def test_two_shifts_are_told_apart() -> None:
    rng = np.random.default_rng(2)
    all_shifts = shifts(row([0.0] * 4 + [-0.1] * 4 + [0.05] * 4, 0.01, 3, rng))
    assert [s.label for s in all_shifts] == ["v4", "v8"]
    assert all_shifts[0].ratio == pytest.approx(math.exp(-0.1), abs=0.02)
    assert all_shifts[1].ratio == pytest.approx(math.exp(0.15), abs=0.02)


def test_the_last_version_alone_is_found_if_the_noise_is_known() -> None:
    rng = np.random.default_rng(3)
    levels = [0.0] * 7 + [-0.1]
    assert [s.label for s in shifts(row(levels, 0.01, 3, rng))] == ["v7"]
    assert [s.label for s in shifts(row(levels, 0.01, 1, rng, known=True))] == ["v7"]
    assert shifts(row([0.0, 0.0, -0.1], 0.01, 1, rng)) == []  # three values cannot tell


def test_shifts_within_the_margin_are_left_out() -> None:
    rng = np.random.default_rng(4)
    versions = row([0.0] * 6 + [-0.01] * 6, 0.001, 3, rng)
    assert shifts(versions) == []
    assert [s.label for s in shifts(versions, criterion=Criterion(margin=0.005))] == ["v6"]


@pytest.mark.parametrize(("repeats", "known"), [(1, False), (3, False), (1, True)])
def test_false_shifts_are_as_rare_as_asked(repeats: int, known: bool) -> None:
    rng = np.random.default_rng(5)
    false_shifts = sum(
        bool(shifts(row([0.0] * 8, 0.02, repeats, rng, known), criterion=ANY, seed=i)) for i in range(200)
    )
    assert 0.01 <= false_shifts / 200 <= 0.10


def test_noise_known_from_few_repeats_only_is_not_taken_for_certain() -> None:
    rng = np.random.default_rng(7)
    false_shifts = sum(bool(shifts(row([0.0] * 4, 0.02, 2, rng), criterion=ANY, seed=i)) for i in range(200))
    assert false_shifts / 200 <= 0.10  # taken for certain, it would be 0.145


@pytest.mark.long
@pytest.mark.parametrize(("repeats", "known"), [(1, False), (3, False), (1, True)])
def test_the_place_is_in_its_interval_and_the_interval_means_something(repeats: int, known: bool) -> None:
    rng = np.random.default_rng(6)
    covered, wide, count = 0, 0, 0
    for i in range(100):
        for s in shifts(row([0.0] * 6 + [-0.04] * 6, 0.02, repeats, rng, known), seed=i):
            count += 1
            covered += int(s.first[1:]) <= 6 <= int(s.last[1:])
            wide += s.first != s.last
    assert count > 50
    assert covered / count > 0.85
    assert wide > 10  # at this noise one place is often not enough


def test_without_a_sign_of_a_shift_the_place_is_anywhere() -> None:
    """A flat row leaves the prior, (k (n − k))^(−½): the two ends of ten hold 30 % of it."""
    part = _row([Version(f"v{i}", (1000.0,), 0.01) for i in range(10)])
    assert _where(part, 0.25) == (1, 9)
    assert _where(part, 0.10) == (1, 1)


def test_standard_errors_weigh_versions() -> None:
    """A disturbed version with a large error does not make a shift."""
    versions = [Version(f"v{i}", (1000.0 + i % 2,), 0.003) for i in range(8)]
    versions[-1] = Version("v7", (900.0,), 0.2)
    assert shifts(versions) == []
    versions[-1] = Version("v7", (900.0,), 0.003)
    assert [s.label for s in shifts(versions)] == ["v7"]


@pytest.mark.parametrize("bad", [(), (0.0,), (1.0, -1.0), (math.nan,)])
def test_what_is_no_rate_is_refused(bad: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="v1"):
        shifts([Version("v0", (1.0,)), Version("v1", bad)])
