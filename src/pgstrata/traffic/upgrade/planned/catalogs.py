"""What the catalogs of a server say of columns and types, as far as pg_statistic needs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from pgstrata.server.capabilities import catalog_of, column, relation

# Statistics of an expression are of its values; an index such as GIN stores parts of them, of another type.
_COLUMNS = """
SELECT n.nspname::text, c.relname::text, a.attname::text, a.attnum::int, c.oid::bigint,
    CASE WHEN o.opcintype = 2277 THEN coalesce(nullif(t.typarray, 0), t.oid) ELSE coalesce(o.opcintype, t.oid)
    END::bigint, {collation}
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_index i ON i.indexrelid = c.oid AND i.indkey[a.attnum - 1] = 0
LEFT JOIN pg_opclass o ON o.oid = i.indclass[a.attnum - 1] AND o.opckeytype <> 0
WHERE a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p', 'm', 'i', 'I', 'f')
AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
"""
_TYPES = """
SELECT t.oid::bigint, t.typtype::text, t.typcategory::text, t.typbasetype::bigint, t.typelem::bigint,
    t.typcollation::bigint FROM pg_type t
"""
_RANGES = "SELECT rngtypid::bigint, rngsubtype::bigint FROM pg_range"
_OPERATORS = """
SELECT c.opcintype::bigint, e.amopopr::bigint, l.amopopr::bigint
FROM pg_opclass c JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'btree'
JOIN pg_amop e ON e.amopfamily = c.opcfamily AND e.amoplefttype = c.opcintype
    AND e.amoprighttype = c.opcintype AND e.amopstrategy = 3
JOIN pg_amop l ON l.amopfamily = c.opcfamily AND l.amoplefttype = c.opcintype
    AND l.amoprighttype = c.opcintype AND l.amopstrategy = 1
WHERE c.opcdefault
"""
_SAME_BYTES = "SELECT castsource::bigint, casttarget::bigint FROM pg_cast WHERE castmethod = 'b'"

TEXT, TSVECTOR, FLOAT8, DEFAULT_COLLATION = 25, 3614, 701, 100
"""Object identifiers of pg_type.dat and pg_collation.dat, which are the same in all versions."""

LESS_FLOAT8 = 672
"""The operator < of float8 (pg_operator.dat)."""

_OF_KIND = {"c": 2249, "e": 3500, "r": 3831, "m": 4537}
_ANY_ARRAY = 2277


@dataclass(frozen=True)
class Type:
    """A type of pg_type. kind: typtype; base: of a domain; element: of an array."""

    kind: str
    category: str
    base: int
    element: int
    collation: int

    @property
    def is_array(self) -> bool:
        """Whether it is an array of another type, and not a type with subscripts such as point."""
        return self.category == "A" and self.element != 0


@dataclass(frozen=True)
class ColumnFacts:
    """A column of a table or an index."""

    relation: int
    number: int
    type: int
    collation: int


class Catalogs:
    """The columns, types and operators of one database, read once. Raises psycopg.Error."""

    def __init__(self, session: psycopg.Connection[Any]) -> None:
        """Reads the catalogs of a session. session: of a superuser whose search_path is pg_catalog."""
        has = catalog_of(session).has
        collation = "a.attcollation::bigint" if has(column("pg_attribute", "attcollation")) else "0::bigint"
        self.by_name: dict[tuple[str, str, str], ColumnFacts] = {}
        self.by_number: dict[tuple[str, str, int], ColumnFacts] = {}
        for schema, table, name, number, *facts in _rows(session, _COLUMNS.format(collation=collation)):
            column_facts = ColumnFacts(facts[0], number, facts[1], facts[2])
            self.by_name[schema, table, name] = self.by_number[schema, table, number] = column_facts
        self.relations = {
            (schema, table): column_facts.relation
            for (schema, table, _), column_facts in self.by_name.items()
        }
        self._types = {row[0]: Type(*row[1:]) for row in _rows(session, _TYPES)}
        self._subtypes: Mapping[int, int] = dict(_rows(session, _RANGES)) if has(relation("pg_range")) else {}
        self._operators = {row[0]: (row[1], row[2]) for row in _rows(session, _OPERATORS)}
        self._same_bytes: dict[int, list[int]] = {}
        for source, target in _rows(session, _SAME_BYTES):
            self._same_bytes.setdefault(source, []).append(target)

    def base_of(self, oid: int) -> int:
        """Returns the type below a domain: values are stored as that, and its input checks no constraint."""
        for _ in range(32):
            if (known_type := self._types.get(oid)) is None or known_type.kind != "d":
                break
            oid = known_type.base
        return oid

    def type_of(self, oid: int) -> Type:
        """Returns a type. Raises KeyError for one that was made meanwhile."""
        return self._types[oid]

    def executes(self, oid: int, depth: int = 8) -> bool:
        """Returns whether reading values of a type may execute what the schema defines: constraints of a
        domain."""
        known_type = self._types.get(oid)
        if known_type is None or depth == 0 or known_type.kind in "dcpm":
            return True
        if known_type.kind == "r":
            return oid not in self._subtypes or self.executes(self._subtypes[oid], depth - 1)
        return known_type.is_array and self.executes(known_type.element, depth - 1)

    def order_of(self, oid: int) -> tuple[int, int]:
        """Returns the operators = and < of a type's default order; zeros where it has none."""
        known_type = self._types[oid]
        general = _ANY_ARRAY if known_type.is_array else _OF_KIND.get(known_type.kind, 0)
        for candidate in (oid, *self._same_bytes.get(oid, ()), general):
            if candidate in self._operators:
                return self._operators[candidate]
        return 0, 0


def _rows(session: psycopg.Connection[Any], question: str) -> list[tuple[Any, ...]]:
    return session.execute(question.encode()).fetchall()


__all__ = [
    "DEFAULT_COLLATION",
    "FLOAT8",
    "LESS_FLOAT8",
    "TEXT",
    "TSVECTOR",
    "Catalogs",
    "ColumnFacts",
    "Type",
]
