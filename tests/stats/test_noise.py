"""The smallest difference a machine shows, against differences that are really planted."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pgstrata.stats.noise import noise
from pgstrata.stats.sequential import look
from pgstrata.stats.verdict import compare
from support.simulation import simulate


def white(
    n: int, deviation: float, rng: np.random.Generator, slower: float = 0.0
) -> tuple[list[float], list[float]]:
    """Pairs whose log ratio has this standard deviation."""
    x = deviation * rng.standard_normal(n)
    return [1000.0] * n, list(1000 * (1 - slower) * np.exp(x))


@pytest.mark.long
def test_the_deviation_of_a_pair_is_found() -> None:
    rng = np.random.default_rng(1)
    pair_noise = noise(*white(400, 0.02, rng), pair_seconds=4)
    assert pair_noise.pair_deviation == pytest.approx(0.02, rel=0.12)
    assert pair_noise.floor == 0.0
    assert abs(pair_noise.offset) < 0.005


@pytest.mark.long
def test_what_is_called_visible_is_found_nine_times_of_ten() -> None:
    rng = np.random.default_rng(2)
    seen = noise(*white(4000, 0.03, rng), pair_seconds=4, minutes=(2,)).visible[0]
    assert seen.pairs == 30 and seen.fixed is not None and seen.watched is not None
    fixed = [compare(*white(30, 0.03, rng, seen.fixed)).high < 1 for _ in range(500)]
    assert np.mean(fixed) >= 0.855, "more where the noise was estimated too large by chance"
    watched = [look(*white(30, 0.03, rng, seen.watched)).high < 1 for _ in range(500)]
    assert np.mean(watched) >= 0.855


@pytest.mark.long
def test_what_is_called_visible_until_an_end_that_is_known_is_found_nine_times_of_ten() -> None:
    rng = np.random.default_rng(6)
    blocks = (50,) * 80
    long = white(4000, 0.03, rng)
    seen = noise(*long, blocks, pair_seconds=0.05, first_look=400, minutes=(2,)).visible[0]
    assert seen.pairs == 2400 and seen.watched is not None
    proven = [look(*white(2400, 0.03, rng, seen.watched), blocks[:48], span=6.0).high < 1 for _ in range(100)]
    assert np.mean(proven) >= 0.8
    without = noise(*white(4000, 0.03, rng), pair_seconds=0.05, minutes=(2,)).visible[0]
    assert without.watched is not None and seen.watched < without.watched
    early = noise(*white(4000, 0.03, rng), pair_seconds=0.05, first_look=400, minutes=(0.3,)).visible[0]
    assert early.watched is None, "over before the first look"


@pytest.mark.long
def test_longer_sees_more_and_watching_costs() -> None:
    rng = np.random.default_rng(3)
    pair_noise = noise(*simulate.interleaved(240, 0.0, simulate.MACHINES["design"], rng), pair_seconds=4)
    assert [v.minutes for v in pair_noise.visible] == [1.0, 5.0, 20.0]
    one_minute, five, twenty = (v.fixed for v in pair_noise.visible)
    assert one_minute is not None and five is not None and twenty is not None
    assert one_minute > five > twenty > 0
    for v in pair_noise.visible[1:]:
        assert v.watched is not None and v.fixed is not None and v.watched > v.fixed


@pytest.mark.long
def test_clusters_that_differ_for_good_set_a_floor() -> None:
    rng = np.random.default_rng(4)
    pair_noise = noise(*white(200, 0.02, rng, slower=0.03), pair_seconds=4, minutes=(60,))
    assert pair_noise.offset == pytest.approx(-0.03, abs=0.005)
    assert 0.02 < pair_noise.floor < 0.03
    assert pair_noise.visible[0].fixed is not None and pair_noise.visible[0].fixed > pair_noise.floor


@pytest.mark.long
def test_servers_of_one_start_hide_small_differences() -> None:
    pairs = white(400, 0.005, np.random.default_rng(7))
    (anew,), (once,) = (noise(*pairs, starts=n, pair_seconds=1, minutes=(4,)).visible for n in (0, 1))
    assert anew.fixed is not None and once.fixed is not None and once.watched is not None
    assert anew.fixed < 0.003
    assert 0.019 < once.fixed < once.watched < 0.025, "3.24 standard deviations of a start"


def test_times_too_short_for_an_interval_say_so() -> None:
    rng = np.random.default_rng(5)
    pair_noise = noise(*white(20, 0.02, rng), pair_seconds=30, minutes=(1, 4.5, 20))
    assert (pair_noise.visible[0].fixed, pair_noise.visible[0].watched) == (None, None)
    assert pair_noise.visible[1].fixed is not None and pair_noise.visible[1].watched is None
    assert pair_noise.visible[2].watched is not None and math.isfinite(pair_noise.visible[2].watched)


def test_too_few_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="7 pairs"):
        noise([1.0] * 7, [1.0] * 7, pair_seconds=4)
    with pytest.raises(ValueError, match="pair_seconds"):
        noise([1.0] * 9, [1.0] * 9, pair_seconds=0)
