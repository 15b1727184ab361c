"""Options that both benchmarks have."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from pgstrata.workload.core.options import Seconds, WorkloadOptions


class TpcOptions(WorkloadOptions):
    """Options of both benchmarks."""

    QUERIES: ClassVar[int]

    scale: float = Field(1, ge=0.001, le=100_000, description="scale factor: GB of raw data, about")
    queries: str = Field("all", description="which queries: `all`, or numbers and ranges as in `1-10 14`")
    time_limit: Seconds = Field(
        1800,
        description="seconds a query may take; a cancelled query counts twice that",
    )
    passes: int = Field(
        1, ge=0, le=100, description="times the power run (one stream) executes each query; 0: none"
    )
    streams: int = Field(
        2,
        ge=0,
        le=100,
        description="connections of the throughput run, each with its own order; 0: none",
    )
    warmup: int = Field(0, ge=0, le=100, description="passes over the queries before those that are measured")
    plans: Literal["analyze", "estimate", "none"] = Field(
        "analyze",
        description=(
            "keeps the plan of each query: executed once more, with buffers, only planned, or not at all"
        ),
    )
    answers: bool = Field(True, description="compares each answer with that of DuckDB on the same data")
    vacuum: Literal["freeze", "full", "none"] = Field(
        "freeze", description="how the loaded tables are vacuumed"
    )
    load_connections: int = Field(
        2, ge=1, le=24, description="connections that load, index and vacuum tables at the same time"
    )
    judge_loads: bool = Field(
        True, description="false: the phases of the load are done once, and only queries are compared"
    )

    @field_validator("queries")
    @classmethod
    def _known(cls, value: str) -> str:
        numbers_in(value, cls.QUERIES)
        return value

    @property
    def numbers(self) -> list[int]:
        """The chosen queries, ascending."""
        return numbers_in(self.queries, self.QUERIES)


def numbers_in(text: str, most: int) -> list[int]:
    """Parses numbers and ranges such as `1-10 14`. Raises ValueError for a word that is neither number nor
    range from 1 to `most`."""
    if text.strip() == "all":
        return list(range(1, most + 1))
    numbers: set[int] = set()
    for word in re.split(r"[\s,]+", text.strip()):
        match = re.fullmatch(r"q?(\d{1,3})(?:-q?(\d{1,3}))?", word, re.ASCII)
        if match is None:
            raise ValueError(f"{word!r} is no query: write `all`, or numbers and ranges as in `1-10 14`")
        low, high = int(match[1]), int(match[2] or match[1])
        if not 1 <= low <= high <= most:
            raise ValueError(f"{word!r}: the queries are numbered from 1 to {most}")
        numbers.update(range(low, high + 1))
    return sorted(numbers)


__all__ = ["TpcOptions", "numbers_in"]
