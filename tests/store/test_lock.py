from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from pgstrata.errors import StoreError
from pgstrata.store import Results

HOLDING = """
    import sys
    from pathlib import Path
    from pgstrata.store import Results
    with Results(Path(sys.argv[1])).lock():
        print("ready", flush=True)
        sys.stdin.read()
"""

RACING = """
    import sys, time
    from pathlib import Path
    from pgstrata.errors import StoreError
    from pgstrata.store import Results
    results = Results(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    won = 0
    for _ in range(200):
        try:
            with results.lock():
                mine = results.root / "inside"
                mine.mkdir()   # FileExistsError if two are inside
                won += 1
                mine.rmdir()
        except StoreError:
            pass
    print(won)
"""


def start(code: str, root: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.program
def test_the_second_is_told_who_holds_the_folder(tmp_path: Path) -> None:
    holder = start(HOLDING, tmp_path)
    try:
        with pytest.raises(StoreError) as caught, Results(tmp_path).lock():
            pytest.fail("two processes hold one lock")
        assert f"process {holder.pid} on {socket.gethostname()} since 2" in caught.value.message
        assert str(tmp_path) in caught.value.message
        assert "--results" in caught.value.hint
    finally:
        holder.communicate("")
    with Results(tmp_path).lock():
        pass


@pytest.mark.program
def test_kill_frees_the_lock(tmp_path: Path) -> None:
    holder = start(HOLDING, tmp_path)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with Results(tmp_path).lock():
        pass


@pytest.mark.program
def test_a_program_started_by_the_holder_does_not_keep_the_lock(tmp_path: Path) -> None:
    with Results(tmp_path).lock():
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False)
    with Results(tmp_path).lock():
        child.communicate(b"\n")


def test_two_objects_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    with Results(tmp_path).lock(), pytest.raises(StoreError, match=f"process {os.getpid()}"):
        Results(tmp_path).lock().__enter__()


@pytest.mark.program
def test_never_two_inside(tmp_path: Path) -> None:
    racers = [start(RACING, tmp_path) for _ in range(2)]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    won = [int(racer.communicate()[0]) for racer in racers]
    assert all(racer.returncode == 0 for racer in racers)
    assert sum(won) > 0


def test_a_holder_that_left_no_name_is_no_crash(tmp_path: Path) -> None:
    with Results(tmp_path).lock():
        (tmp_path / ".lock").write_text("not json")
        with pytest.raises(StoreError, match="it did not leave its name"):
            Results(tmp_path).lock().__enter__()


def test_reading_needs_no_lock(tmp_path: Path) -> None:
    with Results(tmp_path).lock():
        assert Results(tmp_path).runs() == []


def test_a_place_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot lock the results"):
        Results(tmp_path / "file" / "results").lock().__enter__()
