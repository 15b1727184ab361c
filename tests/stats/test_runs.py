"""One run on each side: what proves nothing, and what the spread from run to run makes of it."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgstrata.stats.bootstrap import estimate_series
from pgstrata.stats.runs import UNKNOWN, RunSpread, compare_runs, run_spread


def test_two_runs_alone_prove_nothing() -> None:
    v = compare_runs([1000.0], [500.0], None)
    assert v.ratio == pytest.approx(0.5)
    assert (v.word, v.low, v.high, v.p_value) == ("unclear", 0.0, math.inf, 1.0)
    assert v.single_run and v.reason == UNKNOWN and v.run_spread is None


def test_the_spread_of_other_runs_makes_the_interval() -> None:
    wide = compare_runs([1000.0], [900.0], RunSpread(0.05**2, 6, 5))
    narrow = compare_runs([1000.0], [900.0], RunSpread(0.01**2, 6, 5))
    assert (wide.word, narrow.word) == ("unclear", "slower")
    assert narrow.run_spread == pytest.approx(math.expm1(0.01))
    assert "known from 6 runs" in narrow.reason
    # t of 5 degrees of freedom at 97.5 %, times the deviation of a difference of two runs
    assert math.log(narrow.high / narrow.ratio) == pytest.approx(2.5706 * 0.01 * math.sqrt(2), rel=1e-3)


def test_the_seconds_widen_the_interval_and_never_narrow_it() -> None:
    rng = np.random.default_rng(1)
    series = 1000 * np.exp(0.2 * rng.standard_normal((2, 20)))
    spread = RunSpread(0.01**2, 6, 5)
    rates = [1000.0], [900.0]
    alone, both = compare_runs(*rates, spread), compare_runs(*rates, spread, estimate_series(*series))
    assert both.low < alone.low < alone.high < both.high


def test_more_runs_on_one_side_are_worth_more() -> None:
    spread = RunSpread(0.02**2, 6, 5)
    single, several = compare_runs([1.0], [1.0], spread), compare_runs([1.0] * 4, [1.0], spread)
    assert several.high < single.high
    assert single.single_run and not several.single_run


def test_spreads_of_several_groups_are_pooled() -> None:
    spread = run_spread([[100.0, 110.0], [1000.0, 1050.0, 1020.0], [7.0], [0.0, 5.0]])
    assert spread is not None
    assert (spread.runs, spread.freedom) == (5, 3)
    squares = sum(np.var(np.log(g), ddof=1) * (len(g) - 1) for g in ([100, 110], [1000, 1050, 1020]))
    assert spread.variance == pytest.approx(squares / 3)
    assert run_spread([[5.0], []]) is None


def test_base_against_base_is_called_different_about_as_rarely_as_it_says() -> None:
    rng = np.random.default_rng(2)
    different = 0
    for _ in range(400):
        known, (base, same) = np.exp(0.05 * rng.standard_normal(5)), np.exp(0.05 * rng.standard_normal(2))
        word = compare_runs([base], [same], run_spread([list(known)])).word
        different += word in ("slower", "faster")
    assert different <= 0.08 * 400


def test_runs_without_a_rate_have_no_verdict() -> None:
    assert compare_runs([], [1.0], None).reason == "nothing was measured"
    assert compare_runs([1.0], [0.0], RunSpread(0.01, 3, 2)).word == "unclear"
