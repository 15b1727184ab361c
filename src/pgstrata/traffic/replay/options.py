"""Options of a replay."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator, model_validator

from pgstrata.files.user_files import shown
from pgstrata.workload.core.options import OneOrMore, Seconds, WorkloadOptions
from pgstrata.workload.core.scripts import beside
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.options import CustomOptions, FilledInOptions

MOST_SPEED = 1e6


class ReplayOptions(WorkloadOptions, FilledInOptions):
    """Options of workload `replay`."""

    file: str = Field("", description="the captured file (`pgstrata capture` makes it)")
    setup: Annotated[tuple[str, ...], OneOrMore] = Field(
        (),
        max_length=1000,
        description="what makes the data, as in workload `custom`; empty: the data is there",
    )
    after_load: dict[str, Annotated[tuple[str, ...], OneOrMore]] = Field(
        default_factory=dict,
        description=(
            "by major version SQL files that only its servers execute after `setup`: "
            '`{ "17" = "migrate.sql" }`'
        ),
    )
    load_connections: int = Field(4, ge=1, le=64, description="connections that load rows and make indexes")
    allow_outside: bool = Field(
        False,
        description="set by `allow_outside` of the campaign: everything is executed, by a superuser",
    )
    speed: float = Field(
        1.0,
        ge=0,
        le=MOST_SPEED,
        description="times the pace of the original; 0: as fast as the sessions go",
    )
    seconds: Seconds | None = Field(
        None, description="seconds after which the replay is stopped; null: at its end"
    )
    database: str | None = Field(
        None, description="sessions in this database only; null: in the one that most statements were in"
    )
    overtime: Seconds = Field(
        600,
        description="seconds without any answer, at the end of a replay, after which it has failed",
    )

    @field_validator("file")
    @classmethod
    def _file(cls, value: str, info: ValidationInfo) -> str:
        return beside(value, info) if value else value

    @field_validator("setup")
    @classmethod
    def _setup(cls, value: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        return tuple(beside(name, info) for name in value)

    @field_validator("after_load")
    @classmethod
    def _after_load(
        cls, value: dict[str, tuple[str, ...]], info: ValidationInfo
    ) -> dict[str, tuple[str, ...]]:
        for version in value:
            if not re.fullmatch(r"[1-9][0-9]*|[89]\.[0-9]", version, re.ASCII):
                raise ValueError(f"{shown(version)} is no major version: 17, or 9.6")
        return {version: tuple(beside(name, info) for name in names) for version, names in value.items()}

    @model_validator(mode="after")
    def _contents(self, info: ValidationInfo) -> ReplayOptions:
        if (info.context or {}).get("folder"):
            digests = {name: digest_of(Path(name)) for name in sorted(set(self.files()))}
            object.__setattr__(self, "contents", digests)
        return self

    def files(self) -> Iterator[str]:
        """Yields all files that the options name."""
        if self.file:
            yield self.file
        yield from self.setup
        for names in self.after_load.values():
            yield from names

    def of_setup(self) -> CustomOptions:
        """Returns the options by which workload `custom` loads the same data."""
        return CustomOptions.model_construct(
            setup=self.setup,
            load_connections=self.load_connections,
            contents=dict(self.contents),
            without=dict(self.without),
            seed=self.seed,
            allow_outside=self.allow_outside,
        )


__all__ = ["ReplayOptions"]
