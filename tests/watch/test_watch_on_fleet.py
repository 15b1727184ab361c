"""`pgstrata watch --fleet` on a real fleet of this machine: commits side by side, each of them once."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pgstrata.server.find.model import Server
from support.fleet import engine_on_loopback
from support.program import Program, Running, descendants, wait_until_ended
from support.tree import commit, git, serving

pytestmark = [
    pytest.mark.program,
    pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed"),
]

WATCH = """
repository = "repo"
branch = "main"
since = "base"
data_dir = "data"

[[series]]
workload = "custom"
steps = ["one"]
set = ['scripts=["one.sql"]', "reads_only=true"]
"""


def written(place: Path, server: Server, number: int, more: str = "") -> list[str]:
    """Writes a watch of so many commits, the third of which makes a server that keeps what its sessions do;
    returns their hashes."""
    repo = serving(place / "repo", server, "track_activities = off\nupdate_process_title = off")
    git(repo, "tag", "base")
    for position in range(1, number + 1):
        settings = "off" if position < 3 else "on"
        (repo / "extra.conf").write_text(
            f"# {position}\ntrack_activities = {settings}\nupdate_process_title = {settings}\n"
        )
        commit(repo, f"change {position}")
    (place / "data").mkdir()
    (place / "one.sql").write_text("select 1\n")
    (place / "watch.toml").write_text(WATCH + more)
    return git(repo, "rev-list", "--reverse", "base..main").split()


def is_at_work(pid: int) -> bool:
    """Whether a worker has a server that runs."""
    with suppress(psutil.Error):
        return any(process.name() == "postgres" for process in descendants(pid))
    return False


@pytest.mark.timeout(1800)
def test_client_and_worker_are_killed_and_nothing_is_measured_twice(
    place: Path, pg17: Server, pgstrata: Program
) -> None:
    ids = written(place, pg17, 4)
    folder = place / "watch/watch/values"
    with engine_on_loopback(place, 2) as (address, started):
        watch = ["watch", "watch.toml", "--once", "--fleet", address]
        first = Running(place, watch)
        first.wait_for(lambda: all(is_at_work(worker.pid) for worker in started[1:]))
        assert "w1: " in first.printed and "w2: " in first.printed
        first.process.kill()
        first.process.wait()
        second = Running(place, watch)
        second.wait_for(lambda: second.printed.count("goes on since an earlier start") == 2)
        started[1].kill()
        assert second.process.wait(1500) == 1, second.printed
        wait_until_ended(place / "data")
    assert "begins again elsewhere: " in second.printed
    # two of the four were begun by the first client, and one of these is lost with its worker
    assert second.printed.count(" is home") == 4 and second.printed.count(" begins") <= 4, second.printed
    values = {path: path.read_bytes() for path in folder.glob("*.json")}
    assert sorted(path.stem for path in values) == sorted(ids)

    watch[-1] = "local:2"
    done = pgstrata(*watch, "--format", "json")
    assert done.returncode == 1 and " begins" not in done.stderr, done.stderr
    record = json.loads(done.stdout)
    assert record["left"] == 0 and record["commits"] == 4
    (alarm,) = record["alarms"]
    assert alarm["state"] == "found" and alarm["commits"] == [ids[2]] and alarm["subject"] == "change 3"
    here = pgstrata("watch", "watch.toml", "--dry-run")
    assert "nothing is due" in here.stdout  # this machine is of the fleet's kind
    assert {path: path.read_bytes() for path in folder.glob("*.json")} == values


def test_rates_are_measured_in_turns_against_the_anchor_on_one_machine(
    place: Path, pg17: Server, pgstrata: Program
) -> None:
    (id_,) = written(place, pg17, 1, 'by = "rate"\nseconds = 3\nsmallest = 0.9\n')
    done = pgstrata("watch", "watch.toml", "--once", "--fleet", "local:1", "--format", "json")
    if "a server waited for a CPU" in done.stderr:
        # Other programs had the CPUs: it is said, and the commit stays due.
        assert done.returncode == 1 and f"failed: {id_[:10]}" in done.stderr, done.stderr
        assert json.loads(done.stdout)["left"] == 1
        return
    assert done.returncode == 0, done.stderr
    values = json.loads((place / f"watch/watch/values/{id_}.json").read_text())
    assert values["tries"] == 1 and values["built"] == "" and values["code"]
    (value,) = values["values"].values()
    assert value["pairs"] > 2 and value["anchor"] > 0 and abs(value["log_ratio"]) < 0.5
