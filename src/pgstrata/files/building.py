"""Folders that are whole or not there: filled under a hidden name, put in their place, removed at once.

A process holds a lock on the hidden folder that it fills; a free lock shows that a killed pgstrata left it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from pgstrata.files.locks import alone_in, lock_folder
from pgstrata.files.ownership import hand_over

UNFINISHED = ".*.building-*"
"""Pattern of the names of folders that are being filled or removed."""


@contextlib.contextmanager
def building(final: Path) -> Iterator[Path]:
    """Yields a new hidden folder beside `final` that is removed at the end unless `publish` has put it in its
    place. Raises OSError."""
    folder = final.with_name(f".{final.name}.building-{secrets.token_hex(4)}")
    lock = -1
    try:
        with alone_in(final.parent) as alone:
            if alone:
                clear_unfinished(final.parent)
            folder.mkdir(0o700)
            lock = _lock(folder)
        yield folder
    finally:
        try:
            shutil.rmtree(folder, ignore_errors=True)
        except BaseException:  # a signal has come meanwhile
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            if lock >= 0:
                os.close(lock)


def publish(folder: Path, final: Path, *, mode: int = 0o755) -> bool:
    """Puts a folder in its place, with this mode; returns False where another pgstrata was quicker, and its
    work stays.

    Raises OSError.
    """
    hand_over(folder, mode, None)
    try:
        folder.rename(final)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def discard(folder: Path) -> None:
    """Removes a folder: out of sight at once, so that a removal cut short leaves no half of it.

    Raises BlockingIOError where another process uses it, OSError where it cannot even be renamed.
    """
    hidden = folder.with_name(f".{folder.name}.building-{secrets.token_hex(4)}")
    with alone_in(folder.parent):
        lock = _lock(folder)
        folder.rename(hidden)
    try:
        shutil.rmtree(hidden, ignore_errors=True)
    finally:
        os.close(lock)


def clear_unfinished(parent: Path) -> list[Path]:
    """Removes folders that killed processes left unfinished and returns them. `alone_in(parent)` is held
    meanwhile."""
    cleared = []
    for folder in sorted(parent.glob(UNFINISHED)):
        with contextlib.suppress(OSError):  # another process fills it
            lock = _lock(folder)
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            cleared.append(folder)
    return cleared


def _lock(folder: Path) -> int:
    """Raises BlockingIOError where another process has the lock."""
    lock = lock_folder(folder)
    if lock is None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(folder))
    return lock


__all__ = ["UNFINISHED", "building", "clear_unfinished", "discard", "publish"]
