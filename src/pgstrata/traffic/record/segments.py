"""The files of a recording, read block by block; crates/FORMATS.md has every byte."""

from __future__ import annotations

import codecs
import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pgstrata.files.user_files import shown
from pgstrata.traffic.captured import LATEST, CapturedError
from pgstrata.traffic.record.values import text_of

MAGIC = b"pgstrata record\n"
VERSION = 1
FIRST = "000001.record"

MOST_BLOCK_BYTES = 16 << 20
MOST_FILES = 1_000_000

_HEAD = struct.Struct("<16sII")
_BLOCK = struct.Struct("<II")
_SESSION, _TEXT, _STATEMENT, _END, _LEFT_OUT = 1, 2, 3, 4, 5
_FAILED, _TIMED, _DIGESTED, _LATER_PART, _TYPED = 4, 8, 16, 64, 128


class Session(NamedTuple):
    """A session as a block names it. number: unique in the recording; begin: microseconds since 1970."""

    number: int
    begin: int
    database: str
    codec: str
    settings: tuple[tuple[str, str], ...]


class Asked(NamedTuple):
    """A statement that was answered.

    values: None where a binary one is of a type that is not known; duration: microseconds, None where its
    end was not seen; digest: XXH64 of its rows as they were sent, None without rows.
    """

    session: Session
    text: str
    protocol: int
    start: int
    duration: int | None
    values: tuple[str | None, ...] | None
    sqlstate: str
    rows: int
    digest: int | None
    is_later_part: bool


class Ended(NamedTuple):
    """The end of a session, in microseconds since 1970."""

    session: Session
    at: int


class NotRecorded(NamedTuple):
    """Something that was asked and is not in the recording.

    reason: its number; duration: microseconds; times: how often.
    """

    session: Session
    reason: int
    duration: int
    times: int


Event = Asked | Ended | NotRecorded


@dataclass
class Damage:
    """What of a recording cannot be read."""

    #: Blocks whose bytes are not what was written.
    blocks: int = 0
    #: Files that end within a block, as after a kill or a crash.
    cut: int = 0
    #: Texts that are not in the encoding of their session.
    recoded: int = 0
    files: list[str] = field(default_factory=list)


def is_recording(path: Path) -> bool:
    """Returns whether a folder holds a recording."""
    first = path / FIRST
    if not first.is_file():
        return False
    with first.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def events(folder: Path, damage: Damage, read: Callable[[int], None]) -> Iterator[Event]:
    """Yields what was recorded, of each session in its order. read: is told of bytes.

    Raises CapturedError for files that are none, or of another release.
    """
    for number in range(1, MOST_FILES):
        path = folder / f"{number:06d}.record"
        if not path.is_file():
            return
        damage.files.append(path.name)
        for block in _blocks(path, damage, read):
            try:
                yield from _Block(block, damage).events()
            except (IndexError, struct.error, ValueError):
                damage.blocks += 1


def _blocks(path: Path, damage: Damage, read: Callable[[int], None]) -> Iterator[bytes]:
    with path.open("rb") as file:
        head = file.read(_HEAD.size)
        if len(head) < _HEAD.size:
            damage.cut += 1
            return
        magic, version, _ = _HEAD.unpack(head)
        if magic != MAGIC:
            raise CapturedError(f"{shown(path)} is no part of a recording", "pgstrata record makes them")
        if version != VERSION:
            raise CapturedError(
                f"{shown(path)} has version {version} of recordings, and this release knows {VERSION}",
                "use the release that has made it",
            )
        while start := file.read(_BLOCK.size):
            if len(start) < _BLOCK.size:
                damage.cut += 1
                return
            length, checksum = _BLOCK.unpack(start)
            if length > MOST_BLOCK_BYTES:
                # Where the next one begins is not known.
                damage.blocks += 1
                return
            data = file.read(length)
            if len(data) < length:
                damage.cut += 1
                return
            read(length + _BLOCK.size)
            if zlib.crc32(data) == checksum:
                yield data
            else:
                damage.blocks += 1


class _Block:
    """A block while it is read."""

    def __init__(self, data: bytes, damage: Damage) -> None:
        self._data, self._damage = data, damage
        self._base = int.from_bytes(data[:8], "little")
        self._at = 8
        self._sessions: list[Session] = []
        self._texts: list[bytes] = []
        self._decoded: dict[tuple[int, str], str] = {}

    def events(self) -> Iterator[Event]:
        """Yields its events. Raises ValueError, IndexError or struct.error where it is damaged."""
        data, length = self._data, len(self._data)
        while self._at < length:
            kind = data[self._at]
            self._at += 1
            if kind == _STATEMENT:
                yield self._statement()
            elif kind == _TEXT:
                self._texts.append(self._counted())
            elif kind == _SESSION:
                self._sessions.append(self._session())
            elif kind == _END:
                session = self._sessions[self._number()]
                yield Ended(session, self._time())
            elif kind == _LEFT_OUT:
                session = self._sessions[self._number()]
                reason = data[self._at]
                self._at += 1
                yield NotRecorded(session, reason, self._number(), self._number())
            else:
                raise ValueError

    def _session(self) -> Session:
        number, begin = self._number(), self._number()
        if begin > LATEST:
            raise ValueError
        database, encoding = self._counted(), self._counted()
        codec = _codec(encoding)
        settings = []
        for _ in range(self._number()):
            name, value = self._counted(), self._counted()
            settings.append((self._text(name, codec), self._text(value, codec)))
        return Session(number, begin, self._text(database, codec), codec, tuple(settings))

    def _statement(self) -> Asked:
        session = self._sessions[self._number()]
        number = self._number()
        flags = self._data[self._at]
        self._at += 1
        start = self._time()
        duration = self._number() if flags & _TIMED else None
        if (duration or 0) > LATEST or flags & 3 == 3:
            raise ValueError
        sqlstate = self._taken(5).decode("ascii") if flags & _FAILED else ""
        rows = self._number()
        digest = int.from_bytes(self._taken(8), "little") if flags & _DIGESTED else None
        key = number, session.codec
        text = self._decoded.get(key)
        if text is None:
            text = self._decoded[key] = self._text(self._texts[number], session.codec)
        values: tuple[str | None, ...] | None = ()
        if flags & 3:
            values = self._values(session.codec, is_typed=bool(flags & _TYPED))
        is_later = bool(flags & _LATER_PART)
        return Asked(session, text, flags & 3, start, duration, values, sqlstate, rows, digest, is_later)

    def _values(self, codec: str, *, is_typed: bool) -> tuple[str | None, ...] | None:
        values: list[str | None] = []
        is_known = True
        for _ in range(self._number()):
            oid = self._number() if is_typed else 0
            length = self._number()
            if not length:
                values.append(None)
                continue
            data = self._taken(length - 1)
            value = text_of(oid, data) if oid else self._text(data, codec)
            is_known = is_known and value is not None
            values.append(value)
        return tuple(values) if is_known else None

    def _text(self, data: bytes, codec: str) -> str:
        try:
            return data.decode(codec)
        except UnicodeDecodeError:
            self._damage.recoded += 1
            return data.decode("latin-1")

    def _time(self) -> int:
        coded = self._number()
        time = self._base + ((coded >> 1) ^ -(coded & 1))
        if not 0 <= time <= LATEST:
            raise ValueError
        return time

    def _counted(self) -> bytes:
        return self._taken(self._number())

    def _taken(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise ValueError
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _number(self) -> int:
        data, at = self._data, self._at
        value = data[at]
        at += 1
        if value > 127:
            value &= 127
            shift = 7
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
                if shift > 63:
                    raise ValueError
        self._at = at
        return value


_CODECS = {"euccn": "gb2312", "sjis": "shift_jis", "uhc": "cp949"}
_KNOWN = re.compile(r"latin\d+|iso8859\d+|win\d+|euc[a-z]{2}|koi8[ru]|gbk?(?:18030)?|big5|johab|sjis|uhc")


def _codec(encoding: bytes) -> str:
    """Returns Python's name of a client_encoding; what is not known is read as UTF-8."""
    name = "".join(letter for letter in encoding.decode("ascii", "replace").lower() if letter.isalnum())
    if not _KNOWN.fullmatch(name):
        return "utf-8"
    name = _CODECS.get(name, name.replace("win", "cp", 1))
    for spelled in (name, f"{name[:3]}_{name[3:]}", f"{name[:4]}_{name[4:]}", f"{name[:7]}_{name[7:]}"):
        with suppress(LookupError):
            return codecs.lookup(spelled).name
    return "utf-8"


__all__ = ["Asked", "Damage", "Ended", "Event", "NotRecorded", "Session", "events", "is_recording"]
