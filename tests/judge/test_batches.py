"""Batches of short slices: as many as all repeats have, without those that other programs disturbed."""

from __future__ import annotations

from pgstrata.judge.compare import compare_all
from pgstrata.stats.verdict import Verdict
from pgstrata.store import Run
from pgstrata.store.choose import Side
from pgstrata.store.record import Slice
from support.records import comparison_record, step_record, stored_run

PAIRS = 10
"""In each batch."""


def run(
    variant: str, repeat: int, *ratios: float, waited: frozenset[int] = frozenset(), until: str = "time"
) -> Run:
    """A run with a batch for each ratio to a rate of 100. waited: batches in which it waited for a CPU."""
    slices = tuple(
        Slice(
            pair=pair,
            seconds=0.1,
            rate=100.0 * ratio * (1 + pair % 3 / 1000),
            waited=0.5 if batch in waited else 0.0,
        )
        for batch, ratio in enumerate(ratios)
        for pair in range(PAIRS * batch + 1, PAIRS * (batch + 1) + 1)
    )
    blocks = tuple(PAIRS * (batch + 1) for batch in range(len(ratios)))
    step = step_record("s", turns="windows", slices=slices, blocks=blocks, seconds=float(len(ratios)))
    return stored_run(variant, repeat, step, comparison=comparison_record("a", "b", until=until))


def verdict(base: list[Run], other: list[Run]) -> Verdict:
    (comparison,) = compare_all(Side("a", tuple(base)), [Side("b", tuple(other))])
    return comparison.steps[0].verdict


SCATTERED = (0.975, 0.975, 1.0, 1.0, 0.975, 0.975)


def test_the_batches_of_all_repeats_count() -> None:
    """Six in each of two repeats are twelve."""
    repeats = [run("a", n, *[1.0] * 6) for n in (1, 2)], [run("b", n, *SCATTERED) for n in (1, 2)]
    of_both = verdict(*repeats)
    assert (of_both.word, of_both.aside, of_both.n) == ("unclear", False, 120)
    assert "there is a difference" in of_both.reason
    alone = verdict(repeats[0][:1], repeats[1][:1])
    assert (alone.word, alone.aside) == ("unclear", True)
    assert alone.reason == "6 of at least 8 batches were measured: steps of 8 s or more"


def test_batches_that_are_left_out_do_not_count() -> None:
    """Nine were measured, and seven are left: their interval excludes nothing."""
    waited = frozenset((2, 5))
    left = verdict([run("a", 1, *[1.0] * 9)], [run("b", 1, *[1.001, 1.0, 0.999] * 3, waited=waited)])
    assert (left.word, left.aside, left.n) == ("unclear", True, 70)
    assert left.reason.startswith("7 batches with connections of their own are too few")
