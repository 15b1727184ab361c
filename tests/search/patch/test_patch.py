"""`pgstrata patch` on real servers, built from a tree that installs a server which is there already.

What the patch changes is how long a statement sleeps: the answer does not depend on what else is running.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.program import Program
from support.trade import TRADE, trading
from support.tree import commit, git, serving


@pytest.fixture
def repo(place: Path, pg17: Server) -> Path:
    """A tree whose server is 17 with a setting of its own."""
    folder = serving(place / "repo", pg17, "test.delay = '0.002'")
    git(folder, "tag", "v1")
    (folder / "extra.conf").write_text("test.delay = '0.016'\n")
    (place / "slow.patch").write_text(git(folder, "diff") + "\n")
    git(folder, "checkout", "-q", ".")
    (place / "delay.sql").write_text("SELECT pg_sleep(current_setting('test.delay')::float8);\n")
    return folder


@pytest.mark.timeout(3600)  # eight starts of servers; the limit is for machines that are busy otherwise
def test_a_patch_that_makes_it_slower_is_a_table_for_a_mail(
    repo: Path, place: Path, empty_cache: str, pgstrata: Program
) -> None:
    sets = ('scripts=["delay.sql"]', "builtin=[]", "modes=simple", "clients=1", "warmup=0", "seconds=2")
    never = ("initialise=false", "vacuum=false", "checkpoint=false")
    command = [
        *("patch", "slow.patch", "--repo", "repo", "--base", "v1", "--workload", "pgbench"),
        *("--step", "delay-simple-c1", "--max-seconds", "20", "--data-dir", "data", "--config", "default"),
        *("--other-load", "100%"),
        *(word for set_ in (*sets, *never) for word in ("--set", set_)),
    ]
    env = {"PGSTRATA_CACHE": empty_cache}
    done = pgstrata(*command, "--format", "json", **env)
    assert done.returncode == 1, done.stderr
    (comparison,) = json.loads(done.stdout)["comparisons"]
    (step,) = comparison["steps"]
    assert (comparison["base"], comparison["other"], step["word"]) == ("base", "slow", "slower")
    assert step["ratio"] < 0.6
    assert set(json.loads(done.stdout)["comparisons"][0]["cpu"]) == {"delay-simple-c1"}

    again = pgstrata(*command, "--format", "markdown", **env)
    assert again.returncode == 1
    assert "2 of 2 runs are there already" in again.stderr
    lines = again.stdout.splitlines()
    assert (
        "- CPU per operation, which load hardly touches, against the base: delay-simple-c1 " in again.stdout
    )
    assert lines[0].startswith("Base: v1 (") and lines[1] == "1. slow.patch"
    assert lines[2].startswith("PostgreSQL 17.") and "-O2" in lines[2]
    assert any(line.startswith("| pgbench | delay-simple-c1 | slower | 0.") for line in lines)
    plain = pgstrata(*command, "--format", "text", **env)
    assert plain.returncode == 1
    assert plain.stdout.splitlines()[0] == lines[0]
    assert any(line.startswith("slow against base, ") for line in plain.stdout.splitlines())
    assert "|" not in plain.stdout
    (page,) = (place / "patch").glob("*/*.report/index.html")
    assert "<h1>slow against base</h1>" in page.read_text()


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.timeout(3600)
def test_a_patch_that_is_slower_with_fewer_instructions_says_so_first(
    repo: Path, place: Path, empty_cache: str, pgstrata: Program
) -> None:
    (place / "trade.sql").write_text(TRADE)
    (repo / "extra.conf").write_text("test.rows = '5000'\ntest.delay = '0.002'\n")
    commit(repo, "counts rows")
    git(repo, "tag", "v2")
    (repo / "extra.conf").write_text("test.rows = '100'\ntest.delay = '0.016'\n")
    (place / "sleeps.patch").write_text(git(repo, "diff") + "\n")
    git(repo, "checkout", "-q", ".")
    command = [
        *("patch", "sleeps.patch", "--repo", "repo", "--base", "v2", "--by", "both", *trading()),
        *("--set", "seconds=1", "--max-seconds", "20", "--other-load", "100%", "--data-dir", "data"),
    ]
    done = pgstrata(*command, PGSTRATA_CACHE=empty_cache)
    assert done.returncode == 1, done.stderr
    first = done.stdout.splitlines()[0]
    assert first.startswith("sleeps against base: trade-simple-c1 is "), first
    assert "% slower (" in first and "though it has " in first and "% fewer instructions (" in first
    again = pgstrata(*command, "--format", "json", PGSTRATA_CACHE=empty_cache)
    assert json.loads(again.stdout)["disagreements"] == [first]


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.timeout(1800)
def test_a_patch_that_needs_more_instructions_is_counted(
    repo: Path, place: Path, empty_cache: str, pgstrata: Program
) -> None:
    (repo / "extra.conf").write_text("log_min_duration_statement = 0\n")
    (place / "talks.patch").write_text(git(repo, "diff") + "\n")
    git(repo, "checkout", "-q", ".")
    command = [
        *("patch", "talks.patch", "--repo", "repo", "--base", "v1", "--workload", "pgbench"),
        *("--step", "select-only-prepared-c1", "--data-dir", "data", "--config", "default"),
        *("--set", 'builtin=["select-only"]', "--set", 'modes=["prepared"]', "--by", "instructions"),
    ]
    done = pgstrata(*command, "--format", "json", PGSTRATA_CACHE=empty_cache)
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    (comparison,) = answer["comparisons"]
    assert "steps" not in comparison and comparison["cpu"] == {} and answer["contradictions"] == []
    (step,) = comparison["counts"]["steps"]
    assert step["word"] == "more" and step["ratio"] > 1.002

    again = pgstrata(*command, "--format", "markdown", PGSTRATA_CACHE=empty_cache)
    assert again.returncode == 1 and "counted already" in again.stderr
    assert "**talks** against **base**, instructions per operation" in again.stdout
    assert "turns" not in again.stdout
    plain = pgstrata(*command, PGSTRATA_CACHE=empty_cache)
    assert "talks against base, instructions per operation" in plain.stdout
    (page,) = (place / "patch").glob("*/*.report/index.html")
    assert "nstructions per operation" in page.read_text()


def test_servers_that_execute_the_same_code_are_not_measured(
    repo: Path, place: Path, empty_cache: str, pgstrata: Program
) -> None:
    main = repo / "src/backend/main.c"
    main.write_text(f"/* a word on it */\n{main.read_text()}")
    (place / "word.patch").write_text(git(repo, "diff") + "\n")
    git(repo, "checkout", "-q", ".")
    command = ("patch", "word.patch", "--repo", "repo", "--base", "v1", "--step", "point-query")
    done = pgstrata(*command, "--data-dir", "data", PGSTRATA_CACHE=empty_cache)
    assert done.returncode == 0, done.stderr
    assert "- word executes the same code as base: it is not compared" in done.stdout.splitlines()
    assert "take turns" not in done.stderr
