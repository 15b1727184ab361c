"""Putting rows and names into DuckDB."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgstrata.finite import finite

if TYPE_CHECKING:
    import duckdb

Columns = Sequence[tuple[str, str]]


def insert(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Columns, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Inserts rows into a table of these columns.

    One JSON document carries them: row by row takes seconds for 200 runs.
    """
    if not rows:
        return
    kinds = {name: "VARCHAR" if kind == "TIMESTAMP" else kind for name, kind in columns}
    casts = ", ".join(f'try_cast(r."{name}" AS {kind})' for name, kind in columns)
    connection.execute(
        f'INSERT INTO "{table}" SELECT {casts} FROM (SELECT unnest(from_json($rows::JSON, $shape)) AS r)',
        {"rows": json.dumps(finite(rows)), "shape": json.dumps([kinds])},
    )
