"""Logs as text, each line behind what `log_line_prefix` says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO

from pgstrata.errors import UsageError
from pgstrata.traffic.logs.clock import Clock
from pgstrata.traffic.logs.line import FAILURES, LONGEST, Encoding, LogEntry, Trouble
from pgstrata.user_files import shown

USUAL = (
    "%m [%c] %e %q%u@%d ",
    "%m [%p] %q%u@%d ",
    "%m [%p] ",
    "%t [%p] %q%u@%d ",
    "%t [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t [%p]: [%l-1] user=%u,db=%d ",
    "%m [%p]: [%l-1] user=%u,db=%d,app=%a,client=%h ",
    "%t:%r:%u@%d:[%p]:",
    "%m:%r:%u@%d:[%p]:",
    "%m [%p] %q[user=%u,db=%d,app=%a] ",
    "%t [%p] ",
    "< %m >",
)
"""Prefixes that are tried where none is named: the default, those of distributions and of log analysers."""

ADVICE = "log_line_prefix = '%m [%c] %e %q%u@%d ' has all that is needed; --prefix names the one of this log"

_STAMP = r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"
_ESCAPES = {
    "a": r"[^\n]*?",
    "u": r"[^\n]*?",
    "d": r"(?P<database>[^\n]*?)",
    "r": r"(?:\[local\]|[\w.:%-]*(?:\([0-9]+\))?)",
    "h": r"(?:\[local\]|[\w.:%-]*)",
    "L": r"[^\n]*?",
    "b": r"[a-z ]*",
    "p": r"(?P<process>[0-9]+)",
    "P": r"[0-9]*",
    "t": rf"(?P<time>{_STAMP} [A-Za-z0-9+:-]+)",
    "m": rf"(?P<time>{_STAMP}\.[0-9]{{3}} [A-Za-z0-9+:-]+)",
    "n": r"(?P<time>[0-9]+\.[0-9]{3})",
    "i": r"[^\n]*?",
    "e": r"(?P<sqlstate>[0-9A-Z]{5})",
    "c": r"(?P<session>[0-9a-f]+\.[0-9a-f]+)",
    "l": r"(?P<number>[0-9]+)",
    "s": rf"(?P<started>{_STAMP} [A-Za-z0-9+:-]+)",
    "v": r"[0-9/]*",
    "x": r"[0-9]*",
    "Q": r"-?[0-9]*",
    "%": "%",
}
_ESCAPE = re.compile(r"%(-?[0-9]*)([A-Za-z%])")
_SEVERITY = (
    rb"(?P<severity>DEBUG[1-5]?|LOG|INFO|NOTICE|WARNING|ERROR|FATAL|PANIC|DETAIL|HINT|QUERY|CONTEXT|LOCATION|"
    rb"STATEMENT|BACKTRACE):  "
)
_MORE = {b"DETAIL": "detail", b"CONTEXT": "context", b"STATEMENT": "query"}
_OF_LAST = frozenset((b"DETAIL", b"HINT", b"QUERY", b"CONTEXT", b"LOCATION", b"STATEMENT", b"BACKTRACE"))


@dataclass(frozen=True)
class Prefix:
    """A log_line_prefix, and what finds the beginning of an entry by it."""

    text: str
    pattern: re.Pattern[bytes]
    names: frozenset[str]


def prefix(text: str) -> Prefix:
    """What finds entries behind this prefix. Raises UsageError where it leaves out the time, or what tells
    sessions apart."""
    made: list[str] = []
    at, closing = 0, ""
    seen: set[str] = set()
    for match in _ESCAPE.finditer(text):
        made.append(re.escape(text[at : match.start()]))
        at = match.end()
        padding, letter = match.groups()
        if letter == "q":
            # What follows is left out in lines that belong to no session.
            made.append("(?:")
            closing += ")?"
            continue
        found = _ESCAPES.get(letter, "")
        name = re.match(r"\(\?P<(\w+)>", found)
        if name and name[1] in seen:
            found = found.replace(f"?P<{name[1]}>", "?:", 1)
        elif name:
            seen.add(name[1])
        made.append(rf" *{found} *" if padding else found)
    made.append(re.escape(text[at:]) + closing)
    if "time" not in seen or not seen & {"session", "process"}:
        what = "no time" if "time" not in seen else "nothing that tells sessions apart"
        raise UsageError(f"the log_line_prefix {shown(text)} has {what}", ADVICE)
    pattern = re.compile("".join(made).encode() + _SEVERITY)
    return Prefix(text, pattern, frozenset(seen))


def guessed(head: Sequence[bytes]) -> Prefix:
    """The usual prefix that most of these lines have. Raises UsageError where none has."""
    found = [prefix(text) for text in USUAL if "%p" in text or "%c" in text]
    best, matches = found[0], 0
    for one in found:
        count = sum(1 for line in head if (m := one.pattern.match(line)) and _named(m))
        if count > matches:
            best, matches = one, count
    if not matches:
        first = next((line for line in head if line.strip()), b"").decode("utf-8", "replace").strip()
        raise UsageError(
            f"this is no log of PostgreSQL with a usual log_line_prefix: {shown(first, 80)}", ADVICE
        )
    return best


def _named(match: re.Match[bytes]) -> bool:
    """Whether it is told apart from another prefix that is the beginning of this one."""
    groups = match.groupdict()
    return "database" not in groups or groups["database"] is None or b" " not in groups["database"]


def entries(
    file: IO[bytes], how: Prefix, clock: Clock, encoding: Encoding, trouble: Trouble
) -> Iterator[LogEntry]:
    """Every entry of a file; its lines after the first begin with a tab. What is no entry is counted in
    `trouble`."""
    for match, lines in _whole(file, how, trouble):
        groups = match.groupdict()
        time = clock.microseconds(groups["time"].decode("ascii", "replace"))
        if time is None:
            trouble.note("strange", lines[0][1])
            continue
        texts = {
            name: encoding.decode(text, trouble)
            for name, text in ((_MORE.get(severity, "message"), text) for severity, text in lines)
        }
        severity = lines[0][0].decode()
        session = groups.get("session") or groups.get("process") or b""
        database = groups.get("database")
        started = groups.get("started")
        failed = severity in FAILURES
        sqlstate = (groups.get("sqlstate") or b"?????").decode() if failed else ""
        yield LogEntry(
            time,
            session.decode(),
            texts["message"],
            database="" if database in (None, b"[unknown]") else encoding.decode(database, trouble),
            detail=texts.get("detail", ""),
            context=texts.get("context", ""),
            query=texts.get("query", ""),
            sqlstate=sqlstate,
            failed=failed,
            started=clock.microseconds(started.decode("ascii", "replace")) if started else None,
        )


def _whole(
    file: IO[bytes], how: Prefix, trouble: Trouble
) -> Iterator[tuple[re.Match[bytes], list[tuple[bytes, bytes]]]]:
    """Each entry: the match of its first line, and the texts of it and of the lines that belong to it."""
    head: re.Match[bytes] | None = None
    texts: list[tuple[bytes, list[bytes]]] = []
    size = 0
    while line := file.readline(LONGEST):
        if line.startswith(b"\t") and texts:
            size += len(line)
            if size <= LONGEST:
                texts[-1][1].append(line[1:])
            continue
        match = how.pattern.match(line)
        if match is None:
            if not line.strip():
                continue
            trouble.note("strange", line)
            # Whatever it is, it has come between: what follows with a tab is not of the entry before.
            if head is not None:
                yield head, _joined(texts)
            head, texts = None, []
            continue
        severity, text = match["severity"], line[match.end() :]
        if severity in _OF_LAST:
            if head is None or _session(match) != _session(head):
                trouble.note("strange", line)
                continue
            texts.append((severity, [text]))
            size += len(text)
            continue
        if head is not None:
            yield head, _joined(texts)
        head, texts, size = match, [(severity, [text])], len(line)
    if head is not None:
        if not texts[-1][1][-1].endswith(b"\n"):
            trouble.note("cut", texts[-1][1][-1])
            return
        yield head, _joined(texts)


def _session(match: re.Match[bytes]) -> bytes:
    groups = match.groupdict()
    return groups.get("session") or groups.get("process") or b""


def _joined(texts: list[tuple[bytes, list[bytes]]]) -> list[tuple[bytes, bytes]]:
    return [(severity, b"".join(lines).removesuffix(b"\n").removesuffix(b"\r")) for severity, lines in texts]


__all__ = ["ADVICE", "USUAL", "Prefix", "entries", "guessed", "prefix"]
