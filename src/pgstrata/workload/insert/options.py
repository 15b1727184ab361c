"""Options of the Insert Benchmark."""

from __future__ import annotations

import math
import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from pgstrata.workload.core.options import (
    MOST_ROWS,
    CurveOptions,
    NumbersOfClients,
    OneNumberPlain,
    OneOrMore,
    Rows,
    Seconds,
    Wait,
    WaitPerMillion,
)

#: Rows that l.x inserts into each table before it makes the indexes.
ROWS_BEFORE_INDEXES = 100
MOST_PARTITIONS = 100_000
MOST_CLIENTS = 1000
InsertClients = Annotated[tuple[Annotated[int, Field(ge=1, le=MOST_CLIENTS)], ...], NumbersOfClients]
_QUERY_STEP = re.compile(r"(\d{1,7}):(range|point)", re.ASCII)


class InsertOptions(CurveOptions):
    """Options of the Insert Benchmark; row counts are totals over all clients."""

    clients: Annotated[InsertClients, OneNumberPlain] = Field(
        (1,),
        min_length=1,
        max_length=100,
        description="clients; each has one connection per role of a step; a list or `1..N`: of query steps, "
        "as `qr100-c4`; others take the most",
    )
    tables: Literal["per-client", "shared"] = Field(
        "per-client", description="one table for each client (pi1, pi2, …) or one shared by all (pi1)"
    )
    partitions: int = Field(
        0, ge=0, le=10_000, description="range partitions of a table by transactionid; 0: not partitioned"
    )
    rows_per_partition: Rows | None = Field(
        None,
        description="rows in each partition but the last; null: rows of l.i0 in a table ÷ partitions",
    )

    rows: Rows = Field(20_000_000, description="rows inserted by l.i0, all clients together")
    rows_i1: int | None = Field(
        None, ge=0, le=MOST_ROWS, description="rows inserted by l.i1; null: 2 × rows; 0: no l.i1"
    )
    rows_i2: int | None = Field(
        None, ge=0, le=MOST_ROWS, description="rows inserted by l.i2; null: rows_i1 ÷ 4; 0: no l.i2"
    )
    batch_i0: int = Field(100, ge=1, le=10_000, description="rows per transaction in l.i0")
    batch_i1: int = Field(50, ge=1, le=10_000, description="rows per transaction in l.i1")
    batch_i2: int = Field(5, ge=1, le=10_000, description="rows per transaction in l.i2")
    batch_q: int = Field(50, ge=1, le=10_000, description="rows per transaction behind the queries")
    indexes: Literal["after-load", "before-load"] = Field(
        "after-load",
        description=(
            "when the three secondary indexes are made: by l.x after l.i0, or on the empty table, without l.x"
        ),
    )

    steps: Annotated[tuple[str, ...], OneOrMore] = Field(
        ("100:range", "100:point", "500:range", "500:point", "1000:range", "1000:point"),
        max_length=1000,
        description=(
            "query steps in order, each `R:range` or `R:point` with R inserts/s and R deletes/s "
            "per client behind it (0: none); a list, or a text with spaces"
        ),
    )
    seconds: Seconds = Field(1800, description="seconds of each query step")

    cashregisters: int = Field(1000, ge=1, le=2**31 - 1, description="cashregisterid is uniform in [0, this)")
    products: int = Field(10_000, ge=1, le=2**31 - 1, description="productid is uniform in [0, this)")
    customers: int = Field(100_000, ge=1, le=2**31 - 1, description="customerid is uniform in [0, this)")
    prices: int = Field(500, ge=1, le=2**31 - 1, description="price is uniform in [0, this)")
    data_length_min: int = Field(10, ge=0, le=4000, description="shortest value of column data, characters")
    data_length_max: int = Field(20, ge=0, le=4000, description="longest value of column data, characters")
    data_random: float = Field(
        0.5,
        ge=0,
        le=1,
        description="share of column data that is random (× 0.75, for base64); the rest is `a`",
    )

    limit: int = Field(10, ge=1, le=1_000_000, description="rows a range query asks for (LIMIT)")
    point_ids: int = Field(10, ge=1, le=10_000, description="ids in the IN list of a point query")
    query_protocol: Literal["execute", "extended"] = Field(
        "execute",
        description=(
            "`execute`: prepared in SQL and sent as text, as the original does; `extended`: "
            "prepared and bound by messages"
        ),
    )
    min_refresh: int = Field(
        1000,
        ge=0,
        le=10**9,
        description="deletes after which a deleter reads the smallest id again; 0: only at the start",
    )
    max_refresh: int = Field(
        100,
        ge=0,
        le=10**9,
        description="point queries after which the largest id is read again; 0: only at the start",
    )
    htap_seconds: float = Field(
        0,
        ge=0,
        le=86_400,
        description=(
            "an extra client per client that opens a transaction, reads a row and holds it this "
            "many seconds, in l.i1, l.i2 and query steps; 0: none"
        ),
    )

    settle_base: Wait = Field(
        60,
        description="seconds between writing and querying: base + per_million × millions of rows of l.i0",
    )
    settle_per_million: WaitPerMillion = Field(1, description="seconds of settling per million rows of l.i0")
    settle_max: Wait = Field(1200, description="most seconds of settling")

    @field_validator("steps")
    @classmethod
    def _known(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for step in value:
            if not _QUERY_STEP.fullmatch(step):
                raise ValueError(
                    f"{step!r} is not `R:range` or `R:point` with R in rows/s, as in `100:range`"
                )
        return value

    @model_validator(mode="after")
    def _lengths(self) -> InsertOptions:
        if self.data_length_min > self.data_length_max:
            raise ValueError("data_length_min is greater than data_length_max")
        return self

    @model_validator(mode="after")
    def _number_of_partitions(self) -> InsertOptions:
        if self.partitions * self.table_count > MOST_PARTITIONS:
            raise ValueError(f"partitions of all tables together are at most {MOST_PARTITIONS:,}")
        return self

    @property
    def most_clients(self) -> int:
        """Those of every step but queries."""
        return max(self.clients)

    @property
    def table_count(self) -> int:
        return self.most_clients if self.tables == "per-client" else 1

    @property
    def table_names(self) -> list[str]:
        return [f"pi{n}" for n in range(1, self.table_count + 1)]

    @property
    def i1_rows(self) -> int:
        return 2 * self.rows if self.rows_i1 is None else self.rows_i1

    @property
    def i2_rows(self) -> int:
        return self.i1_rows // 4 if self.rows_i2 is None else self.rows_i2

    @property
    def settle_seconds(self) -> float:
        return min(self.settle_max, self.settle_base + self.settle_per_million * self.rows / 1e6)

    def statements(self, rows: int, batch: int) -> int:
        """Returns the number of statements each client needs so that all together write at least `rows`,
        `batch` at a time."""
        return math.ceil(rows / self.most_clients / batch)

    def loaded_rows(self) -> int:
        """Returns the number of rows after l.x (l.i0 rounded up to whole statements, plus what l.x
        inserts)."""
        loaded = self.statements(self.rows, self.batch_i0) * self.batch_i0 * self.most_clients
        return loaded + (ROWS_BEFORE_INDEXES * self.table_count if self.indexes == "after-load" else 0)
