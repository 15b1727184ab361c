"""Options of workload `loads`."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, field_validator

from pgstrata.workload.core.options import OneOrMore, WorkloadOptions

StepName = Literal[
    "copy", "index", "index-parallel", "vacuum", "analyze", "restore", "crash-recovery", "standby-replay"
]

STEPS: tuple[StepName, ...] = get_args(StepName)

MOST_ROWS = 2_000_000_000
"""About 300 GB with indexes."""


class LoadsOptions(WorkloadOptions):
    """Options of workload `loads`."""

    rows: int = Field(1_000_000, ge=1000, le=MOST_ROWS, description="rows of the table, about 120 bytes each")
    steps: Annotated[tuple[StepName, ...], OneOrMore] = Field(
        STEPS, min_length=1, max_length=len(STEPS), description="steps that are compared, in any order"
    )
    workers: int = Field(2, ge=1, le=64, description="parallel workers of `index-parallel`, from 11 on")
    jobs: int = Field(2, ge=1, le=64, description="connections of `restore`, each with a table of its own")

    @field_validator("steps")
    @classmethod
    def _nothing_twice(cls, value: tuple[StepName, ...]) -> tuple[StepName, ...]:
        if len(set(value)) < len(value):
            raise ValueError(f"steps names one of {', '.join(value)} twice")
        return tuple(name for name in STEPS if name in value)


__all__ = ["STEPS", "LoadsOptions", "StepName"]
