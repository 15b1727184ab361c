"""Whole campaigns on a fleet of this machine: real servers, and what becomes of them when things go wrong."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.fleet import engine_on_loopback, qualified
from support.interleaved import write
from support.program import Program, Running

MORE = """
repeats = {repeats}
margin = 0.9
[fleet]
qualify_seconds = 2
silent_seconds = 10
{fleet}
"""


def campaign(place: Path, server: Server, *, repeats: int = 1, seconds: float = 1.0, fleet: str = "") -> Path:
    return write(
        place,
        server,
        ["point-query"],
        seconds=seconds,
        slice_=0.1,
        more=MORE.format(repeats=repeats, fleet=fleet),
    )


def below(pid: int) -> list[psutil.Process]:
    """Servers and drivers that a process has started."""
    processes = []
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if process.name() in ("postgres", "pgstrata-driver"):
                    processes.append(process)
    return processes


def driving(pid: int) -> list[psutil.Process]:
    """Servers and drivers below a process, while both are at work there; else none."""
    processes = below(pid)
    return processes if set(map(_name, processes)) == {"postgres", "pgstrata-driver"} else []


def gone(processes: Sequence[psutil.Process]) -> bool:
    return all(_name(process) == "" for process in processes)


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name()) if process.status() != psutil.STATUS_ZOMBIE else ""
    except psutil.Error:
        return ""


def test_repeats_on_two_machines(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = campaign(place, pg17, repeats=2)
    done = pgstrata("run", file, "--fleet", "local:2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "local-1: ready, sees" in done.stderr and "local-2: ready, sees" in done.stderr
    runs = Results(place / "results").runs()
    assert len(runs) == 4
    where = {(run.repeat, run.record.machine.name if run.record.machine else "") for run in runs}
    assert {repeat for repeat, _ in where} == {1, 2} and len(where) == 2
    assert len({name for _, name in where}) == 2
    for run in runs:
        assert run.done and run.record.machine is not None
        machine = run.record.machine
        assert machine.trial and machine.attempt == 1 and "Linux" in machine.kind
        assert machine.qualification is not None and machine.qualification.seen is not None
        # Both sides of a pair were measured on the machine, in one comparison.
        (other,) = [
            candidate for candidate in runs if candidate.repeat == run.repeat and candidate is not run
        ]
        assert other.comparison == run.comparison and other.record.machine == machine

    again = pgstrata("run", file, "--fleet", "local:1", "--no-report")
    assert again.returncode == 0 and "begins" not in again.stderr
    assert len(Results(place / "results").runs()) == 4


def test_a_worker_that_is_killed_in_the_middle(place: Path, pg17: Server) -> None:
    qualified(place, "w1", "w2")
    file = campaign(place, pg17, seconds=4)
    with engine_on_loopback(place, 2) as (address, started):
        client = Running(place, ["run", str(file), "--fleet", address, "--format", "json"])
        client.wait_for_text('"comparison-begins"')
        events = [json.loads(line) for line in client.printed.splitlines()]
        measuring = next(e["machine"] for e in events if e["event"] == "comparison-begins")
        victim = started[int(measuring.removeprefix("w"))]
        running = client.wait_for(lambda: driving(victim.pid))
        victim.kill()
        victim.wait()
        # Nothing runs on, though nobody told it to end.
        client.wait_for(lambda: gone(running))
        assert client.end() == 0, client.printed
    events = [json.loads(line) for line in client.printed.splitlines()]
    (again,) = [e for e in events if e["event"] == "comparison-again"]
    assert again["machine"] == measuring and again["reason"] == "the worker is gone"
    begun = [(e["machine"], e["attempt"]) for e in events if e["event"] == "comparison-begins"]
    (other,) = {"w1", "w2"} - {measuring}
    assert begun == [(measuring, 1), (other, 2)]
    assert events[-1] == {"event": "end", "made": 2, "failed": 0}
    runs = Results(place / "results").runs()
    assert len(runs) == 2 and all(run.done for run in runs)
    assert all(m is not None and (m.name, m.attempt) == (other, 2) for m in (r.record.machine for r in runs))
    assert list((place / "results").rglob(".*.building")) == []


@pytest.mark.slow
def test_ctrl_c_and_a_second_client(place: Path, pgstrata: Program, pg17: Server) -> None:
    """Ctrl-C ends what runs on every machine; a killed client's comparison goes on and is found again."""
    qualified(place, "w1")
    file = campaign(place, pg17, seconds=4)
    with engine_on_loopback(place, 1) as (address, started):
        worker = started[1]
        arguments = ["run", str(file), "--fleet", address, "--no-report"]
        first = Running(place, arguments)
        running = first.wait_for(lambda: driving(worker.pid))
        first.process.send_signal(signal.SIGINT)
        assert first.end() == 130, first.printed
        assert gone(running)
        assert "not known to have stopped" not in first.printed
        assert Results(place / "results").runs() == []

        second = Running(place, arguments)
        running = second.wait_for(lambda: driving(worker.pid))
        second.process.kill()
        second.process.wait()
        third = pgstrata(*arguments)
        assert third.returncode == 0, third.stdout + third.stderr
        assert "goes on since an earlier start" in third.stderr
        assert "begins" not in third.stderr
    assert len(Results(place / "results").runs()) == 2


def test_no_scheduler_there(place: Path, pgstrata: Program, pg17: Server) -> None:
    done = pgstrata("run", campaign(place, pg17), "--fleet", "tcp://127.0.0.1:1")
    assert done.returncode == 1
    assert "no scheduler answers at tcp://127.0.0.1:1" in done.stderr and "Traceback" not in done.stderr
    assert Results(place / "results").runs() == []


@pytest.mark.slow
def test_a_scheduler_that_goes_away(place: Path, pgstrata: Program, pg17: Server) -> None:
    """It is tried again for a while, then said; machines end what they do; the same command goes on later."""
    qualified(place, "w1")
    file = campaign(place, pg17, repeats=2, seconds=3)
    with engine_on_loopback(place, 1) as (address, started):
        client = Running(place, ["run", str(file), "--fleet", address, "--no-report"])
        client.wait_for_text("repeat 1 is home")
        running = client.wait_for(lambda: driving(started[1].pid))
        started[0].kill()
        client.wait_for(lambda: gone(running))
        assert client.end() == 1, client.printed
    assert "does not answer any more; trying for 60 s" in client.printed
    assert f"error: the scheduler at {address} does not answer any more" in client.printed
    assert "the same command goes on" in client.printed and "Traceback" not in client.printed
    assert [run.repeat for run in Results(place / "results").runs()] == [1, 1]
    (place / "s.json").unlink()
    with engine_on_loopback(place, 1) as (address, _):
        again = pgstrata("run", file, "--fleet", address, "--no-report")
    assert again.returncode == 0, again.stdout + again.stderr
    assert again.stderr.count("begins, about") == 1
    assert sorted(run.repeat for run in Results(place / "results").runs()) == [1, 1, 2, 2]
