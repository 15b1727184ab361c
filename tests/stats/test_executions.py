"""Verdicts on single executions: few pairs for large differences, no false ones at many looks."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.stats.criterion import Criterion
from pgstrata.stats.estimate import START_ERROR, Array
from pgstrata.stats.executions import ENOUGH, FIRST, look
from pgstrata.stats.verdict import Word

MOST = 60
"""Pairs of a simulated comparison."""

MOST_OF_STARTS = 400
"""The same, where servers start anew meanwhile or do not."""


def noise(kind: str, count: int, rng: np.random.Generator) -> Array:
    """Returns by how much executions take longer, one after the other, as logs."""
    match kind:
        case "normal":
            return rng.normal(0, 0.03, count)
        case "heavy tails":
            return 0.02 * rng.standard_t(2, count)
        case "stalls":
            stalled = rng.random(count) < 0.1
            return rng.normal(0, 0.01, count) + np.where(stalled, rng.exponential(0.3, count), 0)
        case "two states":
            return np.where(rng.random(count) < 0.5, 0.0, 0.15) + rng.normal(0, 0.002, count)
        case _:
            carried = float(kind.removeprefix("autocorrelated "))
            steps = rng.normal(0, 0.03 * math.sqrt(1 - carried**2), count)
            values = np.empty(count)
            last = rng.normal(0, 0.03)
            for number, step in enumerate(steps):
                values[number] = last = carried * last + step
            return values


def pairs(kind: str, times_faster: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Returns rates of executions taken A B, B A, A B, …"""
    logs = noise(kind, 2 * MOST, rng).reshape(MOST, 2)
    logs[1::2] = logs[1::2, ::-1]
    return np.exp(-logs[:, 0]), np.exp(math.log(times_faster) - logs[:, 1])


def watched(base: Array, other: Array, queries: int = 1, *, apart: bool = False) -> tuple[Word, int, bool]:
    """Returns the word at which measuring stops, after how many pairs, and whether an interval before that
    left out equality. queries: by how many the p-value is adjusted; apart: each pair is a block."""
    left_out = False
    for count in range(FIRST, MOST + 1):
        if count > ENOUGH and count % 2:
            continue
        verdict = look(base[:count], other[:count], blocks=[1] * count if apart else ())
        left_out = left_out or verdict.low > 1 or verdict.high < 1
        if verdict.word == "same" or (verdict.decided and verdict.p_value * queries <= 0.05):
            return verdict.word, count, left_out
    return "unclear", MOST, left_out


@pytest.mark.long
@pytest.mark.parametrize(
    "kind",
    [
        "normal",
        "heavy tails",
        "stalls",
        "two states",
        "autocorrelated 0.3",
        "autocorrelated 0.7",
        "autocorrelated 0.95",
    ],
)
def test_equal_servers_are_not_called_different(kind: str) -> None:
    rng = np.random.default_rng(5)
    ends = [watched(*pairs(kind, 1.0, rng)) for _ in range(200)]
    assert sum(left_out for _, _, left_out in ends) <= 10
    assert sum(word in ("slower", "faster") for word, _, _ in ends) <= 1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["normal", "heavy tails", "stalls", "two states", "autocorrelated 0.3"])
def test_pairs_that_lie_apart_are_not_called_different(kind: str) -> None:
    rng = np.random.default_rng(11)
    # They do where many queries take turns.
    ends = [watched(*pairs(kind, 1.0, rng), queries=20, apart=True) for _ in range(200)]
    assert sum(left_out for _, _, left_out in ends) <= 10
    assert sum(word in ("slower", "faster") for word, _, _ in ends) <= 1


def test_blocks_know_what_their_pairs_share() -> None:
    """Pairs of one block share a state; as if each were by itself they would be proof of a difference."""
    rng = np.random.default_rng(12)
    blocks, each = 20, 10
    wrong = {True: 0, False: 0}
    for _ in range(60):
        logs = rng.normal(0, 0.03, blocks).repeat(each) + rng.normal(0, 0.005, blocks * each)
        for known in wrong:
            counts = [each] * blocks if known else [1] * (blocks * each)
            verdict = look(np.ones(len(logs)), np.exp(logs), blocks=counts)
            wrong[known] += verdict.low > 1 or verdict.high < 1
    assert wrong[True] <= 3 and wrong[False] > 10, wrong


def test_fewer_blocks_than_enough_change_nothing() -> None:
    base, other = pairs("normal", 1.1, np.random.default_rng(13))
    blocks = [4] * (ENOUGH - 1)
    assert look(base, other, blocks=blocks) == look(base, other)
    with pytest.raises(ValueError, match="batches of 16 pairs"):
        look(base, other, blocks=[1] * ENOUGH)


@pytest.mark.parametrize("kind", ["normal", "stalls"])
@pytest.mark.parametrize("queries", [1, 100])
def test_a_large_factor_is_known_after_a_few_pairs(kind: str, queries: int) -> None:
    rng = np.random.default_rng(6)
    ends = [watched(*pairs(kind, 87.0, rng), queries) for _ in range(50)]
    assert {word for word, _, _ in ends} == {"faster"}
    assert np.quantile([count for _, count, _ in ends], 0.9) <= 6
    assert np.median([count for _, count, _ in ends]) <= (4 if queries == 1 else 5)


def test_a_small_difference_is_known_after_many_pairs() -> None:
    rng = np.random.default_rng(7)
    words = Counter(watched(*pairs("autocorrelated 0.7", 1 / 1.05, rng))[0] for _ in range(50))
    assert words["slower"] >= 45 and words["faster"] == 0


def test_the_interval_holds_the_planted_factor() -> None:
    rng = np.random.default_rng(8)
    for factor in (0.5, 1.5, 20.0):
        for count in (3, 5, 8, 20):
            base, other = pairs("normal", factor, rng)
            verdict = look(base[:count], other[:count])
            assert verdict.low < factor < verdict.high


def test_fewer_than_three_pairs_say_nothing() -> None:
    for count in range(FIRST):
        verdict = look([1.0] * count, [100.0] * count)
        assert verdict.word == "unclear" and verdict.p_value == 1.0
    assert look([1.0] * FIRST, [100.0] * FIRST).word == "faster"


def test_executions_that_a_clock_makes_equal_are_no_proof_of_a_small_difference() -> None:
    assert look([1.0] * FIRST, [1.1] * FIRST).word == "unclear"
    assert look([1.0] * ENOUGH, [1.0] * ENOUGH).word == "same"


@given(
    st.lists(st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)), min_size=3, max_size=30),
    st.sampled_from([0.02, 0.1]),
)
def test_exchanging_the_sides_exchanges_the_words(values: list[tuple[float, float]], margin: float) -> None:
    base, other = [b for b, _ in values], [o for _, o in values]
    criterion = Criterion(margin)
    first, two = look(base, other, criterion=criterion), look(other, base, criterion=criterion)
    exchanged = {"slower": "faster", "faster": "slower"}
    assert two.word == exchanged.get(first.word, first.word)
    if first.n >= FIRST and first.low > 0:
        assert two.high == pytest.approx(1 / first.low, rel=1e-6)
    assert two.p_value == pytest.approx(first.p_value, rel=1e-6)


@pytest.mark.parametrize("lives", [16, MOST_OF_STARTS])
def test_what_a_start_is_by_chance_is_no_difference(lives: int) -> None:
    """Servers that differ by START_ERROR from start to start, and start anew after so many pairs."""
    rng = np.random.default_rng(lives)
    without = wrong = 0
    for _ in range(100):
        starts = rng.normal(0, START_ERROR, -(-MOST_OF_STARTS // lives)).repeat(lives)[:MOST_OF_STARTS]
        base = np.exp(rng.normal(0, 0.01, MOST_OF_STARTS))
        other = np.exp(starts + rng.normal(0, 0.01, MOST_OF_STARTS))
        for count in range(ENOUGH, MOST_OF_STARTS + 1, 16):
            number = -(-count // lives)
            verdict = look(base[:count], other[:count], criterion=Criterion(0.005), starts=number)
            wrong += verdict.word in ("slower", "faster")
            if verdict.decided:
                break
        counted = look(base, other, starts=len(set(starts)))
        without += counted.low > 1 or counted.high < 1
    # One start leaves 5 in 100, whatever is measured in it.
    assert wrong <= 6 and without <= 9, (wrong, without)


def test_a_start_that_is_not_counted_would_be_called_a_difference() -> None:
    rng = np.random.default_rng(1)
    without = 0
    for _ in range(50):
        base = np.exp(rng.normal(0, 0.01, MOST_OF_STARTS))
        other = np.exp(rng.normal(0, START_ERROR) + rng.normal(0, 0.01, MOST_OF_STARTS))
        verdict = look(base, other)
        without += verdict.low > 1 or verdict.high < 1
    assert without > 10
