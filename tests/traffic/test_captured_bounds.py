"""Captured files that somebody else has made: a sentence for whatever is wrong, and little memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from itertools import count
from pathlib import Path
from subprocess import PIPE

import msgspec
import pytest

from pgstrata.driver.path import find_driver
from pgstrata.driver.spec import Connection, ReplaySpec, Spec
from pgstrata.traffic import captured
from pgstrata.traffic.captured import SIMPLE, Captured, CapturedError, Header, Statement, Writer
from support.captured import File, hostile, mutated
from support.hostile import Hostile, decent
from support.malformed import not_longer
from support.program import environment

MOST_MEMORY = 512 << 20

HOSTILE = dict(hostile())

READ = """
import sys
from pathlib import Path
from pgstrata.traffic.captured import Captured, CapturedError
try:
    with Captured(Path(sys.argv[1])) as file:
        for entry in file.sessions():
            for statement in file.statements(entry):
                pass
except CapturedError as error:
    status = Path("/proc/self/status").read_text()
    print(type(error).__name__, int(status.split("VmHWM:")[1].split()[0]) << 10)
"""


def read(path: Path) -> int:
    """How many statements a file holds."""
    with Captured(path) as file:
        return sum(1 for entry in file.sessions() for _ in file.statements(entry))


def test_what_the_hostile_files_are_made_of_is_right(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(File().whole_file())
    assert read(tmp_path / "a") == 4


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(HOSTILE[name].whole_file())
    with not_longer(name), pytest.raises(CapturedError, match=r"is damaged: .|has version 2"):
        read(tmp_path / "a")


@pytest.mark.program
@pytest.mark.parametrize("name", [name for name in HOSTILE if "500 MB" in name or "million" in name])
def test_a_hostile_file_takes_little_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(HOSTILE[name].whole_file())
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "a")],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    # What the system says of a child at its end is at least what this process had when it was started.
    error, most = done.stdout.split()
    assert error == "CapturedError"
    assert int(most) < MOST_MEMORY


@pytest.mark.program
def test_the_driver_refuses_hostile_files_as_well(place: Path) -> None:
    """What Python refuses the driver does not replay to its end, whatever is listening; it never panics."""
    behaviours = count()
    differing = []
    with Hostile(place, decent) as server:
        for name, file in {"right": File(), **HOSTILE}.items():
            path = place / f"{next(behaviours)}"
            path.write_bytes(file.whole_file())
            event = replayed(path, server, name)
            path.unlink()
            if (event["event"] == "error") == (name == "right"):
                differing.append(name)
    # It hands on what only the server judges, and does not read of the header what it has no use for.
    assert {name for name in differing if " = " not in name} == {
        "a text that is not UTF-8",
        "a code that is none",
        "a duration beyond all",
        "fewer statements than it says",
        "more statements than it says",
        "the trailer's number 1 is 1",
    }


def replayed(path: Path, server: Hostile, name: str) -> dict[str, str]:
    """The driver's error of a replay, or its last event."""
    spec = Spec(
        step="s",
        seconds=None,
        roles=[],
        seed=1,
        overtime_seconds=5.0,
        connection=Connection(host="127.0.0.1", port=server.port, user="u", database="d"),
        replay=ReplaySpec(file=str(path), role="r", speed=None, database=None, sessions=4, skip=()),
    )
    # Its threads' stacks take room, too, and no memory.
    command = f"ulimit -v 1000000; exec {find_driver()} run"
    event: dict[str, str] = {}
    with (
        not_longer(name),
        subprocess.Popen(["sh", "-c", command], stdin=PIPE, stdout=PIPE, stderr=PIPE) as driver,
    ):
        assert driver.stdin is not None and driver.stdout is not None and driver.stderr is not None
        driver.stdin.write(msgspec.json.encode(spec) + b'\n{"command":"start"}\n')
        driver.stdin.flush()
        for line in driver.stdout:
            event = json.loads(line)
            if event["event"] in ("error", "done"):
                break
        driver.stdin.close()
        errors = driver.stderr.read()
    assert driver.returncode in (0, 1), f"{name}: {errors!r}"
    assert b"panicked" not in errors and b"allocation" not in errors, errors
    return event


def test_many_mutated_files_are_read_or_refused(tmp_path: Path) -> None:
    refused = 0
    for number in range(400):
        (tmp_path / "a").write_bytes(mutated(random.Random(f"captured/{number}")))
        with not_longer(f"file {number}"):
            try:
                read(tmp_path / "a")
            except CapturedError as error:
                refused += 1
                assert "\n" not in error.message
    assert 200 < refused < 400


def test_what_is_written_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer keeps the bounds of the reader: it cuts long texts of statements."""
    monkeypatch.setattr(captured, "MOST_SHAPE_BYTES", 10_000)
    with Writer(tmp_path / "a") as writer:
        session = writer.begin(1, writer.database("d"))
        for number in range(20):
            shape = writer.shape(f"SELECT {number}, {'x' * 3000}")
            writer.add(session, Statement(1, 1, SIMPLE, shape, "SELECT"), common=False)
        writer.finish(Header())
    with Captured(tmp_path / "a") as file:
        texts = [shape.text for shape in file.header.shapes]
    assert [len(text) > 3000 for text in texts] == [True] * 4 + [False] * 16
    assert len(set(texts)) == 20 and texts[-1].endswith("…")


def test_a_statement_that_no_block_holds_is_refused_when_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(captured, "MOST_BLOCK_BYTES", 1 << 20)
    with (
        pytest.raises(CapturedError, match="longer than a captured file can hold"),
        Writer(tmp_path / "a") as w,
    ):
        session = w.begin(1, w.database("d"))
        w.add(session, Statement(1, 1, SIMPLE, w.shape("x"), "x" * (2 << 20)), common=False)
    assert list(tmp_path.iterdir()) == []
