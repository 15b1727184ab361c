"""Puts planner statistics into a cluster that has the schema and no rows.

A server that has pg_restore_attribute_stats is asked for it, as the owner of the tables. In an older one a
superuser writes pg_class and pg_statistic; values are read by `array_in` with the type of their elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import psycopg

from pgstrata.errors import ServerError, server_said
from pgstrata.server.capabilities import Question, catalog_of, column, function
from pgstrata.server.connect.session import use_catalogs_only
from pgstrata.traffic.upgrade.planned.calls import (
    COLUMN,
    EXTENDED,
    RELATION,
    ColumnCall,
    ExtendedCall,
    PlannerStatistics,
    RelationCall,
)
from pgstrata.traffic.upgrade.planned.catalogs import Catalogs, ColumnFacts
from pgstrata.traffic.upgrade.planned.extended import write_extended
from pgstrata.traffic.upgrade.planned.missing import Missing, NotRestored
from pgstrata.traffic.upgrade.planned.slots import Slot, row_of, slots_of
from pgstrata.traffic.upgrade.planned.targets import find_targets
from pgstrata.traffic.upgrade.schema import DATABASE, Schema, find_names_anywhere, said_plainly

STATEMENT_SECONDS = 30

OLDEST: Question = column("pg_statistic", "stakind5")


class Restored(msgspec.Struct, frozen=True):
    """What a server has of the statistics. relations, columns, extended: how many it took; missing: the first
    of `count`; bare: tables of which the file says nothing."""

    relations: int
    columns: int
    extended: int
    missing: list[NotRestored]
    count: int
    bare: list[str]


def restore(schema: Schema, statistics: PlannerStatistics, check: Callable[[], None]) -> Restored:
    """Writes the statistics. Raises ServerError where the server can be given none."""
    missing = Missing()
    with schema.cluster.connect(DATABASE) as superuser:
        has = catalog_of(superuser).has
        use_catalogs_only(superuser)
        if not has(OLDEST):
            raise ServerError(
                f"PostgreSQL {schema.cluster.server.version} is too old for statistics of another server",
                "name 9.2 or later",
            )
        for statement in (
            "SET synchronous_commit = off",
            f"SET statement_timeout = {1000 * STATEMENT_SECONDS}",
        ):
            superuser.execute(statement.encode())
        targets = find_targets(superuser, statistics.extended, missing)
        if has(function("pg_restore_attribute_stats")):
            with schema.connect() as owner:
                relations, columns = _by_functions(
                    owner, (*statistics.relations, *statistics.columns), missing, check
                )
        else:
            relations, columns = _by_catalogs(superuser, statistics, missing, check)
        if has(function("pg_restore_extended_stats")):
            with schema.connect() as owner:
                extended = sum(_by_functions(owner, [call for call, _ in targets], missing, check))
        else:
            extended = write_extended(schema, superuser, targets, missing, check)
        _ranges(superuser, statistics, missing)
        named = {(call.schema, call.name) for call in statistics.relations}
        tables = superuser.execute(_TABLES.encode()).fetchall()
        bare = [f"{schema_}.{name}" for schema_, name in tables if (schema_, name) not in named]
    return Restored(relations, columns, extended, missing.listed, missing.count, bare)


_TABLES = """
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'm') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 1, 2
"""


def _ranges(session: psycopg.Connection[Any], statistics: PlannerStatistics, missing: Missing) -> None:
    """Lists columns of ranges whose values are not in the file."""
    without = {
        (column.schema, column.table, column.column)
        for column in statistics.columns
        if "range_bounds_histogram" not in column.values
    }
    for names in session.execute(_RANGES.encode()).fetchall():
        if names in without:
            missing.add(".".join(names), "a range: before 17 no view tells how its values are distributed")


_RANGES = """
SELECT n.nspname::text, c.relname::text, a.attname::text FROM pg_attribute a
JOIN pg_type t ON t.oid = a.atttypid AND t.typtype IN ('r', 'm')
JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, 2, 3
"""


# --- by functions -----------------------------------------------------------------------------


Call = RelationCall | ColumnCall | ExtendedCall


def _by_functions(
    owner: psycopg.Connection[Any], calls: Sequence[Call], missing: Missing, check: Callable[[], None]
) -> tuple[int, int]:
    """Returns how many calls of relations and how many others the functions took."""
    notices: list[str] = []
    owner.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    find_names_anywhere(owner)  # constraints of domains may call functions
    owner.execute(f"SET statement_timeout = {1000 * STATEMENT_SECONDS}".encode())
    counts = [0, 0]
    for call in calls:
        check()
        notices.clear()
        try:
            (done,) = _called(owner, call).fetchone() or (False,)
        except psycopg.Error as error:
            if owner.closed:
                raise
            missing.add(call.title, said_plainly(error))
            continue
        counts[not isinstance(call, RelationCall)] += bool(done) or not notices
        for text in notices:
            missing.add(call.title, server_said(text))
    return counts[0], counts[1]


def _called(owner: psycopg.Connection[Any], call: Call) -> psycopg.Cursor[Any]:
    """Calls the function with parameters: nothing of the file becomes a part of the statement."""
    name, arguments = _arguments(call)
    places = ", ".join(f"'{key}', %s::{type_}" for key, type_, _ in arguments)
    values = [value if isinstance(value, list) else str(value) for _, _, value in arguments]
    return owner.execute(f"SELECT pg_catalog.pg_restore_{name}_stats({places})".encode(), values)


def _arguments(call: Call) -> tuple[str, list[tuple[str, str, object]]]:
    """Returns the middle of the function's name, and names, types and values of its arguments."""
    if isinstance(call, RelationCall):
        return "relation", [
            ("schemaname", "text", call.schema),
            ("relname", "text", call.name),
            *((key, RELATION[key], value) for key, value in call.values.items()),
        ]
    table: list[tuple[str, str, object]] = [
        ("schemaname", "text", call.schema),
        ("relname", "text", call.table),
    ]
    inherited = ("inherited", "boolean", call.inherited)
    if isinstance(call, ColumnCall):
        is_number = isinstance(call.column, int)
        key, type_ = ("attnum", "smallint") if is_number else ("attname", "text")
        values = ((key, COLUMN[key], value) for key, value in call.values.items())
        return "attribute", [*table, (key, type_, call.column), inherited, *values]
    return "extended", [
        *table,
        ("statistics_schemaname", "text", call.statistics_schema),
        ("statistics_name", "text", call.statistics),
        inherited,
        *((key, EXTENDED[key], value) for key, value in call.arguments.items()),
    ]


# --- by catalogs ------------------------------------------------------------------------------


def _by_catalogs(
    session: psycopg.Connection[Any],
    statistics: PlannerStatistics,
    missing: Missing,
    check: Callable[[], None],
) -> tuple[int, int]:
    """Returns how many relations and columns were written."""
    has = catalog_of(session).has
    catalogs = Catalogs(session)
    relations = columns = 0
    known = [name for name in RELATION if has(column("pg_class", name))]
    for call in statistics.relations:
        check()
        if (oid := catalogs.relations.get((call.schema, call.name))) is None:
            missing.add(call.title, "there is no such table or index here")
            continue
        # Below zero nobody has counted the rows, which each version writes in its own way.
        values = {name: call.values[name] for name in known if name in call.values}
        if float(values.get("reltuples", 0)) >= 0 and values:
            places = ", ".join(f"{name} = %s::{RELATION[name]}" for name in values)
            session.execute(f"UPDATE pg_class SET {places} WHERE oid = %s".encode(), [*values.values(), oid])
        relations += 1
    collations = has(column("pg_statistic", "stacoll1"))
    for of_column in statistics.columns:
        check()
        facts = _facts(catalogs, of_column)
        if facts is None:
            missing.add(of_column.title, "there is no such column here")
            continue
        slots = slots_of(of_column, facts, catalogs)
        for name, why in slots.missing.items():
            missing.add(f"{of_column.title}, {name}", why)
        try:
            _insert(session, of_column, facts, slots.slots, collations=collations)
            columns += 1
        except psycopg.Error as error:
            if session.closed:
                raise
            missing.add(of_column.title, said_plainly(error))
    return relations, columns


def _facts(catalogs: Catalogs, call: ColumnCall) -> ColumnFacts | None:
    if isinstance(call.column, int):
        return catalogs.by_number.get((call.schema, call.table, call.column))
    return catalogs.by_name.get((call.schema, call.table, call.column))


def _insert(
    session: psycopg.Connection[Any],
    call: ColumnCall,
    facts: ColumnFacts,
    slots: Sequence[Slot],
    *,
    collations: bool,
) -> None:
    """Writes a row of pg_statistic."""
    row = row_of(call, facts, slots, collations=collations)
    places = ", ".join(place for place, _ in row.values())
    session.execute(
        f"INSERT INTO pg_statistic ({', '.join(row)}) VALUES ({places})".encode(),
        [value for _, values in row.values() for value in values],
    )


__all__ = ["Restored", "restore"]
