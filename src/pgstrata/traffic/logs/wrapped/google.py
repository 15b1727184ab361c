"""Cloud SQL and AlloyDB for PostgreSQL: entries of Cloud Logging as JSON.

Facts: the fields are those of LogEntry in the reference of Cloud Logging; an entry of
`cloudsql.googleapis.com/postgres.log` has the server's text, prefix included, in `textPayload`. Older
exports have neither the time in the prefix nor several lines in one entry, and long texts are still
split: darold/pgbadger issues 579 and 627, pganalyze/collector pull request 278. `jsonPayload` of agents:
Ops Agent, PostgreSQL receiver. `gcloud logging read` writes the newest entry first; exports to a bucket
are in files that overlap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from pgstrata.traffic.logs.line import Trouble
from pgstrata.traffic.logs.prefix import STAMP
from pgstrata.traffic.logs.wrapped.kubernetes import csv_line
from pgstrata.traffic.logs.wrapped.model import (
    SEVERITIES,
    Record,
    Wrapping,
    as_lines,
    microseconds,
    stamp,
)
from pgstrata.traffic.logs.wrapped.objects import objects, text_of

_TIME = re.compile(STAMP + r"|\b[0-9]{10}\.[0-9]{3}\b")
_KEYS = frozenset(("insertId", "logName", "textPayload", "jsonPayload", "receiveTimestamp"))


def recognize(entry: dict[str, Any]) -> Wrapping | None:
    """Returns how entries of Cloud Logging are read, None where the object is none."""
    if len(_KEYS & entry.keys()) < 2:
        return None
    return Wrapping("JSON of Cloud Logging", _records, is_unordered=True)


def _records(file: IO[bytes], trouble: Trouble) -> Iterator[Record]:
    for entry in objects(file, trouble):
        time = microseconds(text_of(entry, "timestamp", "receiveTimestamp"))
        lines = None if time is None else _lines(entry, time)
        if lines is None:
            trouble.others += 1
        else:
            yield Record(time or 0, lines)


def _lines(entry: dict[str, Any], time: int) -> bytes | None:
    text = entry.get("textPayload")
    if isinstance(text, str):
        name = text_of(entry, "logName")
        if "/logs/" in name and "postgres" not in name:
            return None
        return as_lines(text, _head(text, time))
    payload = entry.get("jsonPayload")
    if not isinstance(payload, dict):
        return None
    if isinstance(record := payload.get("record"), dict):
        return csv_line(record)
    if "error_severity" in payload:
        return _as_jsonlog(payload)
    message = text_of(payload, "message", "msg", "log")
    if not message:
        return None
    if SEVERITIES.search(message[:600]) or message.startswith("\t"):
        return as_lines(message, _head(message, time))
    level = text_of(payload, "level", "error_severity", "severity")
    process = payload.get("tid") or payload.get("pid") or payload.get("process_id")
    if not level or not process:
        return None
    head = f"{stamp(time)} [{process}] {text_of(payload, 'user')}@{text_of(payload, 'database', 'db')} "
    return as_lines(f"{level}:  {message}", head)


def _head(text: str, time: int) -> str:
    """Returns the time of the entry where the server's text has none."""
    severity = SEVERITIES.search(text[:1200])
    has_time = severity is None or _TIME.search(text[: severity.start()]) is not None
    return "" if has_time else f"{stamp(time)} "


def _as_jsonlog(payload: dict[str, Any]) -> bytes | None:
    if not isinstance(payload.get("timestamp"), str):
        return None
    ordered = {"timestamp": payload["timestamp"], **payload}
    return msgspec.json.encode(ordered) + b"\n"


__all__ = ["recognize"]
