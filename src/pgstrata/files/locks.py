"""Locks of the kernel (flock(2)) on files and folders: held as long as a descriptor is open.

The kernel gives them back when the process ends, however it ends, so nothing has to be guessed from process
numbers that may have been handed out again. No function here waits, but for `alone_in`.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PATIENCE_SECONDS = 5.0
"""Longest wait for another pgstrata that holds a folder for a moment."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def take(descriptor: int, *, shared: bool = False) -> bool:
    """Takes the lock of an open file or folder; returns False where another process holds it.

    shared: others may take it shared, too. Raises OSError, say for a file system that has no locks.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise
    return True


def give_back(descriptor: int) -> None:
    """Gives a lock back before its descriptor is closed.

    Closing alone is not enough: a program that is being started has the file open, too, until its exec is
    through.
    """
    fcntl.flock(descriptor, fcntl.LOCK_UN)


def lock_folder(folder: Path, *, shared: bool = False) -> int | None:
    """Opens a folder and takes its lock; returns the descriptor that holds it, None where another process
    does. A symbolic link is not followed. Raises OSError."""
    descriptor = os.open(folder, _FOLDER)
    try:
        taken = take(descriptor, shared=shared)
    except BaseException:
        os.close(descriptor)
        raise
    if not taken:
        os.close(descriptor)
        return None
    return descriptor


def lock_file(
    path: Path,
    *,
    make: bool,
    mode: int = 0o600,
    accept: Callable[[os.stat_result], bool] = lambda about: True,
) -> int | None:
    """Opens a file and takes its lock; returns the descriptor that holds it, None where another process does.

    The holder of the lock may delete the file: then the next one of its name is opened. make: creates the
    file with `mode` unless it is there. accept: looks at the file before it is locked; None is returned where
    it says no. A symbolic link is not followed. Raises OSError.
    """
    while True:
        descriptor = os.open(path, _FILE | (os.O_CREAT if make else 0), mode)
        holds = False
        try:
            about = os.fstat(descriptor)
            if not accept(about) or not take(descriptor):
                return None
            # Deleted by its last holder between open and lock, it would guard nothing.
            with contextlib.suppress(FileNotFoundError):
                holds = os.path.samestat(about, path.lstat())
            if holds:
                return descriptor
        finally:
            if not holds:
                os.close(descriptor)


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Holds the lock of a folder between creating an entry in it and locking that, so that no new entry
    is taken for a remnant.

    Yields False where that cannot be promised: another user who can read the folder may keep its lock for
    ever, network file systems may have none. Then work goes on all the same, and nothing is cleared.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield False  # the next access says what is wrong
        return
    try:
        yield _taken_in_time(descriptor)
    finally:
        os.close(descriptor)


def _taken_in_time(descriptor: int) -> bool:
    end = time.monotonic() + PATIENCE_SECONDS
    while os.fstat(descriptor).st_uid == os.geteuid():
        try:
            if take(descriptor):
                return True
        except OSError:
            return False
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return False


__all__ = ["alone_in", "give_back", "lock_file", "lock_folder", "take"]
