"""What tells one of the two benchmarks from the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

More = Callable[[Path, Mapping[str, Any], Callable[[], None]], Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class Benchmark:
    """A benchmark whose rows tpcgen-cli makes and whose texts and answers DuckDB knows."""

    name: str
    """Of the workload, of its package, of tpcgen-cli's subcommand, of DuckDB's extension and in the cache."""
    title: str
    empty_tables: str
    """DuckDB's function that makes the tables, without rows where its scale is 0."""
    queries: int
    """How many the benchmark has; they are numbered from 1."""
    query_seconds: float
    """All of them take about this long at scale factor 1 on a small current server."""
    fixed_bytes: float
    """Of raw data at scale factor 0, about."""
    scaled_bytes: float
    """Of raw data that each scale factor adds, about."""
    weights: Mapping[str, float]
    """The largest tables with their share of the raw data; the others are small beside them."""
    more: More | None = None
    """Makes further files in the folder of the tables' files. Called with this folder, with what
    `data.about` says of it so far, and with a function that may raise to give up; returns what it adds."""
    edition: str = ""
    """Of what `more` makes, in the name of the folder."""

    def raw_bytes(self, scale: float) -> int:
        """Returns about how many bytes the generator makes."""
        return int(self.fixed_bytes + scale * self.scaled_bytes)


__all__ = ["Benchmark"]
