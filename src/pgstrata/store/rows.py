"""Rows of a table of a run, in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Rows:
    """Rows of one table of a run; a value that is missing is None."""

    names: tuple[str, ...]
    """Of the columns, in the order of the values of each row."""
    values: Sequence[tuple[Any, ...]] = field(default_factory=list)
    """One tuple per row."""

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yields each row as a dictionary."""
        return (dict(zip(self.names, row, strict=True)) for row in self.values)

    def __getitem__(self, name: str) -> list[Any]:
        """Returns the values of a column. Raises ValueError where there is no such column."""
        place = self.names.index(name)
        return [row[place] for row in self.values]

    def where(self, **wanted: Any) -> Rows:
        """Returns the rows whose columns have these values, for example `where(step="l.i0")`."""
        places = [(self.names.index(name), value) for name, value in wanted.items()]
        return Rows(self.names, [row for row in self.values if all(row[at] == v for at, v in places)])


__all__ = ["Row", "Rows"]
