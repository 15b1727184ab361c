"""Logs with `log_destination = csvlog`."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import IO

from pgstrata.traffic.logs.clock import Clock
from pgstrata.traffic.logs.line import (
    CUT,
    FRAGMENT,
    LONGEST,
    Encoding,
    LogEntry,
    Trouble,
    is_failure,
    line_number,
)

# Time, user, database, process, address, session, line of session: so begins an entry, and hardly a line
# within one.
BEGIN = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3} [A-Za-z0-9+:-]{1,10},"
    rb'(?:"(?:[^"]++|"")*+")?,(?:"(?:[^"]++|"")*+")?,[0-9]+,(?:"[^"\n]*")?,[0-9a-f]+\.[0-9a-f]+,[0-9]+,'
)
_LEAST = 23
"""Columns of the oldest servers; newer ones have more behind them."""

_CLIENTS = frozenset(("client backend", "not initialized", ""))


def entries(file: IO[bytes], clock: Clock, encoding: Encoding, trouble: Trouble) -> Iterator[LogEntry]:
    """Yields every entry of a file. What is cut off or no entry is counted in `trouble`."""
    csv.field_size_limit(LONGEST)
    # session_start_time of the same session is the same text again.
    started: dict[str, int | None] = {}
    for record in records(file, trouble):
        try:
            # One at a time: whatever is wrong with one must not reach the next.
            (row,) = csv.reader((encoding.decode(record, trouble),), strict=True)
        except (csv.Error, ValueError):
            trouble.lose(CUT, record)
            continue
        if len(row) < _LEAST:
            trouble.lose(CUT, record)
            continue
        time = clock.microseconds(row[0])
        if time is None:
            trouble.lose(FRAGMENT, record)
            continue
        text = row[8]
        if text not in started:
            if len(started) > 10_000:
                started.clear()
            started[text] = clock.microseconds(text)
        severity = row[11]
        failed = severity != "LOG" and is_failure(severity, row[12])
        yield LogEntry(
            time,
            row[5],
            row[13],
            severity=severity,
            database=row[2],
            detail=row[14],
            context=row[18],
            query=row[19],
            sqlstate=row[12] if failed else "",
            failed=failed,
            started=started[text],
            client=(row[23] if len(row) > 23 else "") in _CLIENTS and bool(row[2]),
            tag=row[7],
            number=line_number(row[6]),
            transaction=row[9],
        )


def records(file: IO[bytes], trouble: Trouble) -> Iterator[bytes]:
    """Yields the bytes of every entry that is whole: its quotes are closed, and no other begins within it."""
    held: list[bytes] = []
    size = 0
    open_quote = False
    fragment = False
    while line := file.readline(LONGEST):
        if held and (size + len(line) > LONGEST or (open_quote and BEGIN.match(line))):
            # The one before has lost its end: a crash, a full disk, or a log that was cut.
            trouble.lose(CUT, held[0])
            held, size, open_quote, fragment = [], 0, False, True
        if not held and not BEGIN.match(line):
            if line.strip() and not fragment:
                trouble.lose(FRAGMENT, line)
                fragment = True
            continue
        if not held and line.endswith(b"\n") and not line.count(b'"') & 1:
            fragment = False
            yield line
            continue
        held.append(line)
        size += len(line)
        open_quote ^= bool(line.count(b'"') & 1)
        if not open_quote and line.endswith(b"\n"):
            yield b"".join(held)
            held, size, fragment = [], 0, False
    if held:
        trouble.lose(CUT, held[0])


__all__ = ["BEGIN", "entries", "records"]
