"""Looking early: false alarms of the confidence sequence, and of an interval that is not one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from pgstrata.stats import sequential, verdict
from pgstrata.stats.criterion import FIRST
from pgstrata.stats.estimate import Array, Estimate
from pgstrata.stats.sequential import interval, interval_within, log_e_value, look, p_value_within
from support.simulation import simulate

estimates = st.builds(
    Estimate,
    log=st.floats(min_value=-0.5, max_value=0.5),
    standard_error=st.floats(min_value=1e-4, max_value=0.1),
    freedom=st.floats(min_value=5, max_value=500),
    n=st.integers(min_value=10, max_value=500),
    method=st.just("huber"),
)


@given(estimates, st.sampled_from([0.8, 0.95, 0.99]))
def test_the_interval_holds_what_the_e_value_does_not_refute(e: Estimate, confidence: float) -> None:
    bar = -math.log(1 - confidence)
    for end in interval(e, confidence):
        if math.isfinite(end):
            assert log_e_value(e, end) == pytest.approx(bar, rel=1e-6)
    assert log_e_value(e, e.log) <= 0


@given(estimates)
def test_it_is_wider_than_the_interval_of_fixed_size(e: Estimate) -> None:
    low, high = interval(e)
    fixed_low, fixed_high = verdict.interval(e)
    assert low < fixed_low and high > fixed_high


def test_the_e_value_is_the_bayes_factor_it_claims_to_be() -> None:
    """Against the integral over the effect and the spread, done numerically."""
    x = np.array([0.3, -0.1, 0.5, 0.2, 0.4, 0.0, 0.6])
    n, g = len(x), 0.5

    spread = np.geomspace(0.01, 30, 3000)[:, None]
    effect = np.linspace(-5, 5, 1001)[None, :]

    def density(effect: Array) -> Array:
        """Of the values, times the right Haar prior 1 ÷ spread."""
        z2 = sum((value / spread - effect) ** 2 for value in x)
        values: Array = np.exp(-0.5 * z2) / spread ** (n + 1)
        return values

    prior = stats.norm.pdf(effect, 0, math.sqrt(g))
    something = integrate.trapezoid(
        integrate.trapezoid(density(effect) * prior, effect, axis=1), spread[:, 0]
    )
    nothing = integrate.trapezoid(density(np.zeros((1, 1)))[:, 0], spread[:, 0])
    e = Estimate(float(x.mean()), float(stats.sem(x)), n - 1.0, n, "mean")
    assert log_e_value(e, 0.0, g) == pytest.approx(math.log(something / nothing), abs=1e-3)


def test_too_few_pairs_are_not_looked_at() -> None:
    v = look([100.0] * (FIRST - 1), [50.0] * (FIRST - 1))
    assert v.word == "unclear" and str(FIRST) in v.reason
    assert look([100.0] * FIRST, [50.0] * FIRST).word == "slower"


def test_the_p_value_agrees_with_the_interval() -> None:
    rng = np.random.default_rng(2)
    for slower in (0.0, 0.01, 0.02, 0.05):
        base, other = simulate.interleaved(80, slower, simulate.MACHINES["design"], rng)
        v = look(base, other)
        assert (v.p_value <= 0.05) == (v.low > 1 or v.high < 1)


def alarms(machine: str, comparisons: int, interval_of: object, n: int = 120, seed: int = 21) -> float:
    rng = np.random.default_rng(seed)
    false_alarms = sum(
        simulate.ever_wrong(n, simulate.MACHINES[machine], rng, interval_of) for _ in range(comparisons)
    )
    return float(false_alarms) / comparisons


@pytest.mark.long
@pytest.mark.parametrize("machine", list(simulate.MACHINES))
def test_false_alarms_stay_below_the_nominal_rate_however_often_one_looks(machine: str) -> None:
    assert alarms(machine, 60, simulate.watched_interval) <= 0.05


@pytest.mark.long
def test_an_interval_of_fixed_size_fails_when_one_looks_often() -> None:
    assert alarms("design", 60, simulate.fixed_interval) > 0.15


@pytest.mark.slow
@pytest.mark.parametrize("machine", list(simulate.MACHINES))
def test_false_alarms_stay_near_the_nominal_rate_over_twenty_minutes(machine: str) -> None:
    # 5 % and two standard deviations of 200 draws; what each variant has for itself costs more.
    most = 0.12 if machine == "variants wander apart" else 0.08
    assert alarms(machine, 200, simulate.watched_interval, n=600) <= most


@pytest.mark.long
def test_planted_slowdowns_are_found_early() -> None:
    machine = simulate.MACHINES["design"]
    words, seconds = simulate.words(simulate.until_verdict, 0.05, machine, 100, 120, 22)
    assert words["slower"] >= 99 and seconds < 120
    words, _ = simulate.words(simulate.until_verdict, 0.03, machine, 100, 120, 23)
    assert words["slower"] >= 95
    words, _ = simulate.words(simulate.until_verdict, 0.0, machine, 100, 120, 24)
    assert words["slower"] + words["faster"] <= 2


def test_prior_spread_changes_width_but_not_the_meaning() -> None:
    e = Estimate(-0.03, 0.004, 59.0, 60, "huber")
    for spread in (0.01, 0.1, 1.0):
        low, high = sequential.interval(e, spread=spread)
        assert low < -0.03 < high
        assert math.isfinite(low)


# --- with an end that is known beforehand ------------------------------------------------------


@given(estimates, st.floats(min_value=1.0, max_value=100.0), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_p_value_of_a_planned_look_is_that_of_its_interval(
    e: Estimate, span: float, confidence: float
) -> None:
    low, high = interval_within(e, span, confidence)
    fixed_low, fixed_high = verdict.interval(e, confidence)
    assert low <= fixed_low + 1e-9 and high >= fixed_high - 1e-9, "the same where there is one look"
    at_its_end = Estimate(high - e.log, e.standard_error, e.freedom, e.n, e.method)
    assert p_value_within(at_its_end, span) == pytest.approx(1 - confidence, rel=1e-3)


@given(estimates, st.floats(min_value=1.0, max_value=50.0), st.floats(min_value=1.01, max_value=2.0))
def test_more_to_look_at_makes_a_wider_interval(e: Estimate, span: float, more: float) -> None:
    near, far = interval_within(e, span), interval_within(e, span * more)
    assert far[0] < near[0] and far[1] > near[1]


def test_there_is_no_end_before_the_first_look() -> None:
    with pytest.raises(ValueError, match="the end lies before the first look"):
        interval_within(Estimate(0.0, 0.01, 9.0, 10, "mean"), 0.5)


@pytest.mark.parametrize(("first", "last", "every"), [(8, 60, 2), (20, 300, 5), (8, 16, 2), (12, 200, 3)])
def test_a_planned_interval_leaves_out_the_truth_at_some_look_as_rarely_as_it_says(
    first: int, last: int, every: int
) -> None:
    """Means of normal values whose spread is estimated, looked at four times while as much is added again as
    there was at the first look."""
    values = np.random.default_rng(last).standard_normal((4000, last))
    left_out = np.zeros(len(values), dtype=bool)
    for count in range(first, last + 1, every):
        seen = values[:, :count]
        errors = seen.std(axis=1, ddof=1) / math.sqrt(count)
        _, width = interval_within(Estimate(0.0, 1.0, count - 1.0, count, "mean"), last / first)
        left_out |= np.abs(seen.mean(axis=1)) > width * errors
    assert 0.035 < left_out.mean() <= 0.06, "5 %, and the chance of 4,000"


@pytest.mark.parametrize(("n", "worth"), [(20, 1.0), (60, 1.0), (400, 1.0), (16, 80.0), (60, 80.0)])
def test_an_end_that_is_known_makes_a_narrower_interval(n: int, worth: float) -> None:
    e = Estimate(0.0, 0.01, n - 1.0, n, "huber", worth=worth)
    assert interval_within(e, 10.0)[1] < 0.95 * interval(e)[1]
