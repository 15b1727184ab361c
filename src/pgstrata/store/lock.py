"""Who may write: a lock on a results folder, and a mark of ownership in each folder being built.

Both are locks of the kernel (`pgstrata.files.locks`), which end with the process.
"""

from __future__ import annotations

import json
import os
import socket
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO

from pgstrata.errors import StoreError, UsageError
from pgstrata.files import locks
from pgstrata.files.bounded import json_any
from pgstrata.files.disk import storing
from pgstrata.files.ownership import own_folder, read_small
from pgstrata.files.user_files import shown

_NAME_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock, as it wrote it down itself."""

    pid: int
    host: str
    since: str

    def text(self) -> str:
        return json.dumps({"pid": self.pid, "host": self.host, "since": self.since}) + "\n"

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


def this_process() -> Holder:
    return Holder(os.getpid(), socket.gethostname(), datetime.now(UTC).isoformat(timespec="seconds"))


def try_lock(path: Path) -> IO[str] | None:
    """Returns the locked file with this process's name in it, or None when another process holds it.

    The lock is held as long as the file is open. Raises OSError.
    """
    # "a" and not "w": the holder's name in it must not be emptied before the lock is ours
    file = open_own(path)
    try:
        taken = locks.take(file.fileno())
    except OSError:
        file.close()
        raise
    if not taken:
        file.close()
        return None
    file.truncate(0)
    file.write(this_process().text())
    file.flush()
    return file


def open_own(path: Path) -> IO[str]:
    """Opens a file for reading and appending, made if need be; a symbolic link or a pipe is not followed."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return os.fdopen(os.open(path, flags, 0o600), "a+", encoding="utf-8")


def unlock(file: IO[str]) -> None:
    """Gives the lock back and closes the file."""
    locks.give_back(file.fileno())
    file.close()


def is_held(path: Path) -> bool:
    """Returns whether a living process holds the lock on this file. Raises OSError, also when the file does
    not exist."""
    with path.open("rb") as file:
        return not locks.take(file.fileno(), shared=True)


def holder(path: Path) -> Holder | None:
    """Returns the process that wrote its name into the lock file; None if it cannot be read."""
    try:
        data = json_any(read_small(path))
        return Holder(int(data["pid"]), str(data["host"]), str(data["since"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def own_results(folder: Path) -> None:
    """Makes a folder of results unless it is there. Raises OSError, and OwnershipError where another
    user could prepare what is written to or change what is read later."""
    own_folder(folder, "the results folder", advice="name another one with --results", mode=0o700, way=False)


def check_results(folder: Path) -> None:
    """Raises UsageError, StoreError or OwnershipError for a folder in which no results can be stored. It
    makes no folder and leaves no file."""
    _check_is_folder(folder)
    with storing("store results", folder):
        if folder.exists():
            own_results(folder)
        place = next(place for place in (folder, *folder.parents) if place.exists())
        with tempfile.TemporaryFile(dir=place):
            pass


def _check_is_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{shown(folder)} is a file, not a results folder", "name a folder with --results")


class ResultsLock:
    """A context manager: only one pgstrata at a time writes below a results folder.

    Raises StoreError that names the holder when there is one, or when the file system has no locks, and
    OwnershipError where the folder is another user's, or others may write to it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / ".lock"
        self._file: IO[str] | None = None

    def __enter__(self) -> ResultsLock:
        _check_is_folder(self.root)
        with storing("lock the results", self.root):
            own_results(self.root)
            other: Holder | None = None
            # between taking the lock and writing its name, and again at its end, the holder is nameless
            until = time.monotonic() + _NAME_WAIT_SECONDS
            while (file := try_lock(self.path)) is None:
                if (other := holder(self.path)) or time.monotonic() > until:
                    break
                time.sleep(0.005)
            self._file = file
        if self._file is None:
            raise StoreError(
                f"another pgstrata is writing to {self.root}: {other or 'it did not leave its name'}",
                "wait until it is done, or name another folder with --results",
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            # the file stays: removing it would let two processes lock two files of one name
            self._file.truncate(0)
            unlock(self._file)
            self._file = None
