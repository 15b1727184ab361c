"""Logs as text, each entry behind what `log_line_prefix` says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

from pgstrata.traffic.logs.clock import Clock
from pgstrata.traffic.logs.line import (
    BROKEN,
    CUT,
    FAILURES,
    FRAGMENT,
    LONGEST,
    PART_LOST,
    PART_MISSING,
    TOO_LONG,
    TRUNCATED,
    UNFIT,
    Encoding,
    LogEntry,
    Trouble,
    line_number,
)
from pgstrata.traffic.logs.prefix import SEVERITY, STAMP, Prefix
from pgstrata.traffic.logs.recognize import Recognizer

_MORE = {b"LOCATION": "location", b"DETAIL": "detail", b"CONTEXT": "context", b"STATEMENT": "query"}
_OF_LAST = frozenset((b"DETAIL", b"HINT", b"QUERY", b"CONTEXT", b"LOCATION", b"STATEMENT", b"BACKTRACE"))
_NO_TEXTS: dict[str, str] = {}
_STATE = re.compile(r"([0-9A-Z]{5}): ")
"""In front of a message with `log_error_verbosity = verbose`."""

_TIMED = re.compile(
    rb"[<(\[]{0,2} ?(?:" + STAMP.encode() + rb"|[0-9]{10}\.[0-9]{3}\b)[^\n]{0,600}?" + SEVERITY
)
"""A line that begins with a time and has a severity: no continuation of a statement."""

_PERHAPS = re.compile(rb"[^\n]{0,600}?" + SEVERITY)
"""A line with a severity: an entry, or a statement that has this word."""


_CODES = {
    "canceling statement due to user request": "57014",
    "canceling statement due to statement timeout": "57014",
    "terminating connection due to administrator command": "57P01",
    "terminating connection due to transaction timeout": "25P04",
}
"""SQLSTATEs of what ended a statement from outside, where the prefix tells none: a replay leaves it out."""


def entries(
    file: IO[bytes],
    how: Prefix,
    clock: Clock,
    encoding: Encoding,
    trouble: Trouble,
    recognizer: Recognizer | None = None,
) -> Iterator[LogEntry]:
    """Yields every entry of a file; its lines after the first begin with a tab.

    recognizer: looks again where a line does not fit a prefix that was recognized.
    """
    sessions: dict[bytes, int | None] = {}
    for match, lines, damage in _whole(file, how, trouble, recognizer):
        groups = match.groupdict()
        time = clock.microseconds(groups["time"].decode("ascii", "replace"))
        if time is None:
            trouble.lose(FRAGMENT, match[0])
            continue
        texts = (
            {_MORE.get(name, "other"): encoding.decode(text, trouble) for name, text in lines[1:]}
            if len(lines) > 1
            else _NO_TEXTS
        )
        severity = lines[0][0].decode()
        try:
            message = lines[0][1].decode()
        except UnicodeDecodeError:
            message = encoding.decode(lines[0][1], trouble)
        failed = severity in FAILURES
        state = ""
        if failed:
            state = code.decode() if (code := groups.get("sqlstate")) else _CODES.get(message, "?????")
        if ("location" in texts or message[:7] == "00000: ") and (verbose := _STATE.match(message)):
            state, message = verbose[1] if failed else "", message[7:]
        database = groups.get("database") or None
        session = groups.get("session")
        name = (session or groups.get("process") or b"").decode()
        began = session or groups.get("started") or b""
        if began not in sessions:
            if len(sessions) > 10_000:
                sessions.clear()
            sessions[began] = _began(began, clock, of_session=session is not None)
        yield LogEntry(
            time,
            name,
            message,
            severity=severity,
            database=_name(database, encoding, trouble) if database else "",
            detail=texts.get("detail", ""),
            context=texts.get("context", ""),
            query=texts.get("query", ""),
            sqlstate=state,
            failed=failed,
            started=sessions[began],
            client=database is not None or _is_client(groups),
            tag=tag.decode("utf-8", "replace") if (tag := groups.get("tag")) else "",
            number=line_number(number) if (number := groups.get("number")) else 0,
            lines=len(lines),
            transaction=local.decode() if (local := groups.get("transaction")) else "",
            damage=damage,
        )


def _began(text: bytes, clock: Clock, *, of_session: bool) -> int | None:
    """Returns when a session began: its id begins with that second."""
    if of_session:
        return int(text.partition(b".")[0], 16) * 1_000_000
    return clock.microseconds(text.decode("ascii", "replace")) if text else None


def _name(value: bytes, encoding: Encoding, trouble: Trouble) -> str:
    return "" if value == b"[unknown]" else encoding.decode(value, trouble)


def _is_client(groups: dict[str, bytes]) -> bool:
    """Returns whether a session wrote the entry, as far as the prefix says it."""
    if backend := groups.get("backend"):
        return backend in (b"client backend", b"not initialized")
    for name in ("database", "user"):
        if name in groups:
            return bool(groups[name])
    return True


Texts = list[tuple[bytes, bytes]]


def _whole(
    file: IO[bytes], how: Prefix, trouble: Trouble, recognizer: Recognizer | None
) -> Iterator[tuple[re.Match[bytes], Texts, str]]:
    """Yields each entry: the match of its first line, the texts of it and of the lines that belong to it, and
    why it is damaged."""
    begins = how.pattern.match
    head: re.Match[bytes] | None = None
    texts: list[tuple[bytes, list[bytes]]] = []
    size = 0
    damage = ""
    is_lost = False
    while line := file.readline(LONGEST):
        if line.startswith(b"\t"):
            if head is not None:
                size += len(line)
                if size <= LONGEST:
                    texts[-1][1].append(line[1:])
                else:
                    damage = TOO_LONG
            elif not is_lost:
                trouble.lose(FRAGMENT, line)
                is_lost = True
            continue
        if line == PART_MISSING:
            damage = damage or PART_LOST
            continue
        match = begins(line)
        if match is None and line.strip():
            may_be_entry = _PERHAPS.match(line) is not None
            if may_be_entry and recognizer is not None and (other := recognizer.again(line)) is not None:
                begins = other.pattern.match
                match = begins(line)
            elif may_be_entry:
                if head is not None:
                    # Where no time begins the line, it may as well be the rest of the statement.
                    yield head, _joined(texts), damage if _TIMED.match(line) else damage or BROKEN
                trouble.lose(UNFIT, line)
                head, is_lost = None, True
            elif head is not None:
                # The rest of the statement, the note of a log service, or another program's output.
                damage = TRUNCATED if b"truncated" in line else damage or BROKEN
            elif not is_lost:
                trouble.lose(FRAGMENT, line)
                is_lost = True
        if match is None:
            continue
        severity, text = match["severity"], line[match.end() :]
        if severity in _OF_LAST:
            if head is None or _session(match) != _session(head):
                if not is_lost:
                    trouble.lose(FRAGMENT, line)
                continue
            texts.append((severity, [text]))
            size += len(text)
            continue
        if head is not None:
            yield head, _joined(texts), damage
        head, texts, size, damage, is_lost = match, [(severity, [text])], len(line), "", False
    if head is not None:
        if not texts[-1][1][-1].endswith(b"\n"):
            damage = damage or CUT
        yield head, _joined(texts), damage


def _session(match: re.Match[bytes]) -> bytes:
    groups = match.groupdict()
    return groups.get("session") or groups.get("process") or b""


def _joined(texts: list[tuple[bytes, list[bytes]]]) -> Texts:
    if len(texts) == 1 and len(texts[0][1]) == 1:
        severity, (line,) = texts[0]
        return [(severity, line.removesuffix(b"\n").removesuffix(b"\r"))]
    return [(severity, b"".join(lines).removesuffix(b"\n").removesuffix(b"\r")) for severity, lines in texts]


__all__ = ["entries"]
