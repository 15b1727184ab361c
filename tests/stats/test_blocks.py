"""Blocks: what a server is by chance is part of all pairs until it starts anew, and of the interval."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pgstrata.stats import sequential, verdict
from pgstrata.stats.criterion import LEAST_BLOCKS, Criterion
from pgstrata.stats.estimate import LEAST_ROUNDS, estimate

Rates = NDArray[np.float64]


def drawn(
    dice: np.random.Generator, blocks: int, pairs: int, by_chance: float, effect: float = 0.0
) -> tuple[Rates, Rates, tuple[int, ...]]:
    """Rates of both sides. by_chance: standard deviation of the log ratio from block to block; that of a
    pair's is 0.05."""
    of_block = np.repeat(effect + by_chance * dice.standard_normal(blocks), pairs)
    base, other = 0.05 / math.sqrt(2) * dice.standard_normal((2, blocks * pairs))
    return np.exp(base), np.exp(other + of_block), (pairs,) * blocks


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_a_block_is_one_value(sizes: list[int], seed: int) -> None:
    dice = np.random.default_rng(seed)
    base, other = np.exp(0.1 * dice.standard_normal((2, sum(sizes))))
    by_block = estimate(base, other, sizes)
    logs = np.log(other / base)
    assert logs.min() - 1e-9 <= by_block.log <= logs.max() + 1e-9
    # A block of which little is left does not count.
    whole = sum(size >= 0.25 * max(sizes) for size in sizes)
    assert by_block.blocks == whole and 0 <= by_block.agreeing <= whole
    assert by_block.too_few == (whole < LEAST_BLOCKS)
    if whole == len(sizes) >= LEAST_BLOCKS:
        assert (by_block.freedom, by_block.worth >= 1.0) == (len(sizes) - 2, True)


@given(st.lists(st.integers(1, 30), min_size=2, max_size=12), st.integers(0, 2**32 - 1))
def test_rounds_never_make_an_interval_narrower(sizes: list[int], seed: int) -> None:
    dice = np.random.default_rng(seed)
    base, other = np.exp(0.1 * dice.standard_normal((2, sum(sizes))))
    rounds = estimate(base, other, sizes, by_totals=True)
    assert rounds.log == pytest.approx(math.log(other.sum() / base.sum()))
    assert rounds.standard_error > 0 and not rounds.too_few
    if len(sizes) < LEAST_ROUNDS:
        assert rounds.freedom >= len(sizes) - 1


def test_few_blocks_are_no_ground_for_a_word() -> None:
    """However clear the pairs are: what a connection or its CPU is by chance lasts for a whole block."""
    dice = np.random.default_rng(1)
    for blocks in (1, 4, 7):
        base, other, sizes = drawn(dice, blocks, 200, by_chance=0.0, effect=-0.3)
        compared = verdict.compare(base, other, sizes)
        assert (
            compared.word == "unclear"
            and f"{blocks} batches" in compared.reason
            and "at least 8" in compared.reason
            and compared.aside
        )
    assert verdict.compare(*drawn(dice, 8, 200, by_chance=0.0, effect=-0.3)).word == "slower"


def test_blocks_that_disagree_are_no_ground_for_a_difference() -> None:
    """Two of eight blocks say the contrary: an interval of their means may leave out 1, a sign test does
    not."""
    dice = np.random.default_rng(2)
    base, other, sizes = drawn(dice, 10, 100, by_chance=0.0)
    levels = np.array([-0.30, -0.31, -0.29, -0.30, -0.32, -0.30, -0.31, -0.29, 0.02, 0.03])
    compared = verdict.compare(base, other * np.exp(np.repeat(levels, 100)), sizes)
    assert compared.high < 1
    assert (compared.word, compared.reason) == ("unclear", "only 8 of 10 batches agree on the direction")
    assert compared.aside, "nothing is excluded by its interval"


def test_the_error_of_a_mean_over_blocks_is_that_of_their_means() -> None:
    """Against the textbook's error of the mean of two groups of blocks, those of either order of starts."""
    dice = np.random.default_rng(4)
    base, other, sizes = drawn(dice, 8, 100, by_chance=0.05)
    means = np.log(other / base).reshape(8, 100).mean(axis=1)
    within = (means[0::2].var(ddof=1) + means[1::2].var(ddof=1)) / 2
    effect = estimate(base, other, sizes)
    assert effect.standard_error == pytest.approx(math.sqrt(within / 8), rel=0.15)
    assert effect.freedom == 6


def test_the_order_in_which_servers_start_is_no_noise() -> None:
    """Who starts last is faster by 2 %, in every second block the other one."""
    dice = np.random.default_rng(8)
    base, other, sizes = drawn(dice, 12, 100, by_chance=0.006)
    order = np.repeat(np.resize([0.02, -0.02], 12), 100)
    without, with_it = estimate(base, other, sizes), estimate(base, other * np.exp(order), sizes)
    assert with_it.log == pytest.approx(without.log, abs=0.001)
    assert with_it.standard_error == pytest.approx(without.standard_error, rel=0.2)
    assert with_it.freedom == 10
    # Of the same work, as rounds in frozen turns are, they are one value each.
    assert estimate(base, other * np.exp(order), sizes, by_totals=True).standard_error > 0.004


def test_intervals_hold_the_truth_where_starts_differ_by_chance() -> None:
    dice = np.random.default_rng(5)
    held = 0
    for _ in range(200):
        compared = verdict.compare(*drawn(dice, 12, 250, by_chance=0.004))
        held += compared.low <= 1 <= compared.high
    assert held >= 180, "95 % of 200 are 190"


@pytest.mark.long
def test_small_differences_are_found_where_starts_differ_by_chance() -> None:
    """Looked at after every second block from the eighth on, with a margin of 0.5 %."""
    dice = np.random.default_rng(6)

    def word(effect: float) -> str:
        base, other, sizes = drawn(dice, 60, 100, by_chance=0.004, effect=effect)
        for count in range(8, 61, 2):
            end = 100 * count
            looked = sequential.look(
                base[:end], other[:end], sizes[:count], criterion=Criterion(0.005), span=60 / 8
            )
            if looked.decided:
                return looked.word
        return "unclear"

    assert [word(-0.01) for _ in range(60)].count("slower") >= 57
    assert sum(word(0.0) in ("slower", "faster") for _ in range(120)) <= 3


def disturbed(dice: np.random.Generator, sides: NDArray[np.int_]) -> tuple[Rates, Rates, tuple[int, ...]]:
    """Blocks of 100 pairs in which every tenth slice of one side loses a fifth: of the other where `sides` of
    the block is −1, of the base where it is 1."""
    ratios = 0.02 * dice.standard_normal((len(sides), 100))
    ratios += np.where(dice.random(ratios.shape) < 0.1, 0.2 * sides[:, None], 0.0)
    return np.exp(-ratios.ravel() / 2), np.exp(ratios.ravel() / 2), (100,) * len(sides)


@pytest.mark.long
def test_what_disturbs_one_side_for_a_block_is_no_stall_of_a_variant() -> None:
    """It moves the ratio of totals with all of its block, and not as if pairs were hit one by one."""
    dice = np.random.default_rng(3)
    methods = [estimate(*disturbed(dice, dice.choice([-1, 1], size=20))).method for _ in range(200)]
    assert methods.count("total") <= 10, "1 % and the chance of 200"


def test_a_variant_that_stalls_in_all_blocks_is_slower() -> None:
    dice = np.random.default_rng(4)
    effect = estimate(*disturbed(dice, np.full(20, -1)))
    assert effect.method == "total"
    assert effect.log == pytest.approx(-0.02, abs=0.006)


def test_blocks_have_the_pairs_there_are() -> None:
    with pytest.raises(ValueError, match="blocks of 9 pairs, and 10 pairs"):
        estimate(np.ones(10), np.ones(10), (4, 5))
    base, other = np.ones(12), np.exp(np.linspace(-0.1, 0.1, 12))
    base[0] = other[0] = 0.0  # neither side did anything
    assert estimate(base, other, (3, 3, 3, 3)).n == 11
