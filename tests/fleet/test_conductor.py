"""The client's loop on a real engine: workers that are killed, hang and come back; comparisons only sleep."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.errors import UsageError
from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.engine import SchedulerClient, SchedulerLostError
from pgstrata.fleet.local import local_fleet
from support.fleet import Noting, Sleeping, certificates_of_the_engine, conduct, engine_at, present, repeats
from support.needs import needs
from support.program import environment


@pytest.fixture(scope="module")
@needs("program")
def address() -> Iterator[str]:
    with local_fleet(3, ["support.fleet"]) as address:
        yield address


@pytest.fixture(autouse=True)
def _whole(address: str) -> None:
    """All three workers are there: those that another test has killed were started again. The scheduler may
    still know one that is dead: only who answers is there."""
    with engine_at(address, "settling", present) as engine:
        until = time.monotonic() + 60
        while not answer_all(engine, 3):
            assert time.monotonic() < until, engine.workers()


def answer_all(engine: SchedulerClient, number: int) -> bool:
    """Whether there are so many workers, and each answers."""
    calls = [engine.ask(address, "whole", b"here") for address in engine.workers()]
    until = time.monotonic() + 5
    while any(call.answer is None for call in calls) and time.monotonic() < until:
        time.sleep(0.02)
    for call in calls:
        engine.drop(call)
    return [call.answer for call in calls] == [b"here"] * number


@pytest.mark.program
def test_each_comes_home_once_and_repeats_are_spread(address: str, tmp_path: Path) -> None:
    job = Sleeping(tmp_path, machines=3)
    with engine_at(address) as engine:
        conduct(engine, job, repeats(3, 0.3))
        assert engine.dashboard == ""  # every user of the machine could look at it
    assert sorted(entry["id"] for entry in job.home) == sorted(
        assignment.id for assignment in repeats(3, 0.3)
    )
    assert len({entry["machine"] for entry in job.home}) == 3
    assert not job.failures


@pytest.mark.program
def test_one_that_is_killed_begins_again_elsewhere(address: str, tmp_path: Path) -> None:
    job = Sleeping(tmp_path)
    (tmp_path / "hold").touch()
    killed: list[int] = []

    def kill() -> None:
        if job.begun and not killed:
            killed.append(job.begun[0]["pid"])
            os.kill(killed[0], signal.SIGKILL)
        if killed and len(job.begun) > 1:
            (tmp_path / "hold").unlink(missing_ok=True)

    with engine_at(address) as engine:
        _, noted = conduct(engine, job, [Assignment("w", 1, 0.1)], check=kill)
    (home,) = job.home
    assert home["pid"] != killed[0] and home["attempt"] == 2
    assert noted.of("again") == ["w, repeat 1"] and noted.of("gone")
    assert [entry["attempt"] for entry in job.begun] == [1, 2]


def test_one_that_hangs_begins_again_elsewhere(address: str, tmp_path: Path) -> None:
    """A worker that is stopped still has its connection: only its silence tells."""
    job = Sleeping(tmp_path)
    (tmp_path / "hold").touch()
    stopped: list[int] = []

    def stop() -> None:
        if job.begun and not stopped:
            stopped.append(job.begun[0]["pid"])
            os.kill(stopped[0], signal.SIGSTOP)
        if stopped and len(job.begun) > 1:
            (tmp_path / "hold").unlink(missing_ok=True)

    try:
        with engine_at(address) as engine:
            conduct(engine, job, [Assignment("w", 1, 0.1)], check=stop, silent_seconds=5)
    finally:
        os.kill(stopped[0], signal.SIGKILL)
    assert [entry["attempt"] for entry in job.home] == [2]


def test_after_so_many_attempts_it_has_failed(address: str, tmp_path: Path) -> None:
    job = Sleeping(tmp_path)
    (tmp_path / "hold").touch()
    killed: set[int] = set()

    def kill() -> None:
        for entry in job.begun:
            if entry["pid"] not in killed:
                killed.add(entry["pid"])
                os.kill(entry["pid"], signal.SIGKILL)

    with engine_at(address) as engine:
        _, noted = conduct(engine, job, [Assignment("w", 1, 0.1)], attempts=2, check=kill)
    assert not job.home and len(killed) == 2
    assert [entry["attempt"] for entry in job.begun] == [1, 2]
    ((_, reason),) = job.failures
    assert "begun 2 times" in reason and "the worker is gone" in reason
    assert noted.of("failed") == ["w, repeat 1"]


def test_a_machine_that_refuses_is_not_asked_again(address: str, tmp_path: Path) -> None:
    job = Sleeping(tmp_path, refuse="local-1", machines=3)
    with engine_at(address) as engine:
        conduct(engine, job, repeats(6, 0.05), attempts=7)
    assert {entry["machine"] for entry in job.home} == {"local-2", "local-3"}
    refused = Counter(entry["id"] for entry in job.begun if entry["name"] == "local-1")
    assert refused and set(refused.values()) == {1}
    # Each of the others was begun once, on a machine that does it, after it was refused or at first.
    ids = {assignment.id for assignment in repeats(6, 0.05)}
    begun = {entry["id"]: entry["attempt"] for entry in job.begun if entry["name"] != "local-1"}
    assert begun == {id_: 1 + refused[id_] for id_ in ids}
    assert len(job.begun) == 6 + len(refused)
    assert sorted(entry["id"] for entry in job.home) == sorted(ids)


CLIENT = """
import sys
sys.path[:0] = [{tests!r}]
from pathlib import Path
from support.fleet import Sleeping, conduct, engine_at, repeats
with engine_at({address!r}, "again") as engine:
    conduct(engine, Sleeping(Path({folder!r})), repeats(2, 0.1))
"""


def test_a_client_that_is_killed_finds_again_what_runs(address: str, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    job = Sleeping(tmp_path)
    code = CLIENT.format(tests=str(Path(__file__).parents[1]), address=address, folder=str(tmp_path))
    client = subprocess.Popen([sys.executable, "-c", code], env=environment(**certificates_of_the_engine()))
    try:
        until = time.monotonic() + 60
        while len(job.begun) < 2 and time.monotonic() < until:
            assert client.poll() is None
            time.sleep(0.05)
    finally:
        client.kill()
        client.wait()
    noting = Noting(
        lambda event, name: (tmp_path / "hold").unlink(missing_ok=True) if event == "found" else None
    )
    with engine_at(address, "again") as engine:
        conduct(engine, job, repeats(2, 0.1), watcher=noting)
    assert sorted(noting.of("found")) == ["w, repeat 1", "w, repeat 2"]
    assert sorted(entry["id"] for entry in job.home) == sorted(
        assignment.id for assignment in repeats(2, 0.1)
    )
    assert len(job.begun) == 2  # nothing began again


@pytest.mark.program
def test_what_becomes_known_later_is_done_and_found_again(address: str, tmp_path: Path) -> None:
    (tmp_path / "hold").touch()
    job = Sleeping(tmp_path)
    first, *later = repeats(4, 0.1)
    with engine_at(address, "later") as engine:
        text = job.task(later[1], None, 1)  # type: ignore[arg-type]
        engine.ask(next(iter(engine.workers())), "old", text, (later[1].id, 1))
        until = time.monotonic() + 30
        while not job.begun and time.monotonic() < until:
            time.sleep(0.05)
    job.later, job.first = list(later), 1
    noting = Noting(
        lambda event, name: (tmp_path / "hold").unlink(missing_ok=True) if event == "begins" else None
    )
    with engine_at(address, "later") as engine:
        conduct(engine, job, [first], watcher=noting)
    assert noting.of("found") == [str(later[1])]
    assert sorted(entry["id"] for entry in job.home) == sorted(a.id for a in (first, *later))
    assert len(job.begun) == 4  # nothing began again


def test_what_nobody_wants_any_more_is_not_taken(address: str, tmp_path: Path) -> None:
    """A later campaign of the same name has other comparisons: what an earlier client has left is ended."""
    job = Sleeping(tmp_path)
    with engine_at(address, "changed") as engine:
        engine.ask(next(iter(engine.workers())), "old", job.task(repeats(1, 0.1)[0], None, 1), ("gone", 1))  # type: ignore[arg-type]
        until = time.monotonic() + 30
        while not (tasks := engine.earlier_tasks()) and time.monotonic() < until:
            time.sleep(0.05)
        assert [task.assignment for task in tasks] == ["gone"]
        conduct(engine, job, repeats(1, 0.1))
        until = time.monotonic() + 30
        while engine.earlier_tasks() and time.monotonic() < until:
            time.sleep(0.05)
        assert engine.earlier_tasks() == []
    assert len(job.home) == 1


def test_a_kind_that_nobody_has_is_said(address: str, tmp_path: Path) -> None:
    with engine_at(address) as engine, pytest.raises(UsageError, match="no machine is of the kind 'epyc'"):
        conduct(engine, Sleeping(tmp_path), [Assignment("w", 1, 0.1, kind="epyc")])


def test_a_scheduler_that_goes_away(tmp_path: Path) -> None:
    job = Sleeping(tmp_path)
    (tmp_path / "hold").touch()
    with local_fleet(1, ["support.fleet"]) as address, engine_at(address) as engine:
        conductor_error: list[SchedulerLostError] = []

        def leave() -> None:
            if job.begun:
                raise _GoneError

        with pytest.raises(_GoneError):
            conduct(engine, job, repeats(1, 0.1), check=leave)
        (tmp_path / "hold").unlink()
        kept = engine
    until = time.monotonic() + 30
    while not conductor_error and time.monotonic() < until:
        try:
            kept.workers()
        except SchedulerLostError as error:
            conductor_error.append(error)
        time.sleep(0.1)
    assert "does not answer any more" in conductor_error[0].message
    assert "the same command goes on" in conductor_error[0].hint


class _GoneError(Exception):
    pass
