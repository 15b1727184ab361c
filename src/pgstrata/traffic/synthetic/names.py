"""What names in a statement mean: tables, aliases, WITH, and their columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

        self.views: dict[tuple[str, str], Mapping[str, KnownColumn]] = {}

    def table(self, schema: str | None, name: str) -> Mapping[str, KnownColumn] | None:
        """The columns of a table in their order."""
        schemas = [schema] if schema else self._schemas.get(name, [])
        return next((self._tables[one, name] for one in schemas if (one, name) in self._tables), None)


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
