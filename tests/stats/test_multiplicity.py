"""False discoveries among many comparisons."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.stats.criterion import Criterion
from pgstrata.stats.multiplicity import adjust, adjust_verdicts, holds_among
from pgstrata.stats.verdict import Verdict, compare

p_values = st.lists(st.floats(min_value=0, max_value=1), max_size=60)


@given(p_values)
def test_adjusted_is_the_definition(p: list[float]) -> None:
    m = len(p)
    ranks = sorted(p)
    for value, adjusted in zip(p, adjust(p), strict=True):
        want = min(min(1.0, q * m / (i + 1)) for i, q in enumerate(ranks) if q >= value)
        assert adjusted == pytest.approx(want)
        assert adjusted >= value * (1 - 1e-12)


@given(st.lists(st.floats(min_value=0, max_value=0.06), max_size=60), st.integers(0, 60))
def test_what_is_known_on_the_way_is_adjusted_so_at_the_end(p: list[float], unknown: int) -> None:
    comparisons = len(p) + unknown
    known: list[float] = []
    for value in p:
        if holds_among(value, comparisons, len(known)):
            known.append(value)
    at_the_end = adjust([*known, *[1.0] * (comparisons - len(known))])[: len(known)]
    assert all(value <= 0.05 * (1 + 1e-12) for value in at_the_end)


def test_the_second_difference_needs_less_than_the_first() -> None:
    assert not holds_among(0.002, 99, 1) and holds_among(0.002, 99, 3)


def test_no_comparisons() -> None:
    assert adjust([]) == []
    assert adjust_verdicts({}) == {}


@pytest.mark.parametrize("bad", [[-0.1], [1.1], [math.nan]])
def test_what_is_no_p_value_is_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError):
        adjust(bad)


def a_verdict(p: float, word: str = "slower") -> Verdict:
    return Verdict(word, 0.95, 0.92, 0.98, 0.02, 0.95, 60, p, None, "because")  # type: ignore[arg-type]


def test_the_step_up_rule() -> None:
    # Of 0.01, 0.02, 0.03, 0.5 the first three pass at 5 %: 0.03 × 4 / 3 = 0.04.
    raw = {"a": a_verdict(0.03), "b": a_verdict(0.5, "same"), "c": a_verdict(0.01), "d": a_verdict(0.02)}
    done = adjust_verdicts(raw)
    assert [v.word for v in done.values()] == ["slower", "same", "slower", "slower"]
    assert done["a"].adjusted_p == pytest.approx(0.04)
    assert {k: v.p_value for k, v in done.items()} == {k: v.p_value for k, v in raw.items()}


def test_what_may_be_chance_among_many_becomes_unclear() -> None:
    raw = {i: a_verdict(0.04 if i == 0 else 0.6, "faster" if i == 0 else "same") for i in range(20)}
    done = adjust_verdicts(raw)
    assert done[0].word == "unclear"
    assert "faster by itself" in done[0].reason and "20" in done[0].reason
    assert done[0].p_value == 0.04 and done[0].adjusted_p == pytest.approx(0.6)
    assert done[1] == replace(raw[1], adjusted_p=done[1].adjusted_p)


def test_comparisons_without_an_interval_are_not_counted() -> None:
    nothing = compare([100.0], [50.0])
    done = adjust_verdicts({"nothing": nothing, "one": a_verdict(0.04)})
    assert done["nothing"].adjusted_p is None
    assert done["one"].word == "slower" and done["one"].adjusted_p == pytest.approx(0.04)


def test_false_discoveries_over_campaigns() -> None:
    """27 steps, 7 of them 5 % slower: the mean share of false calls stays at 5 %."""
    rng = np.random.default_rng(31)
    shares, discoveries = [], 0
    for _ in range(60):
        steps = {}
        for i in range(27):
            effect = -0.05 if i < 7 else 0.0
            x = effect + 0.06 * rng.standard_normal(30)
            steps[i] = compare([1000.0] * 30, list(1000 * np.exp(x)), criterion=Criterion(0.0001))
        called = [i for i, v in adjust_verdicts(steps).items() if v.word in ("slower", "faster")]
        shares.append(sum(i >= 7 for i in called) / max(len(called), 1))
        discoveries += sum(i < 7 for i in called)
    assert np.mean(shares) < 0.05 + 0.03
    assert discoveries > 0.8 * 7 * 60
