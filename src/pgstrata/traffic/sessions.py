"""From the entries of a log to the statements of its sessions.

A statement may take several entries: with `log_min_duration_statement` those of its parse, its bind and its
execution, each with its own duration; with `log_statement` one when it begins, and with `log_duration`
another one when it ends. One that fails says so in an entry of its own, and then nothing says how long it
took. Each entry is counted once: as part of a statement or a session of the file, as left out, or as damaged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pgstrata.sql_tokens import tokens
from pgstrata.traffic import messages, settings, shapes
from pgstrata.traffic.account import (
    CANCELED,
    CUT_VALUES,
    DEFINITIONS,
    EMPTY_SESSIONS,
    ENCODING,
    ENDED,
    FASTPATH,
    LATER_PARTS,
    MAINTENANCE,
    MARK,
    MESSAGES,
    NO_PARAMETERS,
    NO_STATEMENT,
    NO_TEXT,
    OWN,
    PASSWORDS,
    PREPARED_BEFORE,
    PREPARED_BY_DRIVER,
    ROWS_OF_COPY,
    UNEXECUTED,
    Account,
)
from pgstrata.traffic.captured import (
    EXTENDED,
    OPEN_BEFORE,
    OPEN_BEHIND,
    PREPARED,
    SIMPLE,
    SessionWriter,
    Statement,
    Writer,
)
from pgstrata.traffic.completeness import Signs, SignsOfSession
from pgstrata.traffic.literals import Purpose
from pgstrata.traffic.logs.line import TRUNCATED, UNBOUNDED, LogEntry
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.masked import masked
from pgstrata.traffic.messages import DURATION
from pgstrata.traffic.pending import NOTHING, Cost, Pending

MOST_SESSIONS = 20_000
"""Sessions that are kept in mind at the same time; of more, those are taken for ended that have been silent
for longest."""

MOST_SHAPES = 20_000
"""What comes later shares one shape."""

OTHERS = "all other statements"

_FUNCTION_CALL = -1
"""Stands for a protocol, of a statement that is waited for."""

_ENDS = ("57P", "08", "28", "25P03", "25P04", "3D000", "53300")
"""SQLSTATEs with which the server refuses or ends a connection."""


_CANCELED = frozenset(("57014", "57P01", "57P02", "25P04"))
"""SQLSTATEs of statements that a user, a time limit or an administrator ended."""


class _Waiting(NamedTuple):
    """A statement whose end is still to come: `log_statement` has said that it begins."""

    start: int
    protocol: int
    name: str
    text: str
    values: tuple[str | None, ...] | None
    cost: Cost
    #: Why its text is not whole, empty where it is.
    damage: str = ""
    listed: str = ""


class _Known(NamedTuple):
    """What is known of a text."""

    #: As it is kept in the file.
    text: str
    shape: int
    #: It will come again.
    is_common: bool
    #: The highest of its parameters.
    parameters: int
    kind: str
    #: Of parameters that are no plain values, where values are masked.
    purposes: Mapping[int, Purpose]
    #: Pairs of parameters with the name and the value of a setting.
    set_by_parameters: tuple[tuple[int, int], ...]
    #: It does nothing but set client_encoding, or it does so beside other things.
    is_encoding: bool
    is_recoded: bool
    #: pgstrata asked it, for a synthetic file.
    is_own: bool
    #: It drops all that its session has prepared.
    forgets: bool
    #: Of what defines something the normalized text.
    definition: str
    #: Temporary tables and the like that it makes.
    temporary: tuple[str, ...]


class _Held:
    """The last statement of a session, which a fetch may still make longer."""

    __slots__ = ("entries", "is_common", "statement", "text")

    def __init__(self, statement: Statement, text: str, entries: int, is_common: bool) -> None:
        self.statement, self.text, self.entries, self.is_common = statement, text, entries, is_common


_NO_PURPOSES: Mapping[int, Purpose] = {}

_PERHAPS_CUT = frozenset("] \n")
"""Last letters of a text that a log service may have cut."""


class _Open:
    """A session that is being read."""

    __slots__ = (
        "connected",
        "database",
        "fetching",
        "frames",
        "free",
        "held",
        "in_transaction",
        "last",
        "pending",
        "prepared",
        "signs",
        "temporary",
        "waiting",
        "whole",
        "written",
    )

    def __init__(self, database: str, whole: bool, at: int, connected: int | None = None) -> None:
        self.database = database
        #: It began within the log.
        self.whole = whole
        #: When it began, where the log says it.
        self.connected = connected
        self.last = at
        #: Since when nothing is under way.
        self.free = 0
        #: The text of the portal of which a part is fetched, None outside of that.
        self.fetching: str | None = None
        #: Entries about its beginning and its end.
        self.frames = 0
        self.pending = Pending()
        self.held: _Held | None = None
        self.waiting: _Waiting | None = None
        self.written: SessionWriter | None = None
        self.in_transaction = False
        self.prepared: set[str] | None = None
        #: Names of its temporary tables and the like, which are traffic and no change of the database.
        self.temporary: set[str] | None = None
        self.signs = SignsOfSession()


@dataclass
class SessionFacts:
    """What there is to say of all sessions, beside their statements."""

    #: Transactions whose beginning is before the log, and whose end is behind it.
    open_before: int = 0
    open_behind: int = 0
    #: Sessions that were taken for ended and went on.
    resumed: int = 0
    #: Statements that went well in an unknown time.
    untimed: int = 0
    #: Statements that set client_encoding beside other things.
    recoded: int = 0
    #: Numbers of the shapes whose constants stay in a masked file.
    constants: set[int] = field(default_factory=set)
    connections: int = 0


class Reader:
    """Takes entries in their order and writes the statements of every session. mask: of values, where they
    are to be masked."""

    def __init__(self, writer: Writer, mask: Mask | None = None) -> None:
        self.facts = SessionFacts()
        self.account = Account(has_examples=mask is None)
        self.signs = Signs()
        self._writer, self._mask = writer, mask
        self._sessions: dict[str, _Open] = {}
        self._first: int | None = None
        self._known: dict[str, _Known] = {}
        self._forgotten: set[str] = set()
        # Letters of the longest parameter that is whole, of statements that went well and of others.
        self._longest = [0, 0]
        self._longest_list = 0

    # --- entries ------------------------------------------------------------------------------

    def take(self, entry: LogEntry) -> None:
        """Takes the next entry."""
        account = self.account
        account.entries += 1
        if self._first is None:
            self._first = entry.time
        message = entry.message
        if message.startswith("duration: ") and entry.client and entry.severity == "LOG":
            self._duration(entry)
            return
        if message.startswith(messages.CONNECTED) and entry.severity == "LOG":
            self._connects(entry)
            return
        if not entry.client:
            account.server += 1
            return
        if entry.severity == "LOG":
            if message.startswith("statement: "):
                self._begins(entry, SIMPLE, "", message[11:], ())
                return
            if message.startswith("execute "):
                self._executes(entry)
                return
            if message.startswith(messages.FASTPATH):
                self._begins(entry, _FUNCTION_CALL, "", message, ())
                return
            if message.startswith(messages.DISCONNECTED):
                self._disconnects(entry)
                return
        if entry.failed:
            self._fails(entry)
            return
        self.signs.entry(self._session(entry).signs, entry)
        self._message(entry)

    def finish(self) -> None:
        """Ends all sessions: the log is at its end."""
        for session in self._sessions.values():
            self._end(session, None)
        self._sessions.clear()

    def _message(self, entry: LogEntry) -> None:
        self.account.leave_out(MESSAGES, 0.0, self._shown(entry.message), 1)

    def _shown(self, message: str) -> str:
        """Returns a message that may stand in the file: a masked one shows no values."""
        return message if self._mask is None else ""

    def _connects(self, entry: LogEntry) -> None:
        self.facts.connections += 1
        sessions = self._sessions
        if entry.message.startswith("connection received") and entry.session in sessions:
            self._end(sessions.pop(entry.session), None)  # another process with the same number
        session = sessions.get(entry.session)
        if session is None:
            self.opened(entry.session, entry.database, entry.time)
            session = sessions[entry.session]
        elif entry.database:
            session.database = entry.database
        session.frames += 1
        self.signs.entry(session.signs, entry)

    def _disconnects(self, entry: LogEntry) -> None:
        session = self._sessions.pop(entry.session, None)
        if session is None:
            self.account.leave_out(EMPTY_SESSIONS, 0.0, "", 1)
            return
        self.signs.entry(session.signs, entry)
        session.frames += 1
        self._end(session, entry.time)

    def _session(self, entry: LogEntry) -> _Open:
        session = self._sessions.get(entry.session)
        if session is None:
            if len(self._sessions) >= MOST_SESSIONS:
                self._forget()
            # One that began before the log has done things of which nothing is known.
            whole = entry.started is not None and self._first is not None and entry.started > self._first
            session = self._sessions[entry.session] = _Open(entry.database, whole, entry.time)
            if entry.session in self._forgotten:
                self.facts.resumed += 1
        session.last = entry.time
        if entry.database and not session.database:
            session.database = entry.database
        return session

    def opened(self, name: str, database: str, begin: int) -> bool:
        """Begins a session that is known from its beginning. Returns False where it has begun already."""
        if name in self._sessions:
            return False
        if len(self._sessions) >= MOST_SESSIONS:
            self._forget()
        self._sessions[name] = _Open(database, True, begin, begin)
        return True

    def _forget(self) -> None:
        by_age = sorted(self._sessions.items(), key=lambda item: item[1].last)
        for name, session in by_age[: MOST_SESSIONS // 2]:
            self._end(session, None)
            del self._sessions[name]
            if len(self._forgotten) < 10 * MOST_SESSIONS:
                self._forgotten.add(name)

    # --- what begins and what ends --------------------------------------------------------------

    def _duration(self, entry: LogEntry) -> None:
        session = self._session(entry)
        self.signs.entry(session.signs, entry)
        match = DURATION.match(entry.message)
        if match is None:
            if messages.PLAN.match(entry.message):
                self._message(entry)
            else:
                self.account.damage(UNBOUNDED, 0.0, entry.message, 1)
            return
        milliseconds, kind, is_fetch, portal, text = match.groups()
        took = round(float(milliseconds) * 1000)
        if kind is None:
            self._ends(session, entry, took)
            return
        if session.waiting is not None:
            self._emit_waiting(session, None)
        began = entry.time - took
        if entry.damage or entry.message[-1] in _PERHAPS_CUT or entry.detail[-1:] == "]":
            name = messages.statement_name(portal or "")
            if damage := _damage(entry):
                cost = session.pending.take(name, text, began)
                seconds = (took + cost.microseconds) / 1e6
                self.account.damage(damage, seconds, entry.message, 1 + cost.entries)
                return
        if kind == "statement":
            if session.pending.bare or session.pending.named_parts:
                self._plain(session)
            self.signs.statement(took)
            self.signs.statement_of(session.signs, entry.transaction, text)
            self._emit(session, began, took, SIMPLE, text, ())
            return
        name = messages.statement_name(portal or "")
        if kind == "execute":
            session.fetching = None
            if is_fetch:
                self._longer(session, text, took)
                return
            cost = self._cost(session, name, text, began)
            self.signs.execution(took, is_bound=cost is not NOTHING)
            listed = entry.detail
            values = messages.parameters_of_detail(listed) if listed else None
            protocol = PREPARED if name else EXTENDED
            self._emit(session, began, took, protocol, text, values, cost=cost, listed=listed)
        elif kind == "fastpath function call":
            self._plain(session)
            self.account.leave_out(FASTPATH, took / 1e6, entry.message, 1)
        else:
            replaced = session.pending.add(kind, name, text, began, took)
            if replaced is not NOTHING:
                self._unexecuted(replaced)

    def _executes(self, entry: LogEntry) -> None:
        match = messages.EXECUTE.match(entry.message)
        if match is None:
            self._message(entry)
            return
        fetch, portal, text = match.groups()
        if fetch:
            session = self._session(entry)
            self.signs.entry(session.signs, entry)
            self._emit_waiting(session, None)
            session.fetching = text
            self._longer(session, text, 0)
        else:
            name = messages.statement_name(portal)
            values = messages.parameters_of_detail(entry.detail)
            self._begins(entry, _protocol(name), name, text, values)

    def _begins(
        self, entry: LogEntry, protocol: int, name: str, text: str, values: tuple[str | None, ...] | None
    ) -> None:
        session = self._session(entry)
        self.signs.entry(session.signs, entry)
        self._emit_waiting(session, None)
        session.fetching = None
        if protocol in (EXTENDED, PREPARED):
            cost = self._cost(session, name, text, entry.time)
        else:
            self._plain(session)
            cost = NOTHING
        session.waiting = _Waiting(
            entry.time, protocol, name, text, values, cost, _damage(entry), entry.detail
        )

    def _ends(self, session: _Open, entry: LogEntry, took: int) -> None:
        """Takes a duration that names no statement: that of the one that is under way, if any is."""
        if session.waiting is not None:
            self._emit_waiting(session, took, entries=1)
        elif session.fetching is not None:
            text, session.fetching = session.fetching, None
            self._longer(session, text, took)
        else:
            self._unnamed(*session.pending.add_bare(entry.time, took, entry.tag))

    def _cost(self, session: _Open, name: str, text: str, begin: int) -> Cost:
        """Returns what the parse and the bind of an execution took."""
        pending = session.pending
        cost = pending.take(name, text, begin) if pending.named_parts else NOTHING
        if pending.bare:
            if cost is NOTHING:
                cost = pending.take_bare(name, begin)
            self._unnamed(*pending.drop_bare())
        if name:
            pending.execute(name)
        elif pending.named_parts:
            self._unexecuted(pending.drop_unnamed())
        return cost

    def _plain(self, session: _Open) -> None:
        """Ends the statements that were parsed without a name: they are not executed any more."""
        pending = session.pending
        if pending.bare:
            self._unnamed(*pending.drop_bare())
        if pending.named_parts:
            self._unexecuted(pending.drop_unnamed())

    def _unnamed(self, microseconds: int, count: int) -> None:
        if count:
            self.account.leave_out(
                NO_TEXT, microseconds / 1e6, f"duration: {microseconds / 1000 / count:.3f} ms", count, count
            )

    def _unexecuted(self, cost: Cost) -> None:
        if cost.entries:
            self.account.leave_out(UNEXECUTED, cost.microseconds / 1e6, "", cost.entries)

    def _emit_waiting(self, session: _Open, took: int | None, sqlstate: str = "", entries: int = 0) -> None:
        """Writes the statement that is waited for. entries: those that end it."""
        waiting = session.waiting
        if waiting is None:
            return
        session.waiting = None
        start, protocol, _, text, values, cost, damage, listed = waiting
        entries += 1 + (cost.entries if damage or protocol == _FUNCTION_CALL else 0)
        seconds = ((took or 0) + cost.microseconds) / 1e6
        if damage:
            self.account.damage(damage, seconds, text, entries)
        elif protocol == _FUNCTION_CALL:
            self.account.leave_out(FASTPATH, seconds, text, entries)
        else:
            self._emit(
                session,
                start,
                took,
                protocol,
                text,
                values,
                sqlstate,
                cost=cost,
                entries=entries,
                listed=listed,
            )

    def _fails(self, entry: LogEntry) -> None:
        session = self._session(entry)
        self.signs.entry(session.signs, entry)
        waiting, query, code = session.waiting, entry.query, entry.sqlstate
        if waiting is not None:
            is_same = waiting.text.rstrip() == query.rstrip() if query else not _ends_connection(entry)
            if is_same or waiting.damage or _damage(entry):
                took = max(0, entry.time - waiting.start)
                self._emit_waiting(session, took, code, entries=1)
                return
            self._emit_waiting(session, None)
        pending = session.pending
        if not query:
            self._plain(session)
            why = ENDED if _ends_connection(entry) else NO_STATEMENT
            self.account.leave_out(why, 0.0, self._shown(entry.message), 1)
            return
        name = pending.named(query)
        cost = NOTHING if name is None else pending.take(name, query, entry.time)
        if damage := _damage(entry):
            self.account.damage(damage, cost.microseconds / 1e6, query, 1 + cost.entries)
            self._plain(session)
            return
        values = messages.parameters_of_context(entry.context)
        has_parameters = self._what(query).parameters > 0
        if name is not None:
            protocol = _protocol(name)
        else:
            protocol = EXTENDED if values is not None or has_parameters else SIMPLE
        if values is None and (not has_parameters or code.startswith("42")):
            # It failed before its parameters mattered, and will again.
            values = ()
        self._plain(session)
        self._emit(session, entry.time, None, protocol, query, values, code, cost=cost, listed=entry.context)

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
        *,
        cost: Cost = NOTHING,
        entries: int = 1,
        listed: str = "",
    ) -> None:
        """Writes a statement. cost: of its parse and bind; entries: of the log, without those; listed: what
        its values were read from."""
        if cost is not NOTHING:
            assert cost.since is not None
            start = min(start, cost.since)
            took = None if took is None else took + cost.microseconds
            entries += cost.entries
        known = self._known.get(text) or self._what(text)
        kind = known.kind
        is_whole = (
            not kind
            and not known.is_encoding
            and not known.is_own
            and (protocol == SIMPLE or values is not None)
        )
        why = None if is_whole else self._not_kept(session, known, protocol, values, text)
        if sqlstate in _CANCELED:
            why = CANCELED
        if why is not None:
            example = shapes.shape(text).text if self._mask or kind == shapes.PASSWORD else text
            seconds = cost.microseconds if took is None else took
            self.account.leave_out(why, seconds / 1e6, example, entries)
            return
        if values is None:
            values = ()
        elif values and (len(listed) > self._longest_list or "...'" in listed):
            self._longest_list = max(self._longest_list, len(listed))
            if self._may_be_cut(values, is_failure=bool(sqlstate)):
                seconds = cost.microseconds if took is None else took
                self.account.damage(CUT_VALUES, seconds / 1e6, text, entries)
                return
        if kind:
            self._follow_transaction(session, kind, text)
        if known.forgets:
            session.prepared = None
        if known.temporary:
            session.temporary = {*(session.temporary or ()), *known.temporary}
        facts = self.facts
        if took is None and not sqlstate:
            facts.untimed += 1
        # Times of a log are cut to milliseconds: a statement would seem to begin within the one before it.
        if start < session.free:
            start = session.free
        session.free = start + (took or 0)
        if session.held is not None:
            self._flush(session)
        if known.is_recoded:
            facts.recoded += 1
        if known.set_by_parameters:
            values = self._in_utf8(values, known.set_by_parameters)
        if self._mask is not None:
            values = self._masked_values(values, known, self._mask)
        statement = Statement(start, took, protocol, known.shape, known.text, values, sqlstate, known.forgets)
        session.held = _Held(statement, text, entries, known.is_common)

    def _may_be_cut(self, values: tuple[str | None, ...], *, is_failure: bool) -> bool:
        """Returns whether a value may be cut: it ends in three dots, and none that was longer was whole."""
        cut = 0
        longest = self._longest[is_failure]
        for value in values:
            if value is None:
                continue
            if value.endswith("..."):
                cut = max(cut, len(value.encode("utf-8", "replace")))
            elif len(value) > longest:
                longest = len(value)
        self._longest[is_failure] = longest
        return cut > 0 and cut >= longest

    def _follow_transaction(self, session: _Open, kind: str, text: str) -> None:
        if kind == shapes.BEGIN:
            self.signs.begin(is_again=session.in_transaction)
            session.in_transaction = True
            if ";" in text:
                # Several statements in one message may end it as well.
                last = text.rstrip("; \t\r\n").rpartition(";")[2]
                session.in_transaction = shapes.kind_of(last.strip().upper()) != shapes.END
        elif kind == shapes.END:
            if not session.in_transaction:
                if not session.whole and session.written is None and session.held is None:
                    self.facts.open_before += 1
                elif text[:8].upper() != "ROLLBACK":  # which many pools send in any case
                    self.signs.end_alone()
            session.in_transaction = False

    def _not_kept(
        self,
        session: _Open,
        known: _Known,
        protocol: int,
        values: tuple[str | None, ...] | None,
        text: str,
    ) -> str | None:
        """Returns why a statement cannot be in the file, None where it can."""
        kind = known.kind
        if kind == shapes.COPY_IN:
            return ROWS_OF_COPY
        if kind == shapes.PASSWORD:
            return PASSWORDS
        if known.is_encoding:
            return ENCODING
        if known.is_own:
            return OWN
        if kind == shapes.UTILITY:
            return MAINTENANCE
        if kind == shapes.DDL and not _is_temporary(session, known):
            return DEFINITIONS
        if kind in (shapes.PREPARE, shapes.EXECUTE, shapes.DEALLOCATE) and (
            why := _why_not_prepared(session, kind, text)
        ):
            return why
        if protocol != SIMPLE and values is None and known.parameters:
            return NO_PARAMETERS
        return None

    def _longer(self, session: _Open, text: str, took: int) -> None:
        """Adds a later part to the statement that was fetched in parts, if it is still the last one."""
        held = session.held
        if held is None or held.text != text:
            self.account.leave_out(LATER_PARTS, took / 1e6, self._shown(text), 1)
            return
        held.entries += 1
        if took:
            duration = (held.statement.duration or 0) + took
            held.statement = held.statement._replace(duration=duration)
            session.free = max(session.free, held.statement.start + duration)

    def _flush(self, session: _Open) -> None:
        held = session.held
        if held is None:
            return
        session.held = None
        if session.written is None:
            flags = 0 if session.whole else OPEN_BEFORE
            number = self._writer.database(session.database)
            start = held.statement.start
            begin = start if session.connected is None else min(session.connected, start)
            session.written = self._writer.begin(begin, number, flags)
        self._writer.add(session.written, held.statement, common=held.is_common)
        self.account.replayed += held.entries

    def _end(self, session: _Open, at: int | None) -> None:
        self._emit_waiting(session, None)
        self._flush(session)
        self._unnamed(*session.pending.drop_bare())
        self._unexecuted(session.pending.drop())
        self.signs.session(session.signs)
        if session.in_transaction and at is None:
            self.facts.open_behind += 1
        if session.written is not None:
            self.account.replayed += session.frames
            self._writer.end(session.written, at, 0 if at is not None else OPEN_BEHIND)
        elif session.frames:
            self.account.leave_out(EMPTY_SESSIONS, 0.0, "", session.frames)

    # --- texts and values -----------------------------------------------------------------------

    def _in_utf8(
        self, values: tuple[str | None, ...], pairs: tuple[tuple[int, int], ...]
    ) -> tuple[str | None, ...]:
        """Returns the values with UTF8 for any other client_encoding."""
        changed = list(values)
        for name, value in pairs:
            if max(name, value) <= len(values) and (values[name - 1] or "").lower() == settings.ENCODING:
                changed[value - 1] = settings.UTF8
                self.facts.recoded += 1
        return tuple(changed)

    @staticmethod
    def _masked_values(values: tuple[str | None, ...], known: _Known, mask: Mask) -> tuple[str | None, ...]:
        changed: list[str | None] = []
        for number, value in enumerate(values, 1):
            purpose = known.purposes.get(number, Purpose.VALUE)
            if value is None or (purpose is Purpose.SETTING and not _is_data(number, values, known)):
                changed.append(value)
            else:
                changed.append(mask.pattern(value) if purpose is Purpose.PATTERN else mask(value))
        return tuple(changed)

    def _what(self, text: str) -> _Known:
        known = self._known.get(text)
        if known is not None:
            return known
        pieces = tokens(text)
        assignments = settings.assignments(pieces) if settings.may_assign(text) else []
        kept, purposes, has_constants = text, _NO_PURPOSES, False
        is_encoding, is_recoded = False, False
        pairs: tuple[tuple[int, int], ...] = ()
        if assignments:
            is_encoding = settings.sets_only_encoding(text, assignments)
            pairs = tuple(
                (a.name_parameter, a.value_parameter)
                for a in assignments
                if a.name_parameter and a.value_parameter
            )
            kept = settings.in_utf8(pieces, assignments)
            is_recoded = kept != text
            if is_recoded:
                pieces = tokens(kept)
        elif "pg_settings" in text:
            is_encoding = settings.sets_only_encoding(text, ())
        shape = shapes.shape(kept, pieces)
        if self._mask is not None:
            kept, purposes, has_constants = masked(kept, self._mask, pieces)
        writer = self._writer
        is_full = len(writer.shapes) >= MOST_SHAPES and not writer.has_shape(shape.text)
        number = writer.shape(OTHERS if is_full else shape.text)
        if has_constants:
            self.facts.constants.add(number)
        lower = shape.text.lower()
        known = _Known(
            kept,
            number,
            not shape.literals,
            shape.parameters,
            shape.kind,
            purposes,
            pairs,
            is_encoding,
            is_recoded,
            MARK in text,
            " all" in lower and shapes.forgets(shape.text),
            shape.text if shape.kind == shapes.DDL else "",
            tuple(shapes.bare(match[1]) for match in _TEMPORARY.finditer(shape.text))
            if "temp" in lower
            else (),
        )
        if len(text) <= 4096:
            if len(self._known) >= 50_000:
                self._known.clear()
            self._known[text] = known
        return known


def _is_data(number: int, values: tuple[str | None, ...], known: _Known) -> bool:
    """Returns whether a parameter is an application's value in a setting that another parameter names."""
    return any(
        value == number and name <= len(values) and settings.holds_data(values[name - 1] or "")
        for name, value in known.set_by_parameters
    )


_PREPARED = re.compile(
    r'(?:PREPARE|EXECUTE|DEALLOCATE(?:\s+PREPARE)?)\s+("(?:[^"]|"")+"|[\w$]+)', re.IGNORECASE
)


def _why_not_prepared(session: _Open, kind: str, text: str) -> str:
    """Returns why PREPARE, EXECUTE or DEALLOCATE cannot be in the file, empty where it can."""
    match = _PREPARED.match(shapes.without_leading_comments(text))
    name = shapes.bare(match[1]) if match else ""
    if session.prepared is None:
        session.prepared = set()
    if kind == shapes.PREPARE:
        session.prepared.add(name)
    elif name not in session.prepared:
        if kind == shapes.DEALLOCATE:
            return PREPARED_BY_DRIVER
        if not session.whole:
            return PREPARED_BEFORE
    elif kind == shapes.DEALLOCATE:
        session.prepared.discard(name)
    return ""


_TEMPORARY = re.compile(
    r"(?:\bCREATE (?:OR REPLACE )?(?:LOCAL |GLOBAL )?TEMP(?:ORARY)? (?:TABLE|(?:RECURSIVE )?VIEW|SEQUENCE)"
    r"|\bCREATE (?:TABLE|VIEW|SEQUENCE)(?= (?:IF NOT EXISTS )?pg_temp\b)"
    r"|(?<!INSERT )(?<!MERGE )\bINTO (?:LOCAL |GLOBAL )?TEMP(?:ORARY)?(?: TABLE)?)"
    r' (?:IF NOT EXISTS )?(?:pg_temp ?\. ?)?("(?:[^"]|"")+"|[\w$]+)',
    re.IGNORECASE,
)
"""In a normalized statement: one space between words, and no values that look like it."""

_NAME = re.compile(r'"(?:[^"]|"")+"|[\w$]+')


def _temporary_in(text: str) -> tuple[str, ...]:
    """Returns the names of the temporary tables and the like that a normalized statement makes."""
    return tuple(shapes.bare(match[1]) for match in _TEMPORARY.finditer(text))


def _is_temporary(session: _Open, known: _Known) -> bool:
    """Returns whether all that a statement makes, changes or drops is what its session alone sees."""
    names = {*known.temporary, *(session.temporary or ())}
    return all(
        _TEMPORARY.match(part)
        or "pg_temp" in part[:200].lower()
        or any(shapes.bare(name) in names for name in _NAME.findall(part[:1000]))
        for part in map(str.strip, known.definition.split(";"))
        if shapes.kind_of(part) == shapes.DDL
    )


def _damage(entry: LogEntry) -> str:
    """Returns why the texts of an entry are not whole, empty where they are."""
    if entry.damage:
        return entry.damage
    for text in (entry.message, entry.query, entry.detail):
        if text and text[-1] in _PERHAPS_CUT and messages.is_truncated(text):
            return TRUNCATED
    return ""


def _ends_connection(entry: LogEntry) -> bool:
    return entry.severity in ("FATAL", "PANIC") or entry.sqlstate.startswith(_ENDS)


def _protocol(name: str) -> int:
    return PREPARED if name else EXTENDED


__all__ = ["Reader", "SessionFacts"]
