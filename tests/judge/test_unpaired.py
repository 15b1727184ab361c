"""Runs that are no pairs: all of them count, also one in which nothing came to its end."""

from __future__ import annotations

from pgstrata.judge.compare import StepVerdict, compare_all
from pgstrata.store import Run
from pgstrata.store.choose import Side
from support.records import step_record, stored_run


def judged(base: tuple[float, ...], other: tuple[float, ...]) -> StepVerdict:
    """Runs with these rates, of other repeats on each side."""

    def runs(variant: str, first: int, rates: tuple[float, ...]) -> tuple[Run, ...]:
        steps = (step_record("s", rate=rate) for rate in rates)
        return tuple(stored_run(variant, number, step) for number, step in enumerate(steps, first))

    sides = Side("a", runs("a", 1, base)), Side("b", runs("b", 11, other))
    (comparison,) = compare_all(sides[0], [sides[1]])
    return comparison.steps[0]


def test_a_run_without_an_operation_is_not_left_out() -> None:
    known = judged((100.0, 100.1, 99.9), (100.0, 100.1, 99.9))
    assert (known.evidence, known.verdict.word) == ("runs", "same")
    stalled = judged((100.0, 100.1, 99.9), (100.0, 100.1, 0.0))
    assert (stalled.verdict.word, stalled.ratio) == ("unclear", None)
    assert stalled.verdict.reason == "no operation came to its end in one of the runs: its rate is 0"
