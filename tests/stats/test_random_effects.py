"""One difference from what several machines say."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from pgstrata.stats.estimate import Estimate
from pgstrata.stats.random_effects import combine
from pgstrata.stats.verdict import interval


def machine(log: float, error: float = 0.003, freedom: float = 100.0, n: int = 100) -> Estimate:
    return Estimate(log, error, freedom, n, "student")


def test_machines_that_agree_differ_by_nothing() -> None:
    combined = combine([machine(-0.03), machine(-0.03), machine(-0.03)])
    assert combined.between == 0
    assert combined.estimate.log == pytest.approx(-0.03)
    # Never narrower than without Hartung and Knapp's correction, which would find no error at all.
    assert combined.estimate.standard_error == pytest.approx(0.003 / math.sqrt(3))
    assert (combined.estimate.freedom, combined.estimate.n) == (2, 300)


def test_what_machines_differ_by_is_in_the_interval() -> None:
    alike = combine([machine(log) for log in (-0.030, -0.031, -0.029, -0.030, -0.030)])
    apart = combine([machine(log) for log in (-0.06, -0.00, -0.03, -0.05, -0.01)])
    assert apart.between is not None and apart.between == pytest.approx(0.0255, abs=0.003)
    assert alike.between == 0
    wide, narrow = (interval(combined.estimate) for combined in (apart, alike))
    assert wide[1] - wide[0] > 5 * (narrow[1] - narrow[0])


def test_an_exact_machine_counts_more() -> None:
    combined = combine([machine(-0.05, 0.001), machine(-0.04, 0.02), machine(-0.045, 0.02)])
    assert combined.estimate.log == pytest.approx(-0.05, abs=0.0005)


def test_machines_of_one_pair_each() -> None:
    """None knows its own error: their spread is the error, and how machines differ cannot be told from it."""
    logs = [-0.05, -0.03, -0.04]
    combined = combine([Estimate(log, math.inf, 0.0, 1, "mean") for log in logs])
    assert combined.between is None
    assert combined.estimate.log == pytest.approx(-0.04)
    assert combined.estimate.standard_error == pytest.approx(0.01 / math.sqrt(3))


def test_two_pairs_that_lie_close_together_do_not_decide() -> None:
    """By chance they are as good as the same: of so few nobody knows their error."""
    combined = combine(
        [machine(-0.05, 1e-9, 1.0, 2), machine(-0.02, 0.01, 1.0, 2), machine(-0.03, 0.01, 1.0, 2)]
    )
    assert combined.estimate.log == pytest.approx(-0.1 / 3) and combined.between is None


def test_few_batches_of_many_pairs_do_not_decide() -> None:
    """A batch is one value, and three of them may lie close together by chance."""
    exact = replace(machine(-0.05, 1e-9, 1.0, 300), blocks=3)
    others = [replace(machine(log, 0.01, 10.0, 1200), blocks=12) for log in (-0.02, -0.03)]
    combined = combine([exact, *others])
    assert combined.estimate.log == pytest.approx(-0.1 / 3) and combined.between is None
    combined = combine([replace(exact, blocks=8), *others])
    assert combined.between is not None


def test_machines_without_noise() -> None:
    combined = combine([machine(-0.03, 0.0), machine(-0.01, 0.0)])
    assert combined.estimate.log == pytest.approx(-0.02)
    assert math.isfinite(combined.estimate.standard_error) and combined.between is not None


def test_one_machine_is_none_too_many() -> None:
    with pytest.raises(ValueError, match="nothing to be combined"):
        combine([machine(0.0)])


@pytest.mark.parametrize("between", [0.0, 0.005, 0.03])
@pytest.mark.parametrize("number", [2, 3, 5, 10])
def test_intervals_hold_the_mean_of_all_machines(number: int, between: float) -> None:
    """95 % intervals hold it in 95 of 100 cases or more, however much machines differ."""
    rng = np.random.default_rng(number)
    true, rounds, held = -0.02, 400, 0
    for _ in range(rounds):
        errors = rng.uniform(0.002, 0.008, number)
        logs = true + rng.normal(0, between, number) + rng.normal(0, errors)
        low, high = interval(combine([machine(l, e) for l, e in zip(logs, errors, strict=True)]).estimate)  # noqa: E741
        held += low <= true <= high
    # 93 %: three standard errors of 400 rounds below 95 would be 91.7 %.
    assert held / rounds > 0.93
