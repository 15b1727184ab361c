"""What names in a statement mean: tables, aliases, WITH, and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from pgstrata.traffic.synthetic.statistics import KnownColumn

Columns = Mapping[str, KnownColumn | None]
"""Of something behind FROM, by name; None: of the column nothing is known."""


class Tables:
    """Columns by the names that statements call them."""

    def __init__(self, columns: Iterable[KnownColumn]) -> None:
        self._tables: dict[tuple[str, str], dict[str, KnownColumn]] = {}
        self._schemas: dict[str, list[str]] = {}
        for column in columns:
            key = column.schema, column.table
            if key not in self._tables:
                self._tables[key] = {}
                # What the search path has comes first, and nobody says which other one a client had.
                schemas = self._schemas.setdefault(column.table, [])
                schemas.insert(0 if column.visible else len(schemas), column.schema)
            self._tables[key][column.name] = column

        self._named: dict[str, list[KnownColumn]] = {}
        for table in self._tables.values():
            for name, column in table.items():
                if column.schema != "pg_catalog":
                    self._named.setdefault(name, []).append(column)
        self.views: dict[tuple[str, str], Mapping[str, KnownColumn]] = {}

    def table(self, schema: str | None, name: str) -> Mapping[str, KnownColumn] | None:
        """Returns the columns of a table in their order; None if it is unknown."""
        schemas = [schema] if schema else self._schemas.get(name, [])
        return next(
            (
                self._tables[known_schema, name]
                for known_schema in schemas
                if (known_schema, name) in self._tables
            ),
            None,
        )

    def columns_named(self, name: str) -> Sequence[KnownColumn]:
        """Returns the columns of this name in all tables of users: keys, then those of large tables first."""
        columns = self._named.get(name, [])
        return sorted(columns, key=lambda column: (not column.keys or column.refers, -column.rows))


class Scope:
    """What names mean within one SELECT, and around it."""

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.sources: list[tuple[str, Columns]] = []
        self.common: dict[str, Columns] = {}  # WITH

    def column(self, name: str, of: str | None) -> KnownColumn | None:
        scope: Scope | None = self
        while scope is not None:
            for alias, columns in scope.sources:
                if of in (None, alias) and name in columns:
                    return columns[name]
            scope = scope.parent
        return None

    def source(self, name: str, of: str | None) -> tuple[str, KnownColumn] | None:
        """Returns a column of this SELECT with the name of its table in it; None for one from elsewhere."""
        for alias, columns in self.sources:
            column = columns.get(name)
            if of in (None, alias) and column is not None:
                return alias, column
        return None

    def common_table(self, name: str) -> Columns | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.common:
                return scope.common[name]
            scope = scope.parent
        return None


class OutputColumn(NamedTuple):
    name: str
    column: KnownColumn | None


__all__ = ["Columns", "OutputColumn", "Scope", "Tables"]
