"""What the driver recorded of single statements, as rows of the table `queries`."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pgstrata.driver.events import StatementDone

Json = dict[str, Any]

CANCELLED = "57014"
"""SQLSTATE of a statement that ran into statement_timeout."""

PER_HOUR = 3600.0


def rows_from(events: Sequence[StatementDone], folder: Path, time_limit: float) -> list[Json]:
    """One row for each execution; a query that was cancelled counts twice the limit, in seconds."""
    seen: Counter[tuple[int, str]] = Counter()
    rows: list[Json] = []
    for event in events:
        stream, query = event.client + 1, event.name
        seen[stream, query] += 1
        error = event.error
        timed_out = error is not None and error.sqlstate == CANCELLED
        rows.append(
            {
                "query": query,
                "stream": stream,
                "execution": seen[stream, query],
                "start": event.start,
                "seconds": 2 * time_limit if timed_out else event.seconds,
                "rows": None if error else event.rows,
                "digest": None if error or not event.result else _md5(folder / event.result),
                "answer": None,
                "timed_out": timed_out,
                "sqlstate": error.sqlstate if error else None,
                "error": error.message if error else None,
            }
        )
    return rows


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()


def counted_rate(rows: Sequence[Mapping[str, Any]], factor: float = PER_HOUR) -> float | None:
    """Executions × factor ÷ seconds of the stream that took longest.

    A query over its limit counts as one execution of twice the limit; one that the server rejected
    counts in neither.
    """
    seconds: defaultdict[int, float] = defaultdict(float)
    executions = 0
    for row in rows:
        if row["error"] is None or row["timed_out"]:
            seconds[row["stream"]] += row["seconds"]
            executions += 1
    longest = max(seconds.values(), default=0.0)
    return executions * factor / longest if longest > 0 else None
