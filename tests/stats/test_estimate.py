"""The estimate of a log ratio: what outliers, stalls and dependence do to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize

from pgstrata.stats.estimate import (
    HUBER,
    estimate,
    huber,
    huber_influence,
    one_sided,
    student,
)
from support.simulation import simulate

rates = st.floats(min_value=1.0, max_value=1e6)
pairs = st.lists(st.tuples(rates, rates), min_size=2, max_size=40)


@given(pairs, st.floats(min_value=1e-3, max_value=1e3))
def test_estimate_does_not_depend_on_the_unit(values: list[tuple[float, float]], factor: float) -> None:
    base, other = zip(*values, strict=True)
    first = estimate(base, other)
    two = estimate([b * factor for b in base], [o * factor for o in other])
    assert two.log == pytest.approx(first.log, abs=1e-6)
    assert two.standard_error == pytest.approx(first.standard_error, rel=1e-5, abs=1e-8)


@given(pairs)
def test_exchanging_the_sides_turns_the_sign(values: list[tuple[float, float]]) -> None:
    base, other = zip(*values, strict=True)
    first, two = estimate(base, other), estimate(other, base)
    assert two.log == pytest.approx(-first.log, abs=1e-7)
    assert two.standard_error == pytest.approx(first.standard_error, rel=1e-6, abs=1e-9)
    assert two.method == first.method


@given(st.lists(st.floats(min_value=-1, max_value=1), min_size=8, max_size=60))
def test_huber_location_is_the_zero_of_its_equation(values: list[float]) -> None:
    x = np.array(values)
    location, scale = huber(x)
    if scale < 1e-9:
        return
    zero = optimize.brentq(
        lambda m: float(np.clip((x - m) / scale, -HUBER, HUBER).sum()), x.min() - 1, x.max() + 1, xtol=1e-13
    )
    # Between the bends the sum may be flat: then any point of the flat stretch is a zero.
    assert float(np.clip((x - location) / scale, -HUBER, HUBER).sum()) == pytest.approx(0.0, abs=1e-5)
    assert location == pytest.approx(zero, abs=1e-5) or (np.abs((x - zero) / scale) > HUBER).all()


def test_standard_error_of_huber_is_that_of_a_mean_of_normal_values() -> None:
    rng = np.random.default_rng(3)
    errors, locations = [], []
    for _ in range(2000):
        x = rng.standard_normal(30)
        location, scale = huber(x)
        influence = huber_influence((x - location) / scale) * scale
        locations.append(location)
        errors.append(math.sqrt(float((influence**2).sum()) / 29 / 30))
    assert np.mean(errors) == pytest.approx(np.std(locations), rel=0.06)
    assert np.std(locations) == pytest.approx(1 / math.sqrt(30 * 0.95), rel=0.06)


def test_the_scale_is_the_standard_deviation_of_normal_values() -> None:
    assert huber(np.random.default_rng(10).normal(5.0, 0.3, 20_000))[1] == pytest.approx(0.3, rel=0.03)


def test_an_outlier_on_each_side_hardly_moves_it() -> None:
    rng = np.random.default_rng(4)
    base = 1000 * np.exp(0.01 * rng.standard_normal(40))
    other = 970 * np.exp(0.01 * rng.standard_normal(40))
    clean = estimate(base, other)
    base[3] /= 20
    other[17] /= 20
    hit = estimate(base, other)
    assert hit.method == "huber"
    assert hit.outliers == clean.outliers + 2
    assert hit.log == pytest.approx(clean.log, abs=0.5 * clean.standard_error)
    assert hit.standard_error < 1.5 * clean.standard_error


def test_stalls_of_one_side_are_part_of_the_difference() -> None:
    rng = np.random.default_rng(5)
    base = 1000 * np.exp(0.01 * rng.standard_normal(60))
    other = 1000 * np.exp(0.01 * rng.standard_normal(60))
    other[::10] = 0.0  # one slice in ten does nothing: 10 % fewer operations
    e = estimate(base, other)
    assert e.method == "total"
    assert math.exp(e.log) == pytest.approx(other.sum() / base.sum())
    assert math.exp(e.log) == pytest.approx(0.9, abs=0.01)


def test_the_error_of_totals_is_their_spread() -> None:
    rng = np.random.default_rng(6)
    logs, errors = [], []
    for _ in range(600):
        base = 1000 * np.exp(0.01 * rng.standard_normal(60))
        other = 1000 * np.exp(0.01 * rng.standard_normal(60)) * (rng.random(60) > 0.15)
        e = estimate(base, other)
        if e.method == "total":
            logs.append(e.log)
            errors.append(e.standard_error)
    assert len(logs) > 500
    assert np.mean(errors) == pytest.approx(np.std(logs), rel=0.2)


def test_few_pairs_are_a_plain_mean() -> None:
    e = estimate([100, 100, 100], [90, 100, 110])
    x = np.log([0.9, 1.0, 1.1])
    assert e.method == "mean"
    assert e.log == pytest.approx(x.mean())
    assert e.standard_error == pytest.approx(x.std(ddof=1) / math.sqrt(3))
    assert e.freedom == 2


def test_identical_pairs_have_no_error() -> None:
    e = estimate([100.0] * 20, [90.0] * 20)
    assert math.exp(e.log) == pytest.approx(0.9)
    assert e.standard_error == pytest.approx(0.0, abs=1e-12)


def test_pairs_without_any_operation_are_left_out() -> None:
    assert estimate([0, 100, 100], [0, 90, 91]).n == 2
    assert estimate([0, 0], [0, 0]).n == 0


@pytest.mark.parametrize(
    ("base", "other"),
    [([1.0, 2.0], [1.0]), ([1.0, -2.0], [1.0, 2.0]), ([1.0, math.nan], [1.0, 2.0]), ([1.0], [math.inf])],
)
def test_what_is_no_rate_is_refused(base: list[float], other: list[float]) -> None:
    with pytest.raises(ValueError):
        estimate(base, other)


def test_dependent_pairs_widen_the_error_and_count_for_less() -> None:
    rng = np.random.default_rng(9)
    x = 0.02 * simulate.wander(100, 0.7, rng)
    sticky = estimate([1000.0] * 100, 1000 * np.exp(x))
    shuffled = estimate([1000.0] * 100, 1000 * np.exp(rng.permutation(x)))
    assert sticky.standard_error > 1.5 * shuffled.standard_error
    assert sticky.freedom < shuffled.freedom / 2


def test_one_sided_is_a_sign_test() -> None:
    assert not one_sided(0, 0)
    assert not one_sided(5, 0)  # 2 / 32 = 0.0625
    assert one_sided(6, 0)  # 2 / 64 = 0.031
    assert one_sided(0, 6)
    assert not one_sided(8, 4)


def short_slices(
    dice: np.random.Generator, pairs: int, ratio: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two sides on a machine that is slowed down to a half now and then, either side by itself."""

    def side(level: float) -> NDArray[np.float64]:
        slow = np.where(dice.random(pairs) < 0.3, dice.uniform(0.3, 0.9, pairs), 1.0)
        return level * slow * np.exp(dice.normal(0, 0.02, pairs))

    shared = np.exp(dice.normal(0, 0.2, pairs))
    return shared * side(30_000), shared * side(30_000 * ratio)


@pytest.mark.long
def test_many_pairs_tell_a_small_difference_between_disturbed_slices() -> None:
    """The interval is that of the undisturbed pairs: it holds the truth and is half as wide as Huber's."""
    dice = np.random.default_rng(11)
    missed, errors, hubers = 0, [], []
    for _ in range(200):
        base, other = short_slices(dice, 750, 0.97)
        e = estimate(base, other)
        missed += abs(e.log - math.log(0.97)) > 1.98 * e.standard_error
        errors.append(e.standard_error)
        location, scale = huber(np.log(other / base))
        influence = huber_influence((np.log(other / base) - location) / scale) * scale
        hubers.append(float(np.sqrt((influence**2).sum()) / 750))
    assert missed <= 20  # 10 are expected
    assert np.mean(errors) < 0.5 * np.mean(hubers)


def test_stalls_of_one_variant_alone_count_among_many_pairs() -> None:
    """Every twelfth slice of one side does nothing: no pair but those sees it, and it is 8 % slower."""
    dice = np.random.default_rng(3)
    base, other = (1000 * np.exp(dice.normal(0, 0.02, 1200)) for _ in range(2))
    other[::12] = 1.0
    e = estimate(base, other)
    assert e.method == "total"
    assert e.log == pytest.approx(math.log(11 / 12), abs=0.02)


@pytest.mark.parametrize("freedom", [1.0, 2.0, 5.0, 30.0])
def test_student_finds_the_parameters_it_was_drawn_from(freedom: float) -> None:
    x = 0.3 + 0.05 * np.random.default_rng(2).standard_t(freedom, 20_000)
    location, scale, fitted = student(x)
    assert location == pytest.approx(0.3, abs=0.003)
    assert scale == pytest.approx(0.05, rel=0.05)
    assert fitted == freedom


def test_student_of_equal_values_has_no_scale() -> None:
    assert student(np.full(300, 0.25))[:2] == (0.25, 0.0)
    assert estimate([10.0] * 300, [20.0] * 300).log == pytest.approx(math.log(2))
