"""`pgstrata watch` on a repository with real servers: a slow commit is found, dated and acknowledged."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from pgstrata.server.find.model import Server
from support.program import Program, Running, living_in
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
workload = "pgbench"
steps = ["select-only-prepared-c1"]
set = ['builtin=["select-only"]', 'modes=["prepared"]', "scale=1"]
"""


@pytest.fixture
def repo(place: Path, pg17: Server) -> Path:
    """A repository whose second commit of three makes a server that keeps what its sessions do, which costs
    each statement the same number of instructions at any load."""
    folder = serving(place / "repo", pg17, "track_activities = off\nupdate_process_title = off")
    git(folder, "tag", "base")
    for number in range(1, 4):
        (folder / "notes").write_text(f"{number}\n")
        if number == 2:
            (folder / "extra.conf").write_text("track_activities = on\nupdate_process_title = on\n")
        commit(folder, f"change {number}")
        git(folder, "tag", f"c{number}")
    return folder


@pytest.fixture
def watch(place: Path, repo: Path) -> list[str]:
    (place / "data").mkdir()
    (place / "watch.toml").write_text(WATCH)
    return ["watch", "watch.toml", "--once"]


def check_site(site: Path, repo: Path, alarm: dict[str, Any]) -> None:
    """Checks that every page says of the change what the watch says."""
    (step,) = (json.loads(path.read_text()) for path in (site / "watch/watch/steps").glob("*.json"))
    (change,) = step["changes"]
    assert change["first"] == change["last"] == hash_of(repo, "c2") and change["note"] == "it is meant"
    commits = site / "watch/watch/commits"
    moved = {
        name: json.loads((commits / f"{hash_of(repo, name)}.json").read_text())["moved"]
        for name in ["c1", "c2", "c3"]
    }
    assert moved["c1"] == moved["c3"] == {}
    size = alarm["series"]["pgbench select-only-prepared-c1"]
    for move in (change, moved["c2"]["pgbench select-only-prepared-c1"]):
        assert {key: move[key] for key in size} == size
    assert "acknowledged: it is meant" in (site / "index.html").read_text()
    assert "change 2" in (commits / f"{hash_of(repo, 'c2')}.html").read_text()
    (compared,) = json.loads((site / "watch/watch/compare.json").read_text())["steps"]
    assert compared["levels"] == [0, 0, 1, 1] and compared["differences"]["0-1"]["mark"] == "bad"
    assert (site / "feed.xml").read_text().count("<entry>") == 1


def hash_of(repo: Path, name: str) -> str:
    return git(repo, "rev-parse", name)


@pytest.mark.timeout(3600)
def test_a_slow_commit_is_dated_and_acknowledged_and_nothing_is_measured_twice(
    watch: list[str], place: Path, repo: Path, pgstrata: Program
) -> None:
    due = pgstrata(*watch, "--dry-run")
    assert due.returncode == 0, due.stderr
    assert "3 commits after" in due.stdout and "next: " in due.stdout
    assert not (place / "watch").exists()

    running = Running(place, watch)
    running.wait_for(lambda: (place / "watch/watch/index.html").exists())  # while it goes on
    assert running.process.poll() is None
    running.process.send_signal(signal.SIGKILL)
    running.end()
    first = {path: path.read_bytes() for path in (place / "watch/watch/values").glob("*.json")}

    done = pgstrata(*watch, "--format", "json")
    assert done.returncode == 1, done.stderr
    record = json.loads(done.stdout)
    assert record["left"] == 0 and record["commits"] == 3
    (alarm,) = record["alarms"]
    assert alarm["state"] == "found"
    assert alarm["commits"] == [hash_of(repo, "c2")]
    assert alarm["subject"] == "change 2"
    assert alarm["series"]["pgbench select-only-prepared-c1"]["low"] > 1.01
    points = record["series"]["pgbench select-only-prepared-c1"]
    assert [point["position"] for point in points] == [0, 1, 2, 3]
    # the third commit changes no file of the server
    same = {cost["commit"]: cost["same_as"] for cost in record["costs"]}
    assert same == {hash_of(repo, name): None for name in ("c1", "c3")} | {
        hash_of(repo, "c2"): hash_of(repo, "c3")
    }
    assert all(cost["cpu_seconds"] >= cost["build_cpu_seconds"] >= 0 for cost in record["costs"])
    assert all(path.read_bytes() == data for path, data in first.items()), "nothing is measured twice"
    values = [json.loads(path.read_text()) for path in (place / "watch/watch/values").glob("*.json")]
    most = max(value["values"]["pgbench select-only-prepared-c1"]["pairs"] for value in values)
    kept = list((place / "watch/watch/anchor").rglob("*.start"))
    assert len(kept) == 3 + most, "starts of the anchor serve all commits, which have fewer"
    page = (place / "watch/watch/index.html").read_text()
    assert "change 2" in page and "series-chart-0" in page
    mail = (place / alarm["page"]).with_name("mail.txt").read_text()
    assert mail.startswith("Subject: pgbench select-only-prepared-c1: ") and "more instructions" in mail
    assert "pgstrata bisect" in mail
    assert [why[:13] for why in alarm["why"]] == ["by function: "]
    assert f"B{alarm['why'][0][1:]}." in mail
    assert not list((place / "watch/watch/runs").glob("*")), "runs of commits go"

    (place / "watch.toml").write_text(
        f'{WATCH}\n[[acknowledged]]\ncommit = "{hash_of(repo, "c2")[:10]}"\nnote = "it is meant"\n'
    )
    again = pgstrata(*watch, "--site", "public")
    assert again.returncode == 0, again.stderr
    assert "0 open alarms, 1 acknowledged" in again.stdout
    check_site(place / "public", repo, alarm)
    assert not living_in(place)


@pytest.mark.timeout(1800)
def test_a_commit_that_does_not_build_is_skipped_and_a_moved_branch_is_followed(
    watch: list[str], place: Path, repo: Path, pgstrata: Program
) -> None:
    git(repo, "reset", "-q", "--hard", "c1")
    (repo / "src/backend/Makefile").write_text("all:\n\tfalse\n")
    commit(repo, "does not build")
    broken = hash_of(repo, "HEAD")
    done = pgstrata(*watch, "--format", "json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert list(record["skipped"]) == [broken]
    assert record["left"] == 0 and record["alarms"] == []
    # as after a forced push: the commit that did not build is no longer on the branch
    git(repo, "reset", "-q", "--hard", "c1")
    commit(repo, "something else")
    done = pgstrata(*watch, "--format", "json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["skipped"] == {} and record["left"] == 0 and record["commits"] == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("repository", 'repository = "nowhere"'), ["no folder", "nowhere"]),
        (("since", 'since = "bas"'), ["no commit 'bas'", "base"]),
        (("since", 'since = "main"'), ["the anchor itself", "no commit to watch yet"]),
        (("branch", 'branch = "masterr"'), ["masterr"]),
        (("steps", 'steps = ["select-onl"]'), ["no step 'select-onl'", "select-only-prepared-c1"]),
        (("workload", 'workload = "pgbnech"'), ["pgbnech", "pgbench"]),
        (("set", "sett = []"), ["unknown key", "sett"]),
        (("set", 'set = ["rows=many"]'), ["`series[1]`", "rows"]),
    ],
)
def test_what_cannot_be_watched_is_one_sentence(
    watch: list[str], place: Path, pgstrata: Program, change: tuple[str, str], words: list[str]
) -> None:
    key, line = change
    lines = [line if text.startswith(f"{key} =") else text for text in WATCH.splitlines()]
    (place / "watch.toml").write_text("\n".join(lines))
    done = pgstrata(*watch)
    assert done.returncode == 2, done.stderr
    assert (
        done.stderr.startswith("error: watch.toml: ")
        and "command line" not in done.stderr
        and "Traceback" not in done.stderr
    )
    assert all(word in done.stderr for word in words), done.stderr
    assert not (place / "watch/watch/values").exists()


def test_a_file_that_is_missing_and_options_that_are_wrong_are_one_sentence(
    watch: list[str], pgstrata: Program
) -> None:
    assert "there is no watch file" in pgstrata("watch", "other.toml").stderr
    assert "--hours" in pgstrata(*watch, "--hours", "0").stderr
    assert "--every" in pgstrata("watch", "watch.toml", "--every", "1s").stderr
