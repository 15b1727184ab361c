"""Entries that a server has written to syslog in chunks, put together again.

Facts: write_syslog of src/backend/utils/error/elog.c. A chunk is a line of the entry, or at most 900
bytes of it (PG_SYSLOG_LIMIT), cut before a white space where there is one; `[5-2] ` in front of it says
that it is the second one of the process's fifth entry (syslog_sequence_numbers), `[2] ` where the numbers
are off. Lines behind the first begin with a tab, which daemons write as #011 (rsyslog,
"EscapeControlCharactersOnReceive") or ^I, and Heroku as spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from pgstrata.traffic.logs.line import FRAGMENT, PART_MISSING, Trouble
from pgstrata.traffic.logs.wrapped.model import as_lines, own_part

MARK = re.compile(r"\[([0-9]{1,10})(?:-([0-9]{1,7}))?\] ")
LIMIT = 900
"""Bytes of a chunk."""

_ESCAPED = re.compile(r"#([0-3][0-7][0-7])")
_COLOR = re.compile(r"#0[0-3][0-7][0-9a-fA-F]{3}(?![0-9a-fA-F])")


class Entry:
    """An entry whose chunks are read. seen: the time of the last one."""

    __slots__ = ("chunks", "head", "is_whole", "key", "last", "number", "seen", "time")

    def __init__(self, key: str, number: str, head: str, time: int) -> None:
        self.key, self.number, self.head = key, number, head
        self.time = self.seen = time
        self.chunks: list[str] = []
        self.last = 0
        self.is_whole = True

    def add(self, part: int, text: str, time: int) -> None:
        """Adds the next chunk."""
        self.is_whole = self.is_whole and part == self.last + 1
        self.last, self.seen = part, time
        self.chunks.append(text)

    def lines(self, escapes: Escapes) -> bytes:
        """Returns the entry as it stands in a text log."""
        text, is_whole = _joined([escapes.undone(chunk) for chunk in self.chunks])
        lines = as_lines(text, self.head)
        return lines if is_whole and self.is_whole else lines + PART_MISSING


class Escapes:
    """Control characters that a daemon has written as `#011` or `^I`, put back where it does so."""

    def __init__(self) -> None:
        self._are_raw = self._are_carets = False

    def undone(self, text: str) -> str:
        """Returns a chunk as the server wrote it. One that may mean two things keeps a NUL at its end."""
        self._are_raw = self._are_raw or text.startswith("\t")
        self._are_carets = self._are_carets or text.startswith("^I")
        if self._are_raw:
            return text
        if self._are_carets:
            begin = "\t" if text.startswith("^I") else ""
            rest = text[2:] if begin else text
            return begin + rest + ("\0" if "^I" in rest else "")
        if "#" not in text:
            return text
        if _COLOR.search(text[1:]):
            return text + "\0"
        return _ESCAPED.sub(lambda match: chr(int(match[1], 8)) if int(match[1], 8) < 32 else match[0], text)


def _joined(chunks: list[str]) -> tuple[str, bool]:
    """Returns the text of the chunks, and whether it is certain."""
    is_certain = not any("\0" in chunk for chunk in chunks)
    pieces = [chunks[0]]
    for before, chunk in pairwise(chunks):
        if chunk.startswith("\t"):
            # A tab in the middle of a long line, cut there, looks the same.
            is_certain = is_certain and not _may_be_cut(before, chunk)
            pieces.append(f"\n{chunk}")
        elif own_part(chunks[0], chunk):
            pieces.append(f"\n{chunk}")
        elif _may_be_cut(before, chunk):
            pieces.append(chunk)
        else:
            pieces.append(f"\n\t{chunk}")
    return "".join(pieces).replace("\0", ""), is_certain


def _may_be_cut(before: str, chunk: str) -> bool:
    """Returns whether the line goes on: its next word did not fit any more."""
    word = re.match(r"\s?\S*", chunk)
    size = len(before.encode("utf-8", "replace")) + len(word[0].encode("utf-8", "replace") if word else b"")
    return size >= LIMIT


class Assembler:
    """Takes the chunks of many processes and gives their entries, in the order in which they began."""

    def __init__(self, trouble: Trouble) -> None:
        self._trouble = trouble
        self._escapes = Escapes()
        # By the order of their first chunks; the last entry of each key may get more.
        self._waiting: dict[int, Entry] = {}
        self._open: dict[str, int] = {}
        self._count = 0

    def take(self, key: str, head: str, text: str, time: int) -> Iterator[tuple[int, bytes]]:
        """Takes a chunk with its mark; yields time and lines of entries that are whole."""
        mark = MARK.match(text)
        assert mark is not None
        number, part = (mark[1], int(mark[2])) if mark[2] else ("", int(mark[1]))
        place = self._open.get(key)
        entry = self._waiting.get(place) if place is not None else None
        if part == 1 or entry is None or entry.number != number:
            if part != 1:
                # Its beginning is in another file, or lost.
                self._trouble.lose(FRAGMENT, text.encode("utf-8", "replace"))
                return
            self._count += 1
            entry = self._waiting[self._count] = Entry(key, number, head, time)
            self._open[key] = self._count
        entry.add(part, text[mark.end() :], time)
        yield from self._whole(time)

    def _whole(self, now: int) -> Iterator[tuple[int, bytes]]:
        while self._waiting:
            place, entry = next(iter(self._waiting.items()))
            is_last = self._open.get(entry.key) == place
            if is_last and now - entry.seen < 2_000_000 and len(self._waiting) < 1000:
                return
            del self._waiting[place]
            if is_last:
                del self._open[entry.key]
            yield entry.time, entry.lines(self._escapes)

    def rest(self) -> Iterator[tuple[int, bytes]]:
        """Yields the entries that are left at the end."""
        for entry in self._waiting.values():
            yield entry.time, entry.lines(self._escapes)
        self._waiting.clear()
        self._open.clear()


__all__ = ["LIMIT", "MARK", "Assembler"]
