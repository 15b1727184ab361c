"""Things are killed while a campaign runs: what is said, what is kept, what is left behind."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from pgstrata.server.acquire import Server
from pgstrata.store import Results
from support_program import Start, WriteCampaign, living_in


def statuses(place: Path) -> dict[str, str]:
    return {run.variant: run.data["status"] for run in Results(place / "results").runs()}


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
    assert "server died" in failed.data["error"]["message"]
    assert failed.data["error"]["log_tail"]
    # What was measured before is kept.
    assert [s["name"] for s in failed.steps][:4] == ["l.i0", "l.x", "l.i1", "l.i2"]
    await_nothing_lives(place / "data")

    # The next invocation makes only the failed one again.
    again = start("run", place / "tiny.toml", "--no-report", "--set", "seconds=6")
    assert again.end() == 0, again.said
    assert "run 1 of 1" in again.said
    assert statuses(place) == {pg12.label: "done", pg17.label: "done"}


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
    assert "driver was killed by SIGKILL" in running.said
    assert statuses(place) == {pg17.label: "failed"}


def test_ctrl_c_stops_everything_and_the_same_command_goes_on(
    place: Path, start: Start, campaign: WriteCampaign, pg12: Server, pg17: Server
) -> None:
    running = start("run", campaign(pg12, pg17, steps='"100:range"', seconds=5))
    running.wait_for_text("run 2 of 2")
    running.wait_for(running.backend)
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 130
    assert "same command" in running.said
    assert "Traceback" not in running.said
    assert not living_in(place / "data")
    assert list((place / "data").iterdir()) == []
    assert statuses(place) == {pg12.label: "done"}

    again = start("run", place / "tiny.toml", "--no-report")
    assert again.end() == 0, again.said
    assert "1 of 2 runs are there already" in again.said
    assert statuses(place) == {pg12.label: "done", pg17.label: "done"}


def test_sigterm_is_143(place: Path, start: Start, campaign: WriteCampaign, pg17: Server) -> None:
    running = start("run", campaign(pg17, seconds=30))
    running.wait_for(running.backend)
    running.process.send_signal(signal.SIGTERM)
    assert running.end() == 143
    assert statuses(place) == {}
    assert not list((place / "results").rglob("*.building"))


def test_kill_9_leaves_nothing_running_and_the_next_start_clears_up(
    place: Path, start: Start, campaign: WriteCampaign, pg12: Server, pg17: Server
) -> None:
    running = start("run", campaign(pg12, pg17, steps='"100:range"', seconds=2))
    running.wait_for_text("run 2 of 2")
    # Between two steps: l.i0 has been reported, the next has not.
    running.wait_for(lambda: running.said.rpartition("run 2 of 2")[2].count("l.i0"))
    running.process.kill()
    running.end()
    await_nothing_lives(place / "data")
    assert statuses(place) == {pg12.label: "done"}

    again = start("run", place / "tiny.toml")
    assert again.end() == 0, again.said
    assert "run 1 of 1" in again.said
    assert statuses(place) == {pg12.label: "done", pg17.label: "done"}
    assert list((place / "data").iterdir()) == []
    assert not list((place / "results").rglob("*.building"))


def test_two_at_once_on_one_results_folder(
    place: Path, start: Start, campaign: WriteCampaign, pg17: Server
) -> None:
    first = start("run", campaign(pg17, seconds=20))
    first.wait_for(first.backend)
    second = start("run", place / "tiny.toml")
    assert second.end() == 1
    assert "another pgstrata" in second.said
    assert str(first.process.pid) in second.said
    assert first.process.poll() is None
    first.process.send_signal(signal.SIGINT)
    assert first.end() == 130
