"""What was measured before pgstrata was ended is not measured again, and is whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.store import Results, Run
from support.interleaved import text
from support.kills import KILL, ONE, TERM, Room, end_when, run
from support.slots import AFTER, CURVE, write_slots

STEPS = ["read-only=10", "read-only=100", "point-query"]
"""In the order in which sysbench has them."""
SEQUENTIAL = ONE.replace("clients = [2]", "clients = [1, 2, 3]").replace("seconds = 3", "seconds = 1")


@pytest.fixture
def room(place: Path) -> Iterator[Room]:
    with Room(place) as new_room:
        yield new_room


def spec(server: Server) -> str:
    assert server.bin_dir is not None
    return f"path:{server.bin_dir.parent}"


def interleaved(server: Server, steps: list[str] = STEPS, seconds: int = 1, more: str = "") -> str:
    return text(spec(server), steps, seconds=seconds, writes=1, more=more)


def write(room: Room, campaign: str) -> Path:
    file = room.place / "c.toml"
    file.write_text(f'name = "c"\n{campaign}')
    return file


def kept(room: Room) -> list[Path]:
    """The kept steps of all variants."""
    return sorted(room.results.glob("*/*/*/.1.kept/*.step"))


def whole(room: Room) -> list[Run]:
    """The runs there are, which are sound and of which nothing is kept any more."""
    results = Results(room.results)
    runs = results.runs()
    assert results.broken == []
    assert list(room.results.rglob("*.kept")) == []
    for stored_run in runs:
        names = [step.name for step in stored_run.steps]
        assert stored_run.done
        assert set(stored_run.table("series")["run_id"]) == {stored_run.run_id}
        assert set(stored_run.table("series")["step"]) == set(names) == set(stored_run.histograms)
        assert set(stored_run.scripts) == set(names)
    return runs


@pytest.mark.timeout(400)
def test_a_comparison_goes_on_after_kill_9(room: Room, pg17: Server) -> None:
    file = write(room, interleaved(pg17))
    end_when(room, file, KILL, lambda: len(kept(room)) >= 4)
    moments = {path: path.stat().st_mtime_ns for path in kept(room)}
    output = run(room, file, "--dry-run")
    assert "kept: read-only=10, read-only=100; to do: point-query" in " ".join(output.split())
    # another length, another config: nothing of it counts
    other = write(room, interleaved(pg17, seconds=2))
    assert "kept, of attempt" not in run(room, other, "--dry-run")
    assert "kept, of attempt" not in run(room, write(room, interleaved(pg17, more="seed = 9")), "--dry-run")
    assert {path: path.stat().st_mtime_ns for path in moments} == moments, "a dry run changes nothing"
    run(room, write(room, interleaved(pg17)), "--no-report")
    a, b = whole(room)
    assert a.comparison == b.comparison
    for stored_run in (a, b):
        measured = [step for step in stored_run.steps if step.measured]
        assert [(step.name, step.attempt) for step in measured] == [
            ("read-only=10", 1),
            ("read-only=100", 1),
            ("point-query", 2),
        ]
        first, second = stored_run.record.attempts
        assert first < measured[1].started < second < measured[2].started
        assert all(step.slices for step in measured)


@pytest.mark.timeout(400)
def test_a_step_that_only_one_variant_has_is_measured_of_both(room: Room, pg17: Server) -> None:
    file = write(room, interleaved(pg17))
    end_when(room, file, TERM, lambda: len(kept(room)) >= 4)
    assert "what is finished is kept" in room.printed
    last = max(room.results.glob("c/b/*/.1.kept/*.step"))
    data = bytearray(last.read_bytes())
    data[len(data) // 2] ^= 1
    last.write_bytes(data)
    run(room, file, "--no-report")
    for stored_run in whole(room):
        attempts = {step.name: step.attempt for step in stored_run.steps if step.measured}
        assert attempts == {"read-only=10": 1, "read-only=100": 2, "point-query": 2}


@pytest.mark.timeout(400)
def test_steps_that_read_are_kept_of_a_sequential_run(room: Room, pg17: Server) -> None:
    file = write(room, SEQUENTIAL.format(server=spec(pg17)))
    end_when(room, file, KILL, lambda: len(kept(room)) >= 2)
    run(room, file)
    (stored_run,) = whole(room)
    assert [step.attempt for step in stored_run.steps if step.measured] == [1, 1, 2]
    assert "2 attempts" in (room.results / "c.report" / "report.md").read_text()


def test_the_plan_says_what_a_stop_would_lose(room: Room, pg17: Server) -> None:
    output = run(
        room,
        write(room, interleaved(pg17, steps=["point-query.pre", "update-index", "read-only=10"])),
        "--dry-run",
    )
    assert "finished steps before update-index are kept" in " ".join(output.split())
    assert output.count("not kept if the run is stopped") == 4
    insert = room.place / "c.toml"
    insert.write_text(f'name = "c"\n[[variants]]\nserver = "{spec(pg17)}"\n[[workloads]]\nname = "insert"\n')
    assert "a run that is stopped begins anew: later steps read what l.i1 writes" in run(
        room, insert, "--dry-run"
    )


@pytest.mark.timeout(400)
def test_points_that_were_added_to_a_curve_are_kept(room: Room, pg17: Server) -> None:
    file = write_slots(room.place, spec(pg17), CURVE, AFTER)
    coarse = 2 * 3
    end_when(room, file, KILL, lambda: len(kept(room)) >= coarse + 2)
    output = " ".join(run(room, file, "--dry-run").split())
    assert "kept: sleep-c1, sleep-c2, sleep-c4, sleep-c3" in output
    run(room, file, "--no-report")
    for stored_run in whole(room):
        attempts = {step.name: step.attempt for step in stored_run.steps if step.measured}
        points = [f"sleep-c{clients}" for clients in (1, 2, 4, 3)]
        assert [attempts[name] for name in points] == [1] * 4
        assert attempts["after"] == 2
        orders = {step.name: step.order for step in stored_run.steps if step.measured}
        assert orders["sleep-c3"] > orders["after"], "seeds of planned steps are those of a coarse grid"
