"""A step that other programs, the host or a quota disturbed: no word rests on it, and the reason is told."""

from __future__ import annotations

import pytest
from msgspec import structs

from pgstrata.judge.compare import undisturbed
from pgstrata.judge.disturbance import disturbed as disturbed_in_pairs
from pgstrata.judge.disturbance import other_load
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import Disturbance, Slice, StepRecord
from support.records import comparison_record, step_record, stored_run


def record(waited: float | None, disturbance: Disturbance | None, pairs: int = 20) -> StepRecord:
    """A step measured in slices that all waited for so much of their time."""
    slices = tuple(Slice(pair=n, seconds=0.02, rate=100.0, waited=waited) for n in range(1, pairs + 1))
    return structs.replace(step_record(), slices=slices, disturbance=disturbance)


def disturbed(base: list[StepRecord], other: list[StepRecord]) -> str:
    """Repeats in which both sides took turns."""
    return disturbed_in_pairs(list(zip(base, other, strict=True)))


def test_a_quiet_step_is_not_disturbed() -> None:
    quiet = record(0.0, Disturbance(other_load=0.02))
    assert disturbed([quiet], [quiet]) == ""
    assert disturbed([record(None, None)], [record(None, None)]) == "", "nobody knows"
    assert disturbed([], []) == ""


def test_pairs_that_waited_say_more_than_the_load_of_all_cpus() -> None:
    busy_elsewhere = record(0.05, Disturbance(other_load=0.5))
    assert disturbed([busy_elsewhere], [busy_elsewhere]) == ""
    waited = record(0.4, Disturbance(other_load=0.71))
    expected = "other programs used 71% of the CPUs: in 20 of 20 pairs a server waited for a CPU"
    assert disturbed([waited], [record(0.0, Disturbance(other_load=0.02))]) == expected


def test_statements_that_are_longer_than_a_slice_are_not_other_programs() -> None:
    beside_each_other = record(0.4, Disturbance(other_load=0.05))
    expected = "in 20 of 20 pairs the servers kept each other from a CPU"
    assert disturbed([beside_each_other], [beside_each_other]).startswith(expected)


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (Disturbance(other_load=0.24), ""),
        (Disturbance(other_load=0.3), "other programs used 30% of the CPUs"),
        (Disturbance(other_load=0.3, allowed=0.5), ""),
        (Disturbance(other_load=0.0, stolen=0.2), "other guests of the host used 20% of the CPUs"),
        (
            Disturbance(other_load=0.0, throttled=0.4),
            "the CPU quota of the container stopped processes for 40% of the time",
        ),
    ],
)
def test_without_slices_that_tell_the_load_decides(seen: Disturbance, expected: str) -> None:
    busy = record(None, seen)
    assert disturbed([record(None, Disturbance(other_load=0.0, allowed=seen.allowed))], [busy]) == expected
    assert other_load([busy]) == seen.other_load


def test_rounds_that_other_programs_disturbed() -> None:
    def rounds(*loads: float) -> StepRecord:
        slices = tuple(Slice(pair=n, seconds=1.0, rate=1.0, other_load=w) for n, w in enumerate(loads, 1))
        seen = Disturbance(other_load=sum(loads) / len(loads))
        return structs.replace(step_record(), turns="rounds", slices=slices, disturbance=seen)

    # Some that are disturbed are left out, and the others tell.
    assert disturbed([rounds(0.9, 0.9, 0.0, 0.1)], [rounds(0.0, 0.0, 0.0, 0.1)]) == ""
    expected = "other programs used 70% of the CPUs, and more than 25% in 3 of 4 rounds"
    assert disturbed([rounds(0.9, 0.9, 0.9, 0.1)], [rounds(0.0, 0.0, 0.0, 0.1)]) == expected


def side(variant: str, records: dict[int, StepRecord], comparison: str = "c") -> dict[int, MeasuredStep]:
    """The repeats of a variant."""
    taken = comparison_record("a", "b", id=comparison)
    return {
        repeat: MeasuredStep(stored_run(variant, repeat, each, comparison=taken), each)
        for repeat, each in records.items()
    }


def test_slices_are_held_against_those_of_the_same_repeat() -> None:
    """The other side lacks the first repeat, in which it failed before this step."""
    quiet, waited = (record(share, Disturbance(other_load=0.02)) for share in (0.0, 0.4))
    expected = "in 20 of 20 pairs the servers kept each other from a CPU"

    def reason(base: dict[int, StepRecord], other: dict[int, StepRecord]) -> str:
        return undisturbed(side("a", base), side("b", other))[2]

    assert reason({1: waited, 2: quiet}, {2: quiet}) == ""
    assert reason({1: quiet, 2: waited}, {2: quiet}).startswith(expected)
    assert reason({1: quiet, 2: waited}, {2: quiet, 1: quiet}) == "", "in half of the pairs"


def test_slices_of_two_comparisons_make_no_pairs() -> None:
    """Rates of whole runs are compared then, those of disturbed slices among them."""
    busy = record(0.0, Disturbance(other_load=0.6))
    runs = side("a", {1: busy}), side("b", {1: busy})
    assert undisturbed(*runs)[2] == ""
    apart = undisturbed(runs[0], side("b", {1: busy}, comparison="another"))
    assert apart[2] == "other programs used 60% of the CPUs"
