"""How long a campaign still takes: right within a quarter after its first measured step."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgstrata.campaign.plan.stages import LOADING, Stage, Unit, further_line, units_of
from pgstrata.measure.pace import Pace
from support.campaign import plan

HEADS = {
    "alone": 'servers = ["pg:12", "pg:15", "pg:17"]',
    "turns": 'servers = ["pg:12", "pg:15", "pg:17"]\norder = "interleaved"\nrepeats = 2',
    "verdict": 'servers = ["pg:12", "pg:17"]\norder = "interleaved"\nuntil = "verdict"\nmax_seconds = 60',
}


class Clock:
    """A clock that stands until it is told to go on."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(time, "monotonic", clock)
    return clock


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_all_that_is_planned_is_in_a_stage(tmp_path: Path, head: str) -> None:
    planned = plan(tmp_path, head)
    pace = Pace(units_of(planned))
    assert pace.left() == pytest.approx(planned.seconds)
    assert sum(len(unit.runs) for unit in pace.units) == len(planned.missing)
    for unit in pace.units:
        assert unit.stages[0].kind == LOADING
        assert all(stage.step and stage.seconds > 0 for stage in unit.stages[1:])


@pytest.mark.long
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    load=st.floats(0.1, 10),
    factor=st.floats(0.2, 8),
    wobble=st.lists(st.floats(0.9, 1.1), min_size=40, max_size=40),
)
@pytest.mark.parametrize("head", [HEADS["alone"], HEADS["turns"]], ids=["alone", "turns"])
def test_what_is_left_is_right_within_a_quarter_after_the_first_step_of_each_kind(
    tmp_path: Path, clock: Clock, head: str, load: float, factor: float, wobble: list[float]
) -> None:
    pace = Pace(units_of(plan(tmp_path, head)))
    takes = [
        [
            stage.seconds * (load if stage.kind == LOADING else factor * wobble[(at * 7 + number) % 40])
            for at, stage in enumerate(unit.stages)
        ]
        for number, unit in enumerate(pace.units)
    ]
    kinds = {stage.kind for unit in pace.units for stage in unit.stages}
    seen: set[str] = set()
    for number, unit in enumerate(pace.units):
        pace.begin(number)
        for at, stage in enumerate(unit.stages):
            if at:
                pace.step_begins(stage.step)
            if seen == kinds:
                rest = sum(takes[number][at:]) + sum(sum(run_takes) for run_takes in takes[number + 1 :])
                assert 0.75 * rest <= pace.left() <= 1.25 * rest
            clock.now += takes[number][at]
            seen.add(stage.kind)
        pace.end()
    assert pace.left() == 0


def unit(planned_in: Path, *stages: Stage) -> Unit:
    return Unit(plan(planned_in, HEADS["turns"]).missing[:3], stages)


def test_a_step_whose_verdict_came_soon_says_nothing_of_the_longest_time_of_others(
    tmp_path: Path, clock: Clock
) -> None:
    """Each may take 60 measured seconds and 90 by the clock; the first ended after 6 of them."""
    stages = [Stage("", LOADING, 10), *(Stage(name, "windows", 90, 60) for name in ("a", "b", "c"))]
    pace = Pace([unit(tmp_path, *stages)])
    pace.begin(0)
    clock.now += 10
    pace.step_begins("a")
    clock.now += 12
    for _ in range(2):
        pace.step_ended(3)
    pace.step_begins("b")
    # Two seconds by the clock for each that is measured: 120 at most for each of the two that are left.
    assert pace.left() == pytest.approx(240)
    assert pace.left_as_before() == pytest.approx(24)


@given(kinds=st.lists(st.sampled_from(["windows", "rounds"]), min_size=1, max_size=5), took=st.floats(1, 90))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_verdicts_that_come_as_soon_as_before_leave_no_more_than_is_left(
    tmp_path: Path, clock: Clock, kinds: list[str], took: float
) -> None:
    stages = [Stage(str(at), kind, 90, 60) for at, kind in enumerate(kinds)]
    pace = Pace([unit(tmp_path, Stage("", LOADING, 10), *stages)])
    pace.begin(0)
    for stage in stages:
        assert pace.left_as_before() <= pace.left()
        pace.step_begins(stage.step)
        clock.now += took
        pace.step_ended(min(60.0, took))
    pace.end()
    assert pace.left_as_before() == pace.left() == 0


def test_what_is_left_falls_as_time_passes_and_never_below_zero(tmp_path: Path, clock: Clock) -> None:
    pace = Pace([unit(tmp_path, Stage("", LOADING, 10), Stage("a", "rounds", 20))])
    pace.begin(0)
    seen = []
    for _ in range(8):
        seen.append(pace.left())
        clock.now += 5
    assert seen == [30, 25, 20, 20, 20, 20, 20, 20]
    pace.step_begins("a")
    clock.now += 100
    assert pace.left() == 0


def test_steps_of_a_load_are_part_of_the_first_stage(tmp_path: Path, clock: Clock) -> None:
    pace = Pace([unit(tmp_path, Stage("", LOADING, 10), Stage("a", "rounds", 20))])
    pace.begin(0)
    for _ in range(3):
        pace.step_begins("load")
    assert pace.left() == 30
    pace.step_begins("a")
    assert pace.left() == 20


CURVE = 'clients = "1..4"\nsteps = ["0:range"]\nrefine = {refine}'


def test_further_points_of_a_curve_are_a_stage_of_their_own(tmp_path: Path, clock: Clock) -> None:
    without, planned = (plan(tmp_path, HEADS["verdict"], options=CURVE.format(refine=n)) for n in (0, 3))
    (unit,) = units_of(planned)
    point, further = unit.stages[-2:]
    assert (point.step, further.step) == ("qr0-c4", "qr0")
    assert further.seconds == pytest.approx(3 * point.seconds)
    assert (further.kind, further.measured) == (point.kind, 3 * 60)
    assert planned.seconds == pytest.approx(without.seconds + further.seconds)
    pace = Pace([unit])
    pace.begin(0)
    pace.step_begins("qr0-c4")
    assert pace.left() == pytest.approx(point.seconds + further.seconds)
    clock.now += point.seconds
    for name in ("qr0-c3", "qr0-c5"):
        pace.step_begins(name)
        assert pace.left() == pytest.approx(further.seconds)
    pace.end()
    assert pace.left() == 0
    sentence = "up to 3 steps may be added to 1 curve, where it is not known yet"
    assert (further_line(without), further_line(planned)) == ("", sentence)


def test_without_turns_a_curve_has_no_further_points(tmp_path: Path) -> None:
    planned = plan(tmp_path, HEADS["alone"], options=CURVE.format(refine=3))
    assert [stage.step for stage in units_of(planned)[0].stages][-1] == "qr0-c4"
    assert further_line(planned) == ""
