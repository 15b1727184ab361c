"""The captured file: what sessions asked of a server, when they asked it, and how that ended.

It is written and read as a stream, whatever its size. Each session is a chain of compressed blocks that lie
wherever there was room, so that a reader follows as many sessions as are open and holds a block of each. At
the end of the file stand the directory of the sessions in the order of their beginning, texts that occur
often, and the header, which says what the file holds. crates/FORMATS.md has every byte.
"""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Annotated, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta

from pgstrata import numbers
from pgstrata.errors import PgstrataError, UsageError, is_disk_full
from pgstrata.files.bounded import BoundError, inflate, json_as
from pgstrata.files.user_files import shown

MAGIC = b"pgstrata traffic"
VERSION = 1

STATISTICS = "pg_stat_statements"
"""`source` of the header of a synthetic file."""

SIMPLE, EXTENDED, PREPARED = 0, 1, 2
"""Protocol of a statement: a query; parsed, bound and executed without a name; or with one."""

BLOCK_BYTES = 16 << 10
"""Of a session's records, before they are compressed."""

HELD_BYTES = 64 << 20
"""Most that is held of sessions whose blocks are not full."""

MOST_TEXTS, MOST_TEXT_BYTES, LONGEST_TEXT = 1 << 16, 16 << 20, 32 << 10
"""Of texts that stand in the file once: how many, all of them together, and each."""

MOST_HEADER_BYTES = 32 << 20
"""Of the header, unpacked."""

MOST_BLOCK_BYTES = 64 << 20
"""Of a block of records, unpacked: at least one statement with its parameters is in it."""

MOST_PARAMETERS = 65_535
"""Of a statement: the protocol counts them in 16 bits."""

LATEST = 253_402_300_799_999_999
"""Microseconds since 1970 of the end of the year 9999."""

MOST_SHAPE_BYTES, SHORT_SHAPE = 16 << 20, 200
"""Of all shapes' texts in the header together; characters of each further text once they have as many."""

LEVEL = 4
"""Of zlib: at this one compressing costs less than reading the log."""

OPEN_BEFORE, OPEN_BEHIND = 1, 2
"""Flags of a session: it had begun before the log did; nothing says that it has ended."""

_HEAD = struct.Struct("<16sII")
_BLOCK = struct.Struct("<IIQ")
_TRAILER = struct.Struct("<QQQQQQ16s")
_ENTRY = np.dtype(
    [
        ("begin", "<u8"),
        ("end", "<u8"),
        ("block", "<u8"),
        ("statements", "<u8"),
        ("database", "<u4"),
        ("flags", "<u4"),
    ]
)

_FAILED, _TIMED, _COMMON, _FORGETS = 4, 8, 16, 32

Count = Annotated[int, Meta(ge=0, le=2**53)]
Microseconds = Annotated[int, Meta(ge=0, le=LATEST)]
Seconds = Annotated[float, Meta(ge=0, le=1e15)]


class Statement(NamedTuple):
    """One statement of a session. start: microseconds since 1970; duration: microseconds, None where the
    log does not say; sqlstate: empty where it succeeded; shape: its number in the header; parameters: as
    text, None is NULL; forgets: it drops what the session has prepared."""

    start: int
    duration: int | None
    protocol: int
    shape: int
    text: str
    parameters: tuple[str | None, ...] = ()
    sqlstate: str = ""
    forgets: bool = False


class Shape(msgspec.Struct):
    """A statement without its literals, over all sessions. seconds: of those whose duration is known. reads:
    it is known to change nothing; parameters: where the values of a synthetic file's come from; rows: of a
    call in the original, on the average, None where nothing says it, as no log does."""

    text: str
    calls: Count = 0
    seconds: Seconds = 0.0
    errors: Count = 0
    reads: bool = False
    parameters: list[str] = []
    rows: Annotated[float, Meta(ge=0, le=1e18)] | None = None


class Database(msgspec.Struct):
    """Of one database. most_sessions: at the same time."""

    name: str
    sessions: Count = 0
    statements: Count = 0
    seconds: Seconds = 0.0
    most_sessions: Count = 0


class LeftOut(msgspec.Struct):
    """What is not in the file. seconds: that it took, as far as the log says; example: the first one;
    entries: of the log, which may take several for a statement."""

    why: str
    count: Count = 0
    seconds: Seconds = 0.0
    example: str = ""
    entries: int = 0


class Balance(msgspec.Struct):
    """Where every entry of a log went.

    `entries` is counted where the log is read, the others where each entry is used, so that one that is lost
    on the way shows.
    """

    #: All entries of the log.
    entries: int = 0
    #: Of them written by the server for no client: checkpoints, workers.
    server: int = 0
    #: Part of a statement or a session of the file.
    replayed: int = 0
    left_out: int = 0
    damaged: int = 0

    @property
    def difference(self) -> int:
        """Entries that are in no account; anything but 0 is a fault of pgstrata."""
        return self.entries - self.server - self.replayed - self.left_out - self.damaged


class Header(msgspec.Struct):
    """What a captured file holds. begin, end: microseconds since 1970, of the first and the last that is in
    it; seconds: of all statements together; timed: those whose duration the log says."""

    version: int = VERSION
    made: str = ""
    source: str = ""
    files: list[str] = []
    masked: bool = False
    begin: Microseconds = 0
    end: Microseconds = 0
    sessions: Count = 0
    statements: Count = 0
    timed: Count = 0
    errors: Count = 0
    seconds: Seconds = 0.0
    most_sessions: Count = 0
    simple: Count = 0
    extended: Count = 0
    prepared: Count = 0
    databases: list[Database] = []
    left_out: list[LeftOut] = []
    damaged: list[LeftOut] = []
    balance: Balance | None = None
    notes: list[str] = []
    shapes: list[Shape] = []

    @property
    def synthetic(self) -> bool:
        """Whether it is made of statistics, and not of a log."""
        return self.source == STATISTICS

    @property
    def reads_only(self) -> bool:
        """Whether all statements are known to change nothing."""
        return bool(self.shapes) and all(shape.reads for shape in self.shapes)

    def left_out_share(self, left_out: LeftOut) -> float:
        """Returns the share of the left-out statements in all the time that the log tells of, 0 to 1."""
        whole = self.seconds + sum(other.seconds for other in (*self.left_out, *self.damaged))
        return left_out.seconds / whole if whole else 0.0


RECOGNIZED = "the log_line_prefix was recognized as "
"""Begin of a note of capture that lessens nothing a replay covers."""

SHOWN = 150
"""Letters of a shape that are part of its name."""


def name_of(number: int, shape: str) -> str:
    """Returns the name that a replay gives to a normalized statement: unique by its number in the header, and
    readable."""
    return f"#{number} {shape[:SHOWN]}{'…' if len(shape) > SHOWN else ''}"


class CapturedError(PgstrataError):
    """A file is no captured one, is damaged, or of another release."""


class NoCapturedError(CapturedError):
    """Something else was named as a captured file. Exit code 2."""

    exit_code = 2


def is_captured(path: Path) -> bool:
    """Returns whether a file begins as a captured one."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


# --- writing ----------------------------------------------------------------------------------


class SessionWriter:
    """A session while it is written."""

    __slots__ = (
        "_before",
        "begin",
        "buffer",
        "database",
        "end",
        "first",
        "flags",
        "last",
        "number",
        "statements",
    )

    def __init__(self, number: int, begin: int, database: int) -> None:
        self.number, self.begin, self.database = number, begin, database
        self.end = self._before = begin
        self.flags = self.statements = self.first = self.last = 0
        self.buffer = bytearray()


class Writer:
    """Writes a captured file beside its place and puts it there when it is whole.

    Leaving the block without `finish` leaves nothing behind. Raises UsageError where the place is taken or
    cannot be written, CapturedError where its disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists():
            raise UsageError(f"{shown(path)} is there already", "name another file, or remove it")
        try:
            self._file: IO[bytes] = tempfile.NamedTemporaryFile(  # noqa: SIM115
                "w+b", dir=path.parent, prefix=f".{path.name}-", delete=False
            )
            self._directory: IO[bytes] = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
        except OSError as error:
            raise UsageError(f"{shown(path)} cannot be written: {error.strerror}") from error
        self._file.write(_HEAD.pack(MAGIC, VERSION, 0))
        self._at = _HEAD.size
        self._sessions = 0
        self._open: dict[int, SessionWriter] = {}
        self._held = 0
        self._texts: dict[str, int] = {}
        self._text_bytes = 0
        self._shapes: dict[str, int] = {}
        self._shape_bytes = 0
        self.shapes: list[Shape] = []
        self.databases: list[Database] = []
        self._numbers: dict[str, int] = {}
        self.header = Header()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What is still to be written may fail again, and nothing of it is wanted.
        for file in (self._file, self._directory):
            with suppress(OSError):
                file.close()
        Path(self._file.name).unlink(missing_ok=True)
        if isinstance(error, OSError):
            if is_disk_full(error):
                raise CapturedError(
                    f"no space left for {shown(self.path)}, of which {numbers.size(self._at)} were written",
                    "free some, or name a file on another disk",
                ) from error
            raise CapturedError(f"{shown(self.path)} cannot be written: {error.strerror}") from error

    @property
    def written(self) -> int:
        """Bytes so far."""
        return self._at

    def shape(self, text: str) -> int:
        """Returns the number of a normalized statement; a new one gets the next number."""
        number = self._shapes.get(text)
        if number is None:
            number = self._shapes[text] = len(self.shapes)
            is_short = len(text) <= SHORT_SHAPE or self._shape_bytes < MOST_SHAPE_BYTES
            written = text if is_short else text[: SHORT_SHAPE - 1] + "…"
            self._shape_bytes += len(msgspec.json.encode(written))
            self.shapes.append(Shape(written))
        return number

    def has_shape(self, text: str) -> bool:
        """Returns whether a normalized statement has been met."""
        return text in self._shapes

    def database(self, name: str) -> int:
        """Returns the number of a database; a new one gets the next number."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.databases)
            self.databases.append(Database(name))
        return number

    def begin(self, begin: int, database: int, flags: int = 0) -> SessionWriter:
        """Begins a new session and returns it. begin: microseconds since 1970."""
        session = SessionWriter(self._sessions, begin, database)
        session.flags = flags
        self._sessions += 1
        self._open[session.number] = session
        return session

    def add(self, session: SessionWriter, statement: Statement, *, common: bool) -> None:
        """Adds the next statement of a session. common: its text is likely to come again.

        Raises CapturedError for one that is too long for a block.
        """
        start, duration, protocol, number, text, parameters, sqlstate, forgets = statement
        buffer = session.buffer
        before = len(buffer)
        if start < session._before:
            start = session._before
        reference = self._texts.get(text) if common else None
        if common and reference is None:
            reference = self._reference(text)
        flags = (
            protocol
            | (_FAILED if sqlstate else 0)
            | (_TIMED if duration is not None else 0)
            | (_COMMON if reference is not None else 0)
            | (_FORGETS if forgets else 0)
        )
        _varint(buffer, start - session._before)
        buffer.append(flags)
        if number < 128:
            buffer.append(number)
        else:
            _varint(buffer, number)
        if duration is not None:
            _varint(buffer, duration)
        if sqlstate:
            buffer += sqlstate.encode("ascii", "replace")[:5].ljust(5, b"?")
        if reference is not None:
            if reference < 128:
                buffer.append(reference)
            else:
                _varint(buffer, reference)
        else:
            encoded = text.encode("utf-8", "replace")
            _varint(buffer, len(encoded))
            buffer += encoded
        if protocol != SIMPLE:
            _varint(buffer, len(parameters))
            for value in parameters:
                if value is None:
                    buffer.append(0)
                else:
                    encoded = value.encode("utf-8", "replace")
                    size = len(encoded) + 1
                    if size < 128:
                        buffer.append(size)
                    else:
                        _varint(buffer, size)
                    buffer += encoded
        session._before = start
        end = start + (duration or 0)
        if end > session.end:
            session.end = end
        session.statements += 1
        self._count(session, statement)
        self._held += len(buffer) - before
        if len(buffer) > MOST_BLOCK_BYTES:
            raise CapturedError(
                f"a statement of {numbers.size(len(buffer) - before)} with its parameters is longer than a "
                f"captured file can hold ({numbers.size(MOST_BLOCK_BYTES)})",
                f"it begins with: {shown(text, 80)}",
            )
        if len(buffer) >= BLOCK_BYTES:
            self._flush(session)
        elif self._held > HELD_BYTES:
            for other in self._open.values():
                self._flush(other)

    def _reference(self, text: str) -> int | None:
        """Returns the number of a text that is kept once from now on, None where it is not."""
        number = None
        if len(self._texts) < MOST_TEXTS and len(text) <= LONGEST_TEXT:
            size = self._text_bytes + len(text.encode("utf-8", "replace"))
            if size <= MOST_TEXT_BYTES:
                self._text_bytes = size
                number = self._texts[text] = len(self._texts)
        return number

    def _count(self, session: SessionWriter, statement: Statement) -> None:
        header, shape, database = self.header, self.shapes[statement.shape], self.databases[session.database]
        header.statements += 1
        database.statements += 1
        shape.calls += 1
        if statement.duration is not None:
            seconds = statement.duration / 1e6
            header.timed += 1
            header.seconds += seconds
            database.seconds += seconds
            shape.seconds += seconds
        if statement.sqlstate:
            header.errors += 1
            shape.errors += 1
        if statement.protocol == SIMPLE:
            header.simple += 1
        elif statement.protocol == EXTENDED:
            header.extended += 1
        else:
            header.prepared += 1

    def _flush(self, session: SessionWriter) -> None:
        if not session.buffer:
            return
        packed = zlib.compress(session.buffer, LEVEL)
        at = self._at
        self._file.write(_BLOCK.pack(len(packed), len(session.buffer), 0))
        self._file.write(packed)
        self._at += _BLOCK.size + len(packed)
        if session.last:
            # Where the chain goes on is known only now.
            self._file.flush()
            os.pwrite(self._file.fileno(), at.to_bytes(8, "little"), session.last + 8)
        else:
            session.first = at
        session.last = at
        self._held -= len(session.buffer)
        session.buffer.clear()

    def end(self, session: SessionWriter, end: int | None = None, flags: int = 0) -> None:
        """Ends a session that is over, or about which nothing more is known. end: when, in microseconds since
        1970."""
        self._flush(session)
        del self._open[session.number]
        entry = np.zeros(1, _ENTRY)
        entry[0] = (
            session.begin,
            max(session.end, end or 0),
            session.first,
            session.statements,
            session.database,
            session.flags | flags,
        )
        self._directory.seek(session.number * _ENTRY.itemsize)
        self._directory.write(entry.tobytes())

    def finish(self, header: Header) -> Header:
        """Writes what stands at the end, and puts the file in its place. header: source, files, masked,
        left_out, damaged, balance and notes are taken from it. Returns the whole header."""
        for session in list(self._open.values()):
            self.end(session, flags=OPEN_BEHIND)
        entries = self._sorted()
        directory = self._at
        for first in range(0, len(entries), 1 << 16):
            self._put(entries[first : first + (1 << 16)].tobytes())
        texts = bytearray()
        for text in self._texts:
            encoded = text.encode("utf-8", "replace")
            _varint(texts, len(encoded))
            texts += encoded
        packed = zlib.compress(texts)
        at_texts = self._at
        self._put(packed)
        whole = self._whole(header, entries)
        at_header = self._at
        head = zlib.compress(msgspec.json.encode(whole))
        self._put(head)
        self._put(_TRAILER.pack(directory, len(entries), at_texts, len(packed), at_header, len(head), MAGIC))
        self._file.flush()
        os.fsync(self._file.fileno())
        # It holds what the log holds, which the server writes for itself alone (log_file_mode = 0600).
        os.fchmod(self._file.fileno(), 0o600)
        try:
            os.link(self._file.name, self.path)
        except OSError as error:
            raise UsageError(f"{shown(self.path)} cannot be written: {error.strerror}") from error
        return whole

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self._at += len(data)

    def _sorted(self) -> _Sorted:
        """Returns the directory of sessions in the order of their beginning. Eight bytes a session are held,
        not all of it."""
        self._directory.flush()
        if not self._sessions:
            return _Sorted(np.zeros(0, _ENTRY), np.zeros(0, np.int64))
        entries = np.memmap(self._directory, _ENTRY, "r", shape=(self._sessions,))
        used = np.flatnonzero(entries["statements"] > 0)
        return _Sorted(entries, used[np.argsort(entries["begin"][used], kind="stable")])

    def _whole(self, given: Header, entries: _Sorted) -> Header:
        header = self.header
        for name in ("source", "files", "masked", "left_out", "damaged", "balance", "notes", "made"):
            setattr(header, name, getattr(given, name))
        header.shapes, header.databases = self.shapes, self.databases
        header.sessions = len(entries)
        if header.sessions:
            begins, ends, databases = (entries.column(n) for n in ("begin", "end", "database"))
            header.begin, header.end = int(begins.min()), int(ends.max())
            header.most_sessions = _most(begins, ends)
            for number, database in enumerate(self.databases):
                mask = databases == number
                database.sessions = int(mask.sum())
                database.most_sessions = _most(begins[mask], ends[mask])
        return header


class _Sorted:
    """Entries of a mapped array in another order."""

    def __init__(self, entries: np.ndarray, order: np.ndarray) -> None:
        self._entries, self._order = entries, order

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, places: slice) -> np.ndarray:
        entries: np.ndarray = self._entries[self._order[places]]
        return entries

    def column(self, name: str) -> np.ndarray:
        ordered: np.ndarray = np.asarray(self._entries[name])[self._order]
        return ordered


def _most(begins: np.ndarray, ends: np.ndarray) -> int:
    """Returns the largest number of sessions at the same time; one that begins when another ends is counted
    beside it."""
    if not len(begins):
        return 0
    begins, ends = np.sort(begins), np.sort(ends)
    there = np.arange(1, len(begins) + 1) - np.searchsorted(ends, begins, side="left")
    return int(there.max())


def _varint(buffer: bytearray, value: int) -> None:
    """Appends a number as seven bits a byte, the lowest first; the highest bit says that more follow
    (LEB128)."""
    while value > 127:
        buffer.append(value & 127 | 128)
        value >>= 7
    buffer.append(value)


# --- reading ----------------------------------------------------------------------------------


class SessionEntry(NamedTuple):
    """A session in the directory. begin, end: microseconds since 1970."""

    begin: int
    end: int
    block: int
    statements: int
    database: int
    flags: int


class _Places(NamedTuple):
    """Where the parts of a file are: place and number of entries, place and bytes of what is packed."""

    directory: int
    entries: int
    texts: tuple[int, int]
    header: tuple[int, int]


class Captured:
    """A captured file, open for reading. Raises CapturedError where it is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise CapturedError(f"{shown(path)} cannot be read: {error.strerror}") from error
        try:
            self._places = self._read_trailer()
            self.header = self._read_header()
            if self.header.sessions != self._places.entries:
                raise self._damaged("its header and its directory differ in the number of sessions")
            self._texts = self._read_texts()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Captured:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def _read_trailer(self) -> _Places:
        size = self._file.seek(0, os.SEEK_END)
        head = os.pread(self._file.fileno(), _HEAD.size, 0)
        if len(head) < _HEAD.size or head[:16] != MAGIC:
            raise NoCapturedError(
                f"{shown(self.path)} is no captured file",
                "pgstrata capture makes one of logs: pgstrata capture LOG… -o FILE",
            )
        version = _HEAD.unpack(head)[1]
        if version != VERSION:
            raise CapturedError(
                f"{shown(self.path)} has version {version} of the captured file, and this release "
                f"knows {VERSION}",
                "capture it again with this release",
            )
        trailer = os.pread(self._file.fileno(), _TRAILER.size, max(0, size - _TRAILER.size))
        if len(trailer) < _TRAILER.size or trailer[-16:] != MAGIC:
            raise CapturedError(
                f"{shown(self.path)} is cut off: its end is missing", "copy or capture it again"
            )
        directory, entries, texts, text_bytes, header, header_bytes, _ = _TRAILER.unpack(trailer)
        ends = (directory + entries * _ENTRY.itemsize, texts + text_bytes, header + header_bytes)
        if min(directory, texts, header) < _HEAD.size or max(ends) > size - _TRAILER.size:
            raise self._damaged("a part of it lies beyond its end")
        return _Places(directory, entries, (texts, text_bytes), (header, header_bytes))

    def _damaged(self, why: str) -> CapturedError:
        return CapturedError(f"{shown(self.path)} is damaged: {why}", "copy or capture it again")

    def _section(self, at: int, length: int, most: int) -> bytes:
        # Packed data are hardly larger than what they hold: zlib adds eleven bytes and five for each 16 kB.
        if length > most + (most >> 10) + 64:
            raise self._damaged(f"{numbers.size(length)} are packed where {numbers.size(most)} are the most")
        packed = os.pread(self._file.fileno(), length, at)
        if len(packed) < length:
            raise self._damaged("a part of it lies beyond its end")
        try:
            return inflate(packed, most)
        except BoundError as error:
            raise self._damaged(str(error)) from error

    def _read_header(self) -> Header:
        try:
            return json_as(self._section(*self._places.header, MOST_HEADER_BYTES), Header)
        except BoundError as error:
            raise self._damaged(f"its header: {error}") from error

    def _read_texts(self) -> list[str]:
        data = self._section(*self._places.texts, MOST_TEXT_BYTES + 5 * MOST_TEXTS)
        texts: list[str] = []
        at = 0
        try:
            while at < len(data):
                if len(texts) == MOST_TEXTS:
                    raise _DamageError(f"it has more than {MOST_TEXTS} common texts")
                text, at = _text(data, at)
                texts.append(text)
        except _DAMAGES as error:
            raise self._damaged(_why(error)) from error
        return texts

    def sessions(self) -> Iterator[SessionEntry]:
        """Yields the sessions in the order of their beginning. Raises CapturedError for an entry that cannot
        be."""
        directory, count = self._places.directory, self._places.entries
        databases = len(self.header.databases)
        for first in range(0, count, 1024):
            length = min(1024, count - first) * _ENTRY.itemsize
            data = os.pread(self._file.fileno(), length, directory + first * _ENTRY.itemsize)
            if len(data) < length:
                raise self._damaged("a part of it lies beyond its end")
            for row in np.frombuffer(data, _ENTRY):
                entry = SessionEntry(*(int(value) for value in row))
                if (
                    max(entry.begin, entry.end) > LATEST
                    or entry.database >= databases
                    or entry.block >= directory
                ):
                    raise self._damaged("an entry of its directory cannot be")
                yield entry

    def statements(self, entry: SessionEntry) -> Iterator[Statement]:
        """Yields the statements of one session, in their order. Raises CapturedError for records that cannot
        be."""
        at, start, left = entry.block, entry.begin, entry.statements
        while at:
            # Blocks lie before the directory, which lies within the file.
            if not _HEAD.size <= at <= self._places.directory - _BLOCK.size:
                raise self._damaged("a block lies where none can be")
            packed, whole, following = _BLOCK.unpack(os.pread(self._file.fileno(), _BLOCK.size, at))
            if whole > MOST_BLOCK_BYTES:
                raise self._damaged(f"a block of {numbers.size(whole)}")
            if following and following < at + _BLOCK.size + packed:
                raise self._damaged("its blocks overlap")
            data = self._section(at + _BLOCK.size, packed, whole)
            if len(data) < whole:
                raise self._damaged("a block is shorter than it says")
            try:
                place = 0
                while place < len(data):
                    statement, place = self._statement(data, place, start)
                    start, left = statement.start, left - 1
                    if left < 0:
                        raise _DamageError("a session has more statements than it says")
                    yield statement
            except _DAMAGES as error:
                raise self._damaged(_why(error)) from error
            at = following
        if left:
            raise self._damaged("a session has fewer statements than it says")

    def _statement(self, data: bytes, at: int, before: int) -> tuple[Statement, int]:
        later, at = _number(data, at)
        flags = data[at]
        shape, at = _number(data, at + 1)
        duration: int | None = None
        if flags & _TIMED:
            duration, at = _number(data, at)
        start = before + later
        if start > LATEST or (duration or 0) > LATEST or shape >= len(self.header.shapes) or flags & 3 == 3:
            raise _DamageError("a record cannot be")
        sqlstate = ""
        if flags & _FAILED:
            sqlstate, at = data[at : at + 5].decode("ascii"), at + 5
            if len(sqlstate) < 5:
                raise _DamageError("a record is cut")
        if flags & _COMMON:
            number, at = _number(data, at)
            text = self._texts[number]
        else:
            text, at = _text(data, at)
        parameters: list[str | None] = []
        if flags & 3 != SIMPLE:
            count, at = _number(data, at)
            if count > MOST_PARAMETERS:
                raise _DamageError(f"a statement with {count} parameters")
            for _ in range(count):
                if data[at]:
                    value, at = _text(data, at, 1)
                    parameters.append(value)
                else:
                    at += 1
                    parameters.append(None)
        statement = Statement(
            start,
            duration,
            flags & 3,
            shape,
            text,
            tuple(parameters),
            sqlstate,
            bool(flags & _FORGETS),
        )
        return statement, at


class _DamageError(Exception):
    """What is wrong with a record, in words."""


_DAMAGES = (IndexError, UnicodeDecodeError, _DamageError)


def _why(error: Exception) -> str:
    """Returns what is wrong, in words, of one of `_DAMAGES`."""
    match error:
        case _DamageError():
            return str(error)
        case UnicodeDecodeError():
            return "a text is not UTF-8"
    return "a record is cut, or names a text that is not there"


def _text(data: bytes, at: int, more: int = 0) -> tuple[str, int]:
    """Returns the text at a place and the place behind it. more: by how much its length is written larger."""
    length, at = _number(data, at)
    end = at + length - more
    if end > len(data):
        raise _DamageError("a text is cut")
    return data[at:end].decode(), end


def _number(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise _DamageError("a number has more than 64 bits")


__all__ = [
    "EXTENDED",
    "OPEN_BEFORE",
    "OPEN_BEHIND",
    "PREPARED",
    "RECOGNIZED",
    "SIMPLE",
    "STATISTICS",
    "Balance",
    "Captured",
    "CapturedError",
    "Database",
    "Header",
    "LeftOut",
    "SessionEntry",
    "SessionWriter",
    "Shape",
    "Statement",
    "Writer",
    "is_captured",
    "name_of",
]
