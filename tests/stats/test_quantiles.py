"""Quantiles of response times compared: intervals hold, factors are found, sides can be exchanged."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.stats import verdict
from pgstrata.stats.estimate import Array
from pgstrata.stats.quantiles import QuantileEstimate, Responses, compare_quantiles

EDGES = np.geomspace(1e-5, 10.0, 3000)


def responses(blocks: list[Array]) -> Responses:
    return Responses(EDGES, np.array([np.histogram(times, EDGES)[0] for times in blocks], dtype=np.float64))


def compared(base: list[Array], other: list[Array], quantile: float) -> QuantileEstimate:
    estimate = compare_quantiles(responses(base), responses(other), quantile, verdict.bounds)
    assert estimate is not None
    return estimate


def blocks(
    rng: np.random.Generator, count: int, size: int, factor: float = 1.0, spread: float = 0.03
) -> list[Array]:
    """Blocks of lognormal times, each with a level of its own."""
    return [
        factor * np.exp(rng.normal(math.log(3e-4) + rng.normal(0, spread), 0.4, size)) for _ in range(count)
    ]


@pytest.mark.long
@pytest.mark.parametrize("quantile", [0.5, 0.99])
def test_intervals_of_equal_sides_contain_no_difference(quantile: float) -> None:
    rng = np.random.default_rng(3)
    misses = 0
    for _ in range(60):
        low, high = compared(blocks(rng, 12, 1000), blocks(rng, 12, 1000), quantile).interval
        misses += not low <= 0.0 <= high
    assert misses <= 8  # of 60 at 5 %: more in 1 of 500 such tests


def test_intervals_contain_a_factor_and_leave_out_none() -> None:
    rng = np.random.default_rng(4)
    hits = 0
    for _ in range(20):
        estimate = compared(blocks(rng, 12, 2000), blocks(rng, 12, 2000, factor=1.2), 0.95)
        hits += estimate.interval[0] <= -math.log(1.2) <= estimate.interval[1] < 0.0
    assert hits >= 17


def test_rare_stalls_show_in_the_quantile_that_they_reach() -> None:
    rng = np.random.default_rng(5)
    base, other = blocks(rng, 12, 2000), blocks(rng, 12, 2000)
    for times in other:
        times[rng.random(len(times)) < 0.005] += 0.05
    assert compared(base, other, 0.999).interval[1] < -math.log(10)
    low, high = compared(base, other, 0.5).interval
    assert low <= 0.0 <= high


@pytest.mark.long
@given(seed=st.integers(0, 1000), quantile=st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_exchanging_the_sides_turns_the_interval_round(seed: int, quantile: float) -> None:
    rng = np.random.default_rng(seed)
    base, other = blocks(rng, 9, 2500), blocks(rng, 9, 2500, factor=1.1)
    forward, back = compared(base, other, quantile), compared(other, base, quantile)
    assert forward.estimate.log == pytest.approx(-back.estimate.log, abs=1e-9)
    assert forward.interval == pytest.approx((-back.interval[1], -back.interval[0]), abs=1e-5)
    assert forward.p_value == pytest.approx(back.p_value, abs=1e-9)


@pytest.mark.long
@given(quantile=st.floats(0.01, 0.99), factor=st.floats(0.2, 5.0))
def test_the_estimate_is_the_ratio_of_the_quantiles(quantile: float, factor: float) -> None:
    times = np.geomspace(1e-3, 2e-3, 4001)
    estimate = compared([times] * 8, [times * factor] * 8, quantile)
    assert estimate.base == pytest.approx(np.quantile(times, quantile), rel=0.01)
    assert estimate.estimate.log == pytest.approx(-math.log(factor), abs=0.01)


def test_few_responses_beyond_have_no_interval() -> None:
    rng = np.random.default_rng(6)
    estimate = compared(blocks(rng, 10, 1000), blocks(rng, 10, 1000), 0.999)
    assert estimate.interval == (-math.inf, math.inf)
    assert estimate.why_not == "10 responses lie beyond it, and 20 are needed: measure longer"


def test_few_blocks_have_no_interval() -> None:
    rng = np.random.default_rng(7)
    for quantile in (0.5, 1.0):
        estimate = compared(blocks(rng, 7, 1000), blocks(rng, 7, 1000), quantile)
        assert estimate.estimate.too_few and estimate.interval == (-math.inf, math.inf)


def test_blocks_without_responses_count_for_nothing() -> None:
    rng = np.random.default_rng(8)
    nothing = np.zeros(0)
    base, other = blocks(rng, 10, 500), blocks(rng, 10, 500)
    with_gap = compared([*base, nothing], [*other, np.full(100, 5.0)], 0.9)
    assert with_gap == compared(base, other, 0.9)
    empty = responses([nothing])
    assert compare_quantiles(empty, empty, 0.9, verdict.bounds) is None


@pytest.mark.parametrize("quantile", [0.0, -1.0, 1.1, math.nan])
def test_a_quantile_lies_above_0_and_not_above_1(quantile: float) -> None:
    alike = responses([np.ones(3)])
    with pytest.raises(ValueError, match="quantile"):
        compare_quantiles(alike, alike, quantile, verdict.bounds)
