"""What DuckDB's extension of a benchmark knows: tables, columns and the texts of the queries.

Nothing of that is kept in pgstrata: the extension is a package of its own, loaded from the file it
brings, without a network.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pgstrata.errors import UsageError
from pgstrata.sql_text import literal
from pgstrata.tpc.benchmark import Benchmark

if TYPE_CHECKING:
    import duckdb


INSTALL = "pip install 'pgstrata[tpc]'"


@dataclass(frozen=True)
class TableColumn:
    """A column with its type, which PostgreSQL and DuckDB write alike."""

    name: str
    type: str


def load_extension(connection: duckdb.DuckDBPyConnection, benchmark: Benchmark) -> None:
    """Raises UsageError where the extension is not installed, or not of DuckDB's release."""
    import duckdb  # other workloads do without

    name = benchmark.name
    try:
        package = Path(str(import_module(f"duckdb_extension_{name}").__file__)).parent
    except ModuleNotFoundError as cause:
        raise UsageError(
            f"the workload {name} needs DuckDB's {benchmark.title} extension, which is not installed", INSTALL
        ) from cause
    release = f"v{duckdb.__version__}"
    file = package / "extensions" / release / f"{name}.duckdb_extension"
    try:
        connection.execute(f"LOAD {literal(str(file))}")
    except duckdb.Error as error:
        raise UsageError(
            f"DuckDB {duckdb.__version__} cannot load its {benchmark.title} extension: "
            f"{str(error).splitlines()[0]}",
            f"install both in one release: {INSTALL}",
        ) from error


def _connected(benchmark: Benchmark) -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(":memory:")
    load_extension(connection, benchmark)
    return connection


@cache
def tables(benchmark: Benchmark) -> dict[str, tuple[TableColumn, ...]]:
    """Returns the tables by name, columns in their order."""
    with _connected(benchmark) as connection:
        connection.execute(f"CALL {benchmark.empty_tables}(sf = 0)")
        rows = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "ORDER BY table_name, ordinal_position"
        ).fetchall()
    by_table: dict[str, list[TableColumn]] = {}
    for table, column, kind in rows:
        by_table.setdefault(str(table), []).append(TableColumn(str(column), str(kind)))
    return {table: tuple(columns) for table, columns in by_table.items()}


@cache
def queries(benchmark: Benchmark) -> dict[int, str]:
    """Returns the texts of the queries by number, without the semicolon at their end."""
    with _connected(benchmark) as connection:
        rows = connection.execute(
            f"SELECT query_nr, query FROM {benchmark.name}_queries() ORDER BY query_nr"
        ).fetchall()
    return {int(number): str(text).strip().rstrip(";") for number, text in rows}
