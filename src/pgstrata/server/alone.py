"""One pgstrata at a time in a folder, for the moment between making something in it and locking that."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE_SECONDS = 5.0
"""How long another pgstrata may take for its moment."""


@contextlib.contextmanager
def alone_in(folder: Path) -> Iterator[bool]:
    """Holds the lock of a folder of one's own: nobody takes what is being made in it for something left.

    False where that cannot be promised: another user who can read the folder may keep its lock for
    ever, network file systems may have none. Then whoever makes goes on, and whoever clears lets it be.
    """
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        yield False  # whoever makes something in it says what is wrong
        return
    try:
        yield _locked(handle)
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    end = time.monotonic() + PATIENCE_SECONDS
    while os.fstat(handle).st_uid == os.geteuid():
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        except OSError:
            return False
        else:
            return True
    return False
