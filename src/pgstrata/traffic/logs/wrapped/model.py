"""What it takes to get a server's lines out of another format."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import IO, NamedTuple, cast

from pgstrata.traffic.logs.line import Trouble
from pgstrata.traffic.logs.prefix import SEVERITY


class Record(NamedTuple):
    """Lines that a server wrote, each with its end of line. time: when, in microseconds since 1970; 0 where
    the order in the file is that of the server."""

    time: int
    lines: bytes


class Wrapping(NamedTuple):
    """A format around a server's lines."""

    #: For users: "syslog", "JSON of Cloud Logging".
    name: str
    records: Callable[[IO[bytes], Trouble], Iterator[Record]]
    #: Its files are in no order, or the newest comes first: all of them are put in order by their times.
    is_unordered: bool = False


class Lines:
    """The lines of records, read as a file is read."""

    def __init__(self, records: Iterable[Record]) -> None:
        self._records = iter(records)
        self._rest = io.BytesIO()

    def readline(self, size: int = -1) -> bytes:
        """Returns the next line, of at most `size` bytes; empty at the end."""
        while not (line := self._rest.readline(size)):
            record = next(self._records, None)
            if record is None:
                return b""
            self._rest = io.BytesIO(record.lines)
        return line

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes, at most a line; empty at the end."""
        return self.readline(size)

    def as_file(self) -> IO[bytes]:
        """Returns this as what readers of logs take."""
        return cast(IO[bytes], self)


_RFC3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[T ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]{1,9}))?"
    r" ?(Z|UTC|[+-][0-9]{2}:?[0-9]{2})?\Z"
)


def microseconds(text: str) -> int | None:
    """Returns a time such as 2026-08-03T10:00:00.123456789Z, None for what is none. Without a zone: UTC."""
    match = _RFC3339.match(text)
    if match is None:
        return None
    try:
        whole = datetime(*(int(match[n]) for n in range(1, 7)), tzinfo=UTC)  # type: ignore[misc,arg-type]
    except ValueError:
        return None
    zone = match[8] or "Z"
    east = 0
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        east = (int(digits[:2]) * 60 + int(digits[2:])) * (-60 if zone[0] == "-" else 60)
    fraction = int((match[7] or "0").ljust(6, "0")[:6])
    return (int(whole.timestamp()) - east) * 1_000_000 + fraction


def stamp(time: int, *, whole_seconds: bool = False) -> str:
    """Returns a time as a server writes it, in UTC: `%m`, or `%t` where it has no fraction."""
    when = datetime.fromtimestamp(time // 1_000_000, UTC)
    text = f"{when:%Y-%m-%d %H:%M:%S}"
    return f"{text} UTC" if whole_seconds else f"{text}.{time // 1000 % 1000:03d} UTC"


SEVERITIES = re.compile(SEVERITY.decode())
_OF_LAST = re.compile(r"[^\n]{0,1200}?(DETAIL|HINT|QUERY|CONTEXT|LOCATION|STATEMENT|BACKTRACE): {1,2}")


def as_lines(text: str, head: str = "", *, is_raw: bool = False) -> bytes:
    """Returns the text of one entry as a server writes it: all lines behind the first begin with a tab.

    head: what is put in front of the entry and of its DETAIL and STATEMENT. is_raw: the tabs in it are those
    of the message. Otherwise some services keep the server's tabs and others take them away: where not all
    lines have one, they are put back.
    """
    first, newline, rest = text.rstrip("\r\n").partition("\n")
    begin = "" if first.startswith("\t") else head
    lines = [f"{begin}{first}\n"]
    if newline:
        following = rest.split("\n")
        own_parts = [not is_raw and own_part(first, line) for line in following]
        has_tabs = not is_raw and all(
            is_own or line.startswith("\t") for line, is_own in zip(following, own_parts, strict=True)
        )
        tab = "" if has_tabs else "\t"
        lines += [
            f"{head if is_own else tab}{line}\n" for line, is_own in zip(following, own_parts, strict=True)
        ]
    return "".join(lines).encode("utf-8", "surrogateescape")


def own_part(first: str, line: str) -> bool:
    """Returns whether a line is the DETAIL, STATEMENT, … of an entry that begins with `first`.

    It has the same prefix then.
    """
    match = _OF_LAST.match(line)
    begin = SEVERITIES.search(first[:1200])
    if match is None or begin is None:
        return False
    # Its line number (%l) may have one digit more.
    same = min(10, begin.start())
    return abs(match.start(1) - begin.start()) <= 3 and line[:same] == first[:same]


__all__ = ["SEVERITIES", "Lines", "Record", "Wrapping", "as_lines", "microseconds", "own_part", "stamp"]
