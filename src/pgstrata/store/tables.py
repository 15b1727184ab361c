"""The columns of the tables inside a run folder: one definition for writing and for SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pgstrata.store.rows import Row

_SQL_TYPES = {"text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN"}


def _columns(text: str) -> dict[str, str]:
    pairs = (word.partition(":") for word in text.split())
    return {name: kind for name, _, kind in pairs}


# file stem → columns and their types; docs/reference/results.md has their meaning
TABLES: dict[str, dict[str, str]] = {
    "series": _columns(
        "run_id:text step:text role:text second:int seconds:float operations:int transactions:int "
        "statements:int rows:int errors:int retries:int p50_seconds:float p95_seconds:float "
        "p99_seconds:float max_seconds:float histogram:text"
    ),
    "histograms": _columns(
        "run_id:text step:text role:text bucket:text bucket_order:int up_to_seconds:float "
        "responses:int share:float"
    ),
    "backends": _columns("run_id:text step:text role:text client:int pid:int cpu_seconds:float"),
    "host": _columns(
        "run_id:text step:text second:int cpu_user:float cpu_system:float cpu_iowait:float cpu_steal:float "
        "cpu_idle:float context_switches:float disk_reads:float disk_read_bytes:float disk_writes:float "
        "disk_write_bytes:float memory_used_bytes:int page_cache_bytes:int server_rss_bytes:int"
    ),
    "pgstat": _columns("run_id:text step:text view:text object:text counter:text before:float after:float"),
    "lateness": _columns(
        "run_id:text step:text second:int sent:int mean_seconds:float p50_seconds:float p95_seconds:float "
        "p99_seconds:float max_seconds:float"
    ),
    "statements": _columns(
        "run_id:text step:text part:int statement:text calls:int errors:int rows:int seconds:float "
        "max_seconds:float"
    ),
    "queries": _columns(
        "run_id:text variant:text step:text query:text stream:int execution:int start:float seconds:float "
        "rows:int digest:text answer:text timed_out:bool sqlstate:text error:text temp_read_bytes:int "
        "temp_written_bytes:int shared_hit_bytes:int shared_read_bytes:int"
    ),
    "profiles": _columns(
        "run_id:text variant:text step:text role:text part:int phase:text function:text file:text "
        "samples:float"
    ),
    "lag": _columns("run_id:text step:text second:int lag_bytes:int lag_seconds:float"),
    "instructions": _columns(
        "run_id:text variant:text step:text role:text start:int operations:int instructions:float "
        "timed_instructions:float simulated_l1_misses:float simulated_ll_misses:float "
        "simulated_mispredicted:float simulated_cycles:float"
    ),
    "functions": _columns(
        "run_id:text variant:text step:text role:text object:text function:text instructions:float "
        "inclusive:float calls:float"
    ),
    "files": _columns(
        "run_id:text variant:text step:text role:text object:text file:text instructions:float"
    ),
    "calls": _columns(
        "run_id:text variant:text step:text role:text caller_object:text caller:text callee_object:text "
        "callee:text calls:float instructions:float"
    ),
}


def _text(value: Any) -> str:
    """Returns a text that can be stored: what is not valid Unicode, say of a file's name, is escaped."""
    return str(value).encode("utf-8", "backslashreplace").decode()


def _integer(value: Any) -> int | None:
    whole = int(round(value))  # noqa: RUF046 - NumPy's integers stay its own
    return whole if -(1 << 63) <= whole < 1 << 63 else None


_CONFORM: dict[str, Callable[[Any], Any]] = {
    "text": _text,
    "int": _integer,
    "float": float,
    "bool": bool,
}

OPTIONAL = frozenset(
    {
        *("queries", "profiles", "lag", "lateness", "statements"),
        *("instructions", "functions", "files", "calls"),
    }
)
"""Tables that only some workloads fill: a run without the file has no rows of it."""


def sql_columns(table: str) -> list[tuple[str, str]]:
    """Returns name and SQL type of each column."""
    return [(name, _SQL_TYPES[kind]) for name, kind in TABLES[table].items()]


def conform(table: str, run_id: str, step: str, rows: Iterable[Row]) -> list[tuple[Any, ...]]:
    """Returns rows of one step in the order and the types of the table's columns; missing values are None.

    Raises ValueError when a row has a key that is no column (such a figure would be lost in silence), and
    where a value is not of its column's type.
    """
    columns = TABLES[table]
    of = {name: _CONFORM[kind] for name, kind in columns.items()}
    conformed = []
    for row in rows:
        if unknown := row.keys() - columns.keys():
            raise ValueError(f"{table} has no column {', '.join(sorted(unknown))}")
        full_row = {**row, "run_id": run_id, "step": step}
        conformed.append(
            tuple(None if (value := full_row.get(name)) is None else to(value) for name, to in of.items())
        )
    return conformed


def of_run(table: str, run_id: str, values: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    """Returns rows of another attempt at a run as rows of this one."""
    place = list(TABLES[table]).index("run_id")
    return [(*row[:place], run_id, *row[place + 1 :]) for row in values]


def bucket_rows(histograms: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns the field's buckets of each role's whole-step histogram as rows of the table `histograms`.

    Raises StoreError when a histogram cannot be decoded.
    """
    from pgstrata.store.histogram import decode

    return [
        {
            "role": role,
            "bucket": bucket.label,
            "bucket_order": bucket.order,
            "up_to_seconds": bucket.up_to_seconds,
            "responses": bucket.responses,
            "share": bucket.share,
        }
        for role, text in histograms.items()
        for bucket in decode(text).buckets()
    ]
