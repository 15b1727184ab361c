"""A part of a captured file as a captured file of its own: its busiest window, or a chosen one.

Sessions keep their places. What a session had set, prepared or opened before the window, and what therefore
holds within it, is asked again at the window's beginning. Time in which no session asked for anything may be
cut.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from pgstrata import numbers
from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown, user_path
from pgstrata.numbers import counted
from pgstrata.traffic import shapes
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import (
    OPEN_BEFORE,
    OPEN_BEHIND,
    SIMPLE,
    Captured,
    Header,
    LeftOut,
    SessionEntry,
    Statement,
    Writer,
    is_captured,
)
from pgstrata.traffic.mask import Mask

SECOND = 1_000_000
"""Microseconds."""

PAUSE = SECOND
"""Microseconds that are left of a pause of all sessions where idle time is cut."""

_PARTS = 200
"""Of the log for each window: that far apart are the windows of which the busiest is taken."""

MOST_PARTS = 5_000_000

_BUCKET = 100_000
"""Microseconds that are busy or idle as a whole."""

MOST_BUCKETS = 400_000_000
"""Of idle time: more than a year."""

MOST_STATE = 10_000
"""Statements of a session that set what holds later; of more, the first are left out."""


LONGEST = 100_000
"""Letters of a statement that may set something."""


class Window(NamedTuple):
    """A part of a log, in microseconds since 1970."""

    begin: int
    end: int

    @property
    def text(self) -> str:
        """For users, in UTC."""
        first, last = (datetime.fromtimestamp(time / 1e6, UTC) for time in self)
        same = first.date() == last.date()
        return f"{first:%Y-%m-%d %H:%M:%S} to {last:{'%H:%M:%S' if same else '%Y-%m-%d %H:%M:%S'}} UTC"


_TIME = r"(?:([0-9]{4}-[0-9]{2}-[0-9]{2})[T ])?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?"
_WINDOW = re.compile(rf"{_TIME}\s*(?:-|–|/|\.\.)\s*{_TIME}", re.ASCII)


def window_of(text: str, header: Header) -> Window:
    """Returns the window that a user has written: `10:00-10:20`, in UTC, with or without days.

    Without a day it is the first one of the log on which the window holds a part of it. Raises UsageError for
    what is no window, and for one beside the log.
    """
    example = "write it in UTC: --window 10:00-10:20, or 2026-08-03T10:00-2026-08-03T10:20"
    match = _WINDOW.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--window {shown(text)} is no window of time", example)
    whole = Window(header.begin, header.end)
    first_day = datetime.fromtimestamp(header.begin / 1e6, UTC).date()
    days = (whole.end - whole.begin) // (86_400 * SECOND) + 2
    for number in range(-1, 1 if match[1] else min(days, 4000)):
        day = first_day + timedelta(days=number)
        try:
            begin = _moment(match[1] or f"{day}", *match.group(2, 3, 4))
            end = _moment(match[5] or match[1] or f"{day}", *match.group(6, 7, 8))
        except ValueError:
            raise UsageError(f"--window {shown(text)} has a time that does not exist", example) from None
        if end <= begin and not match[5]:
            end += 86_400 * SECOND
        if end <= begin:
            raise UsageError(f"--window {shown(text)} ends before it begins", example)
        if begin < whole.end and end > whole.begin:
            return Window(begin, end)
    raise UsageError(f"--window {shown(text)} lies beside the log", f"the log is of {whole.text}")


def _moment(day: str, hour: str, minute: str, second: str | None) -> int:
    time = datetime.fromisoformat(f"{day}T{int(hour):02d}:{minute}:{second or '00'}").replace(tzinfo=UTC)
    return int(time.timestamp()) * SECOND


def busiest(path: Path, seconds: float, database: str | None = None) -> Window:
    """Returns the window of this length in which statements took the most time, the first of several.

    database: the one that is replayed, None for that of most statements. Where the log says of no statement
    how long it took, statements are counted.
    """
    with Captured(path) as captured:
        header = captured.header
        length = max(1, round(seconds * SECOND))
        if length >= header.end - header.begin:
            return Window(header.begin, header.end + 1)
        part = max(1, length // _PARTS, (header.end - header.begin) // MOST_PARTS)
        weights = np.zeros((header.end - header.begin) // part + 1)
        for _, statement in _of_database(captured, database):
            place = min(len(weights) - 1, max(0, statement.start - header.begin) // part)
            weights[place] += (statement.duration or 0) if header.timed else 1
    sums = np.concatenate(([0.0], np.cumsum(weights)))
    width = max(1, length // part)
    first = int(np.argmax(sums[width:] - sums[:-width]))
    begin = header.begin + first * part
    return Window(begin, begin + length)


def _of_database(captured: Captured, database: str | None) -> Iterator[tuple[SessionEntry, Statement]]:
    databases = captured.header.databases
    most = max(databases, key=lambda candidate: candidate.statements).name if databases else ""
    wanted = most if database is None else database
    for entry in captured.sessions():
        if databases[entry.database].name == wanted:
            for statement in captured.statements(entry):
                yield entry, statement


def cut(path: Path, to: Path, window: Window, *, skip_idle: bool = False) -> Header:
    """Writes the window of a captured file into another one, and returns its header.

    Raises UsageError where no statement begins within the window.
    """
    with Captured(path) as captured, Writer(to) as writer:
        header = captured.header
        clock = _Clock(captured, window) if skip_idle else None
        known = _Shapes(header, writer)
        outside = LeftOut(f"outside of the window {window.text}")
        state = cut_open = 0
        for entry in captured.sessions():
            held = _State()
            within: list[Statement] = []
            session = None
            begins = max(entry.begin, window.begin)
            for statement in captured.statements(entry):
                if not window.begin <= statement.start < window.end:
                    if statement.start < window.begin:
                        held.take(statement)
                    outside.count += 1
                    outside.seconds += (statement.duration or 0) / 1e6
                    continue
                if session is None:
                    number = writer.database(header.databases[entry.database].name)
                    flags = entry.flags | (OPEN_BEFORE if entry.begin < window.begin else 0)
                    at = begins if clock is None else clock.moved(begins)
                    session = writer.begin(at, number, flags)
                    before = held.statements()
                    state += len(before)
                    cut_open += held.is_open
                    within = [earlier._replace(start=begins) for earlier in before]
                    outside.count -= len(before)
                    outside.seconds -= sum(earlier.duration or 0 for earlier in before) / 1e6
                for copied in (*within, statement):
                    start = copied.start if clock is None else clock.moved(copied.start)
                    kept = copied._replace(start=start, shape=known.number(copied.shape))
                    writer.add(session, kept, common=known.is_common(copied))
                within = []
            if session is not None:
                is_cut = entry.end > window.end
                end = min(entry.end, window.end)
                end = end if clock is None else clock.moved(end)
                writer.end(session, end, OPEN_BEHIND if is_cut else 0)
        if not writer.header.statements:
            raise UsageError(
                f"no statement of {shown(path)} begins within {window.text}",
                f"it has statements of {Window(header.begin, header.end).text}",
            )
        known.finish()
        notes = [*header.notes, f"only the window {window.text} of the log is in it"]
        if state:
            notes.append(
                f"asked at the window's beginning: {counted(state, 'statement')} from before it, which set "
                "what holds in it"
            )
        if cut_open:
            notes.append(
                f"{counted(cut_open, 'transaction')} had begun before the window: only what came in it "
                "is replayed"
            )
        if clock is not None and clock.removed:
            notes.append(
                f"{numbers.duration(clock.removed / SECOND)} in which no session asked for anything were cut"
            )
        left_out = [msgspec.structs.replace(omission) for omission in header.left_out]
        return writer.finish(
            Header(
                made=datetime.now(UTC).isoformat(timespec="seconds"),
                source=header.source,
                files=header.files,
                masked=header.masked,
                left_out=[*([outside] if outside.count else []), *left_out],
                damaged=header.damaged,
                # Entries are counted of a log, and a part of a file says nothing of them.
                balance=None,
                notes=notes,
            )
        )


def capture_part(
    logs: Sequence[Path],
    to: Path,
    *,
    window: str | None,
    skip_idle: bool,
    mask: Mask | None = None,
    prefix: str | None = None,
    timezone: str | None = None,
    encoding: str = "latin-1",
    say: Callable[[str], None] | None = None,
) -> Header:
    """Captures logs, or a window of them, or of one captured file. The others as `capture` has them.

    Raises UsageError for what is no log, and CapturedError.
    """

    def whole(file: Path) -> Header:
        how = {"mask": mask, "prefix": prefix, "timezone": timezone, "encoding": encoding, "say": say}
        return capture(logs, file, **how)  # type: ignore[arg-type]

    if window is None and not skip_idle:
        return whole(to)
    if to.exists():
        raise UsageError(f"{shown(to)} is there already", "name another file, or remove it")
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=f".{to.name}-") as folder:
        file = user_path(logs[0])
        if len(logs) == 1 and is_captured(file):
            if mask is not None:
                raise UsageError("--mask is for logs, and a captured file stays as it is", "capture the log")
            with Captured(file) as captured:
                header = captured.header
        else:
            file = Path(folder) / "whole"
            header = whole(file)
        chosen = Window(header.begin, header.end + 1) if window is None else window_of(window, header)
        return cut(file, to, chosen, skip_idle=skip_idle)


class _Shapes:
    """The normalized statements that the window has, with what is known of each."""

    def __init__(self, header: Header, writer: Writer) -> None:
        self._header, self._writer = header, writer
        self._numbers: dict[int, int] = {}

    def number(self, shape: int) -> int:
        """Returns the number of a shape in the new file."""
        number = self._numbers.get(shape)
        if number is None:
            number = self._numbers[shape] = self._writer.shape(self._header.shapes[shape].text)
        return number

    def is_common(self, statement: Statement) -> bool:
        """Returns whether a text is likely to come again: it has no literals."""
        return statement.protocol != SIMPLE or statement.text == self._header.shapes[statement.shape].text

    def finish(self) -> None:
        """Takes over what is known of the shapes."""
        for old, new in self._numbers.items():
            old_shape, new_shape = self._header.shapes[old], self._writer.shapes[new]
            new_shape.reads, new_shape.parameters, new_shape.rows = (
                old_shape.reads,
                old_shape.parameters,
                old_shape.rows,
            )


class _Clock:
    """Times of a window without its pauses."""

    def __init__(self, captured: Captured, window: Window) -> None:
        size = (window.end - window.begin) // _BUCKET + 2
        if size > MOST_BUCKETS:
            raise UsageError(f"--skip-idle is not for a log of {window.text}", "name a --window")
        busy = np.zeros(size + 1, np.int32)
        for entry in captured.sessions():
            for statement in captured.statements(entry):
                if window.begin <= statement.start < window.end:
                    first = (statement.start - window.begin) // _BUCKET
                    last = (statement.start + (statement.duration or 0) - window.begin) // _BUCKET
                    busy[first] += 1
                    busy[min(size, last + 1)] -= 1
        idle = np.cumsum(busy[:size]) <= 0
        # Of each run of idle buckets all but the first ones are cut.
        kept = PAUSE // _BUCKET
        places = np.arange(size)
        last_busy = np.maximum.accumulate(np.where(idle, -1, places))
        is_cut = idle & (places - last_busy > kept)
        self._begin = window.begin
        self._removed = np.concatenate(([0], np.cumsum(is_cut, dtype=np.int64))) * _BUCKET
        self.removed = int(self._removed[-1])

    def moved(self, time: int) -> int:
        """Returns when a time of the window is without the pauses before it."""
        place = min(len(self._removed) - 1, max(0, time - self._begin) // _BUCKET)
        return time - int(self._removed[place])


# --- what holds from before --------------------------------------------------------------------

_NAME = r'("(?:[^"]|"")+"|[\w.$]+)'
_SET = re.compile(rf"SET\s+(?:SESSION\s+)?(?!LOCAL\b|TRANSACTION\b|CONSTRAINTS\b){_NAME}", re.I)
_CHARACTERISTICS = re.compile(r"SET\s+SESSION\s+(CHARACTERISTICS|AUTHORIZATION)\b", re.I)
_RESET = re.compile(rf"RESET\s+{_NAME}", re.I)
_CONFIG = re.compile(
    r"SELECT\s+(?:pg_catalog\.)?set_config\s*\(\s*([^,]+),.*,\s*(?:false|'f'|'false')\s*\)", re.I | re.S
)
_PREPARE = re.compile(rf"PREPARE\s+(?!TRANSACTION\b){_NAME}", re.I)
_DEALLOCATE = re.compile(rf"DEALLOCATE\s+(?:PREPARE\s+)?{_NAME}", re.I)
_DISCARD = re.compile(r"DISCARD\s+(ALL|PLANS|TEMP|TEMPORARY|SEQUENCES)\b", re.I)
_TEMPORARY = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:LOCAL\s+|GLOBAL\s+)?TEMP(?:ORARY)?\s+"
    rf"(?:TABLE|(?:RECURSIVE\s+)?VIEW|SEQUENCE)\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:pg_temp\s*\.\s*)?{_NAME}",
    re.I,
)
_UNTIL_COMMIT = re.compile(r"\bON\s+COMMIT\s+DROP\b", re.I)
_DROP = re.compile(r"DROP\s+(?:TABLE|VIEW|SEQUENCE)\s+(?:IF\s+EXISTS\s+)?([^;]*)", re.I)
_HOLD = re.compile(rf"DECLARE\s+{_NAME}\s.*?\bCURSOR\s+WITH\s+HOLD\b", re.I | re.S)
_CLOSE = re.compile(rf"CLOSE\s+{_NAME}", re.I)
_LISTEN = re.compile(rf"LISTEN\s+{_NAME}", re.I)
_UNLISTEN = re.compile(rf"UNLISTEN\s+(?:{_NAME}|\*)", re.I)
_KINDS = ("set", "prepare", "temp", "cursor", "listen")
"""Of what holds in a session, until DISCARD ALL."""
_OF_TRANSACTION = re.compile(
    r"(?:BEGIN|START\s+TRANSACTION|SET\s+(?:LOCAL|TRANSACTION|CONSTRAINTS)|SAVEPOINT|RELEASE|"
    r"ROLLBACK\s+(?:(?:WORK|TRANSACTION)\s+)?TO|DECLARE)\b",
    re.I,
)


class _State:
    """What a session has set, prepared and opened, by the statements that did it."""

    def __init__(self) -> None:
        self._held: dict[str, Statement] = {}
        #: Of the transaction that is open: it holds where that is committed.
        self._pending: dict[str, Statement | None] | None = None
        self._opened: list[Statement] = []
        #: A statement of the transaction has failed, so nothing of it holds.
        self._is_failed = False

    @property
    def is_open(self) -> bool:
        """True within a transaction."""
        return self._pending is not None

    def take(self, statement: Statement) -> None:
        """Takes the next statement of the session."""
        if len(statement.text) > LONGEST:
            return
        text = shapes.without_leading_comments(statement.text)
        kind = shapes.kind_of(text.upper()[:200]) if text[:1] else ""
        if kind == shapes.END:
            if self._pending is not None and text[:1].upper() in "CE" and not self._is_failed:
                self._apply(self._pending)
            self._pending, self._opened, self._is_failed = None, [], False
            return
        if statement.sqlstate:
            self._is_failed = self._pending is not None
            return
        if kind == shapes.BEGIN:
            if ";" not in text.rstrip("; \n\t"):
                self._pending, self._opened, self._is_failed = {}, [statement], False
            return
        if self._pending is not None and _OF_TRANSACTION.match(text) and not _HOLD.match(text):
            self._opened.append(statement)
            self._is_failed = False  # of what goes well in a transaction that has failed: ROLLBACK TO
            return
        changes = dict(self._changes(text, statement))
        if self._pending is None:
            self._apply(changes)
        else:
            self._pending.update(changes)
            self._opened += [statement] if changes else []

    def _changes(self, text: str, statement: Statement) -> Iterator[tuple[str, Statement | None]]:
        """Yields what a statement makes hold, and, with None, what it ends."""
        if match := _CHARACTERISTICS.match(text) or _SET.match(text):
            yield f"set {match[1].lower()}", statement
        elif match := _RESET.match(text):
            yield f"set {match[1].lower()}", None
        elif match := _CONFIG.match(text):
            name = match[1].strip().strip("'").lower()
            if name.startswith("$") and statement.parameters:
                name = (statement.parameters[0] or "").lower()
            yield f"set {name}", statement
        elif match := _PREPARE.match(text):
            yield f"prepare {match[1].lower()}", statement
        elif match := _DEALLOCATE.match(text):
            yield f"prepare {match[1].lower()}", None
        elif match := _DISCARD.match(text):
            if match[1].upper() == "ALL":
                yield from ((f"{kind} all", None) for kind in _KINDS)
            elif match[1].upper().startswith("TEMP"):
                yield "temp all", None
        elif match := _TEMPORARY.match(text):
            yield f"temp {shapes.bare(match[1])}", statement
        elif match := _DROP.match(text):
            for name in match[1].split(","):
                words = name.strip().removeprefix("pg_temp.").split(None, 1)
                yield f"temp {shapes.bare(words[0]) if words else ''}", None
            if behind := _TEMPORARY.search(text, match.end()):
                yield f"temp {shapes.bare(behind[1])}", statement
        elif match := _HOLD.match(text):
            yield f"cursor {shapes.bare(match[1])}", statement
        elif match := _CLOSE.match(text):
            yield f"cursor {shapes.bare(match[1])}", None
        elif match := _LISTEN.match(text):
            yield f"listen {shapes.bare(match[1])}", statement
        elif match := _UNLISTEN.match(text):
            yield f"listen {shapes.bare(match[1] or 'all')}", None

    def _apply(self, changes: Mapping[str, Statement | None]) -> None:
        for key, statement in changes.items():
            kind, _, name = key.partition(" ")
            if statement is None and name == "all":
                for other in [held_key for held_key in self._held if held_key.startswith(f"{kind} ")]:
                    del self._held[other]
            self._held.pop(key, None)
            if statement is not None and not (kind == "temp" and _UNTIL_COMMIT.search(statement.text)):
                self._held[key] = statement
        while len(self._held) > MOST_STATE:
            del self._held[next(iter(self._held))]

    def statements(self) -> list[Statement]:
        """Returns what is asked again, in its order."""
        return [*self._held.values(), *self._opened]


__all__ = ["PAUSE", "Window", "busiest", "capture_part", "cut", "window_of"]
