"""What makes all tests take less time: order, processes that are forked, clusters that begin as copies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server
from support.forks import run_pgstrata
from support.order import CPU_SECONDS, LONGEST_FIRST, TESTS, Durations
from support.program import COPYING, PGSTRATA, Program, environment


def test_files_that_take_longest_are_there() -> None:
    assert [name for name in LONGEST_FIRST if not (TESTS / name).is_file()] == []
    assert len(set(LONGEST_FIRST)) == len(LONGEST_FIRST)


def test_tests_come_in_that_order(request: pytest.FixtureRequest) -> None:
    places = [item.path.relative_to(TESTS).as_posix() for item in request.session.items]
    listed = [LONGEST_FIRST.index(name) for name in places if name in LONGEST_FIRST]
    assert listed == sorted(listed)
    assert all(name in LONGEST_FIRST for name in places[: len(listed)])


def test_durations_of_files_are_added_up() -> None:
    durations = Durations()
    for test, seconds in (("a.py::x", 1.0), ("b.py::y", 2.0), ("a.py::z", 3.0)):
        report = pytest.TestReport(test, ("", None, ""), {}, "passed", None, "call", duration=seconds)
        setattr(report, CPU_SECONDS, seconds / 2)
        durations.pytest_runtest_logreport(report)
    sum_of_all, *files = durations.lines()
    assert sum_of_all.startswith("All tests together: 6 s, 3 s of CPU")
    assert [line.split() for line in files] == [["4", "s", "2", "s", "a.py"], ["2", "s", "1", "s", "b.py"]]


@pytest.mark.program
@pytest.mark.parametrize("command", [["steps", "nothing"], ["runs", "--results", "none"], ["--version"]])
def test_it_is_the_same_program(place: Path, pgstrata: Program, command: list[str]) -> None:
    usual, copying = (
        subprocess.run(
            [sys.executable, *program, *command],
            cwd=place,
            env=environment(),
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
        )
        for program in (PGSTRATA, COPYING)
    )
    for other in (copying, pgstrata(*command)):
        assert (other.returncode, other.stdout, other.stderr) == (
            usual.returncode,
            usual.stdout,
            usual.stderr,
        )


@pytest.mark.program
def test_a_fork_that_takes_too_long_is_ended(place: Path, pgstrata: Program) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_pgstrata(["doctor"], place, environment(), 0.01)
    assert pgstrata("--version").returncode == 0


def identifier(server: Server, folder: Path, *initdb: str) -> object:
    """Starts a new cluster and returns what initdb has called it."""
    with Cluster(server, resolve([], server.version_num, 1 << 30), folder, initdb=initdb) as cluster:
        cluster.create()
        cluster.start()
        with cluster.connect() as connection:
            return connection.execute("SELECT system_identifier FROM pg_control_system()").fetchone()


def test_a_cluster_begins_as_a_copy_unless_its_options_are_its_own(place: Path, pg17: Server) -> None:
    first, second = (identifier(pg17, place / name) for name in ("a", "b"))
    assert first == second
    assert identifier(pg17, place / "c", "--data-checksums") != first
