"""What commands of the core print as JSON, where no record of a run or a verdict says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from pgstrata.judge.compare import ComparisonJson
from pgstrata.stats.noise import Noise
from pgstrata.store.record import ConfigRecord


class FailureRecord(TypedDict):
    """A run that failed, as JSON."""

    variant: str
    workload: str
    error: str


class RunOutcome(TypedDict):
    """What came of a campaign, as JSON. `counts`: comparisons of counted instructions, as `pgstrata count`
    prints them; `report`: the page."""

    campaign: str
    results: str
    failed: list[FailureRecord]
    comparisons: list[ComparisonJson]
    counts: Sequence[Mapping[str, Any]]
    report: str | None


class PlannedRecord(TypedDict):
    """A run of a plan as JSON; `seconds` and `disk_bytes` are None of a run that is there already."""

    variant: str
    workload: str
    repeat: int
    state: str
    seconds: float | None
    disk_bytes: float | None


class PlanRecord(TypedDict):
    """A plan as JSON: every run in its order, then time and disk of the runs still to do."""

    campaign: str
    base: str
    runs: list[PlannedRecord]
    to_do: int
    seconds: float
    seconds_are: str
    disk_bytes: float


class ExplainedConfig(ConfigRecord, frozen=True, kw_only=True):
    """What a version makes of config files."""

    version: str


@dataclass(frozen=True, kw_only=True)
class NoiseRecord(Noise):
    """The noise of this machine at a step, as JSON. `run_spread`: standard deviation from run to run, a
    share; None without `--runs`."""

    step: str
    run_spread: float | None
