"""Kept data folders: whole or not there, and believed only as they were kept."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from pgstrata.errors import OwnershipError, ServerError
from pgstrata.server.cluster import loaded
from pgstrata.server.find.cache import cache_dir, remove
from pgstrata.server.system.account import server_account

pytestmark = pytest.mark.program

KEY = loaded.key_of({"rows": 1})


@pytest.fixture
def data(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What stands for the data folder of a stopped server; the cache is beside it."""
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    folder = place / "data"
    (folder / "base").mkdir(parents=True)
    (folder / "PG_VERSION").write_text("17\n")
    (folder / "base" / "1").write_bytes(bytes(8192))
    folder.chmod(0o700)
    if account := server_account():
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, account.uid, account.gid)
    return folder


def keep(data: Path) -> loaded.Loaded | None:
    about = loaded.begin_record(KEY, "pg17", "sysbench", {"rows": 1}, {"found": 2}, 3.0)
    return loaded.keep(KEY, data, about=about)


def test_kept_data_is_found_by_what_made_it_and_removed(data: Path) -> None:
    assert loaded.find(KEY) is None
    assert keep(data) is not None
    assert keep(data) is None, "it is there already"
    kept_data = loaded.find(KEY)
    assert kept_data is not None
    assert (kept_data.data / "base" / "1").read_bytes() == bytes(8192)
    assert (kept_data.record.facts, kept_data.record.server) == ({"found": 2}, "pg17")
    assert loaded.find(loaded.key_of({"rows": 2})) is None
    with loaded.held(KEY, print) as held:
        assert held is not None
        with pytest.raises(ServerError, match="is in use"):
            remove(kept_data.folder, "kept data")
    remove(kept_data.folder, "kept data")
    assert list((cache_dir() / "loaded").iterdir()) == []


def changed(path: Path) -> None:
    """Another content of the same size, with the times it had."""
    about = path.stat()
    path.write_bytes(bytes([1] * about.st_size))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


TAMPERED: dict[str, Callable[[Path], object]] = {
    "another content": lambda folder: changed(folder / "data" / "base" / "1"),
    "one more": lambda folder: (folder / "data" / "more").write_text(""),
    "one less": lambda folder: (folder / "data" / "base" / "1").unlink(),
    "a link": lambda folder: (folder / "data" / "pg_wal").symlink_to("/tmp"),
    "another mode": lambda folder: (folder / "data" / "PG_VERSION").chmod(0o666),
    "no record": lambda folder: (folder / "loaded.json").unlink(),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_data_that_was_changed_is_not_used_and_is_replaced(data: Path, how: str) -> None:
    kept = keep(data)
    assert kept is not None
    TAMPERED[how](kept.folder)
    messages: list[str] = []
    assert loaded.find(KEY, messages.append) is None
    assert messages == [
        f"kept data {KEY[:8]} is not as it was kept, and is not used: pgstrata data remove {KEY[:8]}"
    ]
    assert keep(data) is not None
    assert loaded.find(KEY) is not None


def test_data_that_others_can_change_is_refused(data: Path) -> None:
    kept = keep(data)
    assert kept is not None
    kept.folder.chmod(0o777)
    with pytest.raises(OwnershipError, match="can be written by other users"):
        loaded.find(KEY)


def test_nothing_is_left_of_what_cannot_be_kept(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "pg_tblspc").symlink_to("/tmp")
    with pytest.raises(ServerError, match="neither file nor folder"):
        keep(data)
    (data / "pg_tblspc").unlink()
    monkeypatch.setattr(loaded, "SPARE_BYTES", 1 << 60)
    with pytest.raises(ServerError, match="free, and the data has"):
        keep(data)
    assert list((cache_dir() / "loaded").iterdir()) == []
