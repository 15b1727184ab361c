r"""Checkpoints and autovacuums of a step, out of the server's log.

The server must log them: `log_line_prefix = '%m [%p] '`, `log_timezone = 'UTC'`, `lc_messages = 'C'`,
`log_checkpoints = on`, `log_autovacuum_min_duration = 0`.

The log holds text of strangers (statements, names of tables). What makes it safe to read by line:
the server puts a tab in front of every line of a message but its first, so a line that begins with a
time and a pid was written by the server itself. All else is a continuation or noise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Literal

from pgstrata.store.record import LogEvent

Kind = Literal["checkpoint", "autovacuum", "autoanalyze"]

_LINE_LIMIT = 8192  # bytes of one line that are looked at
_TEXT_LIMIT = 1000  # characters of an event that are kept
_LOOK_BACK = 262_144  # bytes before the step, for a checkpoint that had begun by then

_EVENTS = (b"checkpoint ", b"restartpoint ", b"automatic ")
_ENTRY = re.compile(rb"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}) (\w+) \[(\d{1,10})\] LOG:  (.*)", re.DOTALL)
_HEAD = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
_STARTING = re.compile(r"(?:checkpoint|restartpoint) starting:")
_COMPLETE = re.compile(r"(?:checkpoint|restartpoint) complete:.*?\btotal=(\d{1,9}\.\d{1,6}) s", re.DOTALL)
_AUTO = re.compile(r"automatic (?:aggressive )?(vacuum|analyze)\b")
# 9.6: `CPU 0.00s/0.00u sec elapsed 0.01 sec`; since 10: `CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.01 s`.
_ELAPSED = re.compile(r"system usage: CPU.{0,80}?elapsed:? (\d{1,9}\.\d{1,6}) s")


@dataclass(frozen=True)
class LogMessage:
    """One LOG message that may be an event: when it was written (Unix time), by whom, its text."""

    time: float
    pid: int
    text: str


def entries(lines: Iterable[bytes], begins: tuple[bytes, ...] = _EVENTS) -> Iterator[LogMessage]:
    """Yields the messages that begin with one of these words, their lines joined by \\n.

    Memory stays flat whatever is in the log.
    """
    head: tuple[float, int] | None = None
    parts: list[str] = []
    for line in lines:
        if line.startswith(b"\t"):
            if head is not None and len(parts) < 40:
                parts.append(_decode(line))
            continue
        if head is not None:
            yield LogMessage(*head, "\n".join(parts))
            head = None
        if not _HEAD.match(line):
            continue
        match = _ENTRY.fullmatch(line.rstrip(b"\r\n"))
        if match is None or not match[4].startswith(begins):
            continue
        when = _time(match[1], match[2])
        if when is not None:
            head, parts = (when, int(match[3])), [_decode(match[4])]
    if head is not None:
        yield LogMessage(*head, "\n".join(parts))


def _decode(line: bytes) -> str:
    text = line[:_LINE_LIMIT].decode("utf-8", "replace")
    return "".join(c if c.isprintable() else " " for c in text).strip()


def _time(stamp: bytes, zone: bytes) -> float | None:
    """Returns a time stamp as Unix time; None for an impossible date or a zone that is not UTC (abbreviations
    are ambiguous)."""
    if zone not in (b"UTC", b"GMT"):
        return None
    try:
        return datetime.fromisoformat(stamp.decode("ascii")).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def events(messages: Iterable[LogMessage], begin: float, end: float) -> list[LogEvent]:
    """Returns the events that overlap the time from `begin` to `end` (Unix time), in order.

    `second` and `until` count from `begin`; `until` may lie behind the end.
    """
    spans: list[tuple[Kind, float, float | None, str]] = []
    starting: dict[int, LogMessage] = {}
    for entry in messages:
        if _STARTING.match(entry.text):
            starting[entry.pid] = entry
        elif match := _COMPLETE.match(entry.text):
            first = starting.pop(entry.pid, None)
            text = f"{first.text}; {entry.text}" if first else entry.text
            since = first.time if first else entry.time - float(match[1])
            spans.append(("checkpoint", since, entry.time, text))
        elif match := _AUTO.match(entry.text):
            # The name of the table comes first and could imitate anything: the last one counts.
            elapsed = [float(seconds) for seconds in _ELAPSED.findall(entry.text)]
            took = elapsed[-1] if elapsed else 0.0
            name: Kind = "autovacuum" if match[1] == "vacuum" else "autoanalyze"
            spans.append((name, entry.time - took, entry.time, entry.text))
    spans += [("checkpoint", entry.time, None, entry.text) for entry in starting.values()]
    return [
        LogEvent(
            kind=kind,
            second=round(since - begin, 3),
            until=None if until is None else round(until - begin, 3),
            text=text.replace("\n", "; ")[:_TEXT_LIMIT],
        )
        for kind, since, until, text in sorted(spans, key=lambda span: span[1])
        if since <= end and (until is None or until >= begin)
    ]


class LogWindow:
    """The part of a growing log file that a step may have written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = 0

    def mark(self) -> None:
        """Remembers where the log ends now. Raises OSError where it cannot be seen."""
        self._mark = self._path.stat().st_size

    def events(self, begin: float, end: float) -> list[LogEvent]:
        """Returns the events from `begin` to `end` (Unix time). Raises OSError if the log cannot be read."""
        return events(entries(self._lines()), begin, end)

    def seconds_between(self, first: str, second: str) -> float | None:
        """Returns the seconds between two messages since the mark, by their beginnings; None if either is not
        there. Raises OSError if the log cannot be read."""
        begins = (first.encode(), second.encode())
        with self._path.open("rb") as file:
            file.seek(self._mark)
            there = list(entries(iter(partial(file.readline, _LINE_LIMIT), b""), begins))
        times = [next((m.time for m in there if m.text.startswith(text)), None) for text in (first, second)]
        begun, ended = times
        return None if begun is None or ended is None else max(0.0, ended - begun)

    def _lines(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            start = self._mark if self._path.stat().st_size >= self._mark else 0
            if start > _LOOK_BACK:
                file.seek(start - _LOOK_BACK)
                file.readline(_LINE_LIMIT)  # the rest of a line
            while line := file.readline(_LINE_LIMIT):
                whole = line.endswith(b"\n")
                yield line
                while not whole and (rest := file.readline(1 << 20)):
                    whole = rest.endswith(b"\n")
