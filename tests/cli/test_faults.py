"""Things are killed while a campaign runs: what is said, what is kept, what is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.program import Program, Start, WriteCampaign, living_in


def statuses(place: Path) -> dict[str, str]:
    return {run.variant: run.record.status for run in Results(place / "results").runs()}


def await_nothing_lives(folder: Path) -> None:
    until = time.monotonic() + 20
    while living_in(folder) and time.monotonic() < until:
        time.sleep(0.05)
    assert not living_in(folder)


def test_a_killed_server_fails_its_run_and_the_next_begins(
    place: Path, start: Start, campaign: WriteCampaign, pg12: Server, pg17: Server
) -> None:
    running = start("run", campaign(pg12, pg17, steps='"100:range"', seconds=6))
    running.wait_for_text("l.i2")
    running.wait_for(running.backend)
    postmaster = running.wait_for(lambda: running.child("postgres"))
    postmaster.send_signal(signal.SIGKILL)
    running.wait_for_text("run 2 of 2")
    assert running.end() == 1
    assert statuses(place) == {pg12.label: "failed", pg17.label: "done"}
    failed = next(run for run in Results(place / "results").runs() if not run.done)
    assert failed.record.error is not None
    assert "server died" in failed.record.error.message
    assert failed.record.error.log_tail
    # What was measured before is kept.
    assert [s.name for s in failed.steps][:4] == ["l.i0", "l.x", "l.i1", "l.i2"]
    await_nothing_lives(place / "data")

    # The next invocation makes only the failed one again.
    again = start("run", place / "tiny.toml", "--no-report", "--set", "seconds=6")
    assert again.end() == 0, again.printed
    assert "run 1 of 1" in again.printed
    assert statuses(place) == {pg12.label: "done", pg17.label: "done"}


def test_a_server_killed_in_a_warm_up_is_said_at_once(place: Path, start: Start, pg17: Server) -> None:
    file = place / "warm.toml"
    file.write_text(
        f'data_dir = "data"\n[[variants]]\nserver = "{pg17.spec}"\n[[workloads]]\nname = "pgbench"\n'
        "[workloads.options]\nscale = 1\nbuiltin = ['select-only']\nmodes = ['simple']\nclients = [2]\n"
        "seconds = 1\nwarmup = 3600\n"
    )
    running = start("run", file, "--no-report")
    running.wait_for(lambda: running.backend(cpu_seconds=1.0))
    running.wait_for(lambda: running.child("postgres")).send_signal(signal.SIGKILL)
    assert running.end() == 1
    assert "server died" in running.printed
    assert statuses(place) == {pg17.label: "failed"}
    await_nothing_lives(place / "data")


def test_a_killed_backend_fails_the_run(
    place: Path, start: Start, campaign: WriteCampaign, pg17: Server
) -> None:
    running = start("run", campaign(pg17, steps='"100:range"', seconds=20))
    running.wait_for_text("l.i2")
    running.wait_for(running.backend).send_signal(signal.SIGKILL)
    assert running.end() == 1
    assert statuses(place) == {pg17.label: "failed"}


def test_a_killed_driver_fails_the_run(
    place: Path, start: Start, campaign: WriteCampaign, pg17: Server
) -> None:
    running = start("run", campaign(pg17, steps='"100:range"', seconds=20))
    running.wait_for_text("l.i2")
    running.wait_for(running.backend)
    running.wait_for(lambda: running.child("pgstrata-driver")).send_signal(signal.SIGKILL)
    assert running.end() == 1
    assert "driver was killed by SIGKILL" in running.printed
    assert statuses(place) == {pg17.label: "failed"}


def test_ctrl_c_stops_everything_and_the_same_command_goes_on(
    place: Path, start: Start, campaign: WriteCampaign, pg12: Server, pg17: Server
) -> None:
    running = start("run", campaign(pg12, pg17, steps='"100:range"', seconds=5))
    running.wait_for_text("run 2 of 2")
    running.wait_for(running.backend)
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 130
    assert "same command" in running.printed
    assert "Traceback" not in running.printed
    assert not living_in(place / "data")
    assert list((place / "data").iterdir()) == []
    assert statuses(place) == {pg12.label: "done"}

    again = start("run", place / "tiny.toml", "--no-report")
    assert again.end() == 0, again.printed
    assert "1 of 2 runs is there already" in again.printed
    assert statuses(place) == {pg12.label: "done", pg17.label: "done"}


def test_sigterm_is_143(place: Path, start: Start, campaign: WriteCampaign, pg17: Server) -> None:
    running = start("run", campaign(pg17, seconds=30))
    running.wait_for(running.backend)
    running.process.send_signal(signal.SIGTERM)
    assert running.end() == 143
    assert statuses(place) == {}
    assert not list((place / "results").rglob("*.building"))


@pytest.mark.parametrize("after", ["l.x", "qr100"])
def test_kill_9_between_steps_loses_nothing(
    place: Path, start: Start, campaign: WriteCampaign, pg17: Server, after: str
) -> None:
    options = ["--set", "seconds=0.5", "--set", "rows=1000", "--no-report"]
    running = start("run", campaign(pg17), *options)
    running.wait_for_text(f"  {after} ")
    running.process.kill()
    running.end()
    await_nothing_lives(place / "data")
    assert statuses(place) == {}

    again = start("run", place / "tiny.toml", *options)
    assert again.end() == 0, again.printed
    (run,) = Results(place / "results").runs()
    assert [step.name for step in run.steps] == ["l.i0", "l.x", "l.i1", "l.i2", "qr100", "qp100"]
    assert list((place / "data").iterdir()) == []
    assert not list((place / "results").rglob("*.building"))


def test_kill_9_keeps_the_runs_that_are_finished(
    place: Path, start: Start, campaign: WriteCampaign, pg12: Server, pg17: Server
) -> None:
    options = ["--set", "seconds=0.5", "--set", "rows=1000", "--no-report"]
    running = start("run", campaign(pg12, pg17), *options)
    running.wait_for_text("run 2 of 2")
    running.process.kill()
    running.end()
    (kept,) = Results(place / "results").runs()
    again = start("run", place / "tiny.toml", *options)
    assert again.end() == 0, again.printed
    assert "run 1 of 1" in again.printed
    runs = Results(place / "results").runs()
    assert [run.variant for run in runs] == [pg12.label, pg17.label]
    assert runs[0].record == kept.record


def test_two_at_once_on_one_results_folder(
    place: Path, start: Start, campaign: WriteCampaign, pg17: Server
) -> None:
    first = start("run", campaign(pg17, seconds=20))
    first.wait_for(first.backend)
    second = start("run", place / "tiny.toml")
    assert second.end() == 1
    assert "another pgstrata" in second.printed
    assert str(first.process.pid) in second.printed
    assert first.process.poll() is None
    first.process.send_signal(signal.SIGINT)
    assert first.end() == 130


@pytest.fixture
def small_disk(place: Path) -> Iterator[Path]:
    """A data folder on a file system of 500 MB."""
    data = place / "data"
    data.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=500m,mode=755", "tmpfs", str(data)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system is not permitted here")
    yield data
    subprocess.run(["umount", "-l", str(data)], check=False)


def fill(folder: Path) -> None:
    """Takes all the space there is."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 1_000_000)
        except OSError:
            return


def test_a_full_disk_fails_the_run_and_frees_its_space(
    place: Path, start: Start, campaign: WriteCampaign, pg17: Server, small_disk: Path
) -> None:
    running = start("run", campaign(pg17), "--set", "rows=500000")
    running.wait_for(running.backend)
    fill(small_disk)
    assert running.end() == 1, running.printed
    assert "the disk of the data folder is full" in running.printed
    assert "Traceback" not in running.printed
    assert statuses(place) == {pg17.label: "failed"}
    assert [p.name for p in small_disk.iterdir()] == ["filler"]


def test_too_little_space_is_said_before_anything_starts(
    place: Path, pgstrata: Program, campaign: WriteCampaign, pg17: Server, small_disk: Path
) -> None:
    done = pgstrata("run", campaign(pg17), "--set", "rows=50000000")
    assert done.returncode == 1
    assert "free, even the smallest run needs about" in done.stderr
    assert "--data-dir" in done.stderr
    assert statuses(place) == {}
