"""From the entries of a log to the statements of its sessions.

A statement may take several entries: with `log_min_duration_statement` those of its parse, its bind and its
execution, each with its own duration; with `log_statement` one when it begins, and with `log_duration`
another one when it ends. One that fails says so in an entry of its own, and then nothing says how long it
took.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pgstrata.traffic import shapes
from pgstrata.traffic.captured import (
    EXTENDED,
    OPEN_BEFORE,
    OPEN_BEHIND,
    PREPARED,
    SIMPLE,
    LeftOut,
    SessionWriter,
    Statement,
    Writer,
)
from pgstrata.traffic.literals import Purpose
from pgstrata.traffic.logs.line import LogEntry
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.masked import masked
from pgstrata.traffic.tokens import tokens

MOST_SESSIONS = 20_000
"""Sessions that are kept in mind at the same time; of more, those are taken for ended that have been silent
for longest."""

MOST_SHAPES = 20_000
"""What comes later shares one shape."""

OTHERS = "all other statements"

ROWS_OF_COPY = "COPY … FROM STDIN: its rows are not in a log"
NO_PARAMETERS = "statements without the values of their parameters"
PASSWORDS = "statements with a password, which no file should keep"
FASTPATH = "function calls of the fast path"
PREPARED_BEFORE = "EXECUTE of what was prepared before the log begins"
NO_TEXT = "durations without a statement"
NO_STATEMENT = "errors without their statement"

_DURATION = re.compile(
    r"duration: ([0-9]+(?:\.[0-9]+)?) ms(?:  (statement|parse|bind|execute|fastpath function call)"
    r"(?: (fetch from )?([^:]*))?: ?(.*))?\Z",
    re.DOTALL,
)
_EXECUTE = re.compile(r"execute (fetch from )?([^:]*): (.*)\Z", re.DOTALL)
_PARAMETER = re.compile(r"\$([0-9]+) = (?:NULL|'((?:[^']|'')*)')")
_CONTEXT = re.compile(
    r"(?:extended query|unnamed portal|portal \"[^\"]*\") with parameters: (.*?)(?:\n[A-Z]|\Z)"
    r"|(?:unnamed portal|portal \"[^\"]*\") parameter (\$[0-9]+ = .*?)(?:\n[A-Z]|\Z)",
    re.DOTALL,
)
_DISCONNECTED = "disconnection: "
_CONNECTED = ("connection received: ", "connection authorized: ", "connection authenticated: ")


def parameters(text: str) -> tuple[str | None, ...] | None:
    """Values as the server lists them, `$1 = 'it''s', $2 = NULL`; None where they are cut off or none."""
    values: list[str | None] = []
    at = 0
    while at < len(text):
        match = _PARAMETER.match(text, at)
        if match is None or int(match[1]) != len(values) + 1:
            return None
        values.append(None if match[2] is None else match[2].replace("''", "'"))
        at = match.end()
        if at < len(text):
            if not text.startswith(", ", at):
                return None
            at += 2
    return tuple(values)


def _of_detail(detail: str) -> tuple[str | None, ...] | None:
    # PostgreSQL 16 writes a capital.
    return parameters(detail[12:]) if detail[:12] in ("parameters: ", "Parameters: ") else None


def _of_context(context: str) -> tuple[str | None, ...] | None:
    match = _CONTEXT.search(context)
    return parameters(match[1] or match[2]) if match else None


@dataclass
class _Waiting:
    """A statement whose end is still to come: `log_statement` has said that it begins."""

    start: int
    protocol: int
    text: str
    values: tuple[str | None, ...] | None


class _Known(NamedTuple):
    """Of a statement: its text as it is kept, the number of its shape, whether the text will come again, its
    highest parameter, its kind, and where it is masked the purposes of parameters that are no plain
    values."""

    text: str
    shape: int
    common: bool
    parameters: int
    kind: str
    purposes: Mapping[int, Purpose]


_NO_PURPOSES: Mapping[int, Purpose] = {}


class _Open:
    """A session that is being read. before: microseconds of parse and bind for the statement that comes,
    since `since`; held: the last statement, which a fetch may still make longer; connected: when, where the
    log says it; free: since when nothing is under way."""

    __slots__ = (
        "before",
        "connected",
        "database",
        "fetching",
        "free",
        "held",
        "in_transaction",
        "last",
        "prepared",
        "since",
        "waiting",
        "whole",
        "written",
    )

    def __init__(self, database: str, whole: bool, at: int, connected: int | None = None) -> None:
        self.database, self.whole, self.connected = database, whole, connected
        self.last = at
        self.free = 0
        self.fetching = False
        self.before = 0
        self.since: int | None = None
        self.held: tuple[Statement, bool] | None = None
        self.waiting: _Waiting | None = None
        self.written: SessionWriter | None = None
        self.in_transaction = False
        self.prepared: set[str] | None = None


@dataclass
class SessionFacts:
    """What there is to say of all sessions, beside their statements.

    open_before: transactions whose beginning is before the log; open_behind: whose end is behind it; resumed:
    sessions that were taken for ended; untimed: statements that went well in an unknown time; ellipses:
    parameters that end in three dots; shortest: microseconds of the fastest statement. constants: numbers of
    the shapes whose constants stay in a masked file.
    """

    left_out: dict[str, LeftOut] = field(default_factory=dict)
    open_before: int = 0
    open_behind: int = 0
    resumed: int = 0
    untimed: int = 0
    ellipses: int = 0
    shortest: int | None = None
    constants: set[int] = field(default_factory=set)
    entries: int = 0
    own: int = 0
    connections: int = 0

    def leave_out(self, why: str, seconds: float, example: str) -> None:
        one = self.left_out.get(why)
        if one is None:
            one = self.left_out[why] = LeftOut(why, example=example[:300])
        one.count += 1
        one.seconds += seconds


class Reader:
    """Takes entries in their order and writes the statements of every session. mask: of values, where they
    are to be masked."""

    def __init__(self, writer: Writer, mask: Mask | None = None) -> None:
        self.found = SessionFacts()
        self._writer, self._mask = writer, mask
        self._sessions: dict[str, _Open] = {}
        self._first: int | None = None
        self._known: dict[str, _Known] = {}
        self._forgotten: set[str] = set()

    # --- entries ------------------------------------------------------------------------------

    def take(self, entry: LogEntry) -> None:
        """The next entry."""
        found = self.found
        found.entries += 1
        if self._first is None:
            self._first = entry.time
        message = entry.message
        if message.startswith(_CONNECTED):
            found.connections += 1
            old = (
                self._sessions.pop(entry.session, None) if message.startswith("connection received") else None
            )
            if old is not None:  # another process with the same number
                self._end(old, None)
            if entry.session not in self._sessions:
                self._sessions[entry.session] = _Open(entry.database, True, entry.time, entry.time)
            elif entry.database:
                self._sessions[entry.session].database = entry.database
            return
        if not entry.own:
            return
        found.own += 1
        if message.startswith("duration: "):
            self._duration(entry)
        elif message.startswith("statement: "):
            self._begins(entry, SIMPLE, message[11:], None)
        elif message.startswith("execute "):
            self._executes(entry)
        elif entry.failed:
            self._fails(entry)
        elif message.startswith(_DISCONNECTED):
            session = self._sessions.pop(entry.session, None)
            if session is not None:
                self._end(session, entry.time)

    def finish(self) -> None:
        """The log is at its end."""
        for session in self._sessions.values():
            self._end(session, None)
        self._sessions.clear()

    def _session(self, entry: LogEntry) -> _Open:
        session = self._sessions.get(entry.session)
        if session is None:
            if len(self._sessions) >= MOST_SESSIONS:
                self._forget()
            # One that began before the log has done things of which nothing is known.
            whole = entry.started is not None and self._first is not None and entry.started > self._first
            session = self._sessions[entry.session] = _Open(entry.database, whole, entry.time)
            if entry.session in self._forgotten:
                self.found.resumed += 1
        session.last = entry.time
        if entry.database and not session.database:
            session.database = entry.database
        return session

    def _forget(self) -> None:
        by_age = sorted(self._sessions.items(), key=lambda item: item[1].last)
        for name, session in by_age[: MOST_SESSIONS // 2]:
            self._end(session, None)
            del self._sessions[name]
            if len(self._forgotten) < 10 * MOST_SESSIONS:
                self._forgotten.add(name)

    def _duration(self, entry: LogEntry) -> None:
        match = _DURATION.match(entry.message)
        if match is None:
            return  # of auto_explain, which says it beside the statement's own
        took = round(float(match[1]) * 1000)
        kind, fetched, name, text = match[2], match[3], match[4], match[5]
        session = self._session(entry)
        if kind is None:
            self._ends(session, entry, took)
            return
        began = entry.time - took
        if kind in ("parse", "bind"):
            session.before += took
            if session.since is None:
                session.since = began
        elif kind == "statement":
            self._emit(session, began, took, SIMPLE, text, ())
        elif kind == "execute":
            if fetched:
                self._longer(session, took)
                return
            self._emit(session, began, took, _protocol(name), text, _of_detail(entry.detail))
        else:
            self.found.leave_out(FASTPATH, took / 1e6, entry.message)

    def _executes(self, entry: LogEntry) -> None:
        match = _EXECUTE.match(entry.message)
        if match is None:
            return
        if match[1]:
            session = self._session(entry)
            self._emit_waiting(session, None)
            session.fetching = True
        else:
            self._begins(entry, _protocol(match[2]), match[3], _of_detail(entry.detail))

    def _begins(
        self, entry: LogEntry, protocol: int, text: str, values: tuple[str | None, ...] | None
    ) -> None:
        session = self._session(entry)
        self._emit_waiting(session, None)
        session.fetching = False
        session.waiting = _Waiting(entry.time, protocol, text, values)

    def _ends(self, session: _Open, entry: LogEntry, took: int) -> None:
        if session.waiting is not None:
            self._emit_waiting(session, took)
        elif session.fetching:
            self._longer(session, took)
        else:
            # `log_duration` says it of a parse and a bind before the statement itself is named.
            session.before += took
            if session.since is None:
                session.since = entry.time - took

    def _emit_waiting(self, session: _Open, took: int | None, sqlstate: str = "") -> None:
        waiting = session.waiting
        if waiting is None:
            return
        session.waiting = None
        values = () if waiting.protocol == SIMPLE else waiting.values
        self._emit(session, waiting.start, took, waiting.protocol, waiting.text, values, sqlstate)

    def _fails(self, entry: LogEntry) -> None:
        session = self._session(entry)
        waiting = session.waiting
        if waiting is not None:
            took = max(0, entry.time - waiting.start)
            self._emit_waiting(session, took, entry.sqlstate)
        elif entry.query:
            values = _of_context(entry.context)
            protocol = EXTENDED if values is not None or self._what(entry.query).parameters else SIMPLE
            if protocol == SIMPLE and session.since is not None:
                protocol = EXTENDED
                values = values or ()
            elif values is None and entry.sqlstate.startswith("42"):
                # It failed before its parameters mattered, and will again.
                values = ()
            self._emit(session, entry.time, None, protocol, entry.query, values, entry.sqlstate)
        elif not entry.sqlstate.startswith(("57P", "08", "28")):
            self.found.leave_out(NO_STATEMENT, 0.0, entry.message)
        session.before, session.since = 0, None

    # --- statements ---------------------------------------------------------------------------

    def _emit(
        self,
        session: _Open,
        start: int,
        took: int | None,
        protocol: int,
        text: str,
        values: tuple[str | None, ...] | None,
        sqlstate: str = "",
    ) -> None:
        if session.since is not None:
            start = min(start, session.since)
            took = None if took is None else took + session.before
            session.before, session.since = 0, None
        known = self._what(text)
        kind = known.kind
        if (why := self._not_kept(session, kind, protocol, values, known.parameters, text)) is not None:
            example = shapes.shape(text).text if self._mask or kind == shapes.PASSWORD else text
            self.found.leave_out(why, (took or 0) / 1e6, example)
            return
        if kind == shapes.BEGIN:
            session.in_transaction = True
        elif kind == shapes.END:
            if not session.in_transaction and not session.whole and session.written is None:
                self.found.open_before += 1
            session.in_transaction = False
        if took is None and not sqlstate:
            self.found.untimed += 1
        if took is not None and (self.found.shortest is None or took < self.found.shortest):
            self.found.shortest = took
        # Times of a log are cut to milliseconds: a statement would seem to begin within the one before it.
        start = max(start, session.free)
        session.free = start + (took or 0)
        self._flush(session)
        given = tuple(values or ())
        if given and any(value is not None and value.endswith("...") for value in given):
            self.found.ellipses += 1
        if self._mask is not None:
            given = self._masked_values(given, known.purposes, self._mask)
        forgets = kind == shapes.FORGETS
        session.held = (
            Statement(start, took, protocol, known.shape, known.text, given, sqlstate, forgets),
            known.common,
        )

    def _not_kept(
        self,
        session: _Open,
        kind: str,
        protocol: int,
        values: tuple[str | None, ...] | None,
        highest: int,
        text: str,
    ) -> str | None:
        """Why a statement cannot be in the file."""
        if kind == shapes.COPY_IN:
            return ROWS_OF_COPY
        if kind == shapes.PASSWORD:
            return PASSWORDS
        if kind in (shapes.PREPARE, shapes.EXECUTE):
            name = (
                text.split(None, 2)[1].partition("(")[0].rstrip(";").lower()
                if len(text.split(None, 2)) > 1
                else ""
            )
            if session.prepared is None:
                session.prepared = set()
            if kind == shapes.PREPARE:
                session.prepared.add(name)
            elif not session.whole and name not in session.prepared:
                return PREPARED_BEFORE
        if protocol != SIMPLE and values is None and highest:
            return NO_PARAMETERS
        return None

    def _longer(self, session: _Open, took: int) -> None:
        """A later part of a statement that was fetched in parts."""
        session.before, session.since = 0, None
        if session.held is not None:
            statement, common = session.held
            session.held = (statement._replace(duration=(statement.duration or 0) + took), common)

    def _flush(self, session: _Open) -> None:
        if session.held is None:
            return
        statement, common = session.held
        session.held = None
        if session.written is None:
            flags = 0 if session.whole else OPEN_BEFORE
            number = self._writer.database(session.database)
            begin = statement.start if session.connected is None else min(session.connected, statement.start)
            session.written = self._writer.begin(begin, number, flags)
        self._writer.add(session.written, statement, common=common)

    def _end(self, session: _Open, at: int | None) -> None:
        self._emit_waiting(session, None)
        self._flush(session)
        if session.in_transaction and at is None:
            self.found.open_behind += 1
        if session.written is not None:
            self._writer.end(session.written, at, 0 if at is not None else OPEN_BEHIND)

    @staticmethod
    def _masked_values(
        values: tuple[str | None, ...], purposes: Mapping[int, Purpose], mask: Mask
    ) -> tuple[str | None, ...]:
        made: list[str | None] = []
        for number, value in enumerate(values, 1):
            purpose = purposes.get(number, Purpose.VALUE)
            if value is None or purpose is Purpose.SETTING:
                made.append(value)
            else:
                made.append(mask.pattern(value) if purpose is Purpose.PATTERN else mask(value))
        return tuple(made)

    def _what(self, text: str) -> _Known:
        found = self._known.get(text)
        if found is not None:
            return found
        pieces = tokens(text)
        shape = shapes.shape(text, pieces)
        kept, purposes, constants = text, _NO_PURPOSES, False
        if self._mask is not None:
            kept, purposes, constants = masked(text, self._mask, pieces)
        writer = self._writer
        full = len(writer.shapes) >= MOST_SHAPES and not writer.has_shape(shape.text)
        number = writer.shape(OTHERS if full else shape.text)
        if constants:
            self.found.constants.add(number)
        found = _Known(kept, number, not shape.literals, shape.parameters, shape.kind, purposes)
        if len(text) <= 4096:
            if len(self._known) >= 50_000:
                self._known.clear()
            self._known[text] = found
        return found


def _protocol(name: str) -> int:
    """Of a statement by its name in the log, `S_1/C_2` or `<unnamed>`."""
    return EXTENDED if name.partition("/")[0] in ("<unnamed>", "") else PREPARED


__all__ = ["Reader", "SessionFacts", "parameters"]
