"""Options of the sysbench microbenchmarks."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pgstrata.workload.core.options import (
    ClientCounts,
    CurveOptions,
    OneNumberPlain,
    OneOrMore,
    Seconds,
    Wait,
    WaitPerMillion,
)


class TableOptions(CurveOptions):
    """Options of the sysbench microbenchmarks."""

    tables: int = Field(1, ge=1, le=1000, description="tables sbtest1 … sbtestN")
    rows: int = Field(10_000_000, ge=1, le=2_000_000_000, description="rows of each table after the load")
    clients: Annotated[ClientCounts, OneNumberPlain] = Field(
        (1,),
        min_length=1,
        max_length=100,
        description="connections of each microbenchmark; a list or `1..N`: one after another, as "
        "`point-query-c4`",
    )
    steps: Annotated[tuple[str, ...], OneOrMore] = Field(
        ("standard",),
        min_length=1,
        max_length=1000,
        description=(
            "what to run, in the order of the suite: `standard` (27), `full` (42), `extras`, and "
            "names or globs such as `point-query`, `random-points=100`, `*.pre`, `update-*`; a "
            "list, or a text with spaces"
        ),
    )
    read_seconds: Seconds = Field(180, description="seconds of each microbenchmark that reads")
    write_seconds: Seconds = Field(300, description="seconds of each microbenchmark that writes")
    warmup: Wait = Field(5, description="seconds each microbenchmark runs before it is measured")
    cache_seconds: Wait | None = Field(
        None,
        description=(
            "seconds of point-query.warm and points-covered-si.warm; null: read_seconds; 0: nothing is warmed"
        ),
    )
    warm_scan_seconds: Seconds = Field(
        60, description="seconds of scan.warmpre and scan.warm; with `scans` one scan per connection"
    )
    scans: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="scans of each connection in step scan; null: as many as end within read_seconds",
    )
    prepared: bool = Field(True, description="statements are prepared on the server; false: sent as text")
    secondary: bool = Field(False, description="a secondary index on column id instead of a primary key")
    load_connections: int = Field(
        4, ge=1, le=1000, description="connections that load tables at the same time"
    )

    settle_base: Wait = Field(
        60,
        description="seconds of each settling: base + per_million × millions of rows loaded",
    )
    settle_per_million: WaitPerMillion = Field(1, description="seconds of settling per million rows loaded")
    settle_max: Wait = Field(1200, description="most seconds of settling")

    @property
    def table_names(self) -> list[str]:
        return [f"sbtest{n}" for n in range(1, self.tables + 1)]

    @property
    def most_clients(self) -> int:
        return max(self.clients)

    @property
    def mode(self) -> str:
        return "prepared" if self.prepared else "simple"

    @property
    def settle_seconds(self) -> float:
        millions = self.tables * self.rows / 1e6
        return min(self.settle_max, self.settle_base + self.settle_per_million * millions)
