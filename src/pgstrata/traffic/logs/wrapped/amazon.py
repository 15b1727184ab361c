"""RDS and Aurora by way of CloudWatch Logs: JSON of `aws logs get-log-events` and `filter-log-events`, and
what the console exports as CSV or JSON.

Facts: AWS CLI reference, `logs get-log-events`: `events` are objects with `timestamp` (milliseconds since
1970) and `message`. The console's log events (log-events-viewer-result.csv) have columns of these names;
results of Logs Insights (logs-insights-results.csv) have `@timestamp`, as `2026-08-03 10:00:00.123` in UTC,
and `@message`. The files of `aws rds download-db-log-file-portion --output text` are the server's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import IO, Any

from pgstrata.traffic.logs.line import Trouble
from pgstrata.traffic.logs.wrapped import tables
from pgstrata.traffic.logs.wrapped.model import Record, Wrapping, as_lines, microseconds
from pgstrata.traffic.logs.wrapped.objects import objects

_EVENT = ("timestamp", "message")
_RESULT = ("@timestamp", "@message")
_MOST_DIGITS = 15
"""Of milliseconds since 1970."""


def recognize(entry: dict[str, Any]) -> Wrapping | None:
    """Returns how events of CloudWatch are read, None where the object is none."""
    return Wrapping("JSON of CloudWatch", _of_json, is_unordered=True) if _record(entry) else None


def recognize_lines(lines: Sequence[bytes]) -> Wrapping | None:
    """Returns how a table of CloudWatch is read, None where the first line does not name its columns."""
    there = set(tables.columns(lines[0]))
    if any(there.issuperset(names) for names in (_EVENT, _RESULT)):
        return Wrapping("CSV of CloudWatch", _of_csv, is_unordered=True)
    return None


def _of_json(file: IO[bytes], trouble: Trouble) -> Iterator[Record]:
    return _records(objects(file, trouble), trouble)


def _of_csv(file: IO[bytes], trouble: Trouble) -> Iterator[Record]:
    return _records(tables.rows(file, trouble), trouble)


def _records(events: Iterable[Mapping[str, Any]], trouble: Trouble) -> Iterator[Record]:
    for event in events:
        record = _record(event)
        if record is None:
            trouble.others += 1
        else:
            yield record


def _record(event: Mapping[str, Any]) -> Record | None:
    time, text = (event.get(name) for name in _EVENT)
    if isinstance(text, str) and text:
        if isinstance(time, str) and time.isascii() and time.isdigit() and len(time) <= _MOST_DIGITS:
            time = int(time)
        return Record(1000 * time, as_lines(text)) if isinstance(time, int) else None
    time, text = (event.get(name) for name in _RESULT)
    if isinstance(text, str) and text and isinstance(time, str) and (when := microseconds(time)) is not None:
        return Record(when, as_lines(text))
    return None


__all__ = ["recognize", "recognize_lines"]
