"""How the steps of a comparison take turns, and what that costs: known before anything is started."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pgstrata.campaign.checked import ChosenWorkload
from pgstrata.campaign.plan.model import PlannedRun, PlannedVariant
from pgstrata.campaign.study import Study
from pgstrata.layout import draw
from pgstrata.store.record import TurnKind
from pgstrata.turns.frozen import LEAST_OPERATIONS
from pgstrata.turns.model import AGAIN_SECONDS, COPIED_BYTES, Kind, Length
from pgstrata.turns.slices import AROUND_SLICE_SECONDS
from pgstrata.turns.table import KINDS
from pgstrata.turns.windows import FIRST_WARMUP_SECONDS, SHORT_SECONDS
from pgstrata.workload.core.language import Phase, Refine, Settle, Step, Work

QUERY_SECONDS = 0.1
"""In which the executions of one turn end where queries are executed one at a time and take less."""

SMALL_MARGIN = 0.01
"""Below this margin servers are started anew between blocks, however much data they have to read again."""

START_MARGIN = 0.05
"""Below this one they are where a verdict is waited for and it costs little: what a server is by chance
lasts as long as it does, and has been two percent (benchmarks/results/layouts.md)."""

READ_AGAIN_BYTES = 256 << 20
"""Data of one cluster that the warm-up of a batch has read again after a start; with more of it, steps that
are measured with all in the server's buffers would not be any more."""

How = TurnKind | Literal["once", "queries"]


@dataclass(frozen=True)
class Schedule:
    """How often and in what way the variants are measured in turn at one step.

    `once`: no comparison, run on each variant. `queries`: the same, then each query alone in `count` pairs.
    `slices`: cut into `count` of each variant. `windows`: the same, so short that connections stay open
    between them. `whole`: repeated so often, all clusters up. `rounds`: the same from a snapshot, no other
    cluster up. `frozen`: the same, all clusters up and frozen in turn.

    `step`: what one slice or round measures; with `windows` all of them together.
    """

    how: How
    count: int
    step: Step

    @property
    def kind(self) -> Kind | None:
        """The kind of its turns; None where whole steps are no comparison (`once`, `queries`)."""
        match self.how:
            case "once" | "queries":
                return None
            case turns:
                return KINDS[turns]


def takes_turns(spec: Study) -> bool:
    """Returns whether all variants of a campaign are up together and take turns."""
    return spec.order == "interleaved"


def freezes(spec: Study) -> bool:
    """Returns whether variants that take turns at a step that writes are stopped for a while each."""
    return takes_turns(spec) and spec.turns == "frozen"


def schedule_of(step: Step, spec: Study) -> Schedule:
    """Returns how a step takes turns; with `until = "verdict"` the count is not kept to."""
    if step.measured and step.single is not None:
        return Schedule("queries", spec.rounds, step)
    if not step.measured or step.digest is not None:
        return Schedule("once", 1, step)
    if not step.reads_only:
        return Schedule("frozen" if freezes(spec) and has_stretches(step) else "rounds", spec.rounds, step)
    if (seconds := step.divisible) is None:
        return Schedule("whole", spec.rounds, step)
    if spec.slice_seconds < SHORT_SECONDS and step.headline.fixed is None:
        pairs = max(1, round(seconds / spec.slice_seconds))
        return Schedule("windows", pairs, replace(step, warmup=max(step.warmup, FIRST_WARMUP_SECONDS)))
    # An even number: who comes first alternates, and what that does must cancel.
    pairs = 2 * round(seconds / (2 * spec.slice_seconds)) or 1
    return Schedule("slices", pairs, replace(step, seconds=spec.slice_seconds))


def has_stretches(step: Step) -> bool:
    """Returns whether a step can take frozen turns: its connections stay open, and each does more than a few
    operations."""
    if step.replay is not None or any(role.reconnect for role in step.roles):
        return False
    judged = next(role for role in step.roles if role.name == step.headline.role)
    return judged.operations is None or judged.operations >= LEAST_OPERATIONS


def longest(step: Step, spec: Study, variants: int) -> float:
    """Returns the most seconds measured of each variant at a step in windows, or in a round of it."""
    if spec.until == "verdict":
        return spec.max_seconds / variants
    assert step.seconds is not None
    return step.seconds


def laid_out_alike(variants: Sequence[PlannedVariant]) -> bool:
    """Returns whether all variants run the same programs and the kernel lets their memory lie at the same
    places."""
    return len({(v.server.spec, v.server.bin_dir) for v in variants}) == 1 and draw() is not None


def begins_anew(
    spec: Study,
    workload: ChosenWorkload,
    variants: Sequence[PlannedVariant],
    most_bytes: int = READ_AGAIN_BYTES,
) -> bool:
    """Returns whether servers are started anew between the batches of a step in windows, or pairs of queries.

    With a small margin always; else where a verdict is waited for that a start may turn, and it costs little:
    not with more data than `most_bytes` to read again.
    """
    if spec.margin < SMALL_MARGIN:
        return True
    if spec.until == "time" or spec.margin >= START_MARGIN:
        return False
    plain = all(variant.memory is None and variant.replicas is None for variant in variants)
    return plain and workload.cost.disk_bytes <= most_bytes


def warmed_up(step: Step, spec: Study, first: bool) -> Step:
    """Returns the step of a single slice with its warm-up; first: the first slice of this cluster, whose
    caches are cold.

    A step that ends after its operations has none: the driver would count them off.
    """
    if not step.reads_only or step.divisible is None:
        return step
    return replace(step, warmup=max(step.warmup, spec.slice_seconds) if first else AGAIN_SECONDS)


def loaded_at(phases: Sequence[Phase]) -> int:
    """Returns how many phases make the data: all before the first step that is measured or only reads.

    What only reads before that warms caches, which each cluster has of its own.
    """
    read = (i for i, p in enumerate(phases) if isinstance(p, Step) and (p.measured or p.reads_only))
    return next(read, len(phases))


def data_at(phases: Sequence[Phase]) -> int:
    """Returns how many phases make the data that `keep_loaded` keeps, also where the load is measured: all
    before the first step that works on the data. Python work after the load is done in every run: it finds
    something out, or prepares something outside the data folder."""
    loads, end = 0, len(phases)
    for number, phase in enumerate(phases):
        if isinstance(phase, Step):
            if not phase.load and (phase.measured or phase.reads_only):
                end = number
                break
            loads = number + 1
    return next((i for i in range(loads, end) if loads and isinstance(phases[i], Work)), end)


def data_of(variant: PlannedVariant) -> tuple[object, ...]:
    """Returns everything that decides how a data folder is made and loaded; settings do not."""
    built = variant.server.built
    versions = tuple(extension.sha256 for extension in built.extensions) if built is not None else ()
    return variant.server.spec, tuple(variant.spec.initdb), variant.extensions, versions


def interleaved_cost(run: PlannedRun, spec: Study, variants: Sequence[PlannedVariant]) -> PlannedRun:
    """Returns the same run with the seconds and bytes it takes when variants take turns.

    With `until = "verdict"` the longest time.
    """
    chosen = run.workload
    phases = chosen.phases(run.variant.server.features)
    end = loaded_at(phases)
    first = next(v for v in variants if data_of(v) == data_of(run.variant))
    copied = first is not run.variant and end > 0 and not run.from_kept
    there = {step.name for step in run.kept}
    from_kept = data_at(phases) if run.from_kept else 0
    copy_seconds = run.disk_bytes / COPIED_BYTES
    seconds, snapshots = run.seconds, False
    for index, phase in enumerate(phases):
        once = seconds_of(phase)
        if index < from_kept:
            continue  # `with_loaded` has taken it off
        if isinstance(phase, Step) and phase.name in there:
            seconds -= once
        elif index < end:
            seconds -= once if copied else 0.0
        elif isinstance(phase, Step):
            share = share_in_turns(phase, chosen, spec, variants)
            if share is not None:
                seconds += share - once
                kind = schedule_of(phase, spec).kind
                snapshots = snapshots or (kind is not None and kind.from_snapshot)
        elif isinstance(phase, Refine):
            seconds += refined_share(phase, chosen, spec, variants)
    seconds += copy_seconds if copied else 0.0
    return replace(run, seconds=seconds, disk_bytes=run.disk_bytes * (2 if snapshots else 1))


def share_in_turns(
    step: Step,
    chosen: ChosenWorkload,
    spec: Study,
    variants: Sequence[PlannedVariant],
) -> float | None:
    """Returns each variant's share of the seconds that a step takes by the clock, with `until = "verdict"` at
    most; None where it takes no turns."""
    schedule = schedule_of(step, spec)
    length, count = seconds_of(schedule.step), schedule.count
    most = spec.max_seconds / len(variants) if spec.until == "verdict" else None
    if schedule.how == "queries":
        assert step.single is not None
        around = len(step.single.names) * (QUERY_SECONDS + AROUND_SLICE_SECONDS)
        if most is None:
            return length + count * (length + around)
        return length + most + spec.why_seconds / len(variants)
    if schedule.kind is None:
        return None
    if most is not None and length > 0:
        count = math.ceil(most / length)
    return schedule.kind.cost(
        Length(
            seconds=length,
            count=count,
            warmup=schedule.step.warmup,
            variants=len(variants),
            data_bytes=chosen.cost.disk_bytes,
            most_seconds=most,
            begins_anew=begins_anew(spec, chosen, variants),
        )
    )


def refined_share(
    refine: Refine,
    chosen: ChosenWorkload,
    spec: Study,
    variants: Sequence[PlannedVariant],
) -> float:
    """Returns each variant's share of the seconds that the further points of a curve take at most."""
    steps = (phase for phase in refine.at(refine.clients[-1]) if isinstance(phase, Step))
    return refine.most * sum(share_in_turns(step, chosen, spec, variants) or 0.0 for step in steps)


def seconds_of(phase: Phase) -> float:
    """Returns how many seconds a phase takes, as the plan shows it. A step that is expected to end by itself
    may have `seconds` as its bound."""
    if isinstance(phase, Step):
        return min((s for s in (phase.seconds, phase.estimated_seconds) if s), default=0.0)
    return phase.seconds if isinstance(phase, Settle) else 0.0


__all__ = [
    "QUERY_SECONDS",
    "Schedule",
    "begins_anew",
    "data_at",
    "data_of",
    "freezes",
    "has_stretches",
    "interleaved_cost",
    "laid_out_alike",
    "loaded_at",
    "longest",
    "refined_share",
    "schedule_of",
    "seconds_of",
    "share_in_turns",
    "takes_turns",
    "warmed_up",
]
