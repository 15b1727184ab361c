"""SQL over run folders: DuckDB with the views of docs/results.md, reading and nothing else."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb

from pgstrata.errors import StoreError
from pgstrata.store.layout import Results
from pgstrata.store.read import Run
from pgstrata.store.record import StepRecord
from pgstrata.store.tables import OPTIONAL, TABLES, sql_columns
from pgstrata.store.write import finite

Json = dict[str, Any]

# one entry per column: name, SQL type, where its value comes from
_RUNS: tuple[tuple[str, str, Callable[[Run], Any]], ...] = (
    ("run_id", "VARCHAR", lambda run: run.run_id),
    ("campaign", "VARCHAR", lambda run: run.campaign),
    ("variant", "VARCHAR", lambda run: run.variant),
    ("server", "VARCHAR", lambda run: run.record.server.spec),
    ("version", "VARCHAR", lambda run: run.record.server.version),
    ("config", "VARCHAR", lambda run: run.record.config.name),
    ("workload", "VARCHAR", lambda run: run.workload),
    ("repeat", "BIGINT", lambda run: run.repeat),
    ("status", "VARCHAR", lambda run: run.record.status),
    ("started", "TIMESTAMP", lambda run: run.record.started),
    ("finished", "TIMESTAMP", lambda run: run.record.finished),
    ("host", "VARCHAR", lambda run: run.record.host.hostname),
    ("error", "VARCHAR", lambda run: run.record.error and run.record.error.message),
    ("path", "VARCHAR", lambda run: str(run.folder)),
)

_STEPS: tuple[tuple[str, str, Callable[[Run, StepRecord], Any]], ...] = (
    ("run_id", "VARCHAR", lambda run, _: run.run_id),
    ("campaign", "VARCHAR", lambda run, _: run.campaign),
    ("variant", "VARCHAR", lambda run, _: run.variant),
    ("server", "VARCHAR", lambda run, _: run.record.server.spec),
    ("config", "VARCHAR", lambda run, _: run.record.config.name),
    ("workload", "VARCHAR", lambda run, _: run.workload),
    ("step", "VARCHAR", lambda _, step: step.name),
    ("step_order", "BIGINT", lambda _, step: step.order),
    ("step_group", "VARCHAR", lambda _, step: step.group),
    ("repeat", "BIGINT", lambda run, _: run.repeat),
    ("measured", "BOOLEAN", lambda _, step: step.measured),
    ("rate", "DOUBLE", lambda _, step: step.rate),
    ("rate_unit", "VARCHAR", lambda _, step: step.rate_unit),
    ("role", "VARCHAR", lambda _, step: step.role),
    ("operations", "BIGINT", lambda _, step: step.operations),
    ("rows", "BIGINT", lambda _, step: step.rows),
    ("seconds", "DOUBLE", lambda _, step: step.seconds),
    ("target_rate", "DOUBLE", lambda _, step: step.target_rate),
    ("background_rate", "DOUBLE", lambda _, step: step.background_rate),
    ("sla_met", "BOOLEAN", lambda _, step: step.sla_met),
    ("engine", "VARCHAR", lambda _, step: step.engine),
    ("driver_cpu_seconds", "DOUBLE", lambda _, step: step.driver_cpu_seconds),
    ("server_cpu_seconds", "DOUBLE", lambda _, step: step.server_cpu_seconds),
    ("wal_bytes", "BIGINT", lambda _, step: step.wal_bytes),
    ("database_bytes", "BIGINT", lambda _, step: step.sizes.database_bytes),
    ("max_seconds", "DOUBLE", lambda _, step: step.headline.latency.max),
    ("p50_seconds", "DOUBLE", lambda _, step: step.headline.latency.p50),
    ("p95_seconds", "DOUBLE", lambda _, step: step.headline.latency.p95),
    ("p99_seconds", "DOUBLE", lambda _, step: step.headline.latency.p99),
    ("started", "TIMESTAMP", lambda _, step: step.started),
    ("status", "VARCHAR", lambda run, _: run.record.status),
    ("host_cpu_seconds", "DOUBLE", lambda _, step: step.host_cpu_seconds),
)

MEMORY = "500MB"
"""Of sorts, joins and groups; what is read of a file at a time is far less."""

MOST_THREADS = 4

VIEWS = ("runs", "steps", *TABLES)


def connect(root: Path, *, results: Results | None = None) -> duckdb.DuckDBPyConnection:
    """A DuckDB connection with the views, able to read below `root` and nowhere else.

    It has no access to the network or to extensions, and its configuration is locked. Files below
    `root` it could still write with COPY; `query` refuses such statements. Raises StoreError when
    there is no such folder.
    """
    if not root.is_dir():
        raise StoreError(f"there is no results folder {root}", "name one with --results")
    results = results or Results(root)
    runs = results.runs()
    connection = duckdb.connect(":memory:")
    _fill(connection, "runs", [(name, kind) for name, kind, _ in _RUNS], _run_rows(runs))
    _fill(connection, "steps", [(name, kind) for name, kind, _ in _STEPS], _step_rows(runs))
    _forbid(connection, root)
    for table in TABLES:
        files = [run.folder.resolve() / f"{table}.parquet" for run in runs]
        _view(connection, table, [f for f in files if table not in OPTIONAL or f.exists()])
    return connection


# --- the views --------------------------------------------------------------------------------


def _run_rows(runs: Sequence[Run]) -> list[Json]:
    return [{name: value(run) for name, _, value in _RUNS} for run in runs]


def _step_rows(runs: Sequence[Run]) -> list[Json]:
    return [{name: value(run, step) for name, _, value in _STEPS} for run in runs for step in run.steps]


def _fill(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Sequence[tuple[str, str]], rows: list[Json]
) -> None:
    """A table in memory. One JSON document carries the rows: row by row takes seconds for 200 runs."""
    kinds = {name: "VARCHAR" if kind == "TIMESTAMP" else kind for name, kind in columns}
    casts = ", ".join(f'try_cast(r."{name}" AS {kind}) AS "{name}"' for name, kind in columns)
    connection.execute(
        f'CREATE TABLE "{table}" AS SELECT {casts} FROM (SELECT unnest(from_json($rows::JSON, $shape)) AS r)',
        {"rows": json.dumps(finite(rows)), "shape": json.dumps([kinds])},
    )


def _view(connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[Path]) -> None:
    """The files of all runs as one view, with its columns also where there is no run or an older one."""
    nothing = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in sql_columns(table))
    names = ", ".join(f'"{name}"' for name, _ in sql_columns(table))
    source = f"SELECT {nothing} WHERE false"
    if files:
        paths = ", ".join(_quoted(str(file)) for file in files)
        source += f" UNION ALL BY NAME SELECT * FROM read_parquet([{paths}], union_by_name = true)"
    connection.execute(f'CREATE VIEW "{table}" AS SELECT {names} FROM ({source})')


def _forbid(connection: duckdb.DuckDBPyConnection, root: Path) -> None:
    connection.execute("SET autoinstall_known_extensions = false")
    connection.execute("SET autoload_known_extensions = false")
    # else a query could name a Python variable of ours as a table
    connection.execute("SET python_enable_replacements = false")
    connection.execute(f"SET memory_limit = '{MEMORY}'")
    connection.execute(f"SET threads = {min(MOST_THREADS, os.cpu_count() or 1)}")
    # what is made ahead of the reader; the texts in it are not counted, so little looks like much
    connection.execute("SET streaming_buffer_size = '64KB'")
    # what does not fit into memory fails instead of filling the folder we happen to be in
    connection.execute("SET temp_directory = ''")
    connection.execute(f"SET allowed_directories = [{_quoted(str(root.resolve()) + '/')}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
