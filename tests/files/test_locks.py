"""A lock has a single holder, also where its file is deleted and created again."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import pgstrata
from pgstrata.files import locks
from pgstrata.files.locks import alone_in, lock_file, lock_folder

HOLDER = """
    import sys, time
    from pathlib import Path
    from pgstrata.files.locks import lock_file, lock_folder
    path = Path(sys.argv[2])
    held = lock_folder(path) if sys.argv[1] == "folder" else lock_file(path, make=True)
    assert held is not None
    print("held", flush=True)
    time.sleep(60)
"""

RACER = """
    import os, sys
    from pathlib import Path
    from pgstrata.files.locks import lock_file
    path, inside = Path(sys.argv[1]), Path(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    won = 0
    while won < 100:
        held = lock_file(path, make=True)
        if held is None:
            continue
        inside.mkdir()  # FileExistsError if two are inside
        inside.rmdir()
        path.unlink()   # the next holder has to create it again
        os.close(held)
        won += 1
"""


@contextmanager
def holder(kind: str, path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), kind, str(path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"held\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.program
def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder("file", path) as process:
        assert lock_file(path, make=True) is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        descriptor = lock_file(path, make=False)
        assert descriptor is not None
        os.close(descriptor)


@pytest.mark.program
def test_a_folder_is_shared_by_readers_and_not_with_a_holder(tmp_path: Path) -> None:
    first, second = lock_folder(tmp_path, shared=True), lock_folder(tmp_path, shared=True)
    assert first is not None and second is not None
    assert lock_folder(tmp_path) is None
    os.close(first)
    os.close(second)
    with holder("folder", tmp_path):
        assert lock_folder(tmp_path, shared=True) is None


@pytest.mark.program
def test_a_lock_guards_although_its_holder_deletes_the_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", textwrap.dedent(RACER), str(tmp_path / "lock"), str(tmp_path / "inside")]
    racers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(3)]
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline() == b"ready\n"
    for racer in racers:
        racer.communicate(b"go\n", timeout=60)
    assert [racer.returncode for racer in racers] == [0, 0, 0]


def test_what_is_not_accepted_is_not_locked(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("of another program")
    assert lock_file(path, make=True, accept=lambda about: about.st_size == 0) is None
    with pytest.raises(FileNotFoundError):
        lock_file(tmp_path / "nothing", make=False)
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(OSError, match="symbolic"):
        lock_file(tmp_path / "link", make=True)
    with pytest.raises(OSError, match=r"symbolic|directory"):
        (tmp_path / "folders").symlink_to(tmp_path)
        lock_folder(tmp_path / "folders")


def test_no_descriptor_is_left_where_a_file_system_has_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("pgstrata.files.locks.fcntl.flock", fails)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError, match="No locks"):
        lock_folder(tmp_path)
    with pytest.raises(OSError, match="No locks"):
        lock_file(tmp_path / "lock", make=True)
    with alone_in(tmp_path) as alone:
        assert not alone
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_locks_are_taken_in_one_place() -> None:
    root = Path(pgstrata.__file__).parent
    users = {
        str(file.relative_to(root))
        for file in root.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("flock", "lockf")
    }
    assert users == {str(Path(locks.__file__).relative_to(root))}
