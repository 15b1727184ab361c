"""The words slower, faster, same, unclear: their rules, their symmetry, their rate of error."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pgstrata.stats.criterion import Criterion
from pgstrata.stats.estimate import START_ERROR, Estimate
from pgstrata.stats.verdict import compare, interval, judge, p_value, set_aside
from support.simulation import simulate

rates = st.floats(min_value=1.0, max_value=1e6)
pairs = st.lists(st.tuples(rates, rates), min_size=0, max_size=40)


def judged(log: float, low: float, high: float, margin: float = 0.02) -> str:
    return judge(Estimate(log, 0.01, 9.0, 10, "mean"), (low, high), 0.01, Criterion(margin)).word


@pytest.mark.parametrize(
    ("log", "low", "high", "word"),
    [
        (-0.05, -0.06, -0.04, "slower"),
        (0.05, 0.04, 0.06, "faster"),
        (0.001, -0.010, 0.012, "same"),
        (-0.01, -0.018, -0.002, "same"),  # a difference, and it is within the margin
        (-0.015, -0.025, -0.005, "unclear"),  # a difference, the estimate is within the margin
        (-0.021, -0.05, -0.001, "slower"),
        (-0.05, -0.11, 0.01, "unclear"),
        (0.0, -0.021, 0.021, "unclear"),
        (0.0, -math.inf, math.inf, "unclear"),
    ],
)
def test_rules(log: float, low: float, high: float, word: str) -> None:
    assert judged(log, low, high) == word


def test_the_margin_is_a_share_of_the_rate() -> None:
    assert judged(math.log(0.9799), -0.03, -0.01) == "slower"
    assert judged(math.log(0.9801), -0.03, -0.01) == "unclear"
    assert judged(math.log(0.979), -0.03, -0.01, margin=0.03) == "same"


@given(pairs, st.floats(min_value=0.001, max_value=0.5))
def test_exchanging_the_sides_exchanges_the_words(values: list[tuple[float, float]], margin: float) -> None:
    base, other = [b for b, _ in values], [o for _, o in values]
    criterion = Criterion(margin)
    first, two = compare(base, other, criterion=criterion), compare(other, base, criterion=criterion)
    assert two.word == {"slower": "faster", "faster": "slower"}.get(first.word, first.word)
    assert two.ratio == pytest.approx(1 / first.ratio, rel=1e-5)
    assert first.low <= first.ratio <= first.high
    assert 0 <= first.p_value <= 1


@given(pairs)
def test_the_p_value_and_the_interval_agree(values: list[tuple[float, float]]) -> None:
    v = compare([b for b, _ in values], [o for _, o in values])
    if abs(v.p_value - 0.05) > 1e-9 and min(abs(v.low - 1), abs(v.high - 1)) > 1e-12:
        assert (v.p_value < 0.05) == (v.low > 1 or v.high < 1)


@given(pairs)
def test_a_record_is_json(values: list[tuple[float, float]]) -> None:
    record = compare([b for b, _ in values], [o for _, o in values]).record()
    assert json.loads(json.dumps(record, allow_nan=False))["word"] in ("slower", "faster", "same", "unclear")


def test_the_interval_is_students() -> None:
    base, other = [100.0, 100.0, 100.0, 100.0], [91.0, 90.0, 89.0, 92.0]
    x = np.log(np.array(other) / np.array(base))
    low, high = stats.t.interval(0.95, 3, x.mean(), stats.sem(x))
    v = compare(base, other)
    assert (v.low, v.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert v.p_value == pytest.approx(stats.ttest_1samp(x, 0.0).pvalue)
    assert v.word == "slower"


@pytest.mark.parametrize("n", [0, 1])
def test_without_an_interval_it_is_unclear_and_says_why(n: int) -> None:
    v = compare([100.0] * n, [50.0] * n)
    assert v.word == "unclear" and v.p_value == 1.0
    assert (v.low, v.high) == (0.0, math.inf)
    assert v.record()["high"] is None
    assert "measured" in v.reason or "repeat" in v.reason


def test_differences_without_noise() -> None:
    assert compare([100.0] * 5, [100.0] * 5).word == "same"
    assert compare([100.0] * 5, [100.0] * 5).p_value == 1.0
    assert compare([100.0] * 5, [90.0] * 5).word == "slower"


def test_set_aside_keeps_the_figures() -> None:
    v = compare([100.0, 101.0, 100.0], [50.0, 50.0, 51.0])
    assert v.word == "slower" and v.decided
    aside = set_aside(v, "pg18 failed after 3 slices")
    assert aside == replace(v, word="unclear", reason="pg18 failed after 3 slices", aside=True)
    assert not aside.decided


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.1, math.nan])
def test_nonsense_margins_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="margin"):
        Criterion(margin=bad)
    with pytest.raises(ValueError, match="confidence"):
        Criterion(confidence=bad)


def wrong_share(machine: str, comparisons: int, n: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    wrong = 0
    for _ in range(comparisons):
        v = compare(*simulate.interleaved(n, 0.03, simulate.MACHINES[machine], rng))
        wrong += not v.low <= 0.97 <= v.high
    return wrong / comparisons


@pytest.mark.long
@pytest.mark.parametrize("machine", ["quiet", "design", "sticky noise", "four times the outliers"])
def test_intervals_miss_the_truth_as_rarely_as_they_say(machine: str) -> None:
    # 5 % ± 3 standard deviations of 1000 draws, and the slack of an asymptotic interval.
    assert 0.025 <= wrong_share(machine, 1000, 120, 11) <= 0.075


@pytest.mark.slow
@pytest.mark.parametrize("machine", list(simulate.MACHINES))
@pytest.mark.parametrize("n", [32, 120, 600])
def test_intervals_miss_the_truth_rarely_in_long_studies(machine: str, n: int) -> None:
    # Pairs cannot cancel what each variant has for itself, and 16 of them hardly show that they depend.
    assert wrong_share(machine, 2000, n, 12) <= (0.09 if machine == "variants wander apart" else 0.065)


def test_without_the_correction_sticky_noise_would_break_the_interval() -> None:
    rng = np.random.default_rng(13)
    wrong = corrected = 0
    for _ in range(500):
        x = 0.02 * simulate.wander(60, 0.6, rng)
        low, high = stats.t.interval(0.95, 59, x.mean(), stats.sem(x))
        wrong += not low <= 0 <= high
        v = compare([1000.0] * 60, list(1000 * np.exp(x)))
        corrected += not v.low <= 1 <= v.high
    assert wrong / 500 > 0.2
    assert corrected / 500 < 0.1


def test_p_values_of_no_difference_are_uniform() -> None:
    rng = np.random.default_rng(14)
    p = [
        compare(*simulate.interleaved(120, 0.0, simulate.MACHINES["design"], rng)).p_value for _ in range(800)
    ]
    assert stats.kstest(p, "uniform").statistic < 0.07


def test_an_estimate_without_an_error_has_no_interval() -> None:
    e = Estimate(-0.5, math.inf, 0.0, 1, "mean")
    assert interval(e) == (-math.inf, math.inf)
    assert p_value(e) == 1.0


@pytest.mark.parametrize("blocks", [(), (50,) * 10])
def test_equal_servers_that_started_once_are_rarely_called_different(blocks: tuple[int, ...]) -> None:
    """What a start is by chance is the same in all pairs: they cannot tell it."""
    rng = np.random.default_rng(11)
    wrong, wrong_without, decided = 0, 0, 0
    for _ in range(300):
        logs = START_ERROR * rng.standard_normal() + 0.03 * rng.standard_normal(500)
        base, other = [1000.0] * 500, list(1000 * np.exp(logs))
        compared = compare(base, other, blocks, starts=1)
        wrong += not compared.low <= 1 <= compared.high
        decided += compared.word == "same"
        without = compare(base, other, blocks)
        wrong_without += not without.low <= 1 <= without.high
    assert wrong <= 25, "5 % of 300 are 15"
    assert wrong_without > 60
    assert decided > 100


def test_repeats_lessen_what_a_start_is_by_chance() -> None:
    pairs = [1000.0] * 100, list(1000 * np.exp(0.001 * np.random.default_rng(3).standard_normal(100)))
    once, often = (compare(*pairs, starts=n) for n in (1, 9))
    assert math.log(once.high / once.low) == pytest.approx(2 * 1.96 * START_ERROR, rel=0.03)
    assert math.log(often.high / often.low) == pytest.approx(2 * 1.96 * START_ERROR / 3, rel=0.03)
    assert "repeats" in compare(*pairs, starts=1, criterion=Criterion(0.01)).reason


def test_json_has_no_ratio_where_there_is_no_pair() -> None:
    nothing, something = compare([], []).record(), compare([100.0] * 9, [50.0] * 9).record()
    assert nothing["word"] == "unclear"
    assert nothing["ratio"] is None
    assert something["ratio"] == pytest.approx(0.5)
