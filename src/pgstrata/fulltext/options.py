"""Options of full text search."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from pgstrata.files.user_files import user_path
from pgstrata.workload.core.options import OneOrMore, Seconds, WorkloadOptions

MOST_EXECUTIONS = 400_000
"""Of queries in one step: the driver holds them all."""

Index = Literal["gin", "gist"]


class FulltextOptions(WorkloadOptions):
    """Options of full text search."""

    corpus: str = Field(
        "synthetic",
        min_length=1,
        description="`synthetic`, or the path of an mbox, .mbox.gz, maildir or a folder of them",
    )
    damaged: Literal["refuse", "use"] = Field(
        "refuse",
        description=(
            "files of an archive that break off or cannot be read: fail the run, or use what could be read"
        ),
    )
    messages: int = Field(200_000, ge=1, le=100_000_000, description="messages of a synthetic corpus")
    shortest: int = Field(
        200,
        ge=1,
        le=20_000,
        description=(
            "words of its shortest messages; the average is three to four times that (700 words, "
            "3.5 kB, with 200)"
        ),
    )
    indexes: Annotated[tuple[Index, ...], OneOrMore] = Field(
        ("gin", "gist"), min_length=1, description="kinds of index to compare: `gin`, `gist`"
    )
    build: Literal["both", "before", "after"] = Field(
        "both",
        description=(
            "index in place while loading (`before`), built when all rows are there (`after`), or both"
        ),
    )
    queries: str | None = Field(
        None,
        description=(
            "file with a tsquery in each line, such as `backup & !dump`; null: made up from the corpus"
        ),
    )
    query_count: int = Field(
        2000, ge=1, le=100_000, description="queries that are made up, or read of the file at most"
    )
    passes: int = Field(1, ge=1, le=1000, description="times each query is executed")
    warmup: int = Field(0, ge=0, le=100, description="passes over the queries before those that are measured")
    clients: int = Field(1, ge=1, le=1000, description="connections that share the queries")
    time_limit: Seconds = Field(
        60,
        description="seconds a query may take; a cancelled query counts twice that",
    )
    judge_loads: bool = Field(
        True, description="false: loads and index builds are done once, and only queries are compared"
    )
    language: str = Field(
        "english", description="text search configuration that makes the tsvectors, say `simple`"
    )

    @field_validator("language")
    @classmethod
    def _plain(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z_][a-z0-9_.]{0,62}", value):
            raise ValueError(f"{value!r} is no name of a text search configuration, say english or simple")
        return value

    @model_validator(mode="after")
    def _executions(self) -> FulltextOptions:
        if self.query_count * (self.passes + self.warmup) > MOST_EXECUTIONS:
            raise ValueError(f"query_count × (passes + warmup) is at most {MOST_EXECUTIONS:,}")
        return self

    @property
    def archive(self) -> Path | None:
        """The mail archive; None for a synthetic corpus."""
        return None if self.corpus == "synthetic" else user_path(self.corpus)

    @property
    def kinds(self) -> list[Index]:
        """The kinds of index, each once."""
        return list(dict.fromkeys(self.indexes))
