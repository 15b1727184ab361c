"""Data folders that were loaded once and are kept, stopped, for the next campaign that wants the same data.

They lie in the cache, `loaded/<key>/`: the folder `data`, which belongs to the account of servers, and
`loaded.json` beside it, which does not. The key stands for everything that made the data. One is made in a
hidden folder, synced and renamed, so it is whole or not there. What is in it is run and measured, so it
counts only as it was kept: `loaded.json` has a digest over inode, size, owner, mode and times of every file,
of which nobody can set the time of the last change.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pgstrata import numbers
from pgstrata.errors import ServerError
from pgstrata.files import digests, locks
from pgstrata.files.bounded import BoundError, json_as
from pgstrata.files.building import building, discard, publish
from pgstrata.files.disk import folder_bytes, sync_folder, sync_tree, write
from pgstrata.files.ownership import hand_over, own_folder, read_small
from pgstrata.server.cluster.snapshot import WAL_FOLDERS, copy_data
from pgstrata.server.find.cache import ADVICE, cache_dir, cache_folder
from pgstrata.server.system.account import Account, server_account

FOLDER = "loaded"
SPARE_BYTES = 1 << 30
"""Left free on the disk of the cache: data is not kept where it would fill it."""

_SHOWN = 8
"""Letters of a key that people see."""

_DATA, _RECORD = "data", "loaded.json"


class LoadedRecord(Struct, frozen=True, kw_only=True):
    """What is known of kept data. server, workload: as people know them. facts: what its phases found out.
    seconds: that loading took. listing: digest over its files."""

    key: str
    server: str
    workload: str
    made: str
    made_of: dict[str, Any]
    facts: dict[str, Any]
    seconds: float
    bytes: int
    listing: str


@dataclass(frozen=True)
class Loaded:
    """Kept data that is as it was kept."""

    folder: Path
    record: LoadedRecord

    @property
    def data(self) -> Path:
        """The data folder, to be copied and never started."""
        return self.folder / _DATA


def key_of(made_of: Mapping[str, Any]) -> str:
    """Stands for all that decides what data is: other data has another key."""
    whole = {**made_of, "account": _uid(server_account())}
    return digests.of(msgspec.json.encode(whole, order="sorted"))[:32]


def find(key: str, say: Callable[[str], None] = lambda text: None) -> Loaded | None:
    """Returns the kept data of a key; None if there is none, or if it is not as it was kept, which is
    reported by `say`.

    Raises OwnershipError where it could have been prepared by another user.
    """
    folder = cache_folder(FOLDER) / key
    if not os.path.lexists(folder):
        return None
    own_folder(folder, "kept data", advice=ADVICE, linked=False, way=False)
    try:
        record = json_as(read_small(folder / _RECORD).encode(), LoadedRecord)
        whole = record.key == key and record.listing == _listing(folder / _DATA)
    except (OSError, ServerError, BoundError):
        whole = False
    if not whole:
        short = key[:_SHOWN]
        say(f"kept data {short} is not as it was kept, and is not used: pgstrata data remove {short}")
        return None
    return Loaded(folder, record)


@contextlib.contextmanager
def held(key: str, say: Callable[[str], None]) -> Iterator[Loaded | None]:
    """Yields the kept data of a key as `find` returns it, locked so that no process removes it meanwhile."""
    loaded = find(key, say)
    if loaded is None:
        yield None
        return
    try:
        lock = locks.lock_folder(loaded.folder, shared=True)
    except OSError:
        yield None  # removed in this moment
        return
    if lock is None:
        yield None  # it is being removed
        return
    try:
        yield find(key, say)
    finally:
        os.close(lock)


def keep(key: str, data: Path, *, about: LoadedRecord) -> Loaded | None:
    """Keeps a copy of the data folder of a stopped server; None where another pgstrata was quicker.

    about: its size and listing are filled in here. Raises ServerError where there is too little room, or
    where it cannot be written; then nothing of it is left.
    """
    try:
        root = cache_folder(FOLDER, make=True)
        _listing(data, log_elsewhere=True)  # says what cannot be kept before it is copied
        taken, free = folder_bytes(data), shutil.disk_usage(root).free
        if free < taken + SPARE_BYTES:
            raise ServerError(f"{root} has {numbers.size(free)} free, and the data has {numbers.size(taken)}")
        final = root / key
        if final.exists() and find(key) is None:
            discard(final)
        with building(final) as place:
            hand_over(place, 0o755, None)  # the account of servers has to come to the folder within
            copy_data(data, place / _DATA, server_account())
            sync_tree(place)
            record = msgspec.structs.replace(about, bytes=taken, listing=_listing(place / _DATA))
            write(place / _RECORD, msgspec.json.format(msgspec.json.encode(record), indent=1))
            sync_folder(place)
            if not publish(place, final):
                return None
        sync_folder(root)
    except OSError as error:
        raise ServerError(f"the cache {cache_dir()} cannot be written: {error.strerror}", ADVICE) from error
    return Loaded(final, record)


def kept() -> list[tuple[str, LoadedRecord | None, Path]]:
    """Returns key, record and folder of all kept data, sorted by key; the record is None if it cannot be
    read."""
    entries = []
    for folder in sorted(cache_folder(FOLDER).glob("[0-9a-f]*")):
        try:
            record = json_as(read_small(folder / _RECORD).encode(), LoadedRecord)
        except (OSError, BoundError):
            record = None
        entries.append((folder.name, record, folder))
    return entries


def begin_record(
    key: str, server: str, workload: str, made_of: Mapping[str, Any], facts: Mapping[str, Any], seconds: float
) -> LoadedRecord:
    """Returns the record with everything known before the data is copied."""
    return LoadedRecord(
        key=key,
        server=server,
        workload=workload,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        made_of=dict(made_of),
        facts=dict(facts),
        seconds=seconds,
        bytes=0,
        listing="",
    )


def _uid(account: Account | None) -> int:
    return account.uid if account else os.geteuid()


def _listing(data: Path, *, log_elsewhere: bool = False) -> str:
    """Returns a digest of the files in a data folder. log_elsewhere: the write-ahead log may be a link, which
    a copy follows.

    Raises OSError: for what is no folder of the account's own, and for what is neither file nor folder."""
    about = data.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != _uid(server_account()):
        raise NotADirectoryError(str(data))
    listing = []
    for path in sorted(data.rglob("*")):
        about = path.lstat()
        wal = path.parent == data and path.name in WAL_FOLDERS
        if log_elsewhere and wal and stat.S_ISLNK(about.st_mode):
            continue
        if not (stat.S_ISDIR(about.st_mode) or stat.S_ISREG(about.st_mode)):
            raise ServerError(f"{path} is neither file nor folder, so the data cannot be kept")
        times = (about.st_mtime_ns, about.st_ctime_ns)
        size = 0 if stat.S_ISDIR(about.st_mode) else about.st_size
        facts = (os.fspath(path.relative_to(data)), about.st_ino, about.st_mode, about.st_uid, size, times)
        listing.append(repr(facts).encode())
    return digests.of_parts(listing)
