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


_BYTES: tuple[tuple[bytes, Foreign], ...] = (
    (b"BZh", Foreign("packed with bzip2", _packed("bzcat"))),
    (b"\xfd7zXZ\0", Foreign("packed with xz", _packed("xzcat"))),
    (b"\x28\xb5\x2f\xfd", Foreign("packed with zstd", _packed("zstdcat"))),
    (b"\x04\x22\x4d\x18", Foreign("packed with lz4", _packed("lz4cat"))),
    (b"PK\x03\x04", Foreign("a zip archive", _packed("unzip -p"))),
    (b"7z\xbc\xaf\x27\x1c", Foreign("a 7z archive", _packed("7z x -so"))),
    (b"pgstrata traffic", Foreign("a captured file", "it is ready: pgstrata capture {} shows it")),
    (b"LPKSHHRH", Foreign("a journal of systemd", _MESSAGES.format(program="journalctl -o cat --file"))),
    (b"PGDMP", Foreign("a dump of pg_dump", "name the server's log instead")),
    (b"pst0", Foreign("pgBadger's output", "name the log that pgBadger read")),
    (b"SQLite format 3", Foreign("an SQLite database", "name the server's log instead")),
    (b"\xff\xfe", Foreign("UTF-16 text", _packed("iconv -f UTF-16 -t UTF-8"))),
    (b"\xfe\xff", Foreign("UTF-16 text", _packed("iconv -f UTF-16 -t UTF-8"))),
    (b"\xef\xbb\xbf", Foreign("text with a byte order mark", _packed("tail -c +4"))),
)
_JQ = "jq -r '{}'"
_TEXT: tuple[tuple[re.Pattern[bytes], Foreign], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE | re.DOTALL), foreign)
    for pattern, foreign in (
        (
            rb'\s*(?:\[\s*)?\{.*?"(?:insertId|logName|textPayload)"',
            Foreign(
                "JSON of Cloud SQL (Cloud Logging)", _MESSAGES.format(program="jq -r '.[]?.textPayload'")
            ),
        ),
        (
            rb'\s*\{.*?"__REALTIME_TIMESTAMP"',
            Foreign("a journald export in JSON", _MESSAGES.format(program="jq -r .MESSAGE")),
        ),
        (
            rb"__(?:CURSOR|REALTIME_TIMESTAMP)=",
            Foreign("a journald export", "export the messages alone: journalctl -o cat"),
        ),
        (
            rb'\s*\{.*?"log"\s*:.*?"stream"\s*:',
            Foreign("JSON of Docker", _MESSAGES.format(program="jq -jr .log")),
        ),
        (
            rb'\s*\{.*?"logger"\s*:\s*"postgres".*?"record"\s*:',
            Foreign("JSON of CloudNativePG", _SERVER),
        ),
        (
            rb'\s*(?:\[\s*)?\{.*?"(?:properties|LogicalServerName|resourceId)"\s*:',
            Foreign(
                "JSON of Azure (diagnostic settings)", _MESSAGES.format(program="jq -r .properties.message")
            ),
        ),
        (
            rb'\s*\{\s*"(?:events|logEvents)"\s*:\s*\[',
            Foreign(
                "JSON of CloudWatch", _MESSAGES.format(program="jq -r '(.events//.logEvents)[].message'")
            ),
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
_SYSLOG = re.compile(
    rb"(?:<[0-9]{1,3}>)?(?:1 )?"
    rb"(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+\S*) \S+ "
    rb"(?:[\w./-]+(?:\[[0-9]+\])?:|[\w./-]+ [0-9-]+ )"
)
_AS_SYSLOG = Foreign("syslog", _SERVER)


def foreign(head: bytes, lines: Sequence[bytes]) -> Foreign | None:
    """Returns the format of a file that is not read, None for one that may be a log.

    head: the first bytes as they are in the file; lines: its first lines.
    """
    for begin, name in _BYTES:
        if head.startswith(begin):
            return name
    if head[257:262] == b"ustar":
        return Foreign("a tar archive", _packed("tar -xOf"))
    text = b"".join(lines[:40])[: 1 << 16]
    for pattern, name in _TEXT:
        if pattern.match(text):
            return name
    filled = [line for line in lines if line.strip()]
    if filled and sum(1 for line in filled if _SYSLOG.match(line)) > len(filled) // 2:
        return _AS_SYSLOG
    if text[:200].count(b"\0") > 10:
        return Foreign("no text", "name the server's log instead")
    return None


__all__ = ["Foreign", "foreign"]
