"""Asking DuckDB for the right answers, in a process of its own with little memory, which the package of each
benchmark starts:

    python -m pgstrata.tpcds.answering SCALE WORK_FOLDER STATE QUERY…

An answer is kept with more rows than its LIMIT lets through: rows that tie with the last one may be
chosen by any right server. So the LIMIT is taken off, and the keys of the ORDER BY come along.
"""

from __future__ import annotations

import json
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from pgstrata.files import disk
from pgstrata.files.bounded import json_any
from pgstrata.sql_text import literal
from pgstrata.tpc import data
from pgstrata.tpc.benchmark import Benchmark
from pgstrata.tpc.compare import RightAnswer, close
from pgstrata.tpc.reference import place
from pgstrata.tpc.source import TableColumn, load_extension, queries, tables

Change = Callable[[duckdb.DuckDBPyConnection, float], None]
"""Brings the generator's rows of a scale factor into a state in which answers are wanted."""

Json = dict[str, Any]
Row = tuple[Any, ...]

MEMORY = "120MB"
"""What DuckDB may take; what does not fit goes to disk beside the answers."""

LOADING = "70MB"
"""What it may take while it reads the rows, which needs less."""

GROWN = 180 << 20
"""Bytes of resident memory above which a process leaves the other queries to the next one: allocators
keep what a query has left."""

MOST_ROWS = 50_000
"""An answer with more rows, ties of the last one included, is not kept."""


@dataclass(frozen=True)
class Widened:
    """A query without its LIMIT. keys: positions of the columns that it is ordered by, of which those
    from `width` on were added for that purpose (`added` of them)."""

    sql: str
    limit: int | None
    ordered: bool
    keys: tuple[int, ...]
    added: int


def widen(connection: duckdb.DuckDBPyConnection, text: str) -> Widened:
    """Takes the LIMIT off a query and adds the keys of its ORDER BY that it does not return anyway.

    Raises ValueError for what is not one SELECT.
    """
    row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()
    tree: Json = json_any(row[0]) if row else {"error": True}
    if tree.get("error") or len(tree["statements"]) != 1:
        raise ValueError(f"not one SELECT: {tree.get('error_message', 'several statements')}")
    node: Json = tree["statements"][0]["node"]
    modifiers: list[Json] = node["modifiers"]
    limits = [m for m in modifiers if m["type"] == "LIMIT_MODIFIER"]
    limit = int(limits[0]["limit"]["value"]["value"]) if limits else None
    orders = [o for m in modifiers if m["type"] == "ORDER_MODIFIER" for o in m["orders"]]
    distinct = any(m["type"] == "DISTINCT_MODIFIER" for m in modifiers)
    node["modifiers"] = [m for m in modifiers if m["type"] != "LIMIT_MODIFIER"]
    names = _output_names(connection, tree)
    keys, added = _keys(node, orders, names, may_add=node["type"] == "SELECT_NODE" and not distinct)
    return Widened(_text(connection, tree), limit, bool(orders), tuple(keys), added)


def _keys(
    node: Json, orders: Sequence[Json], names: Sequence[str], *, may_add: bool
) -> tuple[list[int], int]:
    keys: list[int] = []
    added = 0
    for order in orders:
        expression = order["expression"]
        position = _position(expression, names)
        if position is None:
            if not may_add:
                break  # keys behind one that is not known say nothing
            node["select_list"].append({**expression, "alias": f"order_key_{added}"})
            position = len(names) + added
            added += 1
        keys.append(position)
    return keys, added


def _position(expression: Json, names: Sequence[str]) -> int | None:
    """Returns the column of the output that an expression of ORDER BY stands for, from 0; None if it is no
    output column."""
    if expression["class"] == "CONSTANT":
        return int(expression["value"]["value"]) - 1
    if expression["class"] == "COLUMN_REF" and len(expression["column_names"]) == 1:
        wanted = expression["column_names"][0].lower()
        same = [i for i, name in enumerate(names) if name.lower() == wanted]
        return same[0] if same else None
    return None


def _text(connection: duckdb.DuckDBPyConnection, tree: Json) -> str:
    row = connection.execute("SELECT json_deserialize_sql(?::JSON)", [json.dumps(tree)]).fetchone()
    assert row is not None
    return str(row[0])


def _output_names(connection: duckdb.DuckDBPyConnection, tree: Json) -> list[str]:
    return [str(r[0]) for r in connection.execute(f"DESCRIBE {_text(connection, tree)}").fetchall()]


def ask(connection: duckdb.DuckDBPyConnection, text: str) -> RightAnswer:
    """Returns the answer with the ties of its last row. Raises duckdb.Error, ValueError."""
    query = widen(connection, text)
    cursor = connection.execute(query.sql)
    width = len(cursor.description or ()) - query.added
    rows: list[list[str | None]] = []
    groups: list[int] = []
    last: Row | None = None
    while batch := cursor.fetchmany(1000):
        for row in batch:
            key = tuple(row[k] for k in query.keys)
            tied = last is not None and _tied(key, last)
            if query.limit is not None and len(rows) >= query.limit and not (tied and query.ordered):
                if query.ordered:
                    return RightAnswer(rows, groups, query.limit)
                last = key
            if len(rows) >= MOST_ROWS:
                raise ValueError(f"more than {MOST_ROWS} rows")
            groups.append(0 if not groups else groups[-1] + (query.ordered and not tied))
            rows.append([as_text(value) for value in row[:width]])
            last = key
    return RightAnswer(rows, groups, query.limit)


def _tied(a: Row, b: Row) -> bool:
    return all(close(as_text(x), as_text(y)) for x, y in zip(a, b, strict=True))


def as_text(value: Any) -> str | None:
    """Returns a value as PostgreSQL writes it, numbers apart: those are compared as numbers."""
    match value:
        case None:
            return None
        case bool():
            return "t" if value else "f"
        case float():
            return repr(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            return value.isoformat(" ")
        case date():
            return value.isoformat()
    return str(value)


def reckon_as_postgres(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes DuckDB compute as PostgreSQL does: an integer divided by an integer is an integer, NULL is the
    largest value, exact halves are rounded up."""
    connection.execute("SET integer_division = true")
    connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    # 23 / 40 is 0.575 exactly, and 0.58 in `numeric`; the double nearest to it is a little smaller.
    connection.execute(
        "CREATE TEMP MACRO round(x) AS system.main.round(x), "
        "(x, digits) AS system.main.round(x::DOUBLE * 1.000000000001e0, digits)"
    )


def _database(
    benchmark: Benchmark, scale: float, work: Path, change: Change | None
) -> duckdb.DuckDBPyConnection:
    """Returns a connection to the rows in a database of the work folder, which the first process fills."""
    file, whole = work / "rows.duckdb", work / "loaded"
    connection = duckdb.connect(str(file))
    settings: Mapping[str, object] = {
        "memory_limit": MEMORY,
        "temp_directory": str(work / "spill"),
        "preserve_insertion_order": False,
        "enable_progress_bar": False,
        "allocator_flush_threshold": "1MB",
        # Each thread has buffers of its own: with one, every query of scale factor 1 fits.
        "threads": 1,
    }
    for name, value in settings.items():
        connection.execute(f"SET {name} = {literal(str(value))}")
    load_extension(connection, benchmark)
    reckon_as_postgres(connection)
    if whole.exists():
        return connection
    connection.execute(f"SET memory_limit = '{LOADING}'")
    for table, columns in tables(benchmark).items():
        rows = rows_in(data.file(benchmark, scale, table), columns)
        connection.execute(f"CREATE TABLE {table} AS SELECT * FROM {rows}")
    if change is not None:
        change(connection, scale)
    connection.execute(f"SET memory_limit = '{MEMORY}'")
    whole.touch()
    return connection


def rows_in(file: Path, columns: Sequence[TableColumn]) -> str:
    """Returns the FROM item that reads the rows of a file."""
    types = ", ".join(f"'{c.name}': '{c.type}'" for c in columns)
    return (
        f"read_csv({literal(str(file))}, delim = '|', header = false, quote = '', escape = '', nullstr = '', "
        f"auto_detect = false, max_line_size = 65536, buffer_size = 1048576, columns = {{{types}}})"
    )


def main(benchmark: Benchmark, changes: Mapping[str, Change], arguments: Sequence[str]) -> None:
    """Keeps the answers that the arguments name. changes: by the names of states, but for the empty one."""
    scale, work, state, numbers = float(arguments[0]), Path(arguments[1]), arguments[2], arguments[3:]
    change = changes[state] if state else None
    with _database(benchmark, scale, work, change) as connection:
        for number in map(int, numbers):
            final = place(benchmark, scale, number, state)
            _keep(queries(benchmark)[number], final, connection)
            if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 > GROWN:
                break


def _keep(query: str, final: Path, connection: duckdb.DuckDBPyConnection) -> None:
    try:
        kept: Json = vars(ask(connection, query))
    except (duckdb.Error, ValueError) as error:
        kept = {"error": str(error)}
    disk.replace(final, json.dumps(kept).encode(), mode=0o644, durable=False)
