"""Turns in windows: all drivers work at the same time, each in its own windows of a common schedule."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pgstrata import numbers
from pgstrata.campaign.plan.order import Schedule, begins_anew, longest
from pgstrata.driver.client import Driver
from pgstrata.driver.spec import WindowsSpec
from pgstrata.errors import ServerError
from pgstrata.measure.placement import draw_cpus
from pgstrata.measure.run.active import DATABASE
from pgstrata.measure.step import StepResult
from pgstrata.measure.turns.batch import Batch
from pgstrata.measure.turns.connected import BlockTurns, Counts, MeasuredTurn, OwnTurns, turns_of_windows
from pgstrata.measure.turns.given import GivenTurns
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.observe.old import database_bytes
from pgstrata.stats.criterion import LEAST_BLOCKS
from pgstrata.turns.windows import (
    FIRST_WARMUP_SECONDS,
    GROWN_SECONDS,
    TRIED_SECONDS,
    WindowSchedule,
    block_lengths,
    grown_slice,
    warmup_of_block,
)
from pgstrata.workload.core.language import Step

WAIT_SECONDS = 0.1
"""How long an interrupt may wait."""

NOT_COUNTED_BELOW = 0.05
"""Seconds of a window below which the first of a batch does not count. The counters of all servers are read
in it: of 20 ms it loses 2 to 8 % on a quiet machine and up to a third on a busy one
(benchmarks/results/got-slower.md)."""

HEAD_START = 0.05
"""Seconds from the word to begin until the first window."""


class OwnWindows(OwnTurns):
    """The windows of one participant in the schedule of all. number: of the participant, from 0."""

    def __init__(self, schedule: WindowSchedule, number: int, cpus: Sequence[int]) -> None:
        super().__init__()
        self.cpus = cpus
        self._schedule, self._number = schedule, number
        self.zero = 0
        """When the first window of all begins, in nanoseconds of the monotonic clock."""

    def spec(self) -> WindowsSpec:
        return self._schedule.spec(self._number)

    def moment(self, active: float) -> float:
        return self.zero / 1e9 + self._schedule.moment(self._number, active)

    def passed(self, moment: float) -> float:
        """Returns the variant's own seconds at a moment, on average: nearer than a few windows it is not
        known."""
        return (moment - self.moment(0.0)) / self.span(1.0)

    def span(self, seconds: float) -> float:
        return self._schedule.moment(self._number, seconds) - self._schedule.moment(self._number, 0.0)

    def start(self, driver: Driver) -> None:
        driver.start(self.zero)


class WindowTurns(BlockTurns):
    """The windows of all participants in one batch.

    warmup: seconds before the first window that counts; cpus: those that all participants share, empty: left
    to the kernel."""

    def __init__(
        self, slice_seconds: float, participants: int, warmup: float, cpus: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self._slice_seconds = slice_seconds
        self._cpus = len(cpus or os.sched_getaffinity(0))
        schedule = WindowSchedule(slice_seconds, participants, warmup, secrets.randbits(32))
        self.members: list[OwnWindows] = [
            OwnWindows(schedule, number, cpus) for number in range(participants)
        ]

    def begin(self) -> Mapping[int, ServerError]:
        zero = time.monotonic_ns() + int(HEAD_START * 1e9)
        for own_turns in self.members:
            own_turns.zero = zero
            own_turns.tell(begin=True)
        return {}

    def go_on(self, over: Sequence[bool]) -> Mapping[int, ServerError]:
        # Drivers know their windows: nothing is to be done before one has ended.
        self.somebody_ended.wait(WAIT_SECONDS)
        self.somebody_ended.clear()
        return {}

    def end(self) -> None:
        for own_turns in self.members:
            own_turns.tell(begin=False)

    def measured(self, counts: Counts, result: StepResult, clients: int) -> list[MeasuredTurn]:
        """Returns the turns of a participant; left out are the first short window and those that were cut."""
        turns = turns_of_windows(
            counts, result, clients, least_seconds=0.5 * self._slice_seconds, cpus=self._cpus
        )
        first = 1 if self._slice_seconds < NOT_COUNTED_BELOW else 0
        return [turn for turn in turns if turn[0] >= first]


def measure(group: Group, schedule: Schedule) -> None:
    """Measures a step of all participants in windows and stores it.

    Windows come in batches. Each batch has new connections, on CPUs that all variants share and that are
    drawn anew. Where servers start anew, it is in the opposite order before every second batch, and
    verdicts are looked at when both orders had as many: the server that starts last may be faster by a
    percent.
    """
    settings = group.settings
    fixed = settings.until == "time"
    budget = longest(schedule.step, settings, len(group.here))
    lengths = block_lengths(budget, fixed=fixed)
    anew = begins_anew(settings, group.workload, group.variants)
    group.begin("windows", len(lengths), one_start=not anew)
    if not fixed:
        for participant in group.here:
            participant.span = max(1.0, len(lengths) / LEAST_BLOCKS)
    data_bytes = _loaded_bytes(group) if anew else None
    grown = _grown(group, schedule.step, None if fixed else budget, anew=anew)
    pairs = 0
    for number, seconds in enumerate(lengths, 1):
        group.interrupts.check()
        if not group.here or (grown is not None and number > 1 and _has_enough(group, budget, fixed=fixed)):
            break
        if anew:
            group.start_anew(number)
        if not group.here:
            break
        warmup = _warmup(schedule.step, number, data_bytes, grown)
        step = replace(schedule.step, seconds=seconds, warmup=warmup)
        cpus = draw_cpus(step, settings)
        turns: WindowTurns | GivenTurns
        if grown is None:
            turns = WindowTurns(settings.slice_seconds, len(group.here), step.warmup, cpus)
        else:
            turns = GivenTurns(step, grown, len(group.here), pairs, cpus)
        for participant in group.here:
            participant.cpus |= set(cpus)
        batch = Batch(group.here, step, number, pairs, turns, group.progress, group.interrupts)
        for participant, error in batch.measure():
            participant.leave(error)
        pairs += turns.pairs if isinstance(turns, GivenTurns) else math.ceil(seconds / settings.slice_seconds)
        group.block_ends(pairs)
        looks = not fixed and number >= LEAST_BLOCKS and number % 2 == 0
        is_last = len(group.here) < 2 and not fixed
        if not group.here or is_last or (looks and group.known()):
            break
    group.end()


def _grown(group: Group, step: Step, budget: float | None, *, anew: bool) -> float | None:
    """Returns the length of slices that end with their last transaction; None where windows do.

    The step is executed on each participant alone, as a warm-up, which tells how long its statements take.
    budget: seconds that may be measured of each, where a verdict is waited for. A step whose statements do
    not fit into it is measured of none. anew: servers start anew after it, so it warms up nothing.
    """
    if step.lockstep or any(role.rate is not None or role.operations for role in step.roles):
        return None
    tried = replace(step, seconds=TRIED_SECONDS if anew else FIRST_WARMUP_SECONDS, warmup=0.0)
    times: list[float] = []

    def try_alone(participant: Participant) -> None:
        assert participant.measurement is not None
        group.interrupts.check()
        roles = participant.measurement.execute(tried).done.roles
        # Waits for a CPU beside other programs make few transactions long: they are not what takes the time.
        times.append(max(max(role.latency.p75, role.latency.mean) for role in roles))

    group.each_in_drawn_order(try_alone)
    statement = max(times, default=0.0)
    if budget is not None and statement > budget:
        least = math.ceil(LEAST_BLOCKS * sum(times))
        for participant in group.here:
            participant.leave(
                ServerError(
                    f"{step.name}: a transaction takes {numbers.duration(statement)}, and max_seconds = "
                    f"{group.settings.max_seconds:g} leaves {numbers.duration(budget)} for each variant: "
                    f"max_seconds = {least} or more, for {LEAST_BLOCKS} batches of one transaction each"
                )
            )
    grown = grown_slice(group.settings.slice_seconds, statement)
    for participant in group.here:
        participant.slice_seconds = grown
    if grown is not None:
        group.progress.say(
            f"  {step.name}: a transaction takes {numbers.duration(statement)}, so a turn ends with its "
            f"transactions, after {numbers.duration(grown)} or more"
        )
    return grown


def _has_enough(group: Group, budget: float, *, fixed: bool) -> bool:
    """Returns whether the seconds of each participant are over, or, where they are the most that may be,
    another pair of slices would last beyond them."""
    last = max((part.seconds for participant in group.here for part in participant.slices[-1:]), default=0.0)
    used = group.used_seconds() + (0.0 if fixed else last * len(group.here))
    return used >= budget * len(group.participants)


def _warmup(step: Step, number: int, data_bytes: int | None, grown: float | None) -> float:
    """Returns the seconds of warm-up of a block; what was tried alone has warmed up the first one."""
    if data_bytes is None and step.warmup <= FIRST_WARMUP_SECONDS:
        number = max(2, number)
    warmup = warmup_of_block(number, step.warmup, data_bytes=data_bytes)
    # Beside such a statement what a new connection reads of its catalogs is next to nothing.
    return (
        0.0 if grown is not None and grown >= GROWN_SECONDS and number > 1 and data_bytes is None else warmup
    )


def _loaded_bytes(group: Group) -> int:
    """Returns the size of the largest database, which its server has to read again when it starts anew."""
    planned_bytes = group.workload.cost.disk_bytes
    sizes: list[int] = []

    def size(participant: Participant) -> None:
        with participant.cluster.connect(DATABASE) as session:
            sizes.append(database_bytes(session) or planned_bytes)

    group.each(size)
    return max(sizes, default=planned_bytes)


__all__ = ["WindowTurns", "measure"]
