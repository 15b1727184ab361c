"""What stands for the content of a file or folder, so that a changed one is another measurement."""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from pgstrata.errors import PgstrataError, UsageError
from pgstrata.files import digests
from pgstrata.files.disk import write_into
from pgstrata.files.ownership import read_small
from pgstrata.files.user_files import real_path, shown
from pgstrata.server.find.cache import cache_folder

MOST_FILES = 100_000
"""Of a folder: a dump in the directory format has one for each table."""


FOLDER = "digests"
REMEMBERED_BYTES = 64 << 20
"""Files from this size on are read once, and again where they were touched."""

SETTLED_SECONDS = 5.0


def digest_of(path: Path) -> str:
    """Returns 32 hexadecimal digits of a file, or of the names and files of a folder, hidden folders left
    out.

    Raises UsageError where it cannot be read, or is a pipe: what is read twice cannot be one.
    """
    real = real_path(path)
    try:
        about = path.stat()  # of a pipe of a shell, /dev/fd/63, the real path is none
        if stat.S_ISREG(about.st_mode):
            return _of_file(real, about.st_size, about.st_mtime_ns)
        if stat.S_ISDIR(about.st_mode):
            return _of_folder(real)
    except FileNotFoundError:
        raise UsageError(
            f"there is no file {shown(path)}",
            "check the path; within a campaign file it is relative to that file",
        ) from None
    except OSError as error:
        raise UsageError(f"{shown(path)} cannot be read: {error.strerror}") from error
    raise UsageError(
        f"{shown(path)} is neither a file nor a folder", "it is read more than once: name a file"
    )


@lru_cache(maxsize=100_000)
def _of_file(path: Path, size: int, _changed: int) -> str:
    if size < REMEMBERED_BYTES:
        return _read(path)
    name = _unchanged(path)
    with suppress(OSError, PgstrataError):
        kept_digest = read_small(cache_folder(FOLDER) / name).strip()
        if re.fullmatch("[0-9a-f]{32}", kept_digest):
            return kept_digest
    digest = _read(path)
    # What was changed a moment ago can be changed again without looking so, and so can what changes now.
    if name == _unchanged(path) and time.time() - path.stat().st_mtime > SETTLED_SECONDS:
        with suppress(OSError, PgstrataError):
            write_into(cache_folder(FOLDER, make=True), name, f"{digest}\n", mode=0o600)
    return digest


def _read(path: Path) -> str:
    return digests.of_file(path)[:32]


def _unchanged(path: Path) -> str:
    """Stands for a file as it lies there: nobody can set the time of its last change."""
    about = path.stat()
    facts = (os.fspath(path), about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    return digests.of(repr(facts).encode(errors="surrogateescape"))[:32]


def _is_visible(path: Path, folder: Path) -> bool:
    return not any(part.startswith(".") for part in path.relative_to(folder).parts[:-1])


def _of_folder(folder: Path) -> str:
    parts = []
    for number, path in enumerate(
        sorted(p for p in folder.rglob("*") if p.is_file() and _is_visible(p, folder))
    ):
        if number == MOST_FILES:
            raise UsageError(
                f"{shown(folder)} has more than {MOST_FILES:,} files", "name a folder of the workload's own"
            )
        about = path.stat()
        digest = _of_file(path, about.st_size, about.st_mtime_ns)
        parts.append(os.fsencode(path.relative_to(folder)) + b"\0" + digest.encode() + b"\0")
    return digests.of_parts(parts)[:32]


__all__ = ["digest_of"]
