"""The columns of the tables inside a run folder: one definition for writing and for SQL."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

# Polars is imported where it is used: commands that only list runs start in half the time.

Row = Mapping[str, Any]

_SQL_TYPES = {"text": "VARCHAR", "int": "BIGINT", "float": "DOUBLE", "bool": "BOOLEAN"}


def _columns(text: str) -> dict[str, str]:
    pairs = (word.partition(":") for word in text.split())
    return {name: kind for name, _, kind in pairs}


def _schema(table: str) -> dict[str, Any]:
    import polars as pl

    types: dict[str, Any] = {"text": pl.String, "int": pl.Int64, "float": pl.Float64, "bool": pl.Boolean}
    return {name: types[kind] for name, kind in TABLES[table].items()}


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
    "calls": _columns(
        "run_id:text variant:text step:text role:text caller_object:text caller:text callee_object:text "
        "callee:text calls:float instructions:float"
    ),
}

OPTIONAL = frozenset({"queries", "lag", "lateness", "statements", "instructions", "functions", "calls"})
"""Tables that only some workloads fill: a run without the file has no rows of it."""


def sql_columns(table: str) -> list[tuple[str, str]]:
    """Name and SQL type of each column."""
    return [(name, _SQL_TYPES[kind]) for name, kind in TABLES[table].items()]


def frame(table: str, run_id: str, step: str, rows: Iterable[Row]) -> pl.DataFrame:
    """Rows of one step as a typed table; missing values become null.

    Raises ValueError when a row has a key that is no column: such a figure would be lost in silence.
    """
    import polars as pl

    columns = TABLES[table]
    own = [name for name in columns if name not in {"run_id", "step"}]
    rows = list(rows)
    if unknown := {key for row in rows for key in row} - set(columns):
        raise ValueError(f"{table} has no column {', '.join(sorted(unknown))}")
    data: dict[str, Sequence[Any]] = {"run_id": [run_id] * len(rows), "step": [step] * len(rows)}
    for name in own:
        values = [row.get(name) for row in rows]
        if columns[name] == "int":
            values = [None if value is None else round(value) for value in values]
        data[name] = values
    return pl.DataFrame(data, schema=_schema(table), strict=False)


def empty(table: str) -> pl.DataFrame:
    """The table without rows."""
    import polars as pl

    return pl.DataFrame(schema=_schema(table))


def parquet(table: pl.DataFrame) -> bytes:
    """The bytes of the Parquet file; they are written by our own hand so that they can be synced."""
    buffer = io.BytesIO()
    table.write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def own(data: bytes, run_id: str) -> pl.DataFrame:
    """A Parquet file of another attempt at a run, as rows of this one."""
    import polars as pl

    table = pl.read_parquet(io.BytesIO(data))
    return table.with_columns(pl.lit(run_id, dtype=pl.String).alias("run_id"))


def bucket_rows(histograms: Mapping[str, str]) -> list[dict[str, Any]]:
    """The field's buckets of each role's whole-step histogram as rows of the table `histograms`.

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
