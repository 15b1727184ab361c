"""Pairs of slices: of the same length their rates are compared, of the same work their times."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.pairs import Pairs, disturbed_pairs, left_out, pairs_of, together
from pgstrata.stats.estimate import estimate
from pgstrata.stats.sequential import look
from pgstrata.stats.verdict import compare
from pgstrata.store.record import Slice, TurnKind


@dataclass
class Taken:
    turns: TurnKind
    slices: list[Slice]
    blocks: tuple[int, ...] = ()
    span: float | None = None
    slice_seconds: float | None = None
    cpus: tuple[int, ...] = ()
    load_limit: float = 0.25
    one_start: bool = False


def taken(turns: TurnKind, *times: float, blocks: tuple[int, ...] = ()) -> Taken:
    """Slices of 100 operations each, which take so many seconds."""
    return Taken(turns, [Slice(pair=n, seconds=t, rate=100 / t) for n, t in enumerate(times, 1)], blocks)


def test_slices_without_a_partner_are_left_out() -> None:
    for turns, expected in (("slices", ([100, 50], [50, 50])), ("frozen", ([2.0, 2.0], [1.0, 2.0]))):
        kind: TurnKind = "frozen" if turns == "frozen" else "slices"
        pairs = pairs_of(taken(kind, 1.0, 2.0, 4.0), taken(kind, 2.0, 2.0))
        assert pairs[:4] == (*expected, (), kind == "frozen")


def test_blocks_are_counted_in_pairs_that_are_there() -> None:
    base, other = (
        taken("windows", *[1.0] * 9, blocks=(3, 6, 9)),
        taken("windows", *[1.0] * 9, blocks=(3, 6, 9)),
    )
    del other.slices[1], base.slices[-1]
    assert pairs_of(base, other)[2] == (2, 3, 2)


def test_pairs_in_which_a_side_waited_for_a_cpu_are_left_out_on_both() -> None:
    def waited(*shares: float | None) -> Taken:
        slices = [Slice(pair=n, seconds=1.0, rate=n, waited=w) for n, w in enumerate(shares, 1)]
        return Taken("windows", slices, (2, 4))

    base, other = waited(0.0, 0.11, 0.1, None), waited(0.0, 0.0, 0.1, 0.9)
    assert pairs_of(base, other) == Pairs([1.0, 3.0], [1.0, 3.0], (1, 1))
    assert left_out(base, other) == (1, 3), "of the last pair it is not known"


def test_rounds_that_cannot_tell_how_long_they_waited_are_left_out_by_the_load() -> None:
    def loaded(*loads: float | None) -> Taken:
        slices = [Slice(pair=n, seconds=1.0, rate=n, other_load=load) for n, load in enumerate(loads, 1)]
        return Taken("rounds", slices)

    base, other = loaded(0.0, 0.26, 0.25, None), loaded(0.0, 0.0, 0.25, 0.9)
    assert disturbed_pairs(base, other) == {2, 4}
    assert pairs_of(base, other)[:2] == ([1.0, 3.0], [1.0, 3.0])
    assert left_out(base, other) == (1, 3), "of the last round one side does not know it"
    # What a slice has waited says more than the load of all CPUs.
    waited = Taken("slices", [Slice(pair=1, seconds=1.0, rate=1.0, waited=0.05, other_load=0.9)])
    assert disturbed_pairs(waited, waited) == frozenset()
    base.load_limit = other.load_limit = 0.95
    assert disturbed_pairs(base, other) == frozenset()


def test_both_kinds_agree_on_a_steady_difference() -> None:
    ours, theirs = [0.10, 0.11] * 20, [0.05, 0.055] * 20
    for kind in ("windows", "frozen"):
        effect = estimate(*pairs_of(taken(kind, *ours), taken(kind, *theirs)))
        assert math.exp(effect.log) == pytest.approx(2.0)


def test_a_stall_counts_with_as_long_as_it_took() -> None:
    """The other does every tenth stretch in fifty times the time: 100 stretches take 10 s, and 59 s."""
    ours = [0.1 + n % 7 / 1000 for n in range(100)]
    theirs = [5.0 if n % 10 == 9 else 0.1 + n % 3 / 1000 for n in range(100)]
    effect = estimate(*pairs_of(taken("frozen", *ours), taken("frozen", *theirs)))
    assert effect.method == "time"
    assert math.exp(effect.log) == pytest.approx(10.3 / 59.0, rel=0.01)
    by_rate = estimate(*pairs_of(taken("windows", *ours), taken("windows", *theirs)))
    assert math.exp(by_rate.log) > 0.9, "as if it were a tenth of the time"


def checkpoints(dice: np.random.Generator, rounds: int, seconds: float, apart: int = 0) -> Taken:
    """Rounds of fifty stretches of 0.1 s, of which two take so many seconds; which, is drawn `apart`."""
    times = 0.1 * np.exp(0.1 * dice.standard_normal((rounds, 50)))
    for place in (12, 37):
        where = place + dice.integers(-apart, apart + 1, rounds)
        times[np.arange(rounds), where] = seconds * np.exp(0.3 * dice.standard_normal(rounds))
    return taken("frozen", *times.ravel(), blocks=tuple(range(50, 50 * rounds + 1, 50)))


def test_the_same_work_is_judged_by_all_of_its_time() -> None:
    """Checkpoints of one side take 1.1 s of 5.9 in each round: the middle pair says nothing of it."""
    dice = np.random.default_rng(3)
    truth = (48 * 0.1 * math.exp(0.005) + 2 * 0.1) / (48 * 0.1 * math.exp(0.005) + 2 * 0.55 * math.exp(0.045))
    held = 0
    for _ in range(200):
        plain, storms = checkpoints(dice, 4, 0.1), checkpoints(dice, 4, 0.55)
        verdict = compare(*pairs_of(plain, storms))
        assert verdict.word == "slower"
        held += verdict.low <= truth <= verdict.high
    assert held >= 180, "95 % of 200 are 190"


@pytest.mark.parametrize("apart", [0, 2])
def test_what_both_sides_stall_for_is_no_difference(apart: int) -> None:
    dice = np.random.default_rng(4)
    words = [look(*pairs_of(*(checkpoints(dice, 4, 0.55, apart) for _ in range(2)))).word for _ in range(200)]
    assert sum(word in ("slower", "faster") for word in words) <= 5


def test_a_checkpoint_some_pairs_earlier_is_hardly_noise() -> None:
    """Each pair with one counts as a large difference by itself, and once more backwards."""
    dice = np.random.default_rng(5)
    pairs = pairs_of(*(checkpoints(dice, 16, 0.55, apart=2) for _ in range(2)))
    effect = estimate(*pairs)
    ratios = np.array(pairs.other) / np.mean(pairs.other) - np.array(pairs.base) / np.mean(pairs.base)
    assert effect.standard_error < 0.7 * ratios.std() / math.sqrt(len(ratios))
    assert effect.freedom == 15, "a batch is a round"


@given(st.lists(st.integers(1, 40), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
def test_the_error_of_the_same_work_is_known_from_the_second_pair_on(sizes: list[int], seed: int) -> None:
    dice = np.random.default_rng(seed)
    base, other = np.exp(0.1 * dice.standard_normal((2, sum(sizes))))
    effect, turned = (
        estimate(*sides, tuple(sizes), by_totals=True) for sides in ((base, other), (other, base))
    )
    assert math.isfinite(effect.standard_error) == (sum(sizes) > 1)
    assert 0 <= effect.freedom < sum(sizes)
    assert turned.log == pytest.approx(-effect.log)
    assert turned.standard_error == pytest.approx(effect.standard_error)


def test_rounds_that_differ_by_chance_are_part_of_the_error() -> None:
    """By 2 % each, where fifty pairs of a round know their mean to 1.4 %."""
    dice = np.random.default_rng(6)
    held = 0
    for _ in range(200):
        base, other = 0.1 * np.exp(0.07 * dice.standard_normal((2, 8, 50)))
        other *= np.exp(0.02 * dice.standard_normal((8, 1)))
        verdict = compare(base.ravel(), other.ravel(), (50,) * 8, by_totals=True)
        held += verdict.low <= 1 <= verdict.high
    assert held >= 180, "95 % of 200 are 190"


def test_few_rounds_say_little_of_how_rounds_differ() -> None:
    """Four rounds that differ by 2 %: a standard error with three degrees of freedom, not with those of 16
    batches of them."""
    dice = np.random.default_rng(7)
    held = 0
    for _ in range(200):
        base, other = 0.1 * np.exp(0.01 * dice.standard_normal((2, 4, 50)))
        other *= np.exp(0.02 * dice.standard_normal((4, 1)))
        assert estimate(base.ravel(), other.ravel(), (50,) * 4, by_totals=True).freedom == 3
        verdict = compare(base.ravel(), other.ravel(), (50,) * 4, by_totals=True)
        held += verdict.low <= 1 <= verdict.high
    assert held >= 182, "95 % of 200 are 190"


def test_repeats_stand_one_after_the_other() -> None:
    first, two = Pairs([1.0, 2.0], [1.0, 1.0], (2,), True), Pairs([3.0], [4.0], (1,), True)
    assert together([first, two]) == Pairs([1.0, 2.0, 3.0], [1.0, 1.0, 4.0], (2, 1), True)
    assert together([first, Pairs([3.0], [4.0])]).blocks == ()


def test_servers_that_live_through_a_step_are_counted() -> None:
    times = taken("slices", 1.0, 1.0)
    lives = replace(times, one_start=True)
    assert pairs_of(times, times).starts == 0
    assert pairs_of(lives, lives).starts == 1
    assert together([pairs_of(lives, lives)] * 3).starts == 3
