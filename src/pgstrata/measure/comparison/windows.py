"""Turns in windows: all drivers work at the same time, each in its own windows of a common schedule."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Mapping, Sequence

from pgstrata.driver.client import Driver
from pgstrata.driver.spec import WindowsSpec
from pgstrata.errors import ServerError
from pgstrata.measure.comparison.turns import BlockTurns, Counts, MeasuredTurn, OwnTurns, waited_share
from pgstrata.measure.step import StepResult
from pgstrata.turns.windows import WindowSchedule

WAIT_SECONDS = 0.1
"""How long an interrupt may wait."""

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
        """On average: nearer than a few windows it is not known."""
        return (moment - self.moment(0.0)) / self.span(1.0)

    def span(self, seconds: float) -> float:
        return self._schedule.moment(self._number, seconds) - self._schedule.moment(self._number, 0.0)

    def start(self, driver: Driver) -> None:
        driver.start(self.zero)


class WindowTurns(BlockTurns):
    """The windows of all participants in one block.

    warmup: seconds before the first window that counts; cpus: those that all participants share, empty: left
    to the kernel."""

    def __init__(
        self, slice_seconds: float, participants: int, warmup: float, cpus: Sequence[int] = ()
    ) -> None:
        super().__init__()
        self._slice_seconds = slice_seconds
        self._cpus = len(cpus or os.sched_getaffinity(0))
        schedule = WindowSchedule(slice_seconds, participants, warmup, secrets.randbits(32))
        self.own: list[OwnWindows] = [OwnWindows(schedule, number, cpus) for number in range(participants)]

    def begin(self) -> Mapping[int, ServerError]:
        zero = time.monotonic_ns() + int(HEAD_START * 1e9)
        for own in self.own:
            own.zero = zero
            own.tell(begin=True)
        return {}

    def go_on(self, over: Sequence[bool]) -> Mapping[int, ServerError]:
        # Drivers know their windows: nothing is to be done before one has ended.
        self.somebody_ended.wait(WAIT_SECONDS)
        self.somebody_ended.clear()
        return {}

    def end(self) -> None:
        for own in self.own:
            own.tell(begin=False)

    def measured(self, counts: Counts, result: StepResult, clients: int) -> list[MeasuredTurn]:
        """A window that was cut short is left out."""
        operations = sum(count.operations for count in counts.values())
        busy = sum(count.busy for count in counts.values())
        unit = (result.record.rate or 0.0) / (operations / busy) if operations else 0.0
        least = 0.5 * self._slice_seconds * clients
        return [
            (
                number,
                count.busy / clients,
                count.operations / count.busy * unit,
                waited_share(count.cpu_times, count.busy, clients, self._cpus),
            )
            for number, count in sorted(counts.items())
            if count.busy > least
        ]
