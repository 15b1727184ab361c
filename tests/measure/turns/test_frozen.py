"""Frozen turns: whose turn it is, the clock that stands still, real servers, one that dies while frozen."""

from __future__ import annotations

import os
import signal
import struct
import time
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import psutil
import pytest

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.plan.order import has_stretches, schedule_of
from pgstrata.measure.turns.frozen import ActiveClock, FrozenTurns, _turns
from pgstrata.server.find.model import Server
from pgstrata.server.system.freezer import Freezer
from pgstrata.store import Results
from pgstrata.workload.core.language import Headline, Role, Script, Sql, Step
from support.disks import small_disk
from support.interleaved import by_variant, write
from support.kills import groups_here
from support.program import Program, Running

FROZEN = 'turns = "frozen"\nwindow_seconds = 0.1\nwaits = 50'


def step(operations: int | None = None, **more: Any) -> Step:
    role = Role("w", 1, [Script(Sql("SELECT 1"))], operations=operations)
    seconds = None if operations else 5.0
    return Step("s", [role], Headline("w", "operations", "operations/s"), seconds=seconds, **more)


def test_every_second_pair_is_the_one_before_it_backwards() -> None:
    assert list(islice(_turns(2), 6)) == [(0, 0), (1, 0), (1, 1), (0, 1), (1, 2), (0, 2)]
    assert {number for number, stretch in islice(_turns(3), 300) if stretch == 70} == {0, 1, 2}


def test_steps_that_write_take_frozen_turns_where_there_is_enough_to_do(place: Path, pg17: Server) -> None:
    spec = read_campaign(write(place, pg17, ["update-index"], more=FROZEN)).spec
    assert schedule_of(step(), spec).how == "frozen"
    assert schedule_of(step(operations=1000), spec).how == "frozen"
    assert schedule_of(step(operations=1), spec).how == "rounds"
    assert schedule_of(step(reads_only=True), spec).how == "slices"
    assert not has_stretches(step(operations=1))


def test_the_clock_stands_still_between_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10_000_000_000]
    monkeypatch.setattr("pgstrata.measure.turns.frozen.time.monotonic_ns", lambda: now[0])
    clock = ActiveClock()

    def paused() -> int:
        (nanoseconds,) = struct.unpack("=Q", Path(clock.path).read_bytes()[:8])
        return int(nanoseconds)

    assert (clock.at(9.5), paused()) == (9.5, 0)
    clock.stop()
    now[0] += 2_000_000_000
    assert (clock.at(9.5), clock.at(11.0), clock.stands_still) == (9.5, 10.0, True)
    clock.go_on()
    now[0] += 1_000_000_000
    assert (clock.at(13.0), clock.at(12.5), clock.at(11.0), paused()) == (11.0, 10.5, 10.0, 2_000_000_000)
    clock.stop()
    now[0] += 5_000_000_000
    clock.go_on()
    # Before, in and after each of its pauses.
    assert [clock.at(m) for m in (9.0, 11.0, 12.5, 14.0, 18.0, 18.5)] == [9.0, 10.0, 10.5, 11.0, 11.0, 11.5]
    assert paused() == 7_000_000_000


def test_the_turn_goes_on_with_the_work() -> None:
    """A B, B A: everybody does the same stretches, and one that has failed is left out."""
    turns = FrozenTurns(step(), [Freezer("a"), Freezer("b"), Freezer("c")], 0.001)
    over = [False] * 3
    assert turns.begin() == {}
    assert [own_turns.clock.stands_still for own_turns in turns.members] == [False, True, True]
    turns.go_on(over)
    assert turns.operations == 0 and not turns.members[0].clock.stands_still, (
        "nobody knows how long a stretch is"
    )
    turns.members[0].seconds, turns.members[0].operations = 1, 50
    turns.go_on(over)
    assert turns.operations == 1 and turns.pairs == []
    turns.members[0].ended = 7
    turns.go_on(over)
    assert turns.pairs == [7]
    assert [own_turns.clock.stands_still for own_turns in turns.members] == [True, False, True]
    turns.members[1].ended = 6
    turns.go_on(over)
    assert not turns.members[1].clock.stands_still, "it has not done as much yet"
    over[1] = True
    turns.go_on(over)
    assert [own_turns.clock.stands_still for own_turns in turns.members] == [True, True, False]
    turns.members[2].ended = 7  # its turn again, with which the second pair begins
    turns.go_on(over)
    assert len(turns.pairs) == 2 and turns.pairs[1] > 7 and not turns.members[2].clock.stands_still
    turns.members[2].ended = turns.pairs[1]
    turns.go_on(over)
    assert [own_turns.clock.stands_still for own_turns in turns.members] == [False, True, True]
    turns.end()
    assert not any(own_turns.clock.stands_still for own_turns in turns.members)


def test_later_rounds_know_how_long_a_stretch_is() -> None:
    turns = FrozenTurns(step(), [Freezer("a"), Freezer("b")], 0.001, operations=20)
    assert turns.begin() == {}
    turns.members[0].ended = 3
    time.sleep(0.002)
    turns.go_on([False, False])
    assert (turns.operations, turns.pairs) == (20, [3]), "the first pair is of the first operations"
    turns.end()


def test_variants_with_a_replica_take_whole_rounds(place: Path, pg17: Server) -> None:
    file = write(place, pg17, ["update-index"])
    assert read_campaign(file).spec.turns == "frozen"
    file.write_text(file.read_text().replace('label = "b"', 'label = "b"\nreplicas = 1'))
    assert read_campaign(file).spec.turns == "rounds"


def test_steps_that_write_in_frozen_turns(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["update-index"], more=FROZEN, rounds=2, writes=2.0)
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    runs = by_variant(place)
    kinds = {run["comparison"]["freezer"] for run in runs.values()}
    assert kinds <= {"cgroup2", "cgroup1", "signals"} and len(kinds) == 1
    steps = {v: run["steps"][-1] for v, run in runs.items()}
    pairs = {v: [s["pair"] for s in step["slices"]] for v, step in steps.items()}
    common = set(pairs["a"]) & set(pairs["b"])
    assert len(common) >= 4, pairs
    for step in steps.values():
        assert step["seconds"] >= 3.99, "two rounds, each as long as the step"
        role = step["roles"][step["role"]]
        # Were the time of others in it, the sum of all responses would be about twice the time of its own.
        assert role["latency"]["mean"] * role["transactions"] <= step["seconds"] * role["clients"] * 1.02
        assert all(s["seconds"] > 0 and s["rate"] > 0 for s in step["slices"])
        assert step["server_cpu_seconds"] <= step["seconds"] * (os.cpu_count() or 1)
        assert step["waits_cost"]["polls"] > 20
    for run in Results(place / "results").runs():
        series = run.table("series")
        step = steps[run.variant]
        rows = series.where(step=step["name"], role=step["role"])
        assert sum(rows["operations"]) == step["operations"] > 0
    compared = pgstrata("compare", "a", "b", "--format", "json")
    assert compared.returncode == 0, compared.stderr
    assert '"evidence": "slices"' in compared.stdout
    assert {step["turns"] for step in steps.values()} == {"frozen"}
    assert list((place / "data").iterdir()) == []
    page = next((place / "results").rglob("*.html")).read_text()
    assert "in frozen turns" in page and "pairs of the same work" in page


INSERT = """
[[workloads]]
name = "insert"
[workloads.options]
rows = 20000
rows_i1 = 15000
rows_i2 = 0
batch_i1 = 10
seconds = 3
settle_base = 0
settle_per_million = 0
steps = ["1000:range"]
"""


def test_the_insert_benchmark_in_frozen_turns(place: Path, pgstrata: Program, pg17: Server) -> None:
    """Background writers keep their rate in their own time; an index build takes whole rounds."""
    file = write(place, pg17, [], more=FROZEN, rounds=1)
    file.write_text(file.read_text().split("[[workloads]]")[0] + INSERT)
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    for run in by_variant(place).values():
        steps = {step["name"]: step for step in run["steps"]}
        assert [s["pair"] for s in steps["l.x"]["slices"]] == [1]
        assert steps["l.x"]["slices"][0]["started"], "a round"
        assert len(steps["l.i1"]["slices"]) > 1
        assert steps["l.i1"]["rows"] == 15000, "all of it, whatever is known by then"
        query = steps["qr1000"]
        assert query["slices"]
        for role in ("insert", "delete"):
            # By the clock of the machine about twice as many would be due in these seconds.
            due = query["roles"][role]["target_rate"] * query["seconds"]
            assert 0 < query["roles"][role]["rows"] <= due * 1.05 + 100


def test_one_that_dies_while_it_is_frozen(place: Path, pg17: Server) -> None:
    """The others go on to the end of the step."""
    running = Running(place, ["run", str(write(place, pg17, ["update-index"], more=FROZEN, writes=5.0))])

    def frozen() -> int | None:
        for group in groups_here():
            with suppress(FileNotFoundError):  # those of other tests end at any time
                frozen = "frozen 1" in (group / "cgroup.events").read_text()
                if frozen and f"{place}" in owner_of(group):
                    return int((group / "cgroup.procs").read_text().split()[0])
        return None

    try:
        if not any((group / "cgroup.events").exists() for group in running.wait_for(groups_here)):
            pytest.skip("here the kind of freezer does not tell who is frozen")
        victim = running.wait_for(frozen)
        os.kill(victim, signal.SIGKILL)
        running.process.wait(120)
    finally:
        if running.process.poll() is None:
            running.process.kill()
            running.process.wait()
    assert running.process.returncode == 1, running.printed
    runs = by_variant(place)
    assert sorted(run["status"] for run in runs.values()) == ["done", "failed"]
    assert "FAILED and leaves the comparison" in running.printed
    survivor = next(run for run in runs.values() if run["status"] == "done")
    assert survivor["steps"][-1]["seconds"] >= 4.99
    assert not [group for group in groups_here() if f"{place}" in owner_of(group)]


def test_a_disk_that_fills_in_frozen_turns(place: Path, pg17: Server) -> None:
    """Both are on it: the first that needs more fails, or both do; nothing stays frozen, and it is said."""
    with small_disk(place / "data", "700m") as small:
        file = write(place, pg17, ["update-index"], more=FROZEN, rounds=1, writes=60.0, rows=20_000)
        running = Running(place, ["run", str(file), "--no-report"])
        running.wait_for_text("data copied from a")
        running.wait_for(lambda: running.child("pgstrata-driver"))
        with (small / "ballast").open("wb") as ballast:
            while psutil.disk_usage(str(small)).free > 4 << 20:
                ballast.write(bytes(1 << 20))
                ballast.flush()
        assert running.end() == 1, running.printed
        assert "Traceback" not in running.printed
        failed = [run["error"] for run in by_variant(place).values() if run["status"] == "failed"]
        assert failed
        for error in failed:
            assert "disk" in error["message"], error
            assert error["hint"]
        assert [path.name for path in small.iterdir()] == ["ballast"]
        assert not [group for group in groups_here() if f"{place}" in owner_of(group)]


def test_time_in_which_a_server_was_frozen_ends_no_statement(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    """A statement may take 0.3 s, and is frozen for a second in every other one."""
    (place / "short.conf").write_text("statement_timeout = 300ms\nlock_timeout = 250ms\n")
    more = FROZEN.replace("window_seconds = 0.1", "window_seconds = 1.0")
    file = write(place, pg17, ["update-index"], more=more, rounds=1, writes=4.0)
    file.write_text(file.read_text().replace('["default", "a17"]', '["default", "./short.conf"]'))
    done = pgstrata("run", file, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    run = by_variant(place)["b"]
    assert run["comparison"]["timers"]["statement_timeout"] != "300ms"
    assert run["steps"][-1]["roles"][run["steps"][-1]["role"]]["errors"] == 0


def owner_of(group: Path) -> str:
    """Working folders of the processes in a group; none where it has just ended."""
    folders = []
    with suppress(FileNotFoundError):
        for pid in (group / "cgroup.procs").read_text().split():
            with suppress(OSError):
                folders.append(os.readlink(f"/proc/{pid}/cwd"))  # noqa: PTH115
    return " ".join(folders)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('turns = "icy"', "turns"),
        ('turns = "frozen"\nwindow_seconds = 0', "window_seconds"),
    ],
)
def test_nonsense_is_refused(place: Path, pgstrata: Program, pg17: Server, more: str, message: str) -> None:
    done = pgstrata("run", write(place, pg17, ["update-index"], more=more), "--dry-run")
    assert done.returncode == 2
    assert message in done.stderr


def test_a_replica_takes_no_frozen_turns(place: Path, pgstrata: Program, pg17: Server) -> None:
    file = write(place, pg17, ["update-index"], more=FROZEN)
    file.write_text(file.read_text().replace('label = "b"', 'label = "b"\nreplicas = 1'))
    done = pgstrata("run", file, "--dry-run")
    assert done.returncode == 2
    assert 'turns = "frozen": b has a replica' in done.stderr
