"""How the steps of a comparison take turns, and what that costs: known before anything is started."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pgstrata.campaign.spec import CampaignSpec
from pgstrata.workload.language import Phase, Settle, Step

if TYPE_CHECKING:
    from pgstrata.campaign.plan import PlannedRun, Variant

AGAIN_SECONDS = 0.2
"""Unmeasured begin of each slice after the first: a new connection reads its catalogs again."""

AROUND_SLICE_SECONDS = 0.15
"""A new driver, its connections, and reading the statistics before and after."""

AROUND_ROUND_SECONDS = 1.5
"""Starting and stopping a server, and the same."""

COPIED_BYTES = 300e6
"""Bytes per second of a data folder's copy, a typical disk assumed."""

How = Literal["once", "slices", "whole", "rounds"]


@dataclass(frozen=True)
class Turns:
    """`once`: no comparison, run on each variant. `slices`: cut into `count` of each variant. `whole`:
    repeated so often, all clusters up. `rounds`: the same from a snapshot, no other cluster up.

    `step`: what one turn measures.
    """

    how: How
    count: int
    step: Step


def turns_of(step: Step, spec: CampaignSpec) -> Turns:
    """How a step takes turns; with `until = "verdict"` the count is not kept to."""
    if not step.measured or step.digest is not None:
        return Turns("once", 1, step)
    if not step.reads_only:
        return Turns("rounds", spec.rounds, step)
    if step.seconds is None:
        return Turns("whole", spec.rounds, step)
    # An even number: who comes first alternates, and what that does must cancel.
    pairs = 2 * round(step.seconds / (2 * spec.slice_seconds)) or 1
    return Turns("slices", pairs, replace(step, seconds=spec.slice_seconds))


def turn_order(pair: int, variants: int) -> list[int]:
    """Who comes when in one pair (from 1): places of the variants, in their order.

    Every second pair is the one before it backwards, so that a steady drift cancels, and each such block
    begins with another variant: two take turns A B, B A, B A, A B. Were it always the same, the first would
    have the ends of every block and a drift that bends would count for it alone.
    """
    step = next(s for s in range(max(1, variants // 2), variants + 1) if math.gcd(s, variants) == 1)
    block, backwards = divmod(pair - 1, 2)
    order = [(place + block * step) % variants for place in range(variants)]
    return order[::-1] if backwards else order


def warmed_up(step: Step, spec: CampaignSpec, first: bool) -> Step:
    """The step of one turn with its warm-up; first: of this cluster, whose caches are cold.

    A step that ends after its operations has none: the driver would count them off.
    """
    if not step.reads_only or step.seconds is None:
        return step
    return replace(step, warmup=max(step.warmup, spec.slice_seconds) if first else AGAIN_SECONDS)


def loaded_at(phases: Sequence[Phase]) -> int:
    """How many phases make the data: all before the first step that is measured or only reads.

    What only reads before that warms caches, which each cluster has of its own.
    """
    read = (i for i, p in enumerate(phases) if isinstance(p, Step) and (p.measured or p.reads_only))
    return next(read, len(phases))


def data_of(variant: Variant) -> tuple[object, ...]:
    """What decides how a data folder is made and loaded; settings do not."""
    return variant.server.spec, tuple(variant.spec.initdb)


def interleaved_cost(run: PlannedRun, spec: CampaignSpec, variants: Sequence[Variant]) -> PlannedRun:
    """The same run with the seconds and bytes it takes where variants take turns.

    With `until = "verdict"` the longest time.
    """
    chosen = run.workload
    phases = chosen.workload.phases(chosen.options, run.variant.server.version_num)
    end = loaded_at(phases)
    copied = next(v for v in variants if data_of(v) == data_of(run.variant)) is not run.variant and end > 0
    copy_seconds = run.disk_bytes / COPIED_BYTES
    seconds, snapshots = run.seconds, False
    for place, phase in enumerate(phases):
        once = _seconds(phase)
        if place < end:
            seconds -= once if copied else 0.0
        elif isinstance(phase, Step):
            turns = turns_of(phase, spec)
            length = _seconds(turns.step)
            count = turns.count
            if spec.until == "verdict" and turns.how != "once" and length > 0:
                count = math.ceil(spec.max_seconds / len(variants) / length)
            match turns.how:
                case "once":
                    continue
                case "rounds":
                    snapshots = True
                    each = length + phase.warmup + AROUND_ROUND_SECONDS + copy_seconds
                case _:
                    each = length + AGAIN_SECONDS + AROUND_SLICE_SECONDS
            seconds += count * each - once
    seconds += copy_seconds if copied else 0.0
    return replace(run, seconds=seconds, disk_bytes=run.disk_bytes * (2 if snapshots else 1))


def _seconds(phase: Phase) -> float:
    if isinstance(phase, Step):
        return phase.seconds or phase.estimated_seconds or 0.0
    return phase.seconds if isinstance(phase, Settle) else 0.0


__all__ = ["Turns", "data_of", "interleaved_cost", "loaded_at", "turn_order", "turns_of", "warmed_up"]
