"""Profiles of real backends, and what is said where there can be none."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgstrata.observe.profile import ProfileOptions, Profiler, explain, unavailable
from pgstrata.server.cluster.cluster import Cluster

pytestmark = pytest.mark.program

needs_perf = pytest.mark.skipif(bool(unavailable()), reason="perf is not installed")
SHORT = ProfileOptions(seconds=1.0, frequency=199)


@contextmanager
def spinning() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@needs_perf
def test_stacks_of_the_roles(new_cluster: Cluster, tmp_path: Path) -> None:
    busy, idle = new_cluster.connect("pgstrata"), new_cluster.connect("pgstrata")
    pids = {"query/../x": [busy.info.backend_pid], "idle": [idle.info.backend_pid], "nobody": []}
    profiler = Profiler(pids, tmp_path, SHORT, step_seconds=2.0)
    profiler.prepare()
    profiler.start()
    while not profiler.done:
        busy.execute("SELECT sum(i) FROM generate_series(1, 100000) i")
    profiler.stop()
    query, nothing = profiler.finish()
    if query.script is None:
        pytest.skip(query.note)
    assert (query.role, query.backends, query.note) == ("query/../x", 1, "")
    assert query.script.parent == tmp_path
    text = query.script.read_text()
    assert query.samples == text.count(f"{query.event}:") > 5
    # The stacks are whole: from what ran in the executor up to the server's main function.
    stacks = [stack for stack in text.split("\n\n") if "ExecutorRun" in stack]
    assert len(stacks) > query.samples / 4
    assert sum("PostmasterMain" in stack for stack in stacks) > 0.9 * len(stacks)
    assert query.perf_cpu_seconds is not None and query.perf_cpu_seconds > 0
    assert query.seconds >= SHORT.seconds
    assert nothing.role == "idle" and nothing.samples == 0 and "did not use the CPU" in nothing.note
    assert not list(tmp_path.glob(".*"))


@needs_perf
def test_step_that_ends_early(tmp_path: Path) -> None:
    with spinning() as pid:
        long = Profiler({"a": [pid]}, tmp_path, ProfileOptions(seconds=60), step_seconds=60)
        late = Profiler({"b": [pid]}, tmp_path, ProfileOptions(seconds=1), step_seconds=600)
        for profiler in (long, late):
            profiler.prepare()
            profiler.start()
        time.sleep(1.0)
        for profiler in (long, late):
            profiler.stop()
        (cut,), (never,) = long.finish(), late.finish()
    assert cut.note or cut.samples > 0
    assert never.script is None and "ended before" in never.note


@needs_perf
def test_process_that_is_gone(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    profiler = Profiler({"a": [process.pid]}, tmp_path, SHORT, step_seconds=0)
    profiler.prepare()
    profiler.start()
    time.sleep(0.2)
    profiler.stop()
    (profile,) = profiler.finish()
    assert profile.script is None and profile.note


def made_up_perf(folder: Path, script: str) -> str:
    perf = folder / "perf"
    perf.write_text(f"#!/bin/sh\n{script}\n")
    perf.chmod(perf.stat().st_mode | stat.S_IXUSR)
    return str(perf)


@pytest.mark.parametrize(
    ("output", "fix"),
    [
        ("Consider adjusting /proc/sys/kernel/perf_event_paranoid setting", "perf_event_paranoid"),
        ("WARNING: perf not found for kernel 6.1.0", "linux-tools"),
        ("Permission error mapping pages. Consider increasing mlock", "mlock"),
        ("event syntax error: Bad event name", "cpu-clock"),
        ("The cycles event is not supported.", "cpu-clock"),
        ("Error: unknown option control=fd:3,4", "5.10"),
        ("", "it said nothing"),
    ],
)
def test_perf_that_refuses(tmp_path: Path, output: str, fix: str) -> None:
    perf = made_up_perf(tmp_path, f"echo '{output}' >&2; exit 1")
    profiler = Profiler({"query": [os.getpid()]}, tmp_path / "out", SHORT, step_seconds=0, perf=perf)
    profiler.prepare()
    profiler.start()
    time.sleep(0.1)
    profiler.stop()
    (profile,) = profiler.finish()
    assert profile.script is None
    assert fix in profile.note
    assert "\n" not in profile.note
    assert fix in explain(output)


def test_perf_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    profiler = Profiler({"query": [os.getpid()]}, tmp_path, SHORT)
    profiler.prepare()
    profiler.start()
    profiler.stop()
    (profile,) = profiler.finish()
    assert profile.script is None and "not installed" in profile.note
    gone = Profiler({"query": [os.getpid()]}, tmp_path, SHORT, step_seconds=0, perf=str(tmp_path / "no"))
    gone.prepare()
    gone.start()
    time.sleep(0.1)
    gone.stop()
    assert "cannot be started" in gone.finish()[0].note
    assert not [t for t in threading.enumerate() if t.name == "pgstrata-profile"]
