"""What every workload has in common: how it is asked for, and how long and big it will be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from pgstrata.workload.core.language import Phase


class WorkloadOptions(BaseModel):
    """Options of every workload; a workload adds its own fields, each described with its unit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int = Field(
        1, ge=0, description="seed of all random streams; the same seed gives the same rows and operations"
    )


@dataclass(frozen=True)
class Estimate:
    """What a plan shows before anything ran: order of magnitude, from rates of a small current server.

    seconds: of all steps and settle waits of one run. disk_bytes: the data folder at its largest,
    write-ahead log included.
    """

    seconds: float
    disk_bytes: int


class Workload(Protocol):
    """A named benchmark. `scales` are named option sets, for runs without a campaign file."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def Options(self) -> type[WorkloadOptions]: ...

    @property
    def scales(self) -> Mapping[str, Mapping[str, Any]]: ...

    def phases(self, options: Any, version_num: int) -> list[Phase]:
        """The phases of one run, in order, for a server of this version (170011 is 17.11).

        Raises UsageError where this version cannot do what the options ask for.
        """
        ...

    def estimate(self, options: Any) -> Estimate: ...
