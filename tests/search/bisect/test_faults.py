"""Searches over commits and releases on real servers, and what may happen to one: a server that aborts, a
disk that is full.

Commits are trees that install a server which is there already, with settings of their own; what differs is
how long a statement sleeps, so the answers do not depend on what else is running.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.program import Program
from support.tree import commit, git, serving

QUICK, SLOW = "test.delay = '0.002'\n", "test.delay = '0.016'\n"
# A failed assertion is a SIGABRT of a backend.
ASSERTS = QUICK + "test.fails = 'on'\n"

DELAY = """DO $$ BEGIN
  IF current_setting('test.fails', true) = 'on' THEN
    COPY (SELECT 1) TO PROGRAM 'kill -ABRT $PPID';
  END IF;
END $$;
SELECT pg_sleep(current_setting('test.delay')::float8);
"""

pytestmark = pytest.mark.timeout(3600)  # starts of servers; the limit is for machines that are busy otherwise


def searching(place: Path, script: str, *line: str) -> list[str]:
    """Options of a search at a script."""
    (place / "delay.sql").write_text(script)
    sets = ('scripts=["delay.sql"]', "builtin=[]", "modes=simple", "clients=1", "warmup=0")
    never = ("initialise=false", "vacuum=false", "checkpoint=false", "reads_only=true")
    return [
        *("bisect", *line, "--workload", "pgbench", "--step", "delay-simple-c1", "--config", "default"),
        *("--data-dir", "data", "--results", "search", "--seconds", "0.3", "--no-profile"),
        *("--other-load", "100%"),
        *(word for set_ in (*sets, *never) for word in ("--set", set_)),
    ]


@pytest.fixture
def uncounted(place: Path) -> str:
    """Returns a PATH without valgrind, with which a search would count instructions of the ends."""
    folder = place / "programs"
    folder.mkdir()
    for parent in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(parent).iterdir():
            link = folder / program.name
            if not (program.name.startswith("valgrind") or os.path.lexists(link)):
                link.symlink_to(program)
    return str(folder)


@pytest.fixture
def repo(place: Path, pg17: Server) -> Path:
    """Commits v1, `asserts` and `slow`, the newest."""
    folder = serving(place / "repo", pg17, QUICK)
    git(folder, "tag", "v1")
    for name, settings in (("asserts", ASSERTS), ("slow", SLOW)):
        (folder / "extra.conf").write_text(settings)
        commit(folder, name)
    return folder


def test_a_commit_whose_server_aborts_is_named_together_with_the_one_behind_it(
    repo: Path, place: Path, empty_cache: str, uncounted: str, pgstrata: Program
) -> None:
    options = searching(place, DELAY, "--repo", "repo", "--good", "v1", "--bad", "HEAD", "--format", "json")
    done = pgstrata(*options, PGSTRATA_CACHE=empty_cache, PATH=uncounted)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    (group,) = answer["groups"]
    assert (group["first"]["subject"], group["last"]["subject"]) == ("asserts", "slow")
    assert answer["effect"]["ratio"] < 0.6
    (aside,) = answer["set_aside"]
    assert "signal 6" in aside["why"]
    page = (place / "search/index.html").read_text()
    assert "asserts" in page and "signal 6" in page


def test_a_commit_of_the_same_code_is_built_and_not_measured(
    repo: Path, place: Path, empty_cache: str, pgstrata: Program
) -> None:
    git(repo, "checkout", "-q", "-B", "longer", "v1")
    for number in range(3):
        (repo / "notes.txt").write_text(f"{number}\n")
        commit(repo, f"notes {number}")
    (repo / "extra.conf").write_text(SLOW)
    commit(repo, "slow")
    options = searching(place, DELAY, "--repo", "repo", "--good", "v1", "--bad", "longer", "--format", "json")
    done = pgstrata(*options, PGSTRATA_CACHE=empty_cache)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    (group,) = answer["groups"]
    assert group["first"]["subject"] == group["last"]["subject"] == "slow"
    assert "the commits are weighed by what they change" in done.stderr
    same = answer["same_code"]
    assert "notes 2" in {entry["subject"] for entry in same} and same[0]["as"]["position"] == 0
    between = {m["other"]["position"] for m in answer["measured"] if m["why"] == "search"}
    assert not between, "what lies between executes the same code as the good end"


def test_ends_of_the_same_code_are_said_to_be_the_same(
    repo: Path, place: Path, empty_cache: str, pgstrata: Program
) -> None:
    git(repo, "checkout", "-q", "-B", "notes", "v1")
    (repo / "notes.txt").write_text("1\n")
    commit(repo, "notes")
    options = searching(place, DELAY, "--repo", "repo", "--good", "v1", "--bad", "notes")
    for _ in range(2):
        done = pgstrata(*options, PGSTRATA_CACHE=empty_cache)
        assert done.returncode == 3, done.stderr
        assert "executes the same code: nothing was measured" in done.stdout
    assert json.loads((place / "search/bisect.json").read_text())["measured"] == []


def test_git_bisect_is_told_that_a_slow_commit_is_bad_and_a_quick_one_is_not(
    repo: Path, place: Path, empty_cache: str, pgstrata: Program
) -> None:
    options = searching(place, DELAY, "--runner", "--repo", "repo", "--good", "v1", "--max-seconds", "60")
    done = pgstrata(*options, PGSTRATA_CACHE=empty_cache)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("slower: ")
    git(repo, "checkout", "-q", "v1")
    options[options.index("v1")] = "main"
    done = pgstrata(*options, PGSTRATA_CACHE=empty_cache)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("faster: ")


def test_the_release_that_made_it_slower_is_found(
    pg12: Server, pg17: Server, place: Path, uncounted: str, pgstrata: Program
) -> None:
    script = "SELECT pg_sleep(CASE WHEN current_setting('server_version_num')::int < 170000 THEN 0.002\n"
    line = ("--releases", f"{pg12.spec},{pg17.spec}")
    options = searching(place, script + "ELSE 0.016 END);\n", *line, "--format", "json")
    done = pgstrata(*options, PATH=uncounted)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert [group["last"]["id"] for group in answer["groups"]] == [pg17.spec]
    assert answer["effect"]["ratio"] < 0.6
    assert f"since {pg17.spec}" in (place / "search/index.html").read_text()


def test_a_full_disk_ends_the_search_and_no_commit_is_blamed_for_it(
    repo: Path, place: Path, pgstrata: Program
) -> None:
    small = place / "small"
    small.mkdir()
    room = "size=100m,mode=755"  # for one server and a half
    if os.geteuid() or subprocess.run(["mount", "-t", "tmpfs", "-o", room, "none", small]).returncode:
        pytest.skip("only root can mount a small file system")
    try:
        options = searching(place, DELAY, "--repo", "repo", "--good", "v1", "--bad", "HEAD")
        done = pgstrata(*options, PGSTRATA_CACHE=str(small / "cache"))
        assert done.returncode == 1, done.stderr
        assert "no space left on the disk" in done.stderr and "PGSTRATA_CACHE" in done.stderr
        assert json.loads((place / "search/bisect.json").read_text())["set_aside"] == []
    finally:
        subprocess.run(["umount", small], check=True)
