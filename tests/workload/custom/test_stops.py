"""A workload of files that is stopped and gone on with, ends with its verdict, and is held to its promise."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.kills import INT, KILL, TERM, Room, end_when, run
from support.parquet_files import write_parquet

SETUP = (
    "CREATE TABLE t AS SELECT i, i AS v FROM generate_series(1, 2000) AS i;\n"
    "ALTER TABLE t ADD PRIMARY KEY (i);\n"
)
LOOK = "\\set i random(1, 2000)\nSELECT v FROM t WHERE i = :i;\n"
STEPS = 'scripts = ["look.sql"]\nclients = [1, 2, 3]\nreads_only = true\nseconds = 1\nwarmup = 0\n'


def spec(server: Server) -> str:
    assert server.bin_dir is not None
    return f"path:{server.bin_dir.parent}"


@pytest.fixture
def room(place: Path) -> Room:
    (place / "setup.sql").write_text(SETUP)
    (place / "look.sql").write_text(LOOK)
    return Room(place)


def write(room: Room, head: str, options: str) -> Path:
    file = room.place / "c.toml"
    file.write_text(
        f'name = "c"\ndata_dir = "data"\n{head}\n[[workloads]]\nname = "custom"\n[workloads.options]\n'
        f'setup = ["setup.sql"]\nsettle_seconds = 0\n{options}'
    )
    return file


def kept(room: Room) -> list[Path]:
    return sorted(room.results.glob("c/*/*/.1.kept/*.step"))


@pytest.mark.parametrize("number", [KILL, pytest.param(TERM, marks=pytest.mark.slow)])
def test_steps_that_read_are_kept_and_the_next_attempt_goes_on(
    room: Room, pg17: Server, number: signal.Signals
) -> None:
    file = write(room, f'servers = ["{spec(pg17)}"]', STEPS)
    with room:
        end_when(room, file, number, lambda: len(kept(room)) >= 2)
        # Another text of a script is another measurement: nothing of it counts.
        (room.place / "look.sql").write_text(LOOK + "SELECT 1;\n")
        assert "kept, of attempt" not in run(room, file, "--dry-run")
        (room.place / "look.sql").write_text(LOOK)
        run(room, file, "--no-report")
        assert room.left_after(5) == []
    (stored_run,) = Results(room.results).runs()
    assert stored_run.done
    assert [step.attempt for step in stored_run.steps if step.measured] == [1, 1, 2]


@pytest.mark.slow
def test_variants_take_turns_until_their_verdict(room: Room, pg17: Server) -> None:
    head = 'until = "verdict"\nmax_seconds = 6\nmargin = 0.3\nplacement = "free"\n'
    variants = "".join(f'[[variants]]\nserver = "{spec(pg17)}"\nlabel = "{label}"\n' for label in "ab")
    file = write(room, head + variants, STEPS.replace("[1, 2, 3]", "1"))
    with room:
        run(room, file, "--no-report")
    a, b = Results(room.results).runs()
    assert a.comparison == b.comparison and a.record.comparison
    assert a.record.comparison.until == "verdict"
    slices = [step.slices for stored_run in (a, b) for step in stored_run.steps if step.measured]
    assert len(slices) == 2 and all(len(step_slices) > 10 for step_slices in slices)


@pytest.mark.parametrize("number", [INT, pytest.param(KILL, marks=pytest.mark.slow)])
def test_what_was_being_unpacked_is_whole_or_gone(room: Room, pg17: Server, number: signal.Signals) -> None:
    rows = "SELECT i::INTEGER AS i, printf('%020d', i) AS v FROM range(3_000_000) AS r(i)"
    write_parquet(room.place / "big.parquet", rows)
    (room.place / "setup.sql").write_text("CREATE TABLE big (i int, v text);\n")
    options = STEPS.replace("[1, 2, 3]", "1").replace('"look.sql"', '"count.sql"')
    (room.place / "count.sql").write_text("SELECT v FROM big LIMIT 1;\n")
    file = write(room, f'servers = ["{spec(pg17)}"]', options)
    file.write_text(file.read_text().replace('"setup.sql"', '"setup.sql", "big.parquet"'))
    with room:
        end_when(room, file, number, lambda: "unpacking the rows of big.parquet" in room.printed)
        if number == INT:
            assert room.left_after(5) == []
        assert not [p for p in room.cache.glob("custom/*") if not p.name.startswith(".")]
        run(room, file, "--no-report")
        assert room.left_after(5) == []
    (stored_run,) = Results(room.results).runs()
    assert stored_run.done
    assert sum(step.operations for step in stored_run.steps if step.measured) > 0


@pytest.mark.parametrize(
    "script",
    [
        "BEGIN READ WRITE;\nUPDATE t SET v = v + 1 WHERE i = 1;\nEND;\n",
        "SET default_transaction_read_only = off;\nINSERT INTO t VALUES (nextval('n'), 1);\n",
    ],
)
def test_a_script_that_writes_although_it_was_said_to_read_fails_its_step(
    room: Room, pg17: Server, script: str
) -> None:
    (room.place / "setup.sql").write_text(f"{SETUP}CREATE SEQUENCE n START 1000000;\n")
    (room.place / "look.sql").write_text(script)
    file = write(room, f'servers = ["{spec(pg17)}"]', STEPS.replace("[1, 2, 3]", "1"))
    with room:
        assert room.start("run", file, "--no-report").wait(240) == 1
        assert "it was said to read only, and has changed" in room.printed and "of t" in room.printed
    (stored_run,) = Results(room.results).runs()
    assert stored_run.record.status == "failed" and stored_run.record.error
    assert "leave reads_only out" in stored_run.record.error.hint
