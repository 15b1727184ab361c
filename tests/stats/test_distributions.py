"""Our distributions against those of scipy, over the whole range in which verdicts ask."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import special

from pgstrata.stats.distributions import coin_below, exponential_integral, student_below, student_quantile

FREEDOMS = st.floats(0.05, 1e7) | st.integers(1, 10_000).map(float)
SHARES = st.floats(1e-12, 1 - 1e-12)


@given(FREEDOMS, SHARES)
@example(1.0, 0.975)
@example(0.05, 0.6)
@example(1e7, 0.999999)
@example(3.0, 0.5)
def test_quantiles_of_student(freedom: float, share: float) -> None:
    value = student_quantile(freedom, share)
    if math.isinf(value) or abs(value) > 1e100:
        return  # beyond what scipy can invert
    # Held against the distribution, which scipy knows better than its inverse.
    assert special.stdtr(freedom, value) == pytest.approx(share, rel=1e-9, abs=1e-12)
    if 1e-4 < share < 1 - 1e-4:
        assert student_quantile(freedom, 1 - share) == pytest.approx(-value, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("freedom", [1.0, 2.5, 9.0, 30.0, 1000.0, 1e6])
@pytest.mark.parametrize("share", [0.005, 0.025, 0.5, 0.9, 0.975, 0.9995])
def test_usual_quantiles(freedom: float, share: float) -> None:
    expected = special.stdtrit(freedom, share)
    assert student_quantile(freedom, share) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@given(FREEDOMS, st.floats(-1e6, 1e6))
@example(5.0, 0.0)
@example(1e7, -40.0)
@example(2.0, -1e6)
def test_shares_of_student(freedom: float, value: float) -> None:
    assert student_below(freedom, value) == pytest.approx(special.stdtr(freedom, value), rel=1e-8, abs=1e-300)


def test_ends() -> None:
    assert student_below(math.inf, 1.959963984540054) == pytest.approx(0.975)
    assert student_quantile(math.inf, 0.975) == pytest.approx(1.959963984540054)
    assert (student_below(3.0, math.inf), student_below(3.0, -math.inf)) == (1.0, 0.0)
    assert (student_quantile(3.0, 1.0), student_quantile(3.0, 0.0)) == (math.inf, -math.inf)
    assert math.isnan(student_below(3.0, math.nan))


@given(st.integers(1, 100_000), st.floats(0, 1))
def test_coins(throws: int, share: float) -> None:
    most = int(throws * share)
    assert coin_below(most, throws) == pytest.approx(special.bdtr(most, throws, 0.5), rel=1e-8, abs=1e-300)


@given(st.floats(1e-12, 600))
@example(1.0)
@example(1.0000000001)
def test_exponential_integrals(begin: float) -> None:
    assert exponential_integral(begin) == pytest.approx(special.exp1(begin), rel=1e-12)
