"""How the steps of a comparison take turns, and what that costs: known before anything is started."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from pgstrata.campaign.checked import ChosenWorkload
from pgstrata.campaign.plan.model import PlannedRun, PlannedVariant
from pgstrata.campaign.study import Study
from pgstrata.driver.spec import WindowsSpec
from pgstrata.layout import draw
from pgstrata.stats.estimate import LEAST_BLOCKS
from pgstrata.store.record import TurnKind
from pgstrata.workload.core.language import Phase, Settle, Step, Work

AGAIN_SECONDS = 0.2
"""Unmeasured begin of each slice after the first: a new connection reads its catalogs again."""

AROUND_SLICE_SECONDS = 0.15
"""A new driver, its connections, and reading the statistics before and after."""

QUERY_SECONDS = 0.1
"""In which the executions of one turn end where queries are executed one at a time and take less."""

AROUND_BLOCK_SECONDS = 0.5
"""The same for all variants together."""

AROUND_ROUND_SECONDS = 1.5
"""Starting and stopping a server, and the same."""

START_AGAIN_SECONDS = 0.25
"""Stopping a server that has only read, and starting it again."""

COPIED_BYTES = 300e6
"""Bytes per second of a data folder's copy, a typical disk assumed."""

SHORT_SECONDS = 0.25
"""Slices below this are windows: a new connection for each would take longer than what it measures."""

GAP = 0.05
"""Between two windows, as a share of one: what was under way in the first comes to its end."""

FIRST_WARMUP_SECONDS = 1.0
"""Least warm-up of the first block of a step in windows."""

BLOCK_SECONDS = 1.0
"""Measured of each variant with one set of connections on one set of CPUs. What these are by chance is part
of its speed, and is drawn anew with them."""

SHORT_BLOCK_SECONDS = 0.2
"""A step of a fixed, short time has blocks of this length at least."""

MOST_BLOCKS = 40
"""Blocks of a step of a fixed time: more of them would not make its error better known."""

SMALL_MARGIN = 0.01
"""Below this margin servers are started anew between blocks: what a server is by chance, where its memory
lies, lasts as long as it does, and is some tenths of a percent."""

LAYOUT_MARGIN = 0.05
"""Below this one, servers of different programs are: where each has a layout of its own, it is a percent."""

READ_AGAIN_BYTES = 256 << 20
"""Data of one cluster that the warm-up of a block has read again after a start; with more of it, steps that
are measured with all in the server's buffers would not be any more."""

READ_AGAIN_RATE = 400 << 20
"""Bytes per second in which a server that has been started anew reads its data into its buffers again, at
least."""

LEAST_OPERATIONS = 50
"""Of each connection of the judged role, without which a step makes no stretches for frozen turns."""

FROZEN_ROUNDS = 2
"""Rounds in frozen turns before the first look at a verdict: what a server's processes are by chance lasts as
long as they do."""

TURN_SECONDS = 30.0
"""Longest frozen turn: who has not ended its stretch by then goes on with it in its next turn."""

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


def schedule_of(step: Step, spec: Study) -> Schedule:
    """How a step takes turns; with `until = "verdict"` the count is not kept to."""
    if step.measured and step.single is not None:
        return Schedule("queries", spec.rounds, step)
    if not step.measured or step.digest is not None:
        return Schedule("once", 1, step)
    if not step.reads_only:
        frozen = spec.turns == "frozen" and has_stretches(step)
        return Schedule("frozen" if frozen else "rounds", spec.rounds, step)
    if (seconds := step.divisible) is None:
        return Schedule("whole", spec.rounds, step)
    if spec.slice_seconds < SHORT_SECONDS and step.headline.fixed is None:
        pairs = max(1, round(seconds / spec.slice_seconds))
        return Schedule("windows", pairs, replace(step, warmup=max(step.warmup, FIRST_WARMUP_SECONDS)))
    # An even number: who comes first alternates, and what that does must cancel.
    pairs = 2 * round(seconds / (2 * spec.slice_seconds)) or 1
    return Schedule("slices", pairs, replace(step, seconds=spec.slice_seconds))


def has_stretches(step: Step) -> bool:
    """Whether a step can take frozen turns: connections stay open, and do more than a few operations each."""
    if step.replay is not None or any(role.reconnect for role in step.roles):
        return False
    judged = next(role for role in step.roles if role.name == step.headline.role)
    return judged.operations is None or judged.operations >= LEAST_OPERATIONS


def order_of_pair(pair: int, variants: int) -> list[int]:
    """Who comes when in one pair (from 1): numbers of the variants, in their order.

    Every second pair is the one before it backwards, so that a steady drift cancels, and each such block
    begins with another variant: two take turns A B, B A, B A, A B. Were it always the same, the first would
    have the ends of every block and a drift that bends would count for it alone. Of no variants nobody comes.
    """
    step = next(s for s in range(max(1, variants // 2), max(1, variants) + 1) if math.gcd(s, variants) == 1)
    block, backwards = divmod(pair - 1, 2)
    order = [(number + block * step) % variants for number in range(variants)]
    return order[::-1] if backwards else order


ORDERS = 256
"""Random blocks of two pairs until they repeat."""


@dataclass(frozen=True)
class WindowSchedule:
    """The schedule of slices without new connections, as docs/reference/driver.md has it (`windows`).

    Every second pair is the one before it backwards; the order of the first is drawn from `seed`. A regular
    order would make an enemy of everything on the machine that comes in a beat near to its own: another
    comparison of the same kind hit one variant for seconds in a row.
    """

    slice_seconds: float
    participants: int
    warmup: float
    seed: int

    @property
    def gap_seconds(self) -> float:
        return self.slice_seconds * GAP

    @cached_property
    def _orders(self) -> list[list[int]]:
        dice = random.Random(self.seed)
        drawn = (dice.sample(range(self.participants), self.participants) for _ in range(ORDERS))
        return [order for first in drawn for order in (first, first[::-1])]

    @cached_property
    def _positions(self) -> list[list[int]]:
        return [
            [order.index(participant) for order in self._orders] for participant in range(self.participants)
        ]

    def positions(self, participant: int) -> list[int]:
        """When this participant comes in each of the pairs, until they repeat."""
        return self._positions[participant]

    def spec(self, participant: int) -> WindowsSpec:
        """`windows` of the driver's spec."""
        return WindowsSpec(
            self.slice_seconds, self.gap_seconds, self.participants, self.positions(participant)
        )

    def moment(self, participant: int, active: float) -> float:
        """Seconds from the common zero until so many have been measured of this participant."""
        return window_moment(self.spec(participant), self.warmup, active)


def window_moment(windows: WindowsSpec, warmup: float, active: float) -> float:
    """Seconds from the common zero until `active` seconds have been measured in the `windows` of a
    driver's spec; where a window ends, the begin of the next one.

    In nanoseconds, as the driver counts: in binary fractions 1.1 s would be twelve slices of 0.1 s.
    """
    slice_, gap = _nanoseconds(windows.slice_seconds), _nanoseconds(windows.gap_seconds)
    number, inside = divmod(_nanoseconds(active), slice_)
    window = -(-_nanoseconds(warmup) // slice_) + number
    at = window * windows.participants + windows.positions[window % len(windows.positions)]
    return float(at * (slice_ + gap) + inside) / 1e9


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def longest(step: Step, spec: Study, variants: int) -> float:
    """Most seconds measured of each variant at a step in windows, or in a round of it."""
    if spec.until == "verdict":
        return spec.max_seconds / variants
    assert step.seconds is not None
    return step.seconds


def laid_out_alike(variants: Sequence[PlannedVariant]) -> bool:
    """Whether all run the same programs, and the kernel lets their memory lie at the same places."""
    return len({(v.server.spec, v.server.bin_dir) for v in variants}) == 1 and draw() is not None


def begins_anew(spec: Study, workload: ChosenWorkload, variants: Sequence[PlannedVariant]) -> bool:
    """Whether servers are started anew between the blocks of a step in windows.

    With a small margin always; else where a verdict is waited for that layouts of their own may turn, and it
    costs little.
    """
    if spec.margin < SMALL_MARGIN:
        return True
    if spec.until == "time" or spec.margin >= LAYOUT_MARGIN or laid_out_alike(variants):
        return False
    plain = all(variant.memory is None and variant.replicas is None for variant in variants)
    return plain and workload.cost.disk_bytes <= READ_AGAIN_BYTES


def block_lengths(seconds: float, *, fixed: bool = False) -> list[float]:
    """Returns the lengths, in seconds of each variant, of the blocks of a step in windows: an even number of
    equal ones.

    Every block has new connections on CPUs that are drawn anew, and often servers that have been started
    anew, in both orders as often. fixed: the step ends by time; it has as many blocks as a verdict needs,
    where it is long enough, and not many more."""
    count = seconds / BLOCK_SECONDS
    if fixed:
        count = min(max(count, LEAST_BLOCKS), MOST_BLOCKS, seconds / SHORT_BLOCK_SECONDS)
    even = 2 * max(1, round(count / 2))
    return [seconds / even] * even


def first_look(slice_seconds: float) -> int | None:
    """Returns the pairs of slices before the first look at a verdict, where it is known when the last one
    will be; else None."""
    if slice_seconds >= SHORT_SECONDS:
        return None
    return round(LEAST_BLOCKS * BLOCK_SECONDS / slice_seconds)


def warmup_of_block(number: int, step: Step, *, data_bytes: int | None = None) -> float:
    """Returns the seconds of warm-up of the block of this number, from 1: the first has the step's whole one.

    data_bytes: size of the data, where servers start anew before each block and have to read it again: then
    all blocks are alike.
    """
    if data_bytes is not None:
        return AGAIN_SECONDS + data_bytes / READ_AGAIN_RATE
    return step.warmup if number == 1 else AGAIN_SECONDS


def warmed_up(step: Step, spec: Study, first: bool) -> Step:
    """The step of one slice with its warm-up; first: of this cluster, whose caches are cold.

    A step that ends after its operations has none: the driver would count them off.
    """
    if not step.reads_only or step.divisible is None:
        return step
    return replace(step, warmup=max(step.warmup, spec.slice_seconds) if first else AGAIN_SECONDS)


def loaded_at(phases: Sequence[Phase]) -> int:
    """How many phases make the data: all before the first step that is measured or only reads.

    What only reads before that warms caches, which each cluster has of its own.
    """
    read = (i for i, p in enumerate(phases) if isinstance(p, Step) and (p.measured or p.reads_only))
    return next(read, len(phases))


def data_at(phases: Sequence[Phase]) -> int:
    """How many phases make the data that `keep_loaded` keeps, also where the load is measured: all before the
    first step that works on it. Work in Python after the load is done in every run: it finds something out,
    or prepares what lies elsewhere."""
    loads, end = 0, len(phases)
    for number, phase in enumerate(phases):
        if isinstance(phase, Step):
            if not phase.load and (phase.measured or phase.reads_only):
                end = number
                break
            loads = number + 1
    return next((i for i in range(loads, end) if loads and isinstance(phases[i], Work)), end)


def data_of(variant: PlannedVariant) -> tuple[object, ...]:
    """What decides how a data folder is made and loaded; settings do not."""
    built = variant.server.built
    versions = tuple(one.sha256 for one in built.extensions) if built is not None else ()
    return variant.server.spec, tuple(variant.spec.initdb), variant.extensions, versions


def interleaved_cost(run: PlannedRun, spec: Study, variants: Sequence[PlannedVariant]) -> PlannedRun:
    """The same run with the seconds and bytes it takes where variants take turns.

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
                snapshots = snapshots or schedule_of(phase, spec).how in ("rounds", "frozen")
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
    if schedule.how == "queries":
        assert step.single is not None
        around = len(step.single.names) * (QUERY_SECONDS + AROUND_SLICE_SECONDS)
        pairs = schedule.count * (length + around)
        return length + (spec.max_seconds / len(variants) if spec.until == "verdict" else pairs)
    if spec.until == "verdict" and schedule.how != "once" and length > 0:
        count = math.ceil(spec.max_seconds / len(variants) / length)
    match schedule.how:
        case "once":
            return None
        case "rounds" | "frozen":
            restored = chosen.cost.disk_bytes / COPIED_BYTES
            return count * (length + step.warmup + AROUND_ROUND_SECONDS + restored)
        case "windows":
            whole = longest(schedule.step, spec, len(variants))
            anew = begins_anew(spec, chosen, variants)
            data = chosen.cost.disk_bytes if anew else None
            blocks = len(block_lengths(whole, fixed=spec.until == "time"))
            warmups = (warmup_of_block(n + 1, schedule.step, data_bytes=data) for n in range(blocks))
            around = blocks * AROUND_BLOCK_SECONDS / len(variants)
            around += blocks * START_AGAIN_SECONDS if anew else 0.0
            return (whole + sum(warmups)) * (1 + GAP) + around
        case _:
            return count * (length + AGAIN_SECONDS + AROUND_SLICE_SECONDS)


def seconds_of(phase: Phase) -> float:
    """How long a phase takes, as the plan shows it."""
    if isinstance(phase, Step):
        return phase.seconds or phase.estimated_seconds or 0.0
    return phase.seconds if isinstance(phase, Settle) else 0.0


__all__ = [
    "QUERY_SECONDS",
    "SHORT_SECONDS",
    "Schedule",
    "WindowSchedule",
    "begins_anew",
    "block_lengths",
    "data_at",
    "data_of",
    "first_look",
    "has_stretches",
    "interleaved_cost",
    "laid_out_alike",
    "loaded_at",
    "longest",
    "order_of_pair",
    "schedule_of",
    "seconds_of",
    "share_in_turns",
    "warmed_up",
    "warmup_of_block",
]
