"""Tables exported as CSV, whose first line names the columns: of Log Analytics and of CloudWatch."""

from __future__ import annotations

import csv
import io
from codecs import BOM_UTF8
from collections.abc import Iterator
from typing import IO, Any

from pgstrata.traffic.logs.line import CUT, LONGEST, Trouble

_LONGEST_HEADER = 20_000


def columns(line: bytes) -> list[str]:
    """Returns the names of the columns as the first line of a file has them; none where it is no CSV."""
    text = line.removeprefix(BOM_UTF8).decode("utf-8", "replace")
    try:
        return next(csv.reader([text]), []) if "\0" not in text and len(text) < _LONGEST_HEADER else []
    except csv.Error:
        return []


def rows(file: IO[bytes], trouble: Trouble) -> Iterator[dict[str, str]]:
    """Yields the rows of a table by the names of their columns; what is cut is counted."""
    csv.field_size_limit(LONGEST)
    text = io.TextIOWrapper(io.BufferedReader(_Kept(file)), "utf-8-sig", "surrogateescape", newline="")
    reader = csv.reader(text)
    try:
        names = next(reader, [])
    except csv.Error:
        names = []
    while True:
        try:
            row = next(reader, None)
        except csv.Error:
            trouble.lose(CUT, b"")
            continue
        if row is None:
            return
        if len(row) == len(names):
            yield dict(zip(names, row, strict=True))
        elif row:
            trouble.lose(CUT, ",".join(row)[:200].encode("utf-8", "replace"))


class _Kept(io.RawIOBase):
    """Bytes of a file that stays open when its text has been read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def readable(self) -> bool:
        """Returns True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fills the buffer."""
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


__all__ = ["columns", "rows"]
