"""Files of a folder that a server shows: found on disk part by part, so that no name leads outside."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".xml": "application/atom+xml; charset=utf-8",
    ".svg": "image/svg+xml",
    ".csv": "text/csv; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
"""Files that are shown, by ending; all others are not there."""

MOST_BYTES = 256 << 20
MOST_PARTS = 16
CHUNK_BYTES = 1 << 18

_PART = re.compile(r"[^./\0-\x1f][^/\0-\x1f]{0,254}")


@dataclass(frozen=True)
class Shown:
    """An open file that is shown. size: in bytes; stamp: another one when it was written again."""

    descriptor: int
    kind: str
    size: int
    stamp: str

    def chunks(self) -> Iterator[bytes]:
        """Yields the content, `size` bytes at most, and closes the file."""
        left = self.size
        with os.fdopen(self.descriptor, "rb") as file:
            while left > 0 and (data := file.read(min(CHUNK_BYTES, left))):
                left -= len(data)
                yield data

    def close(self) -> None:
        """Closes a file that is not read."""
        os.close(self.descriptor)


def open_shown(root: Path, path: str) -> Shown | None:
    """Opens the file with this path below a folder; None where there is none that is shown.

    No link is followed, no hidden name is opened, and a folder is none; its index.html is, where the path
    ends with a slash. The caller reads the file, or closes it.
    """
    parts = path.split("/")
    if parts[-1] == "":
        parts[-1] = "index.html"
    kind = KINDS.get(Path(parts[-1]).suffix)
    if kind is None or len(parts) > MOST_PARTS or not all(map(_PART.fullmatch, parts)):
        return None
    try:
        descriptor = _descend(root, parts)
    except (OSError, UnicodeError):
        return None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
        os.close(descriptor)
        return None
    stamp = f'"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"'
    return Shown(descriptor, kind, about.st_size, stamp)


def is_folder(root: Path, path: str) -> bool:
    """Returns True for the path of a folder whose index.html is shown."""
    if path.endswith("/") or (shown_file := open_shown(root, f"{path}/" if path else "")) is None:
        return False
    shown_file.close()
    return True


def _descend(root: Path, parts: list[str]) -> int:
    """Opens a file below a folder, one part after the other. Raises OSError, also for a link."""
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for number, part in enumerate(parts, 1):
        last = number == len(parts)
        flags = os.O_NONBLOCK | os.O_NOCTTY if last else os.O_DIRECTORY
        try:
            below = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags, dir_fd=here)
        finally:
            os.close(here)
        here = below
    if here < 0:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    return here


__all__ = ["KINDS", "Shown", "is_folder", "open_shown"]
