"""Logs as servers write them, made from what is in them: for tests that need to know what is in a log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured, Header, SessionEntry, Statement
from pgstrata.traffic.mask import Mask

MS = 1000
S = 1_000_000

START = int(datetime(2026, 1, 31, 12, tzinfo=UTC).timestamp()) * 1_000_000
"""Of a log, in microseconds since 1970."""


@dataclass(frozen=True)
class Told:
    """An entry of a log. time: microseconds since 1970, whole milliseconds."""

    time: int
    message: str
    session: str = "697dee40.1a2b"
    database: str = "shop"
    detail: str = ""
    context: str = ""
    query: str = ""
    severity: str = "LOG"
    sqlstate: str = "00000"
    backend: str = "client backend"
    started: int = START - 60_000_000
    tag: str = ""
    number: int = 1
    transaction: str = "3/17"

    @property
    def process(self) -> str:
        return str(int(self.session.partition(".")[2], 16))


def stamp(time: int, zone: str = "UTC", offset: int = 0) -> str:
    """A time in the log's zone, so many seconds east."""
    when = datetime.fromtimestamp(time / 1e6 + offset, UTC)
    return f"{when:%Y-%m-%d %H:%M:%S}.{time // 1000 % 1000:03d} {zone}"


def csv_entry(entry: Told, zone: str = "UTC", offset: int = 0) -> str:
    """As write_csvlog of PostgreSQL 14 and later."""

    def text(value: str) -> str:
        return '"' + value.replace('"', '""') + '"' if value else ""

    started = stamp(entry.started, zone, offset)
    seconds = started[:19] + started[23:]
    fields = [
        stamp(entry.time, zone, offset),
        '"app"' if entry.database else "",
        text(entry.database),
        entry.process,
        '"[local]"',
        entry.session,
        str(entry.number),
        text(entry.tag),
        seconds,
        entry.transaction,
        "0",
        entry.severity,
        entry.sqlstate,
        text(entry.message),
        text(entry.detail),
        "",
        "",
        "",
        text(entry.context),
        text(entry.query),
        "",
        "",
        '"tests"',
        text(entry.backend),
        "",
        "0",
    ]
    return ",".join(fields) + "\n"


def json_entry(entry: Told, zone: str = "UTC", offset: int = 0) -> str:
    """As write_jsonlog."""
    started = stamp(entry.started, zone, offset)
    fields = {
        "timestamp": stamp(entry.time, zone, offset),
        "user": "app",
        "dbname": entry.database,
        "pid": int(entry.process),
        "remote_host": "[local]",
        "session_id": entry.session,
        "line_num": entry.number,
        "ps": entry.tag,
        "session_start": started[:19] + started[23:],
        "vxid": entry.transaction,
        "txid": 0,
        "error_severity": entry.severity,
        "state_code": entry.sqlstate if entry.sqlstate != "00000" else "",
        "message": entry.message,
        "detail": entry.detail,
        "context": entry.context,
        "statement": entry.query,
        "application_name": "tests",
        "backend_type": entry.backend,
        "query_id": 0,
    }
    kept = {key: value for key, value in fields.items() if value != ""}
    return json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n"


def stderr_entry(entry: Told, zone: str = "UTC", offset: int = 0) -> str:
    """As send_message_to_server_log with log_line_prefix = '%m [%c] %e %q%u@%d '."""
    prefix = f"{stamp(entry.time, zone, offset)} [{entry.session}] {entry.sqlstate} app@{entry.database} "
    parts = [(entry.severity, entry.message)]
    parts += [
        (name, text)
        for name, text in (
            ("DETAIL", entry.detail),
            ("CONTEXT", entry.context),
            ("STATEMENT", entry.query),
        )
        if text
    ]
    lines = [f"{prefix}{name}:  " + text.replace("\n", "\n\t") + "\n" for name, text in parts]
    return "".join(lines)


PREFIX = "%m [%c] %e %q%u@%d "
FORMS = {"csvlog": csv_entry, "jsonlog": json_entry, "stderr": stderr_entry}


def log(entries: Iterable[Told], form: str = "csvlog", zone: str = "UTC", offset: int = 0) -> str:
    return "".join(FORMS[form](entry, zone, offset) for entry in entries)


def plain(time: int, took: float, text: str, **more: str) -> Told:
    """A plain statement that took so many milliseconds."""
    return replace(Told(time, f"duration: {took:.3f} ms  statement: {text}"), **more)  # type: ignore[arg-type]


def listed(values: Iterable[str | None]) -> str:
    """Parameters as the server lists them."""
    shown = ("NULL" if value is None else "'" + value.replace("'", "''") + "'" for value in values)
    return "Parameters: " + ", ".join(f"${number} = {value}" for number, value in enumerate(shown, 1))


def extended(
    time: int, took: float, text: str, values: Iterable[str | None], name: str = "<unnamed>", **more: str
) -> list[Told]:
    """A statement with parameters: its parse, bind and execution, all of which took so long."""
    values = list(values)
    detail = listed(values) if values else ""
    third = took / 3
    entries = [
        Told(time, f"duration: {third:.3f} ms  parse {name}: {text}"),
        Told(time, f"duration: {third:.3f} ms  bind {name}: {text}", detail=detail),
        Told(time, f"duration: {third:.3f} ms  execute {name}: {text}", detail=detail),
    ]
    return [replace(entry, **more) for entry in entries]  # type: ignore[arg-type]


def taken(
    folder: Path, entries: Sequence[Told], form: str = "csvlog", mask: bool = False
) -> tuple[Header, list[tuple[SessionEntry, list[Statement]]]]:
    """Returns the header and every session of a log of these entries; all of them are accounted for."""
    file, to = folder / "log", folder / "log.traffic"
    file.write_text(log(entries, form))
    to.unlink(missing_ok=True)
    capture([file], to, mask=Mask() if mask else None, prefix=PREFIX if form == "stderr" else None)
    with Captured(to) as captured:
        balance = captured.header.balance
        assert balance is not None and (balance.difference, balance.entries) == (0, len(entries)), balance
        return captured.header, [(entry, list(captured.statements(entry))) for entry in captured.sessions()]
