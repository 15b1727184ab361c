"""The folder of a fleet on one machine: its key and what the engine writes. Gone when the fleet is."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_REMOVE = (
    'read -r over; for n in 1 2 3 4 5 6 7 8 9 10; do rm -rf -- "$0"; sleep 1; [ -e "$0" ] || exit 0; done'
)
"""Waits for the end of its standard input, however that comes, and then for workers that still write."""


@contextmanager
def private_folder(prefix: str = "pgstrata-fleet-") -> Iterator[Path]:
    """Yields a new folder of mode 0700 below TMPDIR, removed at the end: also when this process is killed.

    A process beside this one waits at a pipe whose other end dies with it. Raises OSError.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    remover: subprocess.Popen[bytes] | None = None
    try:
        remover = subprocess.Popen(
            ["sh", "-c", _REMOVE, str(folder)],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if remover is not None:
            assert remover.stdin is not None
            with contextlib.suppress(OSError):
                remover.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                remover.wait(15)


__all__ = ["private_folder"]
