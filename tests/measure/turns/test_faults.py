"""What may go wrong while variants take turns: deaths, kill -9, full disks, CPUs that are not there."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from pgstrata.server.find.model import Server
from support.disks import small_disk
from support.interleaved import by_variant, write
from support.program import Program, Running


def test_a_variant_that_dies_leaves_what_was_measured(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["point-query"], seconds=60)
    running = Running(place, ["run", str(file), "--no-report"])

    running.wait_for_text("data copied from a")
    seen: set[tuple[int, int]] = set()

    def later() -> psutil.Process | None:
        """A backend of the fourth pair: each slice has a driver of its own."""
        if (driver := running.child("pgstrata-driver")) and (backend := running.backend()):
            with suppress(psutil.Error):  # it may have ended meanwhile
                seen.add((driver.pid, backend.ppid()))
            servers = [server for _, server in seen]
            if sum(servers.count(server) > 3 for server in set(servers)) == 2:
                return backend
        return None

    backend = running.wait_for(later)
    os.kill(backend.ppid(), signal.SIGKILL)
    assert running.end() == 1, running.printed
    assert "leaves the comparison: the server died" in running.printed
    runs = by_variant(place)
    assert sorted(run["status"] for run in runs.values()) == ["done", "failed"]
    failed = next(run for run in runs.values() if run["status"] == "failed")
    assert "the server died" in failed["error"]["message"]
    assert [s["name"] for s in failed["steps"]][-1] == "point-query"
    assert list((place / "data").iterdir()) == []
    compared = pgstrata("compare", "a", "b", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    (verdict,) = json.loads(compared.stdout)[0]["steps"]
    assert verdict["word"] == "unclear"
    assert verdict["reason"].startswith(f"{failed['variant']} failed: the server died")
    assert verdict["n"] > 1, "the pairs until then are kept"
    assert pgstrata("check", "--base", "a", "--fail-slower", "3%").returncode == 3


def test_kill_9_during_a_snapshot(place: Path, pgstrata: Program, pg17: Server) -> None:
    """Nothing runs afterwards, and the same command clears what is left and measures both variants."""
    file = write(place, pg17, ["update-index"])
    # A copy of this size takes milliseconds: this one ends when it is told to, and that is never.
    slow = place / "bin" / "cp"
    slow.parent.mkdir()
    slow.write_text('#!/bin/sh\n/bin/cp "$@"\ncase "$*" in *snapshot) exec /bin/sleep 600 ;; esac\n')
    slow.chmod(0o755)
    path = f"{slow.parent}:{os.environ['PATH']}"
    running = Running(place, ["run", str(file), "--no-report"], PATH=path)
    copy = running.wait_for(lambda: running.child("sleep"))
    running.process.kill()
    running.end()
    psutil.wait_procs([copy], timeout=10)
    assert not copy.is_running()
    assert list((place / "data").glob("*/snapshot")), "kill -9 leaves it to the next start"
    assert by_variant(place) == {}
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cleared what an earlier pgstrata left" in done.stderr
    assert {v: run["status"] for v, run in by_variant(place).items()} == {"a": "done", "b": "done"}
    assert list((place / "data").iterdir()) == []


def test_a_snapshot_without_space(place: Path, pg17: Server) -> None:
    """The disk fills up between the load and the snapshot."""
    with small_disk(place / "data", "600m") as small:
        ballast = small / "ballast"
        running = Running(
            place,
            ["run", str(write(place, pg17, ["point-query.pre", "update-index"], seconds=4)), "--no-report"],
        )
        running.wait_for_text("data copied from a")
        running.wait_for(running.backend)
        with ballast.open("wb") as file:
            while psutil.disk_usage(str(small)).free > 8 << 20:
                file.write(bytes(1 << 20))
                file.flush()
        assert running.end() == 1, running.printed
        assert "no space for a snapshot of" in running.printed
        assert "MiB are free" in running.printed
        assert "Traceback" not in running.printed
        assert [path.name for path in small.iterdir()] == ["ballast"]
        # The second may find room: a stopped server removes WAL it needs no more.
        failed = [run for run in by_variant(place).values() if run["status"] == "failed"]
        assert failed
        for run in failed:
            assert "no space for a snapshot" in run["error"]["message"]
            assert "point-query.pre" in [s["name"] for s in run["steps"]], "what was measured before is kept"


def test_servers_and_driver_keep_to_their_cpus(place: Path, pg17: Server) -> None:
    there = sorted(os.sched_getaffinity(0))
    servers, driver = there[0], there[-1]
    more = f"server_cpus = [{servers}]\ndriver_cpus = [{driver}]"
    running = Running(place, ["run", str(write(place, pg17, ["point-query"], more=more)), "--no-report"])

    def seen() -> list[set[int]] | None:
        """CPUs of a backend, its postmaster, and the threads of the driver, all of one slice."""
        backend, client = running.backend(), running.child("pgstrata-driver")
        if backend is None or client is None:
            return None
        try:
            ids = [backend.pid, backend.ppid(), *(thread.id for thread in client.threads())]
            return [os.sched_getaffinity(id_) for id_ in ids]
        except (psutil.Error, ProcessLookupError):
            return None

    backend, postmaster, *threads = running.wait_for(seen)
    assert backend == postmaster == {servers}
    assert threads
    assert all(cpus == {driver} for cpus in threads)
    assert running.end() == 0, running.printed
    for run in by_variant(place).values():
        assert run["cpus"] == {"server": [servers], "driver": [driver]}


@pytest.mark.parametrize("key", ["server_cpus", "driver_cpus"])
def test_cpus_that_are_not_there(place: Path, pgstrata: Program, pg17: Server, key: str) -> None:
    file = write(place, pg17, ["point-query"], more=f"{key} = [0, 4097]")
    for more in ([], ["--dry-run"]):
        done = pgstrata("run", file, *more)
        assert done.returncode == 2
        assert f"`{key}`: there is no CPU 4097" in done.stderr
        assert "Traceback" not in done.stderr


def _kill_server(running: Running, place: Path, variant: str) -> None:
    """Kills the server of a variant while it is measured."""

    def postmaster() -> psutil.Process | None:
        ids = [p.name.split("-", 1)[1] for p in place.glob(f"results/interleaved/{variant}/*/.1-*.building")]
        data = [place / "data" / i.removesuffix(".building") / "data" for i in ids]
        if running.child("pgstrata-driver") and (backend := running.backend()):
            try:
                return backend.parent() if Path(backend.cwd()) in data else None
            except psutil.Error:
                pass
        return None

    running.wait_for_text("data copied from a")
    running.wait_for(postmaster).send_signal(signal.SIGKILL)


def test_no_comparison_is_made_of_the_halves_of_two(place: Path, pgstrata: Program, pg17: Server) -> None:
    """One variant fails in the first try, the other in the second: the third measures both anew."""
    file = write(place, pg17, ["point-query"], seconds=3, slice_=0.5)
    for victim in ("a", "b"):
        running = Running(place, ["run", str(file), "--no-report"])
        _kill_server(running, place, victim)
        assert running.end() == 1, running.printed
        runs = by_variant(place)
        assert {v: run["status"] for v, run in runs.items()} == {
            v: "failed" if v == victim else "done" for v in "ab"
        }
        assert runs["a"]["comparison"]["id"] == runs["b"]["comparison"]["id"]
        plan = pgstrata("run", file, "--dry-run").stdout
        assert "2 of 2 runs to do" in plan
        assert plan.count("to do again") == 1
        assert "1 of them is there, but not from one comparison" in plan

    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 more is there, but not from one comparison" in done.stderr
    whole = by_variant(place)
    assert {run["status"] for run in whole.values()} == {"done"}
    assert whole["a"]["comparison"]["id"] == whole["b"]["comparison"]["id"]

    # Measured anew without success: the whole comparison stays, and nothing is to be done.
    running = Running(place, ["run", str(file), "--fresh", "--no-report"])
    _kill_server(running, place, "b")
    assert running.end() == 1, running.printed
    assert "2 of 2 runs are there already" in pgstrata("run", file, "--no-report").stderr
    compared = pgstrata("compare", "a", "b", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    (verdict,) = json.loads(compared.stdout)[0]["steps"]
    assert (verdict["evidence"], verdict["n"]) == ("slices", 6)
