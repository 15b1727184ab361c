"""Logs with `log_destination = jsonlog`, from PostgreSQL 15 on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import msgspec

from pgstrata.traffic.logs.clock import Clock
from pgstrata.traffic.logs.line import CUT, FRAGMENT, LONGEST, Encoding, LogEntry, Trouble, is_failure

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
    ps: str = ""
    line_num: int = 0
    vxid: str = ""


_DECODER = msgspec.json.Decoder(_Line)


def entries(file: IO[bytes], clock: Clock, encoding: Encoding, trouble: Trouble) -> Iterator[LogEntry]:
    """Yields every entry of a file. What is cut off or no entry is counted in `trouble`."""
    started: dict[str, int | None] = {}
    while data := file.readline(LONGEST):
        if not data.strip():
            continue
        if len(data) >= LONGEST and not data.endswith(b"\n"):
            # The rest of the line is of the same entry.
            while (rest := file.readline(LONGEST)) and not rest.endswith(b"\n"):
                pass
        try:
            line = _decoded(data, encoding, trouble)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            trouble.lose(CUT if data.startswith(b'{"timestamp":') else FRAGMENT, data)
            continue
        time = clock.microseconds(line.timestamp)
        if time is None:
            trouble.lose(FRAGMENT, data)
            continue
        if line.session_start not in started:
            if len(started) > 10_000:
                started.clear()
            started[line.session_start] = clock.microseconds(line.session_start)
        severity = line.error_severity
        failed = severity != "LOG" and is_failure(severity, line.state_code)
        yield LogEntry(
            time,
            line.session_id,
            line.message,
            severity=severity,
            database=line.dbname,
            detail=line.detail,
            context=line.context,
            query=line.statement,
            sqlstate=line.state_code if failed else "",
            failed=failed,
            started=started[line.session_start],
            client=line.backend_type in _CLIENTS and bool(line.dbname),
            tag=line.ps,
            number=line.line_num,
            transaction=line.vxid,
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
