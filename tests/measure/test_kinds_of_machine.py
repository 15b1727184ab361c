"""Machines with one CPU, with a quota, without pressure files; a load from the middle on; a suspension."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pgstrata.observe import other_load
from pgstrata.observe.other_load import OtherLoad
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.interleaved import write
from support.program import Program, Running, environment


def equal_servers(place: Path, server: Server, seconds: float) -> Path:
    """A campaign with the usual placement and bound of other load."""
    file = write(place, server, ["point-query"], slice_=0.02, seconds=seconds)
    text = file.read_text()
    for line in ('placement = "free"\n', "other_load = 1\n", 'config = ["default", "a17"]\n'):
        assert line in text
        text = text.replace(line, "")
    file.write_text(text)
    return file


def words(place: Path, pgstrata: Program) -> list[str]:
    """The verdicts of the comparison in a folder."""
    done = pgstrata("compare", "a", "b", "--format", "json", "--results", place / "results")
    assert done.returncode == 0, done.stderr
    return [step["word"] for step in json.loads(done.stdout)[0]["steps"]]


def test_a_process_that_may_use_one_cpu_measures_there(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = equal_servers(place, pg17, 2)
    cpu = max(os.sched_getaffinity(0))
    done = subprocess.run(
        [sys.executable, "-m", "pgstrata", "run", str(file), "--no-report"],
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, {cpu}),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    steps = [step for run in Results(place / "results").runs() for step in run.steps if step.slices]
    assert [step.cpus for step in steps] == [(cpu,), (cpu,)]
    assert words(place, pgstrata)[0] not in ("slower", "faster")


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("usage_usec 5\nnr_throttled {n}\nthrottled_usec {us}\n", "version 2"),
        ("nr_periods 9\nnr_throttled {n}\nthrottled_time {us}000\n", "version 1"),
    ],
)
def test_a_quota_of_either_kind_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, more: str
) -> None:
    stat = tmp_path / "cpu.stat"
    monkeypatch.setattr(other_load, "QUOTA_FILES", (tmp_path / "absent", stat))
    stat.write_text(text.format(n=1, us=1_000_000))
    load = OtherLoad()
    stat.write_text(text.format(n=2, us=1_250_000))
    assert load.read().throttled == pytest.approx(0.25), more


@pytest.mark.parametrize("content", [None, "", "none of these"])
def test_without_pressure_and_quota_files_the_rest_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    file = tmp_path / "pressure"
    if content is not None:
        file.write_text(content)
    monkeypatch.setattr(other_load, "PRESSURE", file)
    monkeypatch.setattr(other_load, "QUOTA_FILES", (file,))
    record = OtherLoad().read().record(0.25)
    assert (record.pressure, record.throttled) == (None, None)
    assert 0 <= record.other_load <= 1


def test_a_load_that_begins_in_the_middle_makes_no_difference(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    file = equal_servers(place, pg17, 4)
    running = Running(place, ["run", str(file), "--no-report"])
    loops = []
    try:
        running.wait_for(lambda: running.backend(0.05))
        time.sleep(2)
        for cpu in os.sched_getaffinity(0):
            loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            os.sched_setaffinity(loop.pid, {cpu})
            loops.append(loop)
        assert running.end() == 0, running.printed
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert words(place, pgstrata)[0] not in ("slower", "faster")


def test_a_suspension_makes_no_difference(place: Path, pgstrata: Program, pg17: Server) -> None:
    """Everything that pgstrata has started stands still for some time, twice."""
    file = equal_servers(place, pg17, 4)
    running = Running(place, ["run", str(file), "--no-report"])
    running.wait_for(lambda: running.backend(0.05))
    for _ in range(2):
        there = psutil.Process(running.process.pid)
        processes = [there, *there.children(recursive=True)]
        for number, seconds in ((signal.SIGSTOP, 0.7), (signal.SIGCONT, 0.5)):
            for process in processes:
                with suppress(psutil.Error):
                    process.send_signal(number)
            time.sleep(seconds)
    assert running.end() == 0, running.printed
    assert words(place, pgstrata)[0] not in ("slower", "faster")
