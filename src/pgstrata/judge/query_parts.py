"""Where the time of a single query went: the mean execution of both sides in parts that exclude each other.

The clock of each turn is divided by what the kernel says of the backend in these very executions: it had a
CPU, of that until the query was planned and apart from that; it was ready and waited for a CPU; it slept. How
much of this it spent in reading files EXPLAIN (ANALYZE, BUFFERS) says once, which takes away from sleeping
first, and what is more, from the CPU: pages that the kernel had cached are copied. What is left of sleeping
are other waits: locks, parallel workers, the network.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from msgspec import Struct

from pgstrata.judge.divided import TOLERANCE, Divided, TwoSides
from pgstrata.store.record import ExecutionCpu, FileAccess, QueryTurns

PartName = Literal["planning", "execution", "files", "cpu_wait", "other_waits"]

Judged = tuple[QueryTurns, QueryTurns, Collection[int]]
"""Turns of base and other, and the numbers of the pairs that are left out."""


class PartRecord(Struct, frozen=True, kw_only=True):
    """A part of an execution in JSON."""

    name: PartName
    base_seconds: float
    other_seconds: float
    difference_seconds: float


class PartsRecord(Struct, frozen=True, kw_only=True):
    """The parts of an execution in JSON."""

    pairs: int
    base_seconds: float
    other_seconds: float
    difference_seconds: float
    parts: tuple[PartRecord, ...]
    sum_seconds: float
    unexplained_seconds: float | None
    planning_is_apart: bool
    pages_from_files: tuple[int, int] | None


@dataclass(frozen=True)
class MeanExecution:
    """The mean execution of one side, in seconds. planning: those of `cpu` until it was planned, None where
    that is not known; waited: it was ready and had no CPU."""

    seconds: float
    cpu: float
    planning: float | None
    waited: float


@dataclass(frozen=True)
class MeanExecutions:
    """The mean execution of base and other over the same pairs."""

    base: MeanExecution
    other: MeanExecution
    pairs: int


@dataclass(frozen=True)
class TimePart(TwoSides):
    """Seconds of one part of a mean execution on both sides."""

    name: PartName
    base: float
    other: float


@dataclass(frozen=True)
class QueryParts(Divided):
    """The parts of a mean execution. base, other: its seconds by the clock; pages: read from files in one
    execution, None where that was not asked for; files_are_timed: whether reading them is a part of its own;
    is_planning_apart: else `execution` has planning in it."""

    parts: tuple[TimePart, ...]
    base: float
    other: float
    pairs: int
    pages: tuple[int, int] | None
    files_are_timed: bool
    is_planning_apart: bool

    @property
    def largest(self) -> TimePart:
        """The part with most of the difference, waiting for a CPU aside, which other programs had."""
        sign = 1 if self.difference >= 0 else -1
        of_its_work = [part for part in self.parts if part.name != "cpu_wait"]
        return max(of_its_work, key=lambda part: sign * part.difference)

    def record(self) -> PartsRecord:
        """Returns the parts as JSON can hold them."""
        return PartsRecord(
            pairs=self.pairs,
            base_seconds=self.base,
            other_seconds=self.other,
            difference_seconds=self.difference,
            parts=tuple(
                PartRecord(
                    name=part.name,
                    base_seconds=part.base,
                    other_seconds=part.other,
                    difference_seconds=part.difference,
                )
                for part in self.parts
            ),
            sum_seconds=self.sum,
            unexplained_seconds=self.unexplained,
            planning_is_apart=self.is_planning_apart,
            pages_from_files=self.pages,
        )


def mean_executions(judged: Sequence[Judged]) -> MeanExecutions | None:
    """Returns the mean executions over the pairs of a query; None where fewer than half of them tell what
    they took of the CPUs."""
    pairs = [pair for part in judged for pair in _pairs(*part)]
    known = [(ours, theirs) for ours, theirs in pairs if ours[1] is not None and theirs[1] is not None]
    if not known or 2 * len(known) < len(pairs):
        return None
    base, other = (_mean([pair[place] for pair in known]) for place in (0, 1))
    return MeanExecutions(base, other, len(known))


_Turn = tuple[float, ExecutionCpu | None]
"""Seconds of an execution, and what it took of the CPUs."""


def _pairs(base: QueryTurns, other: QueryTurns, out: Collection[int]) -> list[tuple[_Turn, _Turn]]:
    ours, theirs = _by_pair(base), _by_pair(other)
    return [(ours[pair], theirs[pair]) for pair in ours if pair in theirs and pair not in out]


def _by_pair(turns: QueryTurns) -> dict[int, _Turn]:
    return {
        part.pair: (1 / part.rate, cpu)
        for part, cpu in zip(turns.slices, turns.cpu, strict=False)
        if part.rate > 0
    }


def _mean(turns: Sequence[_Turn]) -> MeanExecution:
    cpu = [cpu for _, cpu in turns if cpu is not None]
    planning = [turn_cpu.planning_seconds for turn_cpu in cpu if turn_cpu.planning_seconds is not None]
    return MeanExecution(
        seconds=statistics.fmean(seconds for seconds, _ in turns),
        cpu=statistics.fmean(turn_cpu.seconds for turn_cpu in cpu),
        # A few turns in which it was not told apart leave the mean of the others.
        planning=statistics.fmean(planning) if 2 * len(planning) >= len(cpu) else None,
        waited=statistics.fmean(turn_cpu.waited_seconds for turn_cpu in cpu),
    )


def query_parts(
    means: MeanExecutions,
    files: tuple[FileAccess, FileAccess] | None = None,
    planning: tuple[float, float] | None = None,
) -> QueryParts:
    """Returns the parts of a query.

    files: what an execution read of them, on base and other; planning: seconds to plan it by EXPLAIN, which
    stand in where the protocol does not tell it, as of short executions and on a busy machine.
    """
    least = TOLERANCE * abs(means.other.seconds - means.base.seconds)
    base, other = (
        mean if mean.planning is not None else replace(mean, planning=_planning(mean, explained, least))
        for mean, explained in zip((means.base, means.other), planning or (None, None), strict=True)
    )
    means = MeanExecutions(base, other, means.pairs)
    timed = files is not None and all(access.seconds is not None for access in files)
    apart = means.base.planning is not None and means.other.planning is not None
    sides = [
        _parts(mean, (files[place].seconds or 0.0) if files and timed else 0.0, apart=apart)
        for place, mean in enumerate((means.base, means.other))
    ]
    names = [name for name in sides[0] if sides[0][name] or sides[1][name] or name == "execution"]
    return QueryParts(
        parts=tuple(TimePart(name, sides[0][name], sides[1][name]) for name in names),
        base=means.base.seconds,
        other=means.other.seconds,
        pairs=means.pairs,
        pages=(files[0].pages, files[1].pages) if files else None,
        files_are_timed=timed,
        is_planning_apart=apart,
    )


def _planning(mean: MeanExecution, explained: float | None, least: float) -> float | None:
    """Returns the seconds of planning that the protocol does not tell; None where nothing else tells them.

    Where all time on a CPU is below the least that counts, none of it need be told apart.
    """
    if explained is not None:
        return explained
    return 0.0 if mean.cpu <= least else None


def _parts(mean: MeanExecution, in_files: float, *, apart: bool) -> dict[PartName, float]:
    """Returns the seconds by part. in_files: those that the backend spent in reading and writing files."""
    planning = min(mean.cpu, mean.planning or 0.0) if apart else 0.0
    execution = mean.cpu - planning
    waited = min(mean.waited, max(0.0, mean.seconds - mean.cpu))
    asleep = max(0.0, mean.seconds - mean.cpu - waited)
    asleep_in_files = min(in_files, asleep)
    copying = min(in_files - asleep_in_files, execution)
    return {
        "planning": planning,
        "execution": execution - copying,
        "files": asleep_in_files + copying,
        "cpu_wait": waited,
        "other_waits": asleep - asleep_in_files,
    }


__all__ = [
    "MeanExecution",
    "MeanExecutions",
    "PartName",
    "PartsRecord",
    "QueryParts",
    "TimePart",
    "mean_executions",
    "query_parts",
]
