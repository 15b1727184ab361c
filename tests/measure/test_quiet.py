"""`--wait-quiet`: a run begins when other programs leave the CPUs alone, or when the time is over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pgstrata.measure.interrupt import Interrupted
from pgstrata.measure.quiet import QuietWait
from pgstrata.server.find.model import Server
from support.interleaved import write
from support.program import Program


def shares(*values: float) -> Callable[[float], float]:
    """What each look sees; the last one again and again."""
    left: Iterator[float] = iter(values)
    last = values[-1]
    return lambda seconds: next(left, last)


def test_it_begins_at_the_first_quiet_moment() -> None:
    messages: list[str] = []
    assert QuietWait(600, messages.append, shares(0.7, 0.4, 0.05)).wait(lambda: None)
    assert messages == ["waiting for a quiet moment: other programs use 70% (at most 10:00 min more)"]


def test_nothing_is_said_where_it_is_quiet_or_not_asked_for() -> None:
    messages: list[str] = []
    assert QuietWait(600, messages.append, shares(0.02)).wait(lambda: None)
    assert not QuietWait(0, messages.append, shares(1.0)).wait(lambda: None)
    assert messages == []


def test_the_time_is_that_of_all_runs_together() -> None:
    messages: list[str] = []
    looks: list[float] = []

    def share(seconds: float) -> float:
        looks.append(seconds)
        time.sleep(2 * seconds)
        return 0.6

    quiet = QuietWait(0.001, messages.append, share)
    assert not quiet.wait(lambda: None)
    assert messages[-1].startswith("other programs still use 60% of the CPUs: measuring all the same")
    assert not quiet.wait(lambda: None)
    assert looks == [0.001], "no longer than what is left, and not again"


def test_a_signal_ends_the_waiting() -> None:
    def check() -> None:
        raise Interrupted(2)

    with pytest.raises(Interrupted):
        QuietWait(600, lambda text: None, shares(0.9)).wait(check)


def test_a_run_waits_and_measures_all_the_same(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["point-query"], slice_=0.02, seconds=0.2)
    refused = pgstrata("run", file, "--wait-quiet", "10")
    assert refused.returncode == 2
    assert "--wait-quiet 10: not a time up to 7 days" in refused.stderr and "10m" in refused.stderr
    done = pgstrata("run", file, "--wait-quiet", "0.5s", "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
