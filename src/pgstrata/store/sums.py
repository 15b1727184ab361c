"""What a run folder held when it was stored: `SHA256SUMS`, as sha256sum writes and checks it.

A byte that a disk or a copy has flipped makes another number of a Parquet file as often as it makes it
unreadable. run.json is not in it: its types and bounds are checked, and people may edit it, say to take out
the name of a host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from pgstrata.files import digests
from pgstrata.files.disk import read_regular

NAME = "SHA256SUMS"
UNREAD = frozenset({"server.log.gz"})
"""Kept for people: no table or page is made of it, and it may be large."""

MOST_BYTES = 16 << 20
_LINE = re.compile(r"([0-9a-f]{64}) [ *]((?!/)[^\0\n]+)")

# What was found right before, by path: a command looks at a run several times.
_seen: dict[str, tuple[int, ...]] = {}
_MOST_SEEN = 20_000


def text(sums: Mapping[str, str]) -> bytes:
    """Returns the content of the file of digests: digest in hexadecimal digits by name relative to the run
    folder."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items())).encode()


def newest(folder: Path) -> int:
    """Returns the last change of a file of a run folder: its ctime in ns, which no program can set. Files
    that change after they were checked have a later one. 0 if the folder cannot be read."""
    latest = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    latest = max(latest, newest(Path(entry.path)))
                else:
                    latest = max(latest, entry.stat().st_ctime_ns)
    except OSError:
        return 0
    return latest


def changed(path: str, checked: int) -> bool:
    """Returns whether a file that exists may have changed since `checked`."""
    try:
        return os.stat(path).st_ctime_ns > checked  # noqa: PTH116 - many files, and a Path's is slow
    except FileNotFoundError:
        return False
    except OSError:
        return True


def problem(folder: Path, checked: int = 0) -> str | None:
    """Returns the first problem with the files of a run folder in one sentence, None if there is none.

    checked: files that have not changed since are sound (`newest`); 0: none are known to be.
    """
    try:
        lines = read_regular(folder / NAME, MOST_BYTES).decode().splitlines()
    except FileNotFoundError:
        return f"{NAME} is missing"
    except (OSError, ValueError) as cause:
        return f"{NAME} cannot be read: {getattr(cause, 'strerror', None) or 'not text'}"
    for line in lines:
        match = _LINE.fullmatch(line)
        if match is None or ".." in Path(match[2]).parts:
            return f"{NAME} is damaged"
        path = f"{folder}/{match[2]}"
        if checked and os.path.exists(path) and not changed(path, checked):  # noqa: PTH110
            continue
        if match[2] not in UNREAD and (wrong := _wrong(folder / match[2], match[1])):
            return f"{match[2]} {wrong}"
    return None


def _wrong(path: Path, digest: str) -> str | None:
    try:
        status = path.stat()
        if not path.is_file():
            return "is no file"
        now = (status.st_ino, status.st_size, status.st_mtime_ns, hash(digest))
        if _seen.get(str(path)) == now:
            return None
        if digests.of_file(path) != digest:
            return "is damaged: it is not what was stored"
    except FileNotFoundError:
        return "is missing"
    except OSError as cause:
        return f"cannot be read: {os.strerror(cause.errno) if cause.errno else cause}"
    if len(_seen) >= _MOST_SEEN:
        _seen.clear()
    _seen[str(path)] = now
    return None
