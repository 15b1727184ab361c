"""Files that are whole or not there, and folders that go."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pgstrata.files.disk import left_beside, remove_tree, replace, replacing


def test_a_tree_goes_and_what_its_links_name_stays(tmp_path: Path) -> None:
    (other := tmp_path / "other").mkdir()
    (other / "file").write_text("kept")
    (tree := tmp_path / "tree").mkdir()
    for deep in range(20):
        (tree / f"folder{deep}/inside").mkdir(parents=True)
        (tree / f"folder{deep}/inside/file").write_text("gone")
    (tree / "folder0/away").symlink_to(other)
    (tree / "folder1/away").symlink_to(other / "file")
    (tree / "folder2/inside").chmod(0o555)
    remove_tree(tree)
    assert not tree.exists() and (other / "file").read_text() == "kept"
    remove_tree(tree)


def test_a_link_to_a_tree_is_not_the_tree(tmp_path: Path) -> None:
    (link := tmp_path / "link").symlink_to(tmp_path / "tree")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/file").write_text("kept")
    remove_tree(link)
    assert (tmp_path / "tree/file").read_text() == "kept"


# --- files with new content --------------------------------------------------------------------


def test_a_file_is_replaced_with_its_mode_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o666)
    before = os.umask(0o777)
    try:
        replace(path, b"new ", b"content")
        replace(tmp_path / "other", b"for all", mode=0o644, durable=False)
    finally:
        os.umask(before)
    assert path.read_bytes() == b"new content"
    assert path.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o644
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "other"]


@pytest.mark.parametrize("call", ["fchmod", "fsync", "rename"])
def test_whatever_fails_the_old_file_stays_and_nothing_beside_it(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("old")

    def fails(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = len(list(Path("/proc/self/fd").iterdir()))
    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr(f"pgstrata.files.disk.os.{call}", fails)
        replace(path, b"new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_block_that_raises_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from pgstrata.files.disk import replacing
with replacing(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.program
def test_a_kill_leaves_the_old_file_and_what_lies_beside_is_known(tmp_path: Path) -> None:
    path = tmp_path / "file[1]"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False)
    assert done.returncode < 0
    assert path.read_text() == "old"
    (left,) = left_beside(path)
    assert left.read_text() == "half"
    replace(path, b"new")
    assert path.read_text() == "new"


def test_links_under_its_name_and_to_its_folder_are_not_followed(tmp_path: Path) -> None:
    (outside := tmp_path / "outside").write_text("of another account")
    (folder := tmp_path / "folder").mkdir()
    (folder / "file").symlink_to(outside)
    replace(folder / "file", b"new", linked=False)
    assert outside.read_text() == "of another account"
    assert not (folder / "file").is_symlink() and (folder / "file").read_text() == "new"
    (tmp_path / "way").symlink_to(folder)
    with pytest.raises(OSError, match=r"symbolic|directory"):
        replace(tmp_path / "way" / "file", b"newer", linked=False)
    replace(tmp_path / "way" / "file", b"newer")
    assert (folder / "file").read_text() == "newer"
