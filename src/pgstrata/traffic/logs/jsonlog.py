"""Logs with `log_destination = jsonlog`, from PostgreSQL 15 on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import msgspec

from pgstrata.traffic.logs.clock import Clock
from pgstrata.traffic.logs.line import FAILURES, LONGEST, Encoding, LogEntry, Trouble, is_failure

_CLIENTS = frozenset(("client backend", "not initialized", ""))


class _Line(msgspec.Struct):
    timestamp: str
    session_id: str
    session_start: str = ""
    dbname: str = ""
    error_severity: str = ""
    state_code: str = ""
    message: str = ""
    detail: str = ""
    context: str = ""
    statement: str = ""
    backend_type: str = ""


_DECODER = msgspec.json.Decoder(_Line)


def entries(file: IO[bytes], clock: Clock, encoding: Encoding, trouble: Trouble) -> Iterator[LogEntry]:
    """Every entry of a file. What is cut off or no entry is counted in `trouble`."""
    started: dict[str, int | None] = {}
    while data := file.readline(LONGEST):
        if not data.strip():
            continue
        try:
            line = _decoded(data, encoding, trouble)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            trouble.note("cut" if data.startswith(b'{"timestamp":') else "strange", data)
            continue
        time = clock.microseconds(line.timestamp)
        if time is None:
            trouble.note("strange", data)
            continue
        if line.session_start not in started:
            if len(started) > 10_000:
                started.clear()
            started[line.session_start] = clock.microseconds(line.session_start)
        failed = line.error_severity in FAILURES or is_failure(line.state_code)
        yield LogEntry(
            time,
            line.session_id,
            line.message,
            database=line.dbname,
            detail=line.detail,
            context=line.context,
            query=line.statement,
            sqlstate=line.state_code if failed else "",
            failed=failed,
            started=started[line.session_start],
            own=line.backend_type in _CLIENTS and bool(line.dbname),
        )


def _decoded(data: bytes, encoding: Encoding, trouble: Trouble) -> _Line:
    try:
        return _DECODER.decode(data)
    except UnicodeDecodeError:
        pass
    except msgspec.DecodeError as error:
        if "utf-8" not in str(error).lower():
            raise
    return _DECODER.decode(encoding.decode(data, trouble))


__all__ = ["entries"]
