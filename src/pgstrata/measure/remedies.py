"""What a DBA may do for one query, as candidates: none is measured here.

Each candidate is asked for its plan in a transaction that is rolled back. One that would change neither the
plan nor how it is executed is left out, and of several with the same plan the simplest stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import psycopg

from pgstrata.errors import server_said
from pgstrata.judge.plan_detail import Plan, nodes_of, top_of
from pgstrata.judge.plan_times import (
    RowEstimate,
    aliases_of,
    columns_of,
    indexes_of,
    planning_share,
    relations_of,
    spilled_kilobytes,
    wrong_estimates,
)
from pgstrata.measure.explainer import ASK_SECONDS, Explainer, set_local
from pgstrata.measure.old_plan import Setting, differing, statements
from pgstrata.sql_text import identifier
from pgstrata.store.record import FOR_ONE_QUERY, RemedyKind

TARGET = 1000
"""The statistics target that is tried."""

MOST_TABLES = 8
MOST_COLUMNS = 6
"""Of one table, whose statistics are refined together."""

MOST_SETTINGS = 6
"""Settings that differ between the servers and are tried one by one."""

PLANS_LONG = 0.25
"""Where planning takes this share of the time, settings that shorten it are tried."""

MOST_MEMORY_KB = 1 << 20
"""The largest work_mem that is tried."""

Relation = tuple[str, str]


@dataclass(frozen=True)
class Candidate:
    """A remedy to be tried. sql: as a DBA would execute it; before: as a transaction executes it before the
    query; plan: details of the plan with it; text: of the statement that stands for the query, empty for its
    own."""

    kind: RemedyKind
    sql: tuple[str, ...]
    before: tuple[str, ...]
    plan: tuple[str, ...]
    text: str = ""

    @property
    def is_for_one_query(self) -> bool:
        """Whether no other query sees it."""
        return self.kind in FOR_ONE_QUERY


def missing_indexes(
    old: psycopg.Connection[Any], new: psycopg.Connection[Any], wanted_plan: Any, check: Callable[[], None]
) -> list[str]:
    """Returns the definitions of the indexes that the old plan reads and the new server has not, by whatever
    name. Raises psycopg.Error."""
    definitions = []
    for name in indexes_of(wanted_plan):
        check()
        row = old.execute(
            "SELECT pg_catalog.pg_get_indexdef(i.indexrelid), n.nspname, t.relname "
            "FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_catalog.pg_class t ON t.oid = i.indrelid "
            "JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace "
            "WHERE c.relname = %s AND n.nspname !~ '^pg_' LIMIT 1",
            (name,),
        ).fetchone()
        if row is None:
            continue
        definition, schema, table = row
        there = new.execute(
            "SELECT pg_catalog.pg_get_indexdef(i.indexrelid) FROM pg_catalog.pg_index i "
            "JOIN pg_catalog.pg_class t ON t.oid = i.indrelid "
            "JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace "
            "WHERE n.nspname = %s AND t.relname = %s AND i.indisvalid",
            (schema, table),
        ).fetchall()
        if _unnamed(definition) not in {_unnamed(existing) for (existing,) in there}:
            definitions.append(definition)
    return definitions


def _unnamed(definition: str) -> str:
    """Returns the definition of an index without its name, as if it were not unique."""
    return re.sub(r"^CREATE (?:UNIQUE )?INDEX (?:\"(?:[^\"]|\"\")*\"|\S+) ON (?:ONLY )?", "", definition)


@dataclass(frozen=True)
class CreatedIndexes:
    """Indexes that exist for a while. definitions: of those that could be created; without: statements that
    take them away for a transaction; notes: on those that could not."""

    definitions: tuple[str, ...]
    without: tuple[str, ...]
    notes: tuple[str, ...]


@contextmanager
def created_indexes(
    connection: psycopg.Connection[Any], definitions: Sequence[str], check: Callable[[], None]
) -> Iterator[CreatedIndexes]:
    """Creates indexes and drops them at the end, also after an error. Raises psycopg.Error."""
    names: list[str] = []
    created: list[str] = []
    notes: list[str] = []
    try:
        for definition in definitions:
            check()
            before = _indexes(connection)
            try:
                connection.execute(f"SET statement_timeout = {round(1000 * ASK_SECONDS)}")
                connection.execute(definition.encode(), prepare=False)
            except psycopg.Error as error:
                if connection.broken:
                    raise
                notes.append(f"{definition}: {server_said(error, 200)}")
                continue
            names += [name for name in _indexes(connection) if name not in before]
            created.append(definition)
        without = tuple(f"DROP INDEX {name}" for name in names)
        yield CreatedIndexes(tuple(created), without, tuple(notes))
    finally:
        with suppress(psycopg.Error):
            for name in names:
                connection.execute(f"DROP INDEX {name}".encode(), prepare=False)


def _indexes(connection: psycopg.Connection[Any]) -> list[str]:
    """Returns the names of all indexes, as SQL has them."""
    rows = connection.execute(
        "SELECT c.oid::regclass::text FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
        "ON n.oid = c.relnamespace WHERE c.relkind::text IN ('i', 'I') AND n.nspname !~ '^pg_'"
    ).fetchall()
    return [str(name) for (name,) in rows]


def candidates(
    explainer: Explainer,
    executed: Any,
    old: Mapping[str, Setting],
    new: Mapping[str, Setting],
    *,
    old_plan: Mapping[str, str] | None,
    rewritten: Explainer | None = None,
    indexes: Sequence[str],
    same_plan: bool,
    without: Sequence[str],
    check: Callable[[], None],
) -> list[Candidate]:
    """Returns the remedies to be measured, the simplest and most lasting first.

    executed: the new server's plan, with actual rows where the query came to its end; old, new: settings;
    old_plan: those that bring the old plan; rewritten: asks for the query as written for it; indexes:
    definitions of missing ones, which exist while candidates are looked for; without: statements that take
    them away again. Raises psycopg.Error where the connection breaks.
    """
    plain = explainer.detail(without) or ()
    remedies: list[Candidate] = []

    def add(kind: RemedyKind, sql: Sequence[str], before: Sequence[str], *, executes: bool = False) -> None:
        check()
        asks = rewritten if rewritten is not None and kind == "rewrite" else explainer
        plan = asks.detail(before)
        if plan is None or (plan == plain and not executes):
            return
        if executes or all(plan != remedy.plan or remedy.kind in ("memory", "jit") for remedy in remedies):
            text = asks.query if kind == "rewrite" else ""
            remedies.append(Candidate(kind, tuple(sql), tuple(before), plan, text))

    if indexes:
        add("index", indexes, ())
    wrong = wrong_estimates(executed)
    for kind, changes in _statistics(explainer.connection, executed, wrong, same_plan=same_plan):
        add(kind, changes, [*without, *changes])
    if rewritten is not None:
        add("rewrite", [rewritten.query], without)
    if old_plan:
        sql = statements(old_plan)
        if rewritten is None:
            add("setting", [*indexes, *sql], sql)
        else:
            add("rewrite", [*indexes, *sql, rewritten.query], sql)
    if _is_compiled(executed) and "jit" in new and new["jit"].value == "on":
        sql = (set_local("jit", "off"),)
        if all(remedy.sql != sql for remedy in remedies):
            add("jit", sql, [*without, *sql], executes=True)
    if (needed := spilled_kilobytes(executed)) and "work_mem" in new:
        megabytes = 1 << (int(min(needed, MOST_MEMORY_KB)) // 1024).bit_length()
        sql = (set_local("work_mem", f"{megabytes}MB"),)
        if 1024 * megabytes > float(new["work_mem"].value):
            add("memory", sql, [*without, *sql], executes=True)
    plans_long = same_plan and planning_share(executed) >= PLANS_LONG
    differ = {
        name: value
        for name, value in differing(old, new).items()
        if new[name].concerns_resources or (plans_long and new[name].decides_plans)
    }
    if plans_long and not differ and len(aliases_of(executed)) > 2:
        sql = statements(dict.fromkeys(("from_collapse_limit", "join_collapse_limit"), "1"))
        add("setting", sql, [*without, *sql], executes=True)
    for name, value in list(differ.items())[:MOST_SETTINGS]:
        sql = (set_local(name, value),)
        has_more_memory = name == "work_mem" and any(each.kind == "memory" for each in remedies)
        if not has_more_memory and all(each.sql != sql for each in remedies):
            add("setting", sql, [*without, *sql], executes=same_plan)
    return remedies


def _is_compiled(executed: Any) -> bool:
    top = top_of(executed)
    return top is not None and isinstance(top.get("JIT"), Mapping)


def _statistics(
    connection: psycopg.Connection[Any], executed: Any, wrong: Sequence[RowEstimate], *, same_plan: bool
) -> list[tuple[RemedyKind, list[str]]]:
    """Returns statements that renew or refine the planner's statistics, for tables whose rows were estimated
    wrong; where the plan has changed and no row count is wrong or known, the statistics of all its tables."""
    relations = [estimate.relation for estimate in wrong if estimate.relation is not None]
    if not relations and (wrong or not same_plan):
        relations = relations_of(executed)
    names: dict[Relation, str] = {}
    for relation in list(dict.fromkeys(relations))[:MOST_TABLES]:
        if name := _table_name(connection, relation):
            names[relation] = name
    if not names:
        return []
    remedies: list[tuple[RemedyKind, list[str]]] = [
        ("analyze", [f"ANALYZE {name}" for name in names.values()])
    ]
    columns: dict[str, dict[str, None]] = {}
    together: dict[tuple[str, tuple[str, ...]], None] = {}
    aliases = aliases_of(executed)
    for of_node in _column_sets(executed, wrong):
        by_table: dict[str, list[str]] = {}
        for alias, column in of_node:
            if (table := names.get(aliases.get(alias, ("", "")))) is not None:
                by_table.setdefault(table, []).append(column)
                columns.setdefault(table, {})[column] = None
        for table, listed in by_table.items():
            if 2 <= len(listed) <= MOST_COLUMNS:
                together[table, tuple(sorted(listed))] = None
    if columns:
        remedies.append(
            ("target", [*map(_alter, columns.items()), *(f"ANALYZE {table}" for table in columns)])
        )
    if together:
        create = [
            f"CREATE STATISTICS {_statistics_name(table, listed)} ON {', '.join(listed)} FROM {table}"
            for table, listed in together
        ]
        renewed = dict.fromkeys(table for table, _ in together)
        remedies.append(("statistics", [*create, *(f"ANALYZE {table}" for table in renewed)]))
    return remedies


def _alter(columns: tuple[str, Mapping[str, None]]) -> str:
    table, names = columns
    changes = (f"ALTER COLUMN {name} SET STATISTICS {TARGET}" for name in list(names)[:MOST_COLUMNS])
    return f"ALTER TABLE {table} {', '.join(changes)}"


def _column_sets(executed: Any, wrong: Sequence[RowEstimate]) -> list[list[tuple[str, str]]]:
    """Returns the columns of the conditions and keys of each node that was estimated wrong."""
    texts = [estimate.columns for estimate in wrong]
    if not wrong:
        texts = [columns_of(node.plan) for node in nodes_of(executed) if _reads(node.plan)]
    return [[_split(column) for column in columns] for columns in texts if columns]


def _reads(plan: Plan) -> bool:
    return bool(plan.get("Relation Name"))


def _split(column: str) -> tuple[str, str]:
    """Returns the alias and column; the column as SQL has it, the alias without quotes, as EXPLAIN names it
    apart."""
    alias, _, name = column.partition(".")
    return alias.strip('"').replace('""', '"'), name


def _table_name(connection: psycopg.Connection[Any], relation: Relation) -> str:
    """Returns the name of a table as SQL has it; empty for what has no statistics that could be renewed."""
    row = connection.execute(
        "SELECT c.oid::regclass::text FROM pg_catalog.pg_class c "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s AND c.relname = %s AND c.relkind::text IN ('r', 'p', 'm') "
        "AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'",
        relation,
    ).fetchone()
    return str(row[0]) if row is not None else ""


def _statistics_name(table: str, columns: Sequence[str]) -> str:
    words = [re.sub(r"\W", "", part.rpartition(".")[2]) for part in (table, *columns)]
    return identifier("_".join(words)[:60])


__all__ = ["Candidate", "CreatedIndexes", "candidates", "created_indexes", "missing_indexes"]
