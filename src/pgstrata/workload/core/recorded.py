"""What the driver recorded of single statements, as rows of the table `queries`."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pgstrata.driver.events import StatementDone
from pgstrata.errors import ServerError
from pgstrata.files.bounded import json_any
from pgstrata.files.disk import read_regular
from pgstrata.judge.common_queries import rate_of_queries
from pgstrata.workload.core.language import Digest

Json = dict[str, Any]

CANCELLED = "57014"
"""SQLSTATE of a statement that ran into statement_timeout."""

MOST_PLAN_BYTES = 16 << 20
"""Of the plan of one query."""

_BLOCK = 8192
_BUFFERS = {
    "temp_read_bytes": "Temp Read Blocks",
    "temp_written_bytes": "Temp Written Blocks",
    "shared_hit_bytes": "Shared Hit Blocks",
    "shared_read_bytes": "Shared Read Blocks",
}


def answer_as_it_came(result: Path) -> str:
    """Returns the digest of the rows in their order, every letter of them."""
    with result.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def answer_in_any_order(result: Path) -> str:
    """Returns the digest of the rows in any order, numbers with a fraction to 12 digits.

    Two servers may both be right and differ in that: without ORDER BY the order is open, and sums of floating
    point depend on it in their last digits.
    """
    return digest_of_lines(sorted(lines_of(result)))


def answer_in_order(result: Path) -> str:
    """Returns the digest of the rows in their order, numbers with a fraction to 12 digits."""
    return digest_of_lines(lines_of(result))


_FRACTION = re.compile(rb"-?\d+(?:\.\d+(?:[eE][+-]?\d+)?|[eE][+-]?\d+)")


def lines_of(result: Path) -> list[bytes]:
    """Returns the rows of a file in their order, numbers with a fraction to 12 digits."""
    lines = result.read_bytes().split(b"\n")[:-1]
    return [b"\t".join(map(_rounded, line.split(b"\t"))) for line in lines]


def _rounded(cell: bytes) -> bytes:
    return b"%.12g" % float(cell) if _FRACTION.fullmatch(cell) else cell


def digest_of_lines(lines: Sequence[bytes]) -> str:
    """Returns a digest of lines in their order."""
    return hashlib.md5(b"\n".join(lines), usedforsecurity=False).hexdigest()


def rows_from(
    events: Sequence[StatementDone],
    folder: Path,
    time_limit: float,
    answer: Callable[[Path], str] = answer_as_it_came,
) -> list[Json]:
    """Returns one row for each execution; a query that was cancelled counts twice the limit, in seconds.

    answer: the digest of a file of rows.
    """
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
                "digest": None if error or not event.result else answer(folder / event.result),
                "answer": None,
                "timed_out": timed_out,
                "sqlstate": error.sqlstate if error else None,
                "error": error.message if error else None,
            }
        )
    return rows


def explained(time_limit: float) -> Callable[[Sequence[StatementDone], Path], Digest]:
    """Returns the function that digests a pass of EXPLAIN (FORMAT JSON): plans, and their buffers where they
    were executed."""

    def digest(events: Sequence[StatementDone], folder: Path) -> Digest:
        rows = rows_from(events, folder, time_limit)
        plans: list[Json] = []
        for row, event in zip(rows, events, strict=True):
            if row["error"] is not None or event.result is None:
                continue
            plan = _plan(folder / event.result)
            root = plan.get("Plan", {})
            plans.append({"name": row["query"], "plan": plan})
            row["digest"] = None
            row["rows"] = root.get("Actual Rows")
            row |= {name: root[key] * _BLOCK for name, key in _BUFFERS.items() if key in root}
        return Digest(rows, plans, rate_of_queries(rows))

    return digest


def _plan(result: Path) -> Json:
    """Returns the plan in a file of rows. Raises ServerError for what is none."""
    try:
        text = read_regular(result, MOST_PLAN_BYTES).decode()
        plans = json_any("\n".join(row[0] or "" for row in rows_of(text)))
        return dict(plans[0])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ServerError(
            f"the server's plan in {result.name} cannot be read: {getattr(error, 'strerror', None) or error}",
            "leave the query out, or measure without plans",
        ) from error


def rows_of(text: str) -> list[list[str | None]]:
    """Parses rows in COPY's text format, which the driver keeps results in."""
    return [[_cell(cell) for cell in line.split("\t")] for line in text.split("\n")[:-1]]


_ESCAPES = {"\\": "\\", "t": "\t", "n": "\n", "r": "\r"}


def _cell(cell: str) -> str | None:
    if cell == "\\N":
        return None
    if "\\" not in cell:
        return cell
    unescaped: list[str] = []
    characters = iter(cell)
    for character in characters:
        if character == "\\":
            following = next(characters, "\\")
            character = _ESCAPES.get(following, following)
        unescaped.append(character)
    return "".join(unescaped)
