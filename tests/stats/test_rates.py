from __future__ import annotations

import math
import statistics
from statistics import mean, pstdev, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.stats.rates import (
    PERCENTILES,
    client_percentiles,
    geometric_mean,
    over_repeats,
    per_second,
    pooled,
    rate_percentiles,
    relative,
)

RATES = st.lists(st.floats(0.001, 1e9), min_size=1, max_size=50)


@given(RATES)
def test_each_percentile_is_a_second_that_so_many_reached(rates: list[float]) -> None:
    percentiles = rate_percentiles(rates)
    for percent in PERCENTILES:
        value = percentiles[f"p{percent}"]
        assert value in rates
        assert value is not None
        reached = sum(rate >= value for rate in rates)
        faster = sum(rate > value for rate in rates)
        assert reached * 100 >= percent * len(rates)
        assert faster * 100 < percent * len(rates)
    assert list(percentiles.values()) == sorted(
        (v for v in percentiles.values() if v is not None), reverse=True
    )


def test_percentiles_by_hand() -> None:
    assert rate_percentiles([float(n) for n in range(1, 101)]) == {
        "p50": 51.0,
        "p75": 26.0,
        "p90": 11.0,
        "p95": 6.0,
        "p99": 2.0,
    }
    assert rate_percentiles([]) == {f"p{percent}": None for percent in PERCENTILES}


def second(number: int, operations: int, length: float = 1.0, role: str = "query") -> dict[str, object]:
    return {
        "role": role,
        "second": number,
        "seconds": length,
        "operations": operations,
        "rows": operations * 5,
    }


def test_percentiles_of_one_client_as_the_field_takes_them() -> None:
    """Its scripts round share × seconds with printf and take that line of the sorted rates."""
    seconds = [float(n) for n in range(1, 26)]
    # 12.5 is rounded to the even 12, the twelfth from the fast end; 24.75 to 25
    assert client_percentiles(seconds, 1) == {"p50": 14.0, "p99": 1.0}
    assert rate_percentiles(seconds)["p50"] == 13.0
    assert client_percentiles(seconds, 4) == {"p50": 3.5, "p99": 0.25}
    assert client_percentiles([float(n) for n in range(1, 121)], 1)["p99"] == 2.0
    assert client_percentiles(seconds[:9], 1) == {"p50": None, "p99": None}
    assert client_percentiles(seconds[:10], 1) == {"p50": 6.0, "p99": 1.0}


def test_seconds_become_rates() -> None:
    series = [second(0, 10), second(0, 99, role="insert"), second(1, 6, 0.6), second(2, 1, 0.1)]
    assert per_second(series, "query") == [(0.0, 10.0), (1.0, 10.0)]
    assert per_second(series, "query", "rows") == [(0.0, 50.0), (1.0, 50.0)]
    assert per_second(series, "delete") == []


def test_repeats_by_hand() -> None:
    rate = over_repeats([100.0, 104.0, 90.0])
    assert rate is not None
    assert (rate.n, rate.low, rate.high, rate.mean) == (3, 90.0, 104.0, 98.0)
    assert rate.value == pytest.approx((100.0 * 104.0 * 90.0) ** (1 / 3))
    assert rate.std_error == pytest.approx(math.sqrt(52) / math.sqrt(3))
    single = over_repeats([5.0])
    assert single is not None
    assert single.std_error is None
    assert over_repeats([]) is None


@given(RATES)
def test_the_rate_lies_among_the_repeats(rates: list[float]) -> None:
    rate = over_repeats(rates)
    assert rate is not None
    assert rate.low <= rate.value <= rate.high
    assert rate.value == pytest.approx(statistics.geometric_mean(rates))
    assert rate.mean == pytest.approx(mean(rates))
    if len(rates) > 1:
        assert rate.std_error == pytest.approx(stdev(rates) / math.sqrt(len(rates)))


@given(RATES, RATES)
def test_relative_rates(rates: list[float], base: list[float]) -> None:
    rate, of_base = over_repeats(rates), over_repeats(base)
    assert rate is not None
    assert of_base is not None
    ratio = relative(rate, of_base)
    assert ratio is not None
    assert ratio.value == pytest.approx(rate.value / of_base.value)
    assert ratio.low <= ratio.value * (1 + 1e-12)
    assert ratio.value <= ratio.high * (1 + 1e-12)
    back = relative(of_base, rate)
    assert back is not None
    assert back.value * ratio.value == pytest.approx(1)
    assert (ratio.std_error is None) == (len(rates) == 1 or len(base) == 1)
    itself = relative(rate, rate)
    assert itself is not None
    assert itself.value == 1


def test_the_error_of_a_ratio_by_hand() -> None:
    ratio = relative(over_repeats([90.0, 110.0]), over_repeats([190.0, 210.0]))
    assert ratio is not None
    # both means have a standard error of 10
    assert ratio.value == pytest.approx(math.sqrt(90 * 110 / 190 / 210))
    assert ratio.std_error == pytest.approx(ratio.value * math.hypot(10 / 100, 10 / 200))


def test_no_base_no_ratio() -> None:
    assert relative(over_repeats([1.0]), None) is None
    assert relative(None, over_repeats([1.0])) is None
    assert relative(over_repeats([1.0]), over_repeats([0.0])) is None


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 0.5]) == pytest.approx(1)
    assert geometric_mean([]) is None
    assert geometric_mean([1.0, 0.0]) is None


@given(st.lists(st.lists(st.floats(0, 1000), max_size=20), max_size=8))
def test_parts_together_have_the_moments_of_all_values(parts: list[list[float]]) -> None:
    values = [value for part in parts for value in part]
    moments = pooled((len(p), mean(p), pstdev(p)) if p else (0, 0.0, 0.0) for p in parts)
    if not values:
        assert moments is None
    else:
        assert moments is not None
        assert moments[0] == pytest.approx(mean(values), abs=1e-9)
        assert moments[1] == pytest.approx(pstdev(values), abs=1e-4)
