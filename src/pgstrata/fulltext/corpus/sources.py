"""Where messages come from: mbox files, compressed or not, maildirs, single messages, folders of them.

Everything is read in pieces of a megabyte; of one message no more than `MOST_BYTES` is kept.
"""

from __future__ import annotations

import gzip
import os
import re
import stat
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from pgstrata.errors import UsageError

MOST_BYTES = 8 << 20
"""The rest of a longer message is read and left out: it is an attachment, and no tsvector holds it."""

CHUNK = 1 << 20

# The line between two messages: `From somebody Thu Feb 11 18:27:14 2010`. The time keeps sentences apart
# that begin with "From" and were not quoted by the program that wrote the archive.
_SEPARATOR = re.compile(rb"From \S[^\n]*\d:\d\d[^\n]*\n")
_HEADER = re.compile(rb"[!-9;-~]+:")
_QUOTED_FROM = re.compile(rb"^>(>*From )", re.MULTILINE)


class Reads(Protocol):
    """An open file, for reading only."""

    def read(self, n: int, /) -> bytes: ...


def files(root: Path) -> list[Path]:
    """Returns every file below a folder, sorted by path; for a file only that file. Raises UsageError if
    there is neither."""
    if root.is_file():
        return [root]
    if not root.is_dir():
        raise UsageError(
            f"there is no mail archive {root}",
            "name an mbox file, an .mbox.gz, a maildir or a folder of them",
        )
    paths: list[Path] = []
    for folder, folders, names in os.walk(root):
        folders.sort()
        paths += [Path(folder) / name for name in sorted(names) if not name.startswith(".")]
    return paths


def messages(file: Path, counts: Counter[str], check: Callable[[], None] = lambda: None) -> Iterator[bytes]:
    """Yields the messages of a single file, bytes as they are. Errors of reading are counted, never raised.

    counts: `read_bytes`, `cut_messages` (longer than MOST_BYTES), `cut_files` (compressed and ending too
    early), `unreadable_files`, `skipped_files` (neither mbox nor message).
    """
    try:
        with open(file, "rb", opener=_at_once) as plain:
            if not stat.S_ISREG(os.fstat(plain.fileno()).st_mode):
                counts["skipped_files"] += 1
                return
            compressed = plain.read(2) == b"\x1f\x8b"
            plain.seek(0)
            # read1: one that reads until it has all it was asked for loses what came before a break.
            read = gzip.GzipFile(fileobj=plain).read1 if compressed else plain.read
            yield from _messages(_Counted(read, counts, check), counts)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        counts["cut_files"] += 1
    except OSError:
        counts["unreadable_files"] += 1


def _at_once(file: str, flags: int) -> int:
    """Opens without waiting: a FIFO among the files would wait for its writer for ever."""
    return os.open(file, flags | os.O_NONBLOCK)


class _Counted:
    """A source that counts its bytes and remembers that its compressed stream broke off."""

    def __init__(
        self, source: Callable[[int], bytes], counts: Counter[str], check: Callable[[], None]
    ) -> None:
        self._source, self._counts, self._check = source, counts, check

    def read(self, n: int, /) -> bytes:
        self._check()
        try:
            data = self._source(n)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            # What came before the break is good: it ends here, as if the file did.
            self._counts["cut_files"] += 1
            return b""
        self._counts["read_bytes"] += len(data)
        return data


def _messages(source: Reads, counts: Counter[str]) -> Iterator[bytes]:
    first = source.read(CHUNK)
    if first.startswith(b"From "):
        yield from split(source, first, counts)
    elif _HEADER.match(first):
        yield _whole(source, first, counts)
    elif first:
        counts["skipped_files"] += 1


def _whole(source: Reads, first: bytes, counts: Counter[str]) -> bytes:
    message = _Growing(counts)
    message.add(first)
    while chunk := source.read(CHUNK):
        message.add(chunk)
    return message.take()


class _Growing:
    """The message that is being read; what exceeds MOST_BYTES is dropped."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._parts: list[bytes] = []
        self._size = 0
        self._cut = False

    def add(self, piece: bytes) -> None:
        room = MOST_BYTES - self._size
        if len(piece) > room:
            self._cut = True
            piece = piece[:room]
        if piece:
            self._parts.append(piece)
            self._size += len(piece)

    def take(self) -> bytes:
        whole = b"".join(self._parts)
        self._counts["cut_messages"] += self._cut
        self._parts, self._size, self._cut = [], 0, False
        return whole


def split(source: Reads, first: bytes, counts: Counter[str]) -> Iterator[bytes]:
    """Yields the messages of an mbox that begins with `first`; `From ` at the beginning of lines is
    unquoted."""
    message = _Growing(counts)
    carry, chunk = b"", first
    line_begins = True
    started = False
    while chunk:
        data = carry + chunk
        whole_lines = data.rfind(b"\n") + 1
        if not whole_lines and len(data) < CHUNK:
            carry, chunk = data, source.read(CHUNK)
            continue
        # A line of a megabyte is no separator: it goes to the message piece by piece.
        block = data[:whole_lines] if whole_lines else data
        carry = data[len(block) :]
        at = 0
        for separator in _separators(block, line_begins):
            message.add(block[at : separator.start()])
            if started:
                yield _unquoted(message.take())
            started, at = True, separator.end()
        message.add(block[at:])
        started = True
        line_begins = block.endswith(b"\n")
        chunk = source.read(CHUNK)
    message.add(carry)
    if started or carry:
        yield _unquoted(message.take())


def _separators(block: bytes, line_begins: bool) -> Iterator[re.Match[bytes]]:
    """Yields the separators between messages. Looking for the letters first is many times faster than a
    pattern that is tried at each line."""
    if line_begins and (first := _SEPARATOR.match(block)):
        yield first
    at = block.find(b"\nFrom ")
    while at >= 0:
        match = _SEPARATOR.match(block, at + 1)
        if match:
            yield match
        at = block.find(b"\nFrom ", match.end() - 1 if match else at + 1)


def _unquoted(message: bytes) -> bytes:
    return _QUOTED_FROM.sub(rb"\1", message) if b">From " in message else message
