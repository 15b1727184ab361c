"""A log that comes on standard input: read once, never to its end in advance, and not waited for for ever."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from typing import IO, Any, cast

from pgstrata.errors import UsageError

SILENCE_SECONDS = 300.0
"""How long a program may take before the next bytes of a log."""

NAME = "standard input"


class Incoming(io.RawIOBase):
    """Bytes of a file descriptor, whose head can be read twice.

    Raises UsageError where it is a terminal, and where nothing comes for SILENCE_SECONDS.
    """

    def __init__(self, descriptor: int) -> None:
        if os.isatty(descriptor):
            raise UsageError(
                "standard input is a terminal, and no log comes from it",
                "zcat LOG | pgstrata capture - -o FILE",
            )
        self._descriptor = descriptor
        self._can_wait = not stat.S_ISREG(os.fstat(descriptor).st_mode)
        self._head = b""
        self._keeps = True
        self._at = 0
        #: Bytes that have been read.
        self.read_bytes = 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def close(self) -> None:
        """Leaves the descriptor open: it is read twice, by readers that end at different times."""

    @property
    def begin(self) -> bytes:
        """The first bytes, while they are held."""
        return self._head

    def rewind(self) -> None:
        """Reads from the beginning once more; after this, nothing is held."""
        self._keeps, self._at = False, 0

    def readinto(self, buffer: Any) -> int:
        """Reads at most as many bytes as the buffer holds; 0 at the end."""
        size = len(buffer)
        if self._at < len(self._head):
            data = self._head[self._at : self._at + size]
            self._at += len(data)
            if not self._keeps and self._at == len(self._head):
                self._head, self._at = b"", 0
        else:
            data = self._next(size)
            if self._keeps:
                self._head += data
                self._at += len(data)
        buffer[: len(data)] = data
        return len(data)

    def _next(self, size: int) -> bytes:
        if self._can_wait and not select.select([self._descriptor], [], [], SILENCE_SECONDS)[0]:
            raise UsageError(
                f"nothing came on standard input for {SILENCE_SECONDS:g} s",
                "end the program that writes it, or read its file",
            )
        data = os.read(self._descriptor, size)
        self.read_bytes += len(data)
        return data


def standard_input() -> Incoming:
    """Returns what reads standard input. Raises UsageError where it is a terminal or closed."""
    try:
        return Incoming(sys.stdin.fileno())
    except (AttributeError, ValueError, OSError) as error:
        raise UsageError("standard input is closed", "zcat LOG | pgstrata capture - -o FILE") from error


def buffered(raw: Incoming) -> IO[bytes]:
    """Returns the lines of it."""
    return cast(IO[bytes], io.BufferedReader(raw, 1 << 20))


__all__ = ["NAME", "SILENCE_SECONDS", "Incoming", "buffered", "standard_input"]
