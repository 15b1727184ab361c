"""What a server knows of its own traffic and tables: pg_stat_statements, pg_stats and the catalog, of one
database, read from the server itself or from the files that `export_script` makes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from pgstrata.errors import UsageError, server_said
from pgstrata.files.user_files import shown
from pgstrata.traffic.account import MARK

HIDDEN = "<insufficient privilege>"
"""Stands in the place of other users' texts where pg_read_all_stats is lacking."""

EXPORT = "have `pgstrata capture --export-script` write one, and psql execute it"

# OutputColumn that does not depend on who asks.
SETTINGS = (
    f"SET {MARK} datestyle = ISO",
    f"SET {MARK} intervalstyle = postgres",
    f"SET {MARK} timezone = UTC",
    f"SET {MARK} bytea_output = hex",
    f"SET {MARK} extra_float_digits = 1",
)

COUNTED_QUESTION = """
SELECT /* pgstrata capture */ d.datname, current_database() AS here, {seconds} AS seconds, s.*
FROM {schema}.pg_stat_statements s LEFT JOIN pg_catalog.pg_database d ON d.oid = s.dbid
"""

SCHEMAS = "current_schemas(true)"
"""The search_path of a session; in the question it is a parameter where that is `pg_catalog`."""

COLUMNS_QUESTION = """
SELECT /* pgstrata capture */ DISTINCT ON (c.oid, a.attnum)
    n.nspname AS schemaname, c.relname AS tablename, a.attname,
    CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod)
        ELSE format_type(a.atttypid, a.atttypmod) END AS type,
    has_column_privilege(c.oid, a.attnum, 'SELECT') AS readable,
    n.nspname = ANY (current_schemas(true)) AS visible,
    size.rows, size.pages, s.correlation,
    (SELECT array_agg(x.indexrelid::text) FROM pg_index x
        WHERE x.indrelid = c.oid AND x.indisunique AND a.attnum = ANY (x.indkey))::text AS keys,
    EXISTS (SELECT FROM pg_constraint f
        WHERE f.conrelid = c.oid AND f.contype = 'f' AND a.attnum = ANY (f.conkey)) AS refers,
    (SELECT array_agg(e.enumlabel ORDER BY e.enumsortorder) FROM pg_enum e
        WHERE e.enumtypid = t.oid)::text AS labels,
    CASE WHEN c.relkind = 'v' AND a.attnum = 1 THEN pg_get_viewdef(c.oid) END AS definition,
    s.null_frac, s.n_distinct, s.most_common_vals::text, s.most_common_freqs::text,
    s.histogram_bounds::text, s.most_common_elems::text, s.most_common_elem_freqs::text
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN LATERAL (
    -- With its partitions; from 14 on their parent counts them as well.
    WITH RECURSIVE part(oid) AS (
        SELECT c.oid UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN part p ON i.inhparent = p.oid
    )
    SELECT sum(greatest(k.reltuples, 0)) AS rows, sum(greatest(k.relpages, 0)) AS pages
    FROM part JOIN pg_class k ON k.oid = part.oid AND k.relkind <> 'p'
) size ON true
LEFT JOIN pg_stats s
    ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
WHERE c.relkind IN ('r', 'p', 'f', 'm', 'v') AND n.nspname !~ '^pg_(toast|temp)|^information_schema$'
ORDER BY c.oid, a.attnum, s.inherited DESC NULLS LAST
"""


@dataclass(frozen=True)
class CalledStatement:
    """What pg_stat_statements has of one statement. text: empty where it cannot be read; seconds: of all
    calls together; blocks: of tables and indexes that they have read; nested: executed within a function;
    here: in the database whose tables are known."""

    text: str
    calls: int
    seconds: float
    rows: int = 0
    blocks: int = 0
    nested: bool = False
    here: bool = True

    @property
    def is_own(self) -> bool:
        """True for questions to pg_stat_statements, and pgstrata's own."""
        return "pg_stat_statements" in self.text or MARK in self.text


@dataclass(frozen=True)
class KnownColumn:
    """A column and what ANALYZE found in it.

    type: as format_type writes it, of a domain what is below it, empty where nothing says it. rows, pages: of
    the table. correlation: of the column's order with that of the rows, -1 to 1. distinct: how many values
    there are that are not NULL, None where that is not known. common: values and which share of all rows has
    each. bounds: values between which equally many of the other rows lie. elements: of arrays and documents
    for searching, with their shares. definition: of a view, at its first column. keys: unique indexes it is a
    part of; refers: to another table; analyzed: ANALYZE has seen it; readable: its statistics may be.
    """

    schema: str
    table: str
    name: str
    type: str = ""
    rows: float = 0.0
    pages: float = 0.0
    correlation: float = 0.0
    null_share: float = 0.0
    distinct: float | None = None
    common: tuple[tuple[str, float], ...] = ()
    bounds: tuple[str, ...] = ()
    elements: tuple[tuple[str, float], ...] = ()
    labels: tuple[str, ...] = ()
    definition: str = ""
    keys: tuple[str, ...] = ()
    refers: bool = False
    analyzed: bool = False
    readable: bool = True
    visible: bool = True

    @property
    def title(self) -> str:
        """Its name for people: table.column."""
        return f"{self.table}.{self.name}"


@dataclass(frozen=True)
class Statistics:
    """Of one database. seconds: over which the statements were counted, None where nothing says it. users:
    whose statements these are, how many."""

    database: str
    statements: Sequence[CalledStatement]
    columns: Sequence[KnownColumn] = field(repr=False)
    seconds: float | None = None
    users: int = 1


# --- of a server ------------------------------------------------------------------------------


def of_server(connection: psycopg.Connection[Any]) -> Statistics:
    """Returns the statistics that the server of a connection has of its database. Raises UsageError if it has
    counted nothing, or if this user may not read it."""
    for setting in SETTINGS:
        connection.execute(setting.encode())
    with _catalogs_only(connection):
        rows = _counted(connection)
    return statistics_of(rows, columns_of(connection))


def columns_of(connection: psycopg.Connection[Any]) -> list[KnownColumn]:
    """Returns the columns of all tables, with what ANALYZE found in them."""
    for setting in SETTINGS:
        connection.execute(setting.encode())
    path = connection.execute(f"SELECT {MARK} pg_catalog.{SCHEMAS}::pg_catalog.text[]".encode()).fetchone()
    question = COLUMNS_QUESTION.replace(SCHEMAS, "%s::text[]")
    with _catalogs_only(connection), connection.cursor(row_factory=dict_row) as cursor:
        return [column_in(row) for row in cursor.execute(question.encode(), path)]


@contextmanager
def _catalogs_only(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Keeps functions and operators of users out of what a superuser may ask."""
    connection.execute(f"SET {MARK} search_path = pg_catalog".encode())
    try:
        yield
    finally:
        with suppress(psycopg.Error):  # of a session that has ended
            connection.execute(f"RESET {MARK} search_path".encode())


def _counted(connection: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    database = connection.info.dbname
    row = connection.execute(
        f"SELECT {MARK} n.nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace "
        "WHERE e.extname = 'pg_stat_statements'"
    ).fetchone()
    if row is None:
        raise UsageError(
            f"pg_stat_statements is not in database {shown(database)}",
            "CREATE EXTENSION pg_stat_statements; the server counts statements from the restart with "
            "shared_preload_libraries = 'pg_stat_statements' on",
        )
    schema = sql.Identifier(row[0])
    informed = connection.execute(
        f"SELECT {MARK} FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE c.relname = 'pg_stat_statements_info' AND n.nspname = %s",
        (row[0],),
    ).fetchone()
    seconds = sql.SQL("NULL")
    if informed is not None:
        seconds = sql.SQL(
            "(SELECT extract(epoch FROM now() - stats_reset) FROM {}.pg_stat_statements_info)"
        ).format(schema)  # type: ignore[assignment]
    try:
        with connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(sql.SQL(COUNTED_QUESTION).format(schema=schema, seconds=seconds)).fetchall()
    except psycopg.errors.ObjectNotInPrerequisiteState as error:
        raise UsageError(
            f"the server does not count statements: {server_said(error)}",
            "set shared_preload_libraries = 'pg_stat_statements', restart the server, and let it work",
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise UsageError(
            f"this user may not read pg_stat_statements: {server_said(error)}",
            "GRANT pg_read_all_stats TO it, or connect as another user",
        ) from error


# --- rows of either ---------------------------------------------------------------------------


def statistics_of(rows: Sequence[Mapping[str, Any]], columns: Sequence[KnownColumn]) -> Statistics:
    if not rows:
        raise UsageError(
            "pg_stat_statements has counted no statement",
            "let the application work for a while; pg_stat_statements.track is not to be `none`",
        )
    database = _database(rows)
    statements = [_called(row, database) for row in rows]
    if all(not statement.here for statement in statements):
        raise UsageError(
            f"pg_stat_statements has counted no statement in database {shown(database)}",
            f"name another database: it has {', '.join(sorted({shown(_name(row)) for row in rows})[:10])}",
        )
    if not any(column.analyzed for column in columns if column.schema != "pg_catalog"):
        if any(not column.readable for column in columns):
            raise UsageError(
                "this user may not read the statistics of any table: pg_stats shows those of tables that can "
                "be read",
                "GRANT pg_read_all_data TO it (from 14 on), or connect as the tables' owner",
            )
        raise UsageError(
            f"no table of database {shown(database)} has statistics: nothing is known of its values",
            "run ANALYZE in it once",
        )
    seconds = rows[0].get("seconds")
    users = {row.get("userid") for row, statement in zip(rows, statements, strict=True) if statement.here}
    return Statistics(database, statements, columns, float(seconds) if seconds else None, len(users))


def _name(row: Mapping[str, Any]) -> str:
    return str(row.get("datname") or row.get("dbid") or "")


def _database(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the database that was asked, or if no row names it the database with most time."""
    here = rows[0].get("here")
    if here:
        return str(here)
    times: dict[str, float] = {}
    for row in rows:
        times[_name(row)] = times.get(_name(row), 0.0) + _seconds(row)
    return max(times, key=lambda name: times[name])


def _seconds(row: Mapping[str, Any]) -> float:
    """Returns the seconds of a row, planning included if the server tells it, as a client waits for both.
    Before 13 there was one time of both names."""
    executed = row.get("total_exec_time", row.get("total_time"))
    return (float(executed or 0) + float(row.get("total_plan_time") or 0)) / 1000


def _called(row: Mapping[str, Any], database: str) -> CalledStatement:
    text = str(row.get("query") or "").strip()
    try:
        return CalledStatement(
            "" if text == HIDDEN else text,
            int(row["calls"]),
            _seconds(row),
            int(row.get("rows") or 0),
            int(row.get("shared_blks_hit") or 0) + int(row.get("shared_blks_read") or 0),
            _boolean(row.get("toplevel"), otherwise=True) is False,
            _name(row) == database,
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"the statistics are no numbers: {shown(error)}", EXPORT) from error


def _boolean(value: object, *, otherwise: bool) -> bool:
    return otherwise if value is None else value in (True, "t", "true")


def column_in(row: Mapping[str, Any]) -> KnownColumn:
    rows = max(0.0, float(row.get("rows") or 0.0))
    n_distinct = row.get("n_distinct")
    null_share = float(row.get("null_frac") or 0.0)
    distinct: float | None = float(n_distinct) if n_distinct is not None else None
    if distinct is not None and distinct <= 0:
        # A share of the rows, as it grows with them; 0 is what the server does not know.
        distinct = -distinct * rows or None
    return KnownColumn(
        schema=str(row["schemaname"]),
        table=str(row["tablename"]),
        name=str(row["attname"]),
        type=str(row.get("type") or ""),
        rows=rows,
        pages=float(row.get("pages") or 0.0),
        correlation=float(row.get("correlation") or 0.0),
        null_share=null_share,
        distinct=distinct,
        common=_shares(row.get("most_common_vals"), row.get("most_common_freqs")),
        bounds=_list(row.get("histogram_bounds")),
        elements=_shares(row.get("most_common_elems"), row.get("most_common_elem_freqs")),
        labels=_list(row.get("labels")),
        definition=str(row.get("definition") or ""),
        keys=_list(row.get("keys")),
        refers=_boolean(row.get("refers"), otherwise=False),
        analyzed=row.get("null_frac") is not None,
        readable=_boolean(row.get("readable"), otherwise=True),
        visible=_boolean(row.get("visible"), otherwise=row["schemaname"] in ("public", "pg_catalog")),
    )


def _list(text: object) -> tuple[str, ...]:
    return tuple(value for value in elements(str(text)) if value is not None) if text else ()


def _shares(values: object, shares: object) -> tuple[tuple[str, float], ...]:
    # Behind the shares of elements stand the least, the greatest and that of NULL.
    return tuple(zip(_list(values), map(float, _list(shares)), strict=False))


_ELEMENT = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|((?:[^,{}"\\]|\\.)*))\s*([,}])', re.DOTALL)


def elements(text: str) -> Iterator[str | None]:
    """Yields the elements of an array of one dimension as the server writes it, `{1,"a b",NULL}`.

    Raises UsageError for other text.
    """
    # Lower bounds may stand in front: [0:2]={…}
    at = text.find("{") + 1
    if not at or text[at:].strip() == "}":
        return
    while at < len(text):
        match = _ELEMENT.match(text, at)
        if match is None:
            raise UsageError(f"the statistics hold no list where one is due: {shown(text, 60)}", EXPORT)
        quoted, plain, ends = match.groups()
        if quoted is not None:
            yield re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        else:
            yield None if plain.upper() == "NULL" else re.sub(r"\\(.)", r"\1", plain, flags=re.DOTALL)
        if ends == "}":
            return
        at = match.end()


__all__ = [
    "COLUMNS_QUESTION",
    "COUNTED_QUESTION",
    "EXPORT",
    "MARK",
    "SETTINGS",
    "CalledStatement",
    "KnownColumn",
    "Statistics",
    "column_in",
    "columns_of",
    "elements",
    "of_server",
    "statistics_of",
]
