"""Disturbed pairs of a query prove a direction by CPU time, and never one that is not there."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.alone import AloneTurns
from pgstrata.judge.bounded import NEIGHBOURS, bounded_interval, bounds_of, judge_bounded
from pgstrata.judge.single_queries import QuerySide, judge_query
from pgstrata.stats.criterion import Criterion
from pgstrata.store.record import QueryTurns, Slice

CRITERION = Criterion(0.02)


def turn(pair: int, cpu: float, waits: float, executions: int = 10, load: float | None = None) -> Slice:
    """A turn of executions that need so much CPU each and wait as long as told."""
    seconds = executions * (cpu + waits)
    return Slice(
        pair=pair, seconds=seconds, rate=executions / seconds, cpu_seconds=executions * cpu, other_load=load
    )


def of(base: list[Slice], other: list[Slice]) -> list[tuple[AloneTurns, AloneTurns]]:
    return [(AloneTurns(base), AloneTurns(other))]


times = st.floats(1e-5, 10)


@given(base=times, other=times, base_waits=times, other_waits=times)
def test_bounds_hold_whatever_a_side_waits(
    base: float, other: float, base_waits: float, other_waits: float
) -> None:
    bounds = bounds_of(turn(1, base, base_waits), turn(1, other, other_waits))
    assert bounds is not None
    assert bounds[0] - 1e-9 <= math.log(base / other) <= bounds[1] + 1e-9


def simulated(dice: random.Random, factor: float, pairs: int) -> tuple[list[Slice], list[Slice]]:
    """Turns beside programs that come and go: waits of a side last for many pairs, up to 20 times its time;
    the same work takes up to 30 % more CPU beside them."""
    sides: tuple[list[Slice], list[Slice]] = ([], [])
    waits = [0.0, 0.0]
    for pair in range(1, pairs + 1):
        for number, side in enumerate(sides):
            if dice.random() < 0.05:
                waits[number] = dice.choice((0.0, dice.uniform(0.2, 2), dice.uniform(2, 20)))
            cpu = 1e-3 * (factor if number else 1.0) * dice.uniform(1, 1.3 if waits[number] else 1.05)
            side.append(turn(pair, cpu, waits[number] * cpu * dice.uniform(0.8, 1.2), load=0.9))
    return sides


def test_equal_sides_are_never_called_different_at_any_look() -> None:
    for seed in range(150):
        base, other = simulated(random.Random(seed), 1.0, 120)
        for pairs in (3, 5, 8, 12, 20, 40, 80, 120):
            assert judge_bounded(of(base[:pairs], other[:pairs]), CRITERION) is None


@pytest.mark.parametrize("factor", [1.0, 1 / 3, 12.0])
def test_an_interval_of_bounds_holds_what_waits_hide(factor: float) -> None:
    for seed in range(100):
        base, other = simulated(random.Random(seed), factor, 60)
        for pairs in (3, 8, 20, 60):
            verdict = bounded_interval(of(base[:pairs], other[:pairs]), CRITERION)
            assert verdict is not None and verdict.word == "unclear"
            assert verdict.low <= 1 / factor <= verdict.high
    quiet = [turn(n, 1e-3, 1e-4) for n in range(1, 20)]
    narrow = bounded_interval(of(quiet, quiet), CRITERION)
    assert narrow is not None and 1 / (NEIGHBOURS * 1.2) < narrow.low < 1 < narrow.high < NEIGHBOURS * 1.2
    idle = [turn(n, 0.0, 1e-3) for n in range(1, 20)]
    assert bounded_interval(of(quiet, idle), CRITERION) is None, "nothing bounds what may all be waiting"


@pytest.mark.parametrize(("factor", "word"), [(40.0, "slower"), (1 / 40, "faster")])
def test_a_factor_is_proven_beside_other_programs(factor: float, word: str) -> None:
    proven = 0
    for seed in range(50):
        verdict = judge_bounded(of(*simulated(random.Random(seed), factor, 120)), CRITERION)
        if verdict is None:
            continue
        proven += 1
        assert verdict.word == word
        assert verdict.low <= 1 / factor <= verdict.high
        nearer = verdict.ratio if word == "slower" else 1 / verdict.ratio
        assert 1 / 40 <= nearer < 1, "it says no more than is proven"
    assert proven >= 40, "waits of twenty times as long last for most of the pairs of some"


def test_a_query_is_slower_though_all_its_pairs_are_disturbed() -> None:
    base, other = simulated(random.Random(1), 10.0, 60)
    sides = (
        QuerySide(QueryTurns(name="q", slices=tuple(base))),
        QuerySide(QueryTurns(name="q", slices=tuple(other))),
    )
    verdict = judge_query([sides], 300, ("a", "b"), CRITERION)
    assert verdict.word == "slower" and "60 of 60 pairs" in verdict.reason
    assert verdict.reason.startswith("by so much at least")


def test_nothing_is_said_without_cpu_times_or_below_what_neighbours_may_take() -> None:
    plain = [Slice(pair=n, seconds=1, rate=10) for n in range(1, 30)]
    assert judge_bounded(of(plain, plain), CRITERION) is None
    base = [turn(n, 1e-3, 0) for n in range(1, 60)]
    other = [turn(n, 1e-3 * NEIGHBOURS * 0.99, 0) for n in range(1, 60)]
    assert judge_bounded(of(base, other), CRITERION) is None
