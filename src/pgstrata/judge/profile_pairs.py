"""Profiles of two variants, in the pairs in which both were taken: batches, slices, rounds or whole steps."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from pgstrata.judge.disturbance import LEFT_OUT
from pgstrata.judge.pairs import disturbed_pairs
from pgstrata.judge.stacks import CUT, Stacks, add_up, recorded_stacks, where_they_end
from pgstrata.stats.estimate import ORDERS
from pgstrata.store import parquet
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import ProfileRecord
from pgstrata.turns.table import kind_of

OTHERS = "other functions"
"""Stands for functions with few samples."""

UNKNOWN_FILE = "not known"

OLD = "these runs have no samples of single batches, so there are no intervals: measure again"

Samples = Mapping[str, float]
"""By function, part of the server or source file."""

Side = Mapping[int, MeasuredStep]
"""The records of a step by repeat, of one machine."""


@dataclass(frozen=True)
class PartProfile:
    """One side in one pair. cost: CPU seconds of an operation; total: all samples, and by function, part of
    the server and source file."""

    cost: float
    total: float
    functions: Samples
    phases: Samples
    files: Samples


Pair = tuple[PartProfile, PartProfile]


@dataclass(frozen=True)
class PairedProfiles:
    """Pairs of one role. stacks: of both sides, all parts together; orders: in which servers of neighbouring
    pairs were started in turn; are_batches: a word needs `LEAST_BLOCKS` of them; starts: of each server,
    where it lived through many pairs; watched, span: as of `judge.pairs.verdict_of`; missing: why there is
    only one pair though sides took turns."""

    pairs: Sequence[Pair]
    stacks: tuple[Stacks, Stacks]
    orders: int = 1
    are_batches: bool = False
    starts: int = 0
    watched: bool = False
    span: float | None = None
    missing: str = ""


def profiled_roles(base: Side) -> list[str]:
    """Returns the roles that have profiles on the base."""
    return list(dict.fromkeys(role for m in base.values() for role in m.record.profile or {}))


def paired_profiles(base: Side, other: Side, role: str) -> PairedProfiles:
    """Returns the pairs of a role. Raises StoreError for a damaged table."""
    repeats = [(base[n], other[n]) for n in sorted(base.keys() & other.keys())]
    repeats = [both for both in repeats if all(_has_stacks(m, role) for m in both)]
    stacks = (
        add_up(_stacks(ours, role) for ours, _ in repeats),
        add_up(_stacks(theirs, role) for _, theirs in repeats),
    )
    took_turns = [both for both in repeats if _took_turns(*both)]
    if not any(_entry(m, role).parts for both in took_turns for m in both):
        pairs = [pair for both in repeats if (pair := _whole_steps(*both, role)) is not None]
        return PairedProfiles(pairs, stacks, missing=OLD if took_turns else "")
    in_parts = [(both, _common_parts(*both, role)) for both in took_turns]
    first = took_turns[0][0].record
    comparisons = [ours.run.record.comparison for ours, _ in took_turns]
    are_batches = bool(first.blocks) and not kind_of(first.turns).from_snapshot
    # Where a batch is missing, the levels of the orders cannot be told.
    is_whole = all(parts and max(parts) - min(parts) + 1 == len(parts) for _, parts in in_parts)
    return PairedProfiles(
        [pair for _, parts in in_parts for pair in parts.values()],
        stacks,
        orders=ORDERS if are_batches and is_whole else 1,
        are_batches=are_batches,
        starts=len(took_turns) if all(m.record.one_start for both in took_turns for m in both) else 0,
        watched=any(comparison is not None and comparison.until == "verdict" for comparison in comparisons),
        span=first.span if len(took_turns) == 1 else None,
    )


def _has_stacks(measured: MeasuredStep, role: str) -> bool:
    entry = (measured.record.profile or {}).get(role)
    return entry is not None and entry.file is not None and role in measured.record.roles


def _entry(measured: MeasuredStep, role: str) -> ProfileRecord:
    return (measured.record.profile or {})[role]


def _stacks(measured: MeasuredStep, role: str) -> Stacks:
    return recorded_stacks(measured.run.folder, _entry(measured, role))


def _took_turns(base: MeasuredStep, other: MeasuredStep) -> bool:
    ours, theirs = base.run.record.comparison, other.run.record.comparison
    return ours is not None and theirs is not None and ours.id == theirs.id and bool(base.record.slices)


def _common_parts(base: MeasuredStep, other: MeasuredStep, role: str) -> dict[int, Pair]:
    """Returns the parts in which both sides were profiled, by their numbers, without disturbed ones."""
    disturbed = disturbed_pairs(base.record, other.record)
    ours, theirs = (_with_costs(measured, role) for measured in (base, other))
    return {
        number: (ours[number], theirs[number])
        for number in sorted(ours.keys() & theirs.keys())
        if not _is_disturbed(base.record.blocks, number, disturbed)
    }


def _is_disturbed(blocks: Sequence[int], number: int, disturbed: frozenset[int]) -> bool:
    """Returns whether other programs disturbed a part: a slice by itself, or too many pairs of a batch."""
    if not blocks:
        return number in disturbed
    if not 0 < number <= len(blocks):
        return True
    before, last = blocks[number - 2] if number > 1 else 0, blocks[number - 1]
    return sum(before < pair <= last for pair in disturbed) > LEFT_OUT * (last - before)


def _with_costs(measured: MeasuredStep, role: str) -> dict[int, PartProfile]:
    """Returns the parts of a side of which both samples and CPU time are known, by their numbers."""
    sampled = _by_part(measured.run.folder, measured.run.run_id).get((measured.record.name, role), {})
    return {
        part.number: replace(sampled[part.number], cost=part.cpu_seconds / part.operations)
        for part in _entry(measured, role).parts
        if part.number in sampled and part.cpu_seconds and part.operations
    }


@lru_cache(maxsize=16)
def _by_part(folder: Path, run_id: str) -> dict[tuple[str, str], dict[int, PartProfile]]:
    """Returns the samples of a run by step and role, and by part; kept for its other steps. run_id: tells a
    folder from an earlier one of its name."""
    del run_id
    path = folder / "profiles.parquet"
    if not path.exists():
        return {}
    sums: dict[tuple[str, str], dict[int, list[tuple[str, str, str, float]]]] = {}
    names = ("step", "role", "part", "phase", "function", "file", "samples")
    for step, role, number, phase, function, file, samples in parquet.read(path, "profiles", names).values:
        if samples is not None and 0 < samples < math.inf:
            row = (function or OTHERS, phase or CUT, file or UNKNOWN_FILE, samples)
            sums.setdefault((step, role), {}).setdefault(number, []).append(row)
    return {key: {number: _part(0.0, rows) for number, rows in parts.items()} for key, parts in sums.items()}


def _part(cost: float, rows: Sequence[tuple[str, str, str, float]]) -> PartProfile:
    """Returns samples, as rows of function, part of the server, file and number, added up in three ways."""
    functions: dict[str, float] = defaultdict(float)
    phases: dict[str, float] = defaultdict(float)
    files: dict[str, float] = defaultdict(float)
    for function, phase, file, samples in rows:
        functions[function] += samples
        phases[phase] += samples
        files[file] += samples
    return PartProfile(cost, sum(functions.values()), functions, phases, files)


def _whole_steps(base: MeasuredStep, other: MeasuredStep, role: str) -> Pair | None:
    """Returns two whole steps as a pair; None where their CPU time is not known."""
    ours, theirs = _whole_step(base, role), _whole_step(other, role)
    return None if ours is None or theirs is None else (ours, theirs)


def _whole_step(measured: MeasuredStep, role: str) -> PartProfile | None:
    record, ends = measured.record.roles[role], where_they_end(_stacks(measured, role))
    if not ends.total() or not record.operations or not record.cpu_seconds:
        return None
    each = _entry(measured, role).samples / ends.total()
    rows = [(function, phase, UNKNOWN_FILE, weight * each) for (phase, function), weight in ends.items()]
    part = _part(record.cpu_seconds / record.operations, rows)
    return part if part.total > 0 else None


__all__ = [
    "OLD",
    "OTHERS",
    "UNKNOWN_FILE",
    "Pair",
    "PairedProfiles",
    "PartProfile",
    "Samples",
    "Side",
    "paired_profiles",
    "profiled_roles",
]
