"""Options of the pgbench workload."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from pgstrata.workload.core.language import Mode
from pgstrata.workload.core.options import MOST_RATE, ClientCounts, CurveOptions, OneOrMore, Seconds, Wait
from pgstrata.workload.core.scripts import Scripts, Variables, weighted

BuiltIn = Literal["select-only", "simple-update", "tpcb-like"]

#: Bytes of data folder for each unit of scale, as pgbench's documentation puts it.
BYTES_PER_SCALE = 15_000_000


class PgbenchOptions(CurveOptions):
    """Options of the pgbench workload. Each script runs in each mode with each number of clients."""

    scale: int = Field(
        10,
        ge=1,
        le=2_000_000,
        description=(
            "size: 100,000 accounts (about 15 MB) each; or a share of memory, such as `50%` and `200%`"
        ),
    )
    initialise: bool = Field(
        True, description="make and fill pgbench's tables; false: they are there, or none is needed"
    )
    fillfactor: int = Field(100, ge=10, le=100, description="fill factor of the tables, percent")
    foreign_keys: bool = Field(False, description="foreign keys between the tables")
    partitions: int = Field(0, ge=0, le=10_000, description="partitions of pgbench_accounts; 0: none")
    partition_method: Literal["range", "hash"] = Field("range", description="how it is partitioned")

    builtin: Annotated[tuple[BuiltIn, ...] | None, OneOrMore] = Field(
        None,
        description=(
            "pgbench's scripts, one after another; null: all three, or none with `scripts`; a "
            "list, or a text with spaces"
        ),
    )
    scripts: Scripts = Field(
        (),
        description=(
            "files in pgbench's language, drawn by weight: `mine.sql@3` runs three times as often"
            " as `other.sql`"
        ),
    )
    define: Variables = Field(
        default_factory=dict, description="variables of the scripts, as pgbench's -D name=value"
    )
    allow_shell: bool = Field(
        False, description="scripts may start programs on this machine (`\\shell`, `\\setshell`)"
    )
    reads_only: bool = Field(
        False,
        description=(
            "`scripts` leave the data as it is: variants take turns at them in slices, and they "
            "are kept after a stop"
        ),
    )
    modes: Annotated[tuple[Mode, ...], OneOrMore] = Field(
        ("simple", "extended", "prepared"),
        min_length=1,
        description="query modes, one after another; a list, or one text with spaces between",
    )
    clients: ClientCounts = Field(
        (1, 2, 4, 8, 16, 32),
        min_length=1,
        max_length=100,
        description="numbers of connections, one after another: a list, a number, or `1..N` (1, 2, 4 … N)",
    )
    seconds: Seconds = Field(60, description="seconds of each step")
    warmup: Wait = Field(2, description="seconds each step runs before it is measured")
    rate: float | None = Field(
        None,
        ge=0.001,
        le=MOST_RATE,
        description="transactions/s of all connections together, Poisson; null: as fast as possible",
    )
    max_tries: int = Field(
        1,
        ge=1,
        le=1_000_000,
        description="times a transaction is tried when it fails by a serialization failure or deadlock",
    )
    vacuum: bool = Field(
        True,
        description=("before each step of a built-in script: vacuum tellers and branches, empty the history"),
    )
    checkpoint: bool = Field(
        True, description="checkpoint before each step, so that none pays for the one before"
    )

    @field_validator("scale", mode="before")
    @classmethod
    def _share_of_memory(cls, value: object) -> object:
        if isinstance(value, str) and (share := re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?) ?%", value.strip())):
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            return max(1, round(float(share.group(1)) / 100 * memory / BYTES_PER_SCALE))
        return value

    @model_validator(mode="after")
    def _something_to_run(self) -> PgbenchOptions:
        if not self.built_in and not self.scripts:
            raise ValueError("neither builtin nor scripts name anything to run")
        return self

    def files(self) -> Iterator[str]:
        """Yields all scripts that the options name."""
        yield from (weighted(name)[0] for name in self.scripts)

    @property
    def built_in(self) -> tuple[BuiltIn, ...]:
        if self.builtin is not None:
            return self.builtin
        return () if self.scripts else ("select-only", "simple-update", "tpcb-like")
