"""RDS and Aurora by way of CloudWatch Logs: JSON of `aws logs get-log-events` and `filter-log-events`.

Facts: AWS CLI reference, `logs get-log-events`: `events` are objects with `timestamp` (milliseconds since
1970) and `message`. The files that `aws rds download-db-log-file-portion --output text` writes are the
server's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from pgstrata.traffic.logs.line import Trouble
from pgstrata.traffic.logs.wrapped.model import Record, Wrapping, as_lines
from pgstrata.traffic.logs.wrapped.objects import objects


def recognize(entry: dict[str, Any]) -> Wrapping | None:
    """Returns how events of CloudWatch are read, None where the object is none."""
    if isinstance(entry.get("message"), str) and isinstance(entry.get("timestamp"), int):
        return Wrapping("JSON of CloudWatch", _records, is_unordered=True)
    return None


def _records(file: IO[bytes], trouble: Trouble) -> Iterator[Record]:
    for entry in objects(file, trouble):
        text, time = entry.get("message"), entry.get("timestamp")
        if isinstance(text, str) and isinstance(time, int):
            yield Record(1000 * time, as_lines(text))
        else:
            trouble.others += 1


__all__ = ["recognize"]
