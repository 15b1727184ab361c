"""Syslog files, what journalctl prints, Heroku's logplex: a header in front of each line.

Facts: RFC 3164 and RFC 5424 (headers), man journalctl (`-o short`, `short-precise`, `short-iso`,
`short-unix`, `json`: a MESSAGE of more than 4096 bytes is null without --all, one that is no text is an
array of bytes), man systemd.journal-fields. Heroku, "Logplex" and "Understanding Heroku Postgres Log
Statements": `TIME app[postgres.PROCESS]: [DATABASE] [5-1]  sql_error_code = 00000 LOG:  …`.

A header has a time and mostly a process. They are put in front of the server's own text where its prefix
lacks them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import IO, Any, NamedTuple

from pgstrata.traffic.logs.line import LONGEST, Trouble
from pgstrata.traffic.logs.prefix import lacking
from pgstrata.traffic.logs.recognize import sample_of, template
from pgstrata.traffic.logs.wrapped.chunks import MARK, Assembler
from pgstrata.traffic.logs.wrapped.model import SEVERITIES, Record, Wrapping, as_lines, microseconds, stamp
from pgstrata.traffic.logs.wrapped.objects import objects, text_of

_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
_ISO = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_HEADER = re.compile(
    rf"(?:<[0-9]{{1,3}}>)?(?:1 )?(?P<time>{_ISO}"
    r"|[A-Z][a-z]{2} [ 0-9][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    r"|[A-Z][a-z]{2} [0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} UTC|[0-9]{10}\.[0-9]{6}) "
    r"(?:(?P<host>\S{1,255}) )?"
    r"(?:(?P<name>[\w./()@-]{1,128}?)(?:\[(?P<process>[0-9]{1,10})\])?:"
    r"|(?P<name5>[\w./-]{1,128}) (?P<process5>[0-9]{1,10}|-|postgres\.[0-9]+) \S{1,64} (?:-|\[[^\]]*\])"
    r"|app\[postgres\.(?P<dyno>[0-9]{1,10})\]:"
    r"|(?P<other>[a-z]{1,64}\[[\w.-]{1,64}\]):) ?"
)
_DATABASE = re.compile(r"\[([A-Za-z0-9_-]{1,63})\] (?=\[[0-9]+-[0-9]+\] )")
_PROGRAM = re.compile(r"(?:\S*/)?(?:postgres(?:ql)?(?:[@-][0-9][\w.@-]*)?(?:\.service)?|postmaster)")
"""Names of the server's program and of its units; those of tools around it begin alike."""


class _Line(NamedTuple):
    """A line behind its header. time: in microseconds since 1970."""

    time: int
    host: str
    name: str
    process: str
    text: str
    database: str = ""
    has_fraction: bool = False


class _Heads(NamedTuple):
    """What the server's own prefix lacks and the header has."""

    time: bool
    process: bool
    whole_seconds: bool

    def of(self, line: _Line) -> str:
        """Returns what is put in front of an entry."""
        parts = []
        if self.time:
            parts.append(stamp(line.time, whole_seconds=self.whole_seconds))
        if self.process:
            parts.append(f"[{line.process or 0}]")
            if line.database:
                parts.append(f"db={line.database}")
        return " ".join(parts) + " " if parts else ""


_Read = Callable[[IO[bytes], Trouble], Iterator[_Line]]


def recognize_lines(lines: list[bytes]) -> Wrapping | None:
    """Returns how lines with a header are read, None where most lines have none."""
    filled = [line for line in lines if line.strip()]
    parsed = [
        line
        for raw_line in filled
        if (line := _line(raw_line.decode("utf-8", "surrogateescape"))) is not None
    ]
    if not filled or len(parsed) <= len(filled) // 2:
        return None
    is_heroku = any(line.database for line in parsed)
    return _wrapping("lines of Heroku (logplex)" if is_heroku else "syslog", _of_text, parsed)


def recognize(entry: dict[str, Any]) -> Wrapping | None:
    """Returns how `journalctl -o json` is read, None where the object is not of a journal."""
    if "__REALTIME_TIMESTAMP" not in entry:
        return None
    return Wrapping("a journal (journalctl -o json)", partial(_records, read=_of_journal, heads=None))


def _wrapping(name: str, read: _Read, head: list[_Line]) -> Wrapping:
    return Wrapping(name, partial(_records, read=read, heads=_lacks(head)))


def _lacks(lines: Iterable[_Line]) -> _Heads:
    """Returns what the server's lines need in front of them."""
    ours = [line for line in lines if _is_ours(line)]
    texts = [MARK.sub("", line.text, count=1) for line in ours]
    samples = [s for text in texts if (s := sample_of(text.encode("utf-8", "replace"))) is not None]
    text = template(samples) or ""
    what = lacking(text) if samples else "no time"
    # `lacking` names the time first.
    no_time = what.startswith("no time")
    no_process = bool(lacking(text + "%m")) if no_time else bool(what)
    return _Heads(no_time, no_process, not any(line.has_fraction for line in ours))


def _is_ours(line: _Line) -> bool:
    """Returns whether a server wrote a line: it has the mark of a chunk, or its program's name says so."""
    return bool(line.database or MARK.match(line.text) or _PROGRAM.fullmatch(line.name))


def _records(file: IO[bytes], trouble: Trouble, *, read: _Read, heads: _Heads | None) -> Iterator[Record]:
    assembler = Assembler(trouble)
    early: list[_Line] = []
    for line in read(file, trouble):
        if heads is None:
            # A journal: what its lines lack is known from the first ones.
            early.append(line)
            if len(early) < 200:
                continue
            heads = _lacks(early)
            for early_line in early:
                yield from _take(early_line, heads, assembler, trouble)
        else:
            yield from _take(line, heads, assembler, trouble)
    if heads is None:
        heads = _lacks(early)
        for early_line in early:
            yield from _take(early_line, heads, assembler, trouble)
    for time, lines in assembler.rest():
        yield Record(time, lines)


def _take(line: _Line, heads: _Heads, assembler: Assembler, trouble: Trouble) -> Iterator[Record]:
    if not _is_ours(line):
        trouble.others += 1
    elif MARK.match(line.text):
        key = f"{line.host} {line.name} {line.process} {line.database}"
        for time, lines in assembler.take(key, heads.of(line), line.text, line.time):
            yield Record(time, lines)
    else:
        text = line.text
        if text.startswith(("#011", "^I")):
            text = "\t" + text[4 if text[0] == "#" else 2 :]
        elif "#012" in text and SEVERITIES.search(text[:1200]):
            text = text.replace("#012", "\n").replace("#011", "\t")
        is_begin = SEVERITIES.search(text[:1200]) is not None
        yield Record(line.time, as_lines(text, heads.of(line) if is_begin else ""))


# --- headers ------------------------------------------------------------------------------------


def _of_text(file: IO[bytes], trouble: Trouble) -> Iterator[_Line]:
    while data := file.readline(LONGEST):
        line = _line(data.rstrip(b"\r\n").decode("utf-8", "surrogateescape"))
        if line is not None:
            yield line
        elif data.strip():
            trouble.others += 1


def _line(text: str) -> _Line | None:
    match = _HEADER.match(text)
    if match is None:
        return None
    groups = match.groupdict()
    when = groups["time"]
    time = _time(when)
    if time is None:
        return None
    rest = text[match.end() :].rstrip("\r\n")
    name = groups["name"] or groups["name5"] or ("postgres" if groups["dyno"] else groups["other"] or "")
    process = groups["process"] or (groups["process5"] or "").replace("-", "") or groups["dyno"] or ""
    database = ""
    if process.startswith("postgres."):
        name, process = "postgres", process.removeprefix("postgres.")
    if named := _DATABASE.match(rest):
        database, rest = named[1], rest[named.end() :]
    fraction = when.partition(".")[2]
    return _Line(time, groups["host"] or "", name, process, rest, database, bool(fraction.strip("0Z+:-UTC ")))


def _time(text: str) -> int | None:
    if text[0].isdigit():
        if "T" not in text:
            seconds, _, fraction = text.partition(".")
            return int(seconds) * 1_000_000 + int(fraction)
        return microseconds(text)
    if text[4:8].isdigit():
        return microseconds(text[4:])
    month, rest = divmod(_MONTHS.find(text[:3]) + 3, 3)
    if rest or not month:
        return None
    # Without a year: the last time that this day was.
    now = datetime.now(UTC)
    for year in (now.year, now.year - 1):
        time = microseconds(f"{year}-{month:02d}-{text[4:6].replace(' ', '0')}T{text[7:]}")
        if time is not None and time <= (now.timestamp() + 86_400) * 1e6:
            return time
    return None


def _of_journal(file: IO[bytes], trouble: Trouble) -> Iterator[_Line]:
    """Yields the messages of a journal. A line that systemd had cut is put together again."""
    started: _Line | None = None
    for entry in objects(file, trouble):
        message = entry.get("MESSAGE")
        if isinstance(message, list):
            try:
                message = bytes(message).decode("utf-8", "surrogateescape")
            except (ValueError, TypeError):
                message = None
        name = text_of(entry, "SYSLOG_IDENTIFIER", "_COMM") or text_of(entry, "_SYSTEMD_UNIT")
        if not isinstance(message, str):
            if _PROGRAM.fullmatch(name):
                trouble.lose(WITHOUT_ALL, name.encode())
            else:
                trouble.others += 1
            continue
        process = text_of(entry, "SYSLOG_PID", "_PID")
        time = text_of(entry, "_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP")
        if not time.isdigit() or len(time) > 17:
            trouble.others += 1
            continue
        line = _Line(int(time), text_of(entry, "_HOSTNAME"), name, process, message, "", True)
        if started is not None:
            line = started._replace(text=started.text + message)
        if entry.get("_LINE_BREAK") == "line-max" and len(line.text) < LONGEST:
            started = line
        else:
            started = None
            yield line
    if started is not None:
        yield started


WITHOUT_ALL = "messages that journalctl leaves out without --all (more than 4096 bytes)"

__all__ = ["recognize", "recognize_lines"]
