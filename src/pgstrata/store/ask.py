"""Asking the views: any SQL that reads, streamed, within bounds of memory, ended by Ctrl-C."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import duckdb

from pgstrata.errors import StoreError, UsageError
from pgstrata.store.interruptible import interruptible
from pgstrata.store.read import BrokenRun
from pgstrata.store.results_folder import Results
from pgstrata.store.tables import TABLES
from pgstrata.store.views import MEMORY, asked_for, connect

MORE_BYTES = 700 << 20
"""How much a query may take beside what the process had before. Values of DuckDB that are long texts count
nowhere else: its own limit (`views.MEMORY`) does not see them."""

BATCH_ROWS = 1000
Row = tuple[Any, ...]
T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What a query said. `broken` are the folders that could not be read and are not in it."""

    columns: list[str]
    rows: list[Row]
    broken: list[BrokenRun] = field(default_factory=list)


@dataclass(frozen=True)
class Stream:
    """What a query says, row by row; `rows` raises what `stream` does."""

    columns: list[str]
    rows: Iterator[Row]
    broken: list[BrokenRun]
    #: Whole runs in the folder.
    runs: int


def query(root: Path, sql: str) -> Answer:
    """Returns the whole answer of `stream`, for answers that are known to be small."""
    with stream(root, sql) as answer:
        return Answer(answer.columns, list(answer.rows), answer.broken)


@contextmanager
def stream(root: Path, sql: str) -> Iterator[Stream]:
    """Yields the answer of the last statement of `sql` over the views of a results folder, while it is made.

    Raises UsageError when the SQL is not valid, does more than reading or needs more memory than it may,
    StoreError when there is no such folder or a file in it is damaged. Ctrl-C ends it at once.
    """
    results = Results(root)
    with connect(root, results=results, tables=asked_for(sql)) as connection, _bounded_memory():

        def begin() -> list[str]:
            for statement in only_reading(connection, sql):
                connection.execute(statement)
            return [str(column[0]) for column in connection.description or ()]

        def batches() -> Iterator[Row]:
            while rows := _done(connection, lambda: connection.fetchmany(BATCH_ROWS), root):
                yield from rows

        yield Stream(_done(connection, begin, root), batches(), results.broken, len(results.entries()))


def _done(connection: duckdb.DuckDBPyConnection, work: Callable[[], T], root: Path) -> T:
    try:
        return interruptible(connection, work)
    except MemoryError as cause:
        raise _too_much() from cause
    except duckdb.Error as cause:
        raise _explained(cause, root) from cause


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Limits this process to `MORE_BYTES` of further memory in the block: asking for more fails, the machine
    does not swap."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _data_bytes() + MORE_BYTES
    unlimited = resource.RLIM_INFINITY
    if (soft == unlimited or wanted < soft) and (hard == unlimited or wanted <= hard):
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """Returns the bytes that RLIMIT_DATA counts of this process (proc(5), statm: data + stack, in pages)."""
    pages = int(Path("/proc/self/statm").read_text().split()[5])
    return pages * resource.getpagesize()


def plain(value: Any) -> Any:
    """Returns a value of an answer as JSON knows it.

    Times as ISO 8601, intervals as seconds, decimals as numbers, bytes as hexadecimal digits, what is not
    a finite number as null.
    """
    match value:
        case float():
            return value if isfinite(value) else None
        case None | bool() | int() | str():
            return value
        case Decimal():
            return None if not value.is_finite() else int(value) if value == int(value) else float(value)
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case Mapping():
            return {str(name): plain(item) for name, item in value.items()}
        case list() | tuple() | set():
            return [plain(item) for item in value]
    return str(value)


# --- what a query may do ----------------------------------------------------------------------

# within the memory of one query; SET because only variables are left to set
_ALLOWED = {"SELECT", "CREATE", "INSERT", "UPDATE", "DELETE", "SET"}
_EXPLAIN = re.compile(r"\s*explain\b(\s*analyze\b)?(\s*\([^)]*\))?", re.IGNORECASE)


def only_reading(connection: duckdb.DuckDBPyConnection, sql: str) -> list[duckdb.Statement]:
    """Returns the statements of the text. Raises UsageError when there is no statement or one that could
    touch files."""
    statements = connection.extract_statements(sql)
    if not statements:
        raise UsageError("the query is empty", 'say, for example: pgstrata query "select * from runs"')
    for statement in statements:
        kind = statement.type.name
        if kind == "EXPLAIN":
            explained = _EXPLAIN.match(statement.query)
            only_reading(connection, statement.query[explained.end() :] if explained else "")
        elif kind not in _ALLOWED:
            raise UsageError(
                f"a query only reads the results, and this one has a {kind} statement",
                "for a file write: pgstrata query … --format csv > file",
            )
    return statements


def _explained(cause: duckdb.Error, root: Path) -> UsageError | StoreError:
    """Returns the error with what the user can do: correct the query, or repair the folder."""
    text = str(cause).strip()
    if isinstance(cause, duckdb.OutOfMemoryException):
        return _too_much()
    if "pytz" in text:
        return UsageError(
            "a column of the answer has the type timestamp with time zone",
            "cast it: column::timestamp, or column::varchar",
        )
    mistaken = (
        duckdb.ParserException,
        duckdb.BinderException,
        duckdb.CatalogException,
        duckdb.PermissionException,
    )
    # DuckDB does not say which file its decoder stumbled over, so look
    if not isinstance(cause, mistaken) and (damaged := _damaged(root)):
        return damaged
    # What is wrong, then perhaps what is near, then the line with a caret below it.
    problem, _, near = text.partition("\n\n")[0].partition("\n")
    advice, line = " ".join(near.split()), re.search(r"\nLINE (\d+):", text)
    return UsageError(
        f"the query failed: {problem}" + (f" (line {line[1]})" if line and line[1] != "1" else ""),
        f"{advice}; {_VIEWS}" if advice else _VIEWS,
    )


_VIEWS = "docs/reference/results.md lists the views and their columns"


def _too_much() -> UsageError:
    return UsageError(
        f"the query needs more than {MEMORY} of memory",
        "ask for less at a time: fewer columns, a where, a limit, no order by over everything",
    )


def _damaged(root: Path) -> StoreError | None:
    for run in Results(root).runs():
        for table in TABLES:
            try:
                run.table(table)
            except StoreError as error:
                return error
    return None
