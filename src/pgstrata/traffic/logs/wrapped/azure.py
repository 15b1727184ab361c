"""Azure Database for PostgreSQL: JSON of diagnostic settings, and tables of Log Analytics exported as CSV.

Facts: Microsoft, "Logs in Azure Database for PostgreSQL" (fields of PostgreSQLLogs) and the reference of
the table PGSQLServerLogs; the test of pganalyze/collector's reader (input/system/azure/logs_test.go) has
records of flexible servers, whose `message` begins with the log_line_prefix, and of single servers, which
have it in `prefix` and the severity in `errorLevel` alone. Files of "Server logs" are the server's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import IO, Any

from pgstrata.traffic.logs.line import Trouble
from pgstrata.traffic.logs.wrapped import tables
from pgstrata.traffic.logs.wrapped.model import SEVERITIES, Record, Wrapping, as_lines, microseconds
from pgstrata.traffic.logs.wrapped.objects import objects

_COLUMNS = frozenset(("timegenerated", "message"))
_FIRST = 500
"""Records of which it is seen how they are written."""

_Texts = Mapping[str, Any]
_STATE = re.compile(r"[0-9A-Z]{5}\Z")


def recognize(entry: dict[str, Any]) -> Wrapping | None:
    """Returns how records of diagnostic settings are read, None where the object is none."""
    if entry.get("category") == "PostgreSQLLogs" or ("properties" in entry and "resourceId" in entry):
        return Wrapping("JSON of Azure (diagnostic settings)", _json, is_unordered=True)
    if {_name(key) for key in entry} >= _COLUMNS:
        return Wrapping("JSON of Azure (Log Analytics)", _json, is_unordered=True)
    return None


def recognize_lines(lines: list[bytes]) -> Wrapping | None:
    """Returns how a table exported as CSV is read, None where the first line does not name its columns."""
    if lines and {_name(text) for text in tables.columns(lines[0])} >= _COLUMNS:
        return Wrapping("CSV of Azure (Log Analytics)", _csv, is_unordered=True)
    return None


def _name(column: str) -> str:
    """Returns the name of a column without the type that Log Analytics puts behind it (`errorLevel_s`), and
    without what an export does (`TimeGenerated [UTC]`)."""
    return re.sub(r"(?:_[sdtg])?(?: \[UTC\])?\Z", "", column.strip()).lower()


def _json(file: IO[bytes], trouble: Trouble) -> Iterator[Record]:
    return _records(_texts_of_json(file, trouble), trouble)


def _csv(file: IO[bytes], trouble: Trouble) -> Iterator[Record]:
    return _records(_texts_of_csv(file, trouble), trouble)


def _records(entries: Iterator[_Texts], trouble: Trouble) -> Iterator[Record]:
    first = list(islice(entries, _FIRST))
    # A text log has a tab in front of every line behind the first; whether these messages have them, too, is
    # seen where one has lines without.
    following = (line for texts in first for line in str(texts.get("message", "")).split("\n")[1:])
    is_raw = any(not line.startswith("\t") for line in following)
    for texts in chain(first, entries):
        yield from _record(texts, trouble, is_raw=is_raw)


def _texts_of_json(file: IO[bytes], trouble: Trouble) -> Iterator[_Texts]:
    for entry in objects(file, trouble):
        properties = entry.get("properties")
        inner = properties if isinstance(properties, dict) else {}
        texts = {_name(key): value for part in (entry, inner) for key, value in part.items()}
        if "category" in entry and entry["category"] != "PostgreSQLLogs":
            trouble.others += 1
        else:
            yield texts


def _texts_of_csv(file: IO[bytes], trouble: Trouble) -> Iterator[_Texts]:
    for row in tables.rows(file, trouble):
        yield {_name(column): value for column, value in row.items()}


def _record(texts: _Texts, trouble: Trouble, *, is_raw: bool) -> Iterator[Record]:
    """Yields the entry of a record as a server writes it in a text log, with the SQLSTATE in front."""

    def text(*names: str) -> str:
        return next((v for n in names if isinstance(v := texts.get(n), str) and v), "")

    message, level = text("message"), text("errorlevel").upper()
    time = microseconds(text("time", "timegenerated", "timestamp"))
    if not message or time is None:
        trouble.others += 1
        return
    state = text("sqlerrcode", "sqlerrorcode")
    state = f"{state} " if _STATE.match(state) else ""
    if text("prefix") and level:
        severity, head = level, state + text("prefix")
        parts = [as_lines(f"{level}:  {message}", head, is_raw=True)]
    elif match := SEVERITIES.search(message.partition("\n")[0][:1200]):
        severity, head = match["severity"], state + message[: match.start()]
        parts = [as_lines(message, state, is_raw=is_raw)]
    else:
        # The lines behind the first one, or a prefix without the severity, whose end is not known.
        yield Record(time, as_lines(message))
        return
    parts += [
        as_lines(f"{name}:  {value}", head, is_raw=True)
        for name, value in (
            ("DETAIL", text("detail", "detaillog")),
            ("CONTEXT", text("context")),
            ("STATEMENT", text("statement", "query") if severity != "LOG" else ""),
        )
        if value and f"{name}: " not in message
    ]
    yield Record(time, b"".join(parts))


__all__ = ["recognize", "recognize_lines"]
