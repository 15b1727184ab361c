"""Containers: CloudNativePG's JSON, and the files of Docker and of Kubernetes (CRI) around any log.

Facts: CloudNativePG, "Logging" in its documentation: a line of `logger` postgres with `msg` record has
the columns of csvlog in `record`. Docker, "JSON File logging driver": `log` ends with an end of line,
unless the line was longer than 16 kB and goes on in the next object. Kubernetes, "CRI: Log Format": time,
stream, P (goes on) or F (ends), text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, Any

from pgstrata.traffic.logs.line import LONGEST, Trouble
from pgstrata.traffic.logs.wrapped.model import Record, Wrapping
from pgstrata.traffic.logs.wrapped.objects import objects

_COLUMNS = (
    *("log_time", "user_name", "database_name", "process_id", "connection_from", "session_id"),
    *("session_line_num", "command_tag", "session_start_time", "virtual_transaction_id", "transaction_id"),
    *("error_severity", "sql_state_code", "message", "detail", "hint", "internal_query"),
    *("internal_query_pos", "context", "query", "query_pos", "location", "application_name"),
    *("backend_type", "leader_pid", "query_id"),
)
_BARE = frozenset(
    ("log_time", "process_id", "session_id", "session_line_num", "session_start_time", "transaction_id")
)
_CRI = re.compile(
    rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(?:\.[0-9]{1,9})?(?:Z|[+-][0-9:]{5,6}) std(?:out|err) ([PF])\S* "
)


def recognize(entry: dict[str, Any]) -> Wrapping | None:
    """Returns how lines of CloudNativePG or of Docker are read, None where the object is none of them."""
    if "logger" in entry and ("record" in entry or "msg" in entry):
        return Wrapping("JSON of CloudNativePG", _cloudnativepg)
    if isinstance(entry.get("log"), str) and "stream" in entry:
        return Wrapping("JSON of Docker", _docker)
    return None


def recognize_lines(lines: list[bytes]) -> Wrapping | None:
    """Returns how the files of a Kubernetes node are read, None where the lines are not of one."""
    if lines and sum(_CRI.match(line) is not None for line in lines) > len(lines) // 2:
        return Wrapping("a container's log file", _cri)
    return None


def _cloudnativepg(file: IO[bytes], trouble: Trouble) -> Iterator[Record]:
    for entry in objects(file, trouble):
        record = entry.get("record")
        if entry.get("msg") == "record" and isinstance(record, dict) and "log_time" in record:
            yield Record(0, csv_line(record))
        else:
            trouble.others += 1


def csv_line(record: dict[str, Any]) -> bytes:
    """Returns the columns of csvlog as a server writes them."""
    fields = []
    for name in _COLUMNS:
        value = record.get(name, "")
        text = value if isinstance(value, str) else str(value)
        fields.append(text if name in _BARE or not text else '"' + text.replace('"', '""') + '"')
    return (",".join(fields) + "\n").encode("utf-8", "surrogateescape")


def _docker(file: IO[bytes], trouble: Trouble) -> Iterator[Record]:
    parts: list[str] = []
    for entry in objects(file, trouble):
        text = entry.get("log")
        if not isinstance(text, str):
            trouble.others += 1
            continue
        parts.append(text)
        if text.endswith("\n"):
            yield Record(0, "".join(parts).encode("utf-8", "surrogateescape"))
            parts = []
    if parts:
        yield Record(0, "".join(parts).encode("utf-8", "surrogateescape"))


def _cri(file: IO[bytes], trouble: Trouble) -> Iterator[Record]:
    parts: list[bytes] = []
    while line := file.readline(LONGEST):
        match = _CRI.match(line)
        if match is None:
            if line.strip():
                trouble.others += 1
            continue
        text = line[match.end() :]
        if match[1] == b"P":
            parts.append(text.removesuffix(b"\n"))
        else:
            yield Record(0, b"".join((*parts, text)))
            parts = []


__all__ = ["csv_line", "recognize", "recognize_lines"]
