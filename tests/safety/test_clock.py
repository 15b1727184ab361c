"""A clock that jumps by an hour while pgstrata measures: no wrong rate, no wait without end."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.commands import PGBENCH, spec
from support.interleaved import text as interleaved
from support.program import Running

JUMPS = """
import os, time
_time = time.time
def _jumped():
    with open(os.environ["TEST_CLOCK"]) as file:
        return _time() + float(file.read() or 0)
time.time = _jumped
"""
"""Put before all other code of Python: the wall clock of the pgstrata process reads its offset from a file.
faketime does the same to whole processes, but not beside the system calls that close a network."""


def jump(place: Path, campaign: str, text: str) -> None:
    """Runs a campaign to its end; its wall clock jumps forth and then back when `text` has been printed."""
    (place / "clock").write_text("0")
    (place / "before").mkdir()
    (place / "before" / "sitecustomize.py").write_text(JUMPS)
    there = os.environ.get("PYTHONPATH", "")
    (place / "one.toml").write_text(f'name = "one"\n{campaign}')
    running = Running(
        place,
        ["run", "one.toml", "--no-report"],
        PYTHONPATH=f"{place / 'before'}{os.pathsep}{there}",
        TEST_CLOCK=str(place / "clock"),
    )
    if text:
        running.wait_for_text(text)
    running.wait_for(running.backend)
    for offset in ("3600", "-3600"):
        time.sleep(0.5)
        (place / "clock").write_text(offset)
    assert running.end() == 0, running.printed


def test_a_run_keeps_its_rate(place: Path, pg17: Server) -> None:
    begun = time.monotonic()
    jump(place, PGBENCH.format(server=spec(pg17)), "")
    assert time.monotonic() - begun < 600
    (run,) = Results(place / "results").runs()
    (step,) = [step for step in run.steps if step.measured]
    assert 1.9 < step.seconds < 20
    assert step.rate == pytest.approx(step.operations / step.seconds, rel=0.02)


def test_variants_that_take_turns_keep_theirs(place: Path, pg17: Server) -> None:
    campaign = interleaved(spec(pg17), ["point-query"], slice_=0.05, seconds=2)
    jump(place, campaign, "data copied from a")
    runs = Results(place / "results").runs()
    assert len(runs) == 2 and all(run.done for run in runs)
    for run in runs:
        (step,) = [step for step in run.steps if step.measured]
        assert 0.5 < step.seconds < 20 and step.rate is not None
        assert step.rate == pytest.approx(step.operations / step.seconds, rel=0.1)
