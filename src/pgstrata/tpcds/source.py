"""What DuckDB's TPC-DS extension knows: tables, columns and the texts of the queries.

Nothing of that is kept in pgstrata: the extension is a package of its own, loaded from the file it
brings, without a network.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pgstrata.errors import UsageError

if TYPE_CHECKING:
    import duckdb


INSTALL = "pip install 'pgstrata[tpc]'"


@dataclass(frozen=True)
class TableColumn:
    """A column with its type, which PostgreSQL and DuckDB write alike."""

    name: str
    type: str


def load_extension(connection: duckdb.DuckDBPyConnection) -> None:
    """Raises UsageError where DuckDB and the extension are of different releases."""
    import duckdb  # other workloads do without

    try:
        import duckdb_extension_tpcds
    except ModuleNotFoundError as cause:
        raise UsageError(
            "the workload tpcds needs DuckDB's TPC-DS extension, which is not installed", INSTALL
        ) from cause

    release = f"v{duckdb.__version__}"
    file = Path(duckdb_extension_tpcds.__file__).parent / "extensions" / release / "tpcds.duckdb_extension"
    try:
        connection.execute(f"LOAD '{str(file).replace(chr(39), chr(39) * 2)}'")
    except duckdb.Error as error:
        raise UsageError(
            f"DuckDB {duckdb.__version__} cannot load its TPC-DS extension: {str(error).splitlines()[0]}",
            f"install both in one release: {INSTALL}",
        ) from error


def _connected() -> duckdb.DuckDBPyConnection:
    import duckdb

    connection = duckdb.connect(":memory:")
    load_extension(connection)
    return connection


@cache
def tables() -> dict[str, tuple[TableColumn, ...]]:
    """The 24 tables by name, columns in their order."""
    with _connected() as connection:
        connection.execute("CALL dsdgen(sf = 0)")
        rows = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns "
            "ORDER BY table_name, ordinal_position"
        ).fetchall()
    found: dict[str, list[TableColumn]] = {}
    for table, column, kind in rows:
        found.setdefault(str(table), []).append(TableColumn(str(column), str(kind)))
    return {table: tuple(columns) for table, columns in found.items()}


@cache
def queries() -> dict[int, str]:
    """The texts of the queries by number, without the semicolon at their end."""
    with _connected() as connection:
        rows = connection.execute("SELECT query_nr, query FROM tpcds_queries() ORDER BY query_nr").fetchall()
    return {int(number): str(text).strip().rstrip(";") for number, text in rows}
