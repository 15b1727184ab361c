"""Lines in charts: thinned without losing a stall, coloured the same everywhere."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.page import charts


@given(
    st.lists(st.floats(min_value=-1e9, max_value=1e9), min_size=1, max_size=3000),
    st.integers(min_value=4, max_value=500),
)
def test_thinning_keeps_the_extremes_the_ends_and_the_order(values: list[float], most: int) -> None:
    xs, ys = charts.thinned(np.arange(len(values), dtype=float), np.array(values), most)
    assert len(xs) <= max(len(values) if len(values) <= most else most + 4, 4)
    assert ys.min() == min(values)
    assert ys.max() == max(values)
    assert xs[0] == 0 and xs[-1] == len(values) - 1
    assert np.all(np.diff(xs) > 0)
    assert all(values[int(x)] == y for x, y in zip(xs, ys, strict=True))


def test_a_short_line_is_left_as_it_is() -> None:
    xs, ys = np.arange(2000.0), np.sin(np.arange(2000.0))
    thin = charts.thinned(xs, ys, 2000)
    assert np.array_equal(thin[0], xs) and np.array_equal(thin[1], ys)


def test_one_stalled_second_of_an_hour_survives() -> None:
    rates = np.full(3600, 1000.0)
    rates[1234] = 3.0
    xs, ys = charts.thinned(np.arange(3600.0), rates, charts.budget(40))
    assert (1234.0, 3.0) in set(zip(xs.tolist(), ys.tolist(), strict=True))


def test_gaps_stay_gaps() -> None:
    rates = np.full(4000, np.nan)
    rates[10] = 5.0
    _, ys = charts.thinned(np.arange(4000.0), rates, 200)
    assert np.nansum(ys) == 5.0
    assert np.isnan(ys).any()
    assert charts.rounded([math.nan, 2.0, 3.14159]) == [None, 2, 3.142]


def test_text_in_charts_is_no_markup() -> None:
    trace = charts.trace("<b>x</b> & <a href='javascript:1'>", 0)
    assert trace["name"] == "&lt;b&gt;x&lt;/b&gt; &amp; &lt;a href='javascript:1'&gt;"


def test_neighbours_never_look_alike() -> None:
    looks = [(charts.color(i), charts.dash(i)) for i in range(48)]
    assert len(set(looks)) == 48
