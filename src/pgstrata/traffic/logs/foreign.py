"""Names the formats of files that are not read, and says what to do with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple


class Foreign(NamedTuple):
    """A format that is not read. step: what to do, `{}` stands for the file."""

    name: str
    step: str


_UNPACK = "unpack it on the way: {program} {{}} | pgstrata capture - -o FILE"
_SERVER = "ask for the server's own file: log_destination = 'csvlog', 'jsonlog' or 'stderr'"
_MESSAGES = "take the messages out and read them: {program} {{}} | pgstrata capture - -o FILE"


def _packed(program: str) -> str:
    return _UNPACK.format(program=program)


def _files(program: str) -> str:
    return f"unpack its files into a folder and name that: {program}; pgstrata capture LOGS -o FILE"


_TAR = Foreign("a tar archive", _files("mkdir LOGS; tar -xf {} -C LOGS"))
_ARCHIVES: tuple[tuple[bytes, Foreign], ...] = (
    (b"PK\x03\x04", Foreign("a zip archive", _files("unzip {} -d LOGS"))),
    (b"7z\xbc\xaf\x27\x1c", Foreign("a 7z archive", _files("7z x {} -oLOGS"))),
)
_BYTES: tuple[tuple[bytes, Foreign], ...] = (
    (b"\x04\x22\x4d\x18", Foreign("packed with lz4", _packed("lz4cat"))),
    (
        b"pgstrata traffic",
        Foreign(
            "a captured file",
            "it is ready: pgstrata capture {} shows it, alone; only its log can be masked",
        ),
    ),
    (
        b"LPKSHHRH",
        Foreign("a journal of systemd", _MESSAGES.format(program="journalctl -o json --all --file")),
    ),
    (b"PGDMP", Foreign("a dump of pg_dump", "name the server's log instead")),
    (b"pst0", Foreign("pgBadger's output", "name the log that pgBadger read")),
    (b"SQLite format 3", Foreign("an SQLite database", "name the server's log instead")),
    (b"\xff\xfe", Foreign("UTF-16 text", _packed("iconv -f UTF-16 -t UTF-8"))),
    (b"\xfe\xff", Foreign("UTF-16 text", _packed("iconv -f UTF-16 -t UTF-8"))),
)
_TEXT: tuple[tuple[re.Pattern[bytes], Foreign], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), foreign)
    for pattern, foreign in (
        (
            rb"__(?:CURSOR|REALTIME_TIMESTAMP)=",
            Foreign("a journald export", "export it as JSON: journalctl -o json --all"),
        ),
        (
            rb'\s*\{\s*"LogFileData"\s*:',
            Foreign("JSON of a portion of an RDS log", _MESSAGES.format(program="jq -r .LogFileData")),
        ),
        (
            rb"\s*[\[{]\s*(?:\{\s*)?\"",
            Foreign("JSON of a service that is not known", _SERVER),
        ),
        (
            rb"(?:<!doctype html|<html).*?pgbadger",
            Foreign("pgBadger's output", "name the log that pgBadger read"),
        ),
        (rb"\s*(?:<!doctype html|<html)", Foreign("a page of HTML", "name the server's log instead")),
        (
            rb"-- PostgreSQL database dump|--\r?\n-- PostgreSQL database",
            Foreign("a dump of pg_dump", "name the server's log instead"),
        ),
    )
)


def archive(head: bytes, lines: Sequence[bytes]) -> Foreign | None:
    """Returns the kind of an archive, whose files are not one log in its order; None for other files.

    head: the first bytes as they are in the file; lines: its first lines, unpacked.
    """
    for begin, name in _ARCHIVES:
        if head.startswith(begin):
            return name
    return _TAR if b"".join(lines[:40])[257:262] == b"ustar" else None


def foreign(head: bytes, lines: Sequence[bytes]) -> Foreign | None:
    """Returns the format of a file that is not read, None for one that may be a log.

    head: the first bytes as they are in the file; lines: its first lines.
    """
    for begin, name in _BYTES:
        if head.startswith(begin):
            return name
    text = b"".join(lines[:40])[: 1 << 16]
    for pattern, name in _TEXT:
        if pattern.match(text):
            return name
    if text[:200].count(b"\0") > 10:
        return Foreign("binary data", "name the server's log instead")
    return None


__all__ = ["Foreign", "archive", "foreign"]
