"""What a campaign says while it runs."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from pgstrata.driver.events import RoleSecond, Second
from pgstrata.measure.measurement import StepMeasurement
from pgstrata.measure.progress import (
    LiveProgress,
    PlainProgress,
    progress_on,
    seconds_left,
)
from pgstrata.numbers import clock, quantity
from pgstrata.store.record import Slice, StepRecord
from pgstrata.workload.core.language import Headline, Role, Step
from support.campaign import plan
from support.records import step_record

STEP = Step("qp100", [Role("query", 1, [])], Headline("query", "operations", "queries/s"), seconds=60)


def second(number: int, operations: int = 1000) -> Second:
    counts: dict[str, Any] = dict.fromkeys(("transactions", "statements", "rows", "errors", "retries"), 0)
    times: dict[str, Any] = dict.fromkeys(("mean", "stddev", "p50", "p75", "p90", "p95", "p99", "max"), 0.0)
    role = RoleSecond(name="query", operations=operations, histogram="", **counts, **times)
    return Second(second=number, seconds=1.0, roles=[role])


def record(**more: Any) -> StepRecord:
    return step_record("qp100", **{"rate": 1234.5, "seconds": 60.0, "sla_met": True, **more})


def play(progress: PlainProgress) -> None:
    run = progress._pace.units[0].runs[0]
    progress.runs_begin([run], 1, 2)
    progress.phase("settle", 61)
    progress.step_begins(STEP)
    for number in range(3):
        progress.second(second(number))
    progress.step_ended(record())
    missed = {"sla_met": False, "background_rate": 80.0, "target_rate": 100.0}
    progress.step_ended(record(**missed))
    progress.runs_ended([], 65)
    progress.runs_ended([(run, "the server died")], 3)


def test_plain_output_has_one_line_per_step(tmp_path: Path) -> None:
    output = io.StringIO()
    play(PlainProgress(Console(file=output, width=200), plan(tmp_path, 'servers = ["pg:12", "pg:17"]')))
    lines = output.getvalue().splitlines()
    assert lines[0].startswith("run 1 of 2: pg12.22, insert (about ")
    assert "settle, up to 1:01 min" in lines[1]
    assert lines[2].split() == ["qp100", "1,234", "queries/s", "60.0", "s"]
    assert "SLA missed: 80 of 100 rows/s" in lines[3]
    assert lines[4] == "  done in 1:05 min"
    assert lines[5] == "  pg12.22 FAILED: the server died"
    assert lines[6] == "  ended after 3 s"
    assert len(lines) == 7


def test_a_comparison_has_one_line_at_its_begin_and_one_at_its_end(tmp_path: Path) -> None:
    output = io.StringIO()
    head = 'servers = ["pg:12", "pg:15", "pg:17"]\norder = "interleaved"\nuntil = "verdict"\nmax_seconds = 60'
    progress = PlainProgress(Console(file=output, width=200), plan(tmp_path, head))
    progress.runs_begin(progress._pace.units[0].runs, 1, 1)
    for _ in range(2):
        progress.step_ended(record(slices=(Slice(pair=1, seconds=50, rate=1.0),), seconds=50))
    progress.step_ended(record(seconds=9))
    # Why one has left was said when it did.
    progress.runs_ended([(progress._pace.units[0].runs[1], "the server died")], 125)
    first, *_, last = output.getvalue().splitlines()
    assert "the server died" not in output.getvalue()
    assert first.startswith("comparison 1 of 1: pg12.22, pg15.14 and pg17.6 take turns, insert (at most ")
    assert last == "  ended after 2:05 min, 1:40 min of it measured in turns"


def test_long_steps_show_that_they_are_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    progress = PlainProgress(Console(file=output, width=200), plan(tmp_path, 'servers = ["pg:12"]'))
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    progress.step_begins(STEP)
    for number in range(35):
        clock[0] += 1
        progress.second(second(number))
    lines = output.getvalue().splitlines()
    begins = [line.split(";")[0] for line in lines]
    assert begins == [f"  qp100      … {n} of 60 s, 1,000 queries/s" for n in (10, 20, 30)]
    assert all(line.endswith(" left") for line in lines)


def test_a_step_that_takes_longer_than_its_time_names_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, now = io.StringIO(), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    progress = PlainProgress(Console(file=output, width=200), plan(tmp_path, 'servers = ["pg:12", "pg:17"]'))
    progress.step_begins(replace(STEP, seconds=15))
    for number in range(30):
        now[0] += 1
        progress.second(second(number))
    begins = [line.partition(", ")[0] for line in output.getvalue().splitlines()]
    assert begins == ["  qp100      … 10 of 15 s", "  qp100      … 20 s", "  qp100      … 30 s"]


def test_rounds_show_that_they_are_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    progress = PlainProgress(Console(file=output, width=200), plan(tmp_path, 'servers = ["pg:12"]'))
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    progress.step_begins(STEP)
    for number in range(1, 5):
        clock[0] += 6
        progress.round_begins(number, "17")
    progress.step_ended(record())
    progress.round_begins(5, "17")
    lines = output.getvalue().splitlines()
    assert lines[:-1] == ["  qp100      … round 2, 17", "  qp100      … round 4, 17"]


def test_a_step_of_one_transaction_has_no_rate_before_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = io.StringIO()
    progress = PlainProgress(Console(file=output, width=200), plan(tmp_path, 'servers = ["pg:12"]'))
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    copy = Step("load", [Role("query", 1, [], operations=1)], Headline("query", "rows", "messages/s"))
    progress.step_begins(copy)
    clock[0] += 11
    progress.second(second(10, operations=0))
    assert output.getvalue().startswith("  load       … 11 s; about ")


def test_a_rate_of_the_time_of_statements_is_known_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """24,946 statements/s of their time became 14,850 at the end of a replay: the first was by the
    clock."""
    output = io.StringIO()
    progress = PlainProgress(Console(file=output, width=200), plan(tmp_path, 'servers = ["pg:12"]'))
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    unit = "statements/s of their time"
    progress.step_begins(
        Step("replay", [Role("query", 1, [])], Headline("query", "operations", unit, busy=True), seconds=60)
    )
    clock[0] += 11
    progress.second(second(10, operations=500))
    assert "500 statements/s" in output.getvalue() and "of their time" not in output.getvalue()


def test_blocks_shorter_than_a_second_do_not_count_as_seconds() -> None:
    """Progress stood at "5 of 2 s": each block has an event for the second that it did not fill."""
    measurement = StepMeasurement.__new__(StepMeasurement)
    part = SimpleNamespace(done=SimpleNamespace(seconds=0.31), seconds=[second(0)])
    measurement.parts = [part] * 8  # type: ignore[list-item]
    assert measurement.seconds == pytest.approx(8 * 0.31)


def test_a_terminal_gets_a_live_block_and_the_same_lines(tmp_path: Path) -> None:
    output = io.StringIO()
    console = Console(file=output, width=120, force_terminal=True, color_system=None)
    with progress_on(console, plan(tmp_path, 'servers = ["pg:12", "pg:17"]')) as progress:
        assert isinstance(progress, LiveProgress)
        progress.runs_begin(progress._pace.units[0].runs, 1, 2)
        progress.step_begins(STEP)
        progress.second(second(4))
        shown = io.StringIO()
        Console(file=shown, width=120).print(progress._render())
        progress.step_ended(record())
    assert "[1/2] pg12.22 · insert" in shown.getvalue()
    assert "qp100: 5 s, 1,000 queries/s, 55 s to go" in shown.getvalue()
    assert "1,234 queries/s" in output.getvalue()


def test_no_terminal_gets_plain_lines(tmp_path: Path) -> None:
    with progress_on(Console(file=io.StringIO()), plan(tmp_path, 'servers = ["pg:12"]')) as progress:
        assert type(progress) is PlainProgress


def test_what_is_left_of_a_step() -> None:
    assert seconds_left(STEP, 10, 5000) == 50
    load = Step("l.i0", [Role("insert", 2, [], operations=100)], Headline("insert", "rows", "rows/s"))
    assert seconds_left(load, 10, 50) == 30
    assert seconds_left(load, 10, 0) is None
    guessed = replace(load, estimated_seconds=15)
    assert seconds_left(guessed, 10, 0) == 5
    assert seconds_left(guessed, 20, 0) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.6, "1:00 min"), (61, "1:01 min"), (3600, "1:00 h"), (7500, "2:05 h"), (-3, "0 s")],
)
def test_durations(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_quantities() -> None:
    assert quantity(1234567.8, "rows/s") == "1,234,568 rows/s"
    assert quantity(3.14159, "queries/s") == "3.1 queries/s"
