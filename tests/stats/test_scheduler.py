"""A machine whose scheduler favours one side for a while: intervals hold, and no word is wrong too often.

Beside a busy program the kernel leaves a backend on its CPU and run queue for anything from some milliseconds
to seconds. Until it moves, one side is faster, and neighbouring pairs say the same. New connections draw the
state anew. Estimators that look at neighbouring pairs alone called equal servers different in a third of
comparisons."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from pgstrata.stats import sequential, verdict

PAIR_SECONDS = 0.04
"""Two slices of 20 ms."""

BLOCK_PAIRS = 50
"""Two seconds of both sides."""

DWELLS = (0.02, 0.1, 0.5, 2.0, 5.0)
"""Mean seconds for which the scheduler leaves processes where they are."""

Rates = NDArray[np.float64]


def favoured(dice: np.random.Generator, pairs: int, dwell: float) -> NDArray[np.float64]:
    """Which side each pair favours, 1 or −1: a chain of two states that stays for `dwell` seconds on
    average."""
    stays = math.exp(-PAIR_SECONDS / dwell)
    changes = np.where(dice.random(pairs) > stays, dice.choice([-1, 1], size=pairs), 1)
    changes[0] = dice.choice([-1, 1])
    return np.cumprod(changes).astype(np.float64)


def equal_servers(
    dice: np.random.Generator, blocks: int, dwell: float, depth: float
) -> tuple[Rates, Rates, tuple[int, ...]]:
    """Rates of both sides of equal servers. depth: log ratio of a pair in either state; noise of a pair
    0.05."""
    states = np.concatenate([favoured(dice, BLOCK_PAIRS, dwell) for _ in range(blocks)])
    ratios = depth * states + 0.05 * dice.standard_normal(len(states))
    return np.exp(-ratios / 2), np.exp(ratios / 2), (BLOCK_PAIRS,) * blocks


@pytest.mark.long
@pytest.mark.parametrize("dwell", DWELLS)
@pytest.mark.parametrize("depth", [0.1, 0.7])
def test_intervals_of_a_fixed_time_hold(dwell: float, depth: float) -> None:
    dice = np.random.default_rng(round(1000 * dwell))
    wrong = words = 0
    for _ in range(300):
        compared = verdict.compare(*equal_servers(dice, 12, dwell, depth))
        wrong += compared.low > 1 or compared.high < 1
        words += compared.word in ("slower", "faster")
    # 5 % of 300 are 15; two standard deviations of chance are 7.5.
    assert wrong <= 24
    assert words <= 9, "what the sign test lets through: 3 %"


@pytest.mark.long
@pytest.mark.parametrize("dwell", DWELLS)
def test_measuring_until_the_verdict_does_not_stop_on_noise(dwell: float) -> None:
    dice = np.random.default_rng(7 + round(1000 * dwell))
    wrong = 0
    for _ in range(60):
        base, other, sizes = equal_servers(dice, 40, dwell, 0.3)
        for count in range(8, 41, 2):
            end = BLOCK_PAIRS * count
            looked = sequential.look(base[:end], other[:end], sizes[:count], span=40 / 8)
            if looked.decided:
                wrong += looked.word != "same"
                break
    assert wrong <= 7, "5 % of 60 at any look are 3, and the chance of 60"


@pytest.mark.long
def test_pairs_of_one_block_do_not_know_it() -> None:
    """The same pairs, as if all had the same connections: this is the fault that blocks mend."""
    dice = np.random.default_rng(3)
    wrong = {"blocks": 0, "pairs": 0}
    for _ in range(200):
        base, other, sizes = equal_servers(dice, 12, 2.0, 0.3)
        for name, blocks in (("blocks", sizes), ("pairs", ())):
            compared = verdict.compare(base, other, blocks)
            wrong[name] += compared.low > 1 or compared.high < 1
    assert wrong["blocks"] <= 18 < wrong["pairs"]
