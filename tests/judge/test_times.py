"""Response times judged by the blocks of a step, without those that other programs disturbed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from pgstrata.judge.times import TimesSide, TimesVerdict, judge_times
from pgstrata.stats.criterion import Criterion
from pgstrata.store.histogram import histogram_of
from pgstrata.store.record import Slice, TurnKind

BLOCKS, PAIRS = 10, 4

FIVE_PER_CENT = Criterion(0.05)


@dataclass
class Turns:
    slices: tuple[Slice, ...]
    blocks: tuple[int, ...] = tuple(PAIRS * (block + 1) for block in range(BLOCKS))
    turns: TurnKind | None = "windows"
    span: float | None = None
    slice_seconds: float | None = None
    cpus: tuple[int, ...] = ()
    load_limit: float = 0.25
    one_start: bool = False


def side(factor: float = 1.0, *, disturbed: int = 0, seconds: int = 2, blocks: bool = True) -> TimesSide:
    """Times of 1 ms × factor. disturbed: so many blocks waited for a CPU, and their times are 100 ms."""
    rng = np.random.default_rng(1)
    slices = tuple(
        Slice(pair=pair + 1, seconds=0.1, rate=100.0, waited=0.5 if pair < disturbed * PAIRS else 0.0)
        for pair in range(BLOCKS * PAIRS)
    )
    parts = []
    for block in range(BLOCKS):
        middle = 100_000.0 if block < disturbed else 1000.0 * factor
        parts.append(histogram_of(rng.normal(middle, 0.05 * middle, 500 * seconds).astype(int).tolist()))
    return TimesSide(Turns(slices) if blocks else Turns(slices, blocks=()), parts)


def judged(base: TimesSide, other: TimesSide, name: str = "p99") -> TimesVerdict:
    (verdict,) = judge_times([name], [(base, other)], watched=False, criterion=FIVE_PER_CENT)
    return verdict


@pytest.mark.parametrize("name", ["p50", "p99", "max"])
def test_longer_times_are_slower(name: str) -> None:
    verdict = judged(side(), side(1.3), name)
    assert verdict.verdict.word == "slower"
    assert verdict.verdict.ratio == pytest.approx(1 / 1.3, rel=0.03)
    assert verdict.base is not None and 0.0009 < verdict.base < 0.0013


def test_equal_times_are_the_same() -> None:
    assert judged(side(), side(), "p50").verdict.word == "same"


def test_disturbed_blocks_are_left_out_on_both_sides() -> None:
    verdict = judged(side(), side(1.3, disturbed=2))
    assert verdict.verdict.word == "slower" and verdict.verdict.n == BLOCKS - 2
    assert verdict.other is not None and verdict.other < 0.002


def test_more_disturbed_blocks_than_others_are_unclear() -> None:
    verdict = judged(side(), side(1.3, disturbed=6)).verdict
    assert (verdict.word, verdict.reason) == ("unclear", "other programs disturbed 6 of 10 batches")


def test_a_quantile_beyond_all_responses_is_unclear() -> None:
    verdict = judged(side(seconds=1), side(1.3, seconds=1), "p99.9").verdict
    assert verdict.word == "unclear" and "5 responses lie beyond it" in verdict.reason


def test_parts_that_are_no_blocks_are_not_judged() -> None:
    assert judge_times(["p99"], [(side(blocks=False), side())], watched=False, criterion=FIVE_PER_CENT) == []
