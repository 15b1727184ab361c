"""Digests of files: another one for every change, and no second reading of a huge one left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pgstrata.workload.custom import contents
from pgstrata.workload.custom.contents import digest_of

LONG_AGO = (1_700_000_000, 1_700_000_000)


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Files as they are read; every file counts as huge, and the cache is the test's own."""
    monkeypatch.setenv("PGSTRATA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(contents, "REMEMBERED_BYTES", 1)
    paths: list[Path] = []
    really = contents._read

    def read(path: Path) -> str:
        paths.append(path)
        return really(path)

    monkeypatch.setattr(contents, "_read", read)
    return paths


def again(path: Path) -> str:
    """As another pgstrata would."""
    contents._of_file.cache_clear()
    return digest_of(path)


def test_a_file_that_nobody_touched_is_read_once(tmp_path: Path, reads: list[Path]) -> None:
    file = tmp_path / "dump"
    file.write_text("one")
    os.utime(file, LONG_AGO)
    first = again(file)
    assert again(file) == first and reads == [file]
    # The same size and the same time, which anybody can set: the inode knows better.
    file.write_text("two")
    os.utime(file, LONG_AGO)
    assert again(file) != first and len(reads) == 2
    file.unlink()
    file.write_text("one")
    os.utime(file, LONG_AGO)
    assert again(file) == first and len(reads) == 3


def test_a_file_that_is_still_being_written_is_read_each_time(tmp_path: Path, reads: list[Path]) -> None:
    file = tmp_path / "dump"
    file.write_text("one")
    again(file)
    again(file)
    assert len(reads) == 2
    assert not (tmp_path / "cache" / "digests").exists()


def test_what_is_remembered_is_believed_only_as_a_digest(tmp_path: Path, reads: list[Path]) -> None:
    file = tmp_path / "dump"
    file.write_text("one")
    os.utime(file, LONG_AGO)
    first = again(file)
    (remembered,) = (tmp_path / "cache" / "digests").iterdir()
    remembered.write_text("x" * 32)
    assert again(file) == first and len(reads) == 2
    (tmp_path / "cache" / "digests").chmod(0o777)
    assert again(file) == first and len(reads) == 3


def test_small_files_are_not_remembered(
    tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "REMEMBERED_BYTES", 64 << 20)
    file = tmp_path / "script"
    file.write_text("one")
    os.utime(file, LONG_AGO)
    again(file)
    assert not (tmp_path / "cache").exists()
