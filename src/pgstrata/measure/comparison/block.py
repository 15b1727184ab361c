"""One block of a step: all variants at the same time, each driver in its own windows of a common schedule.

Connections stay open from window to window, so a window may be as short as some milliseconds: shorter than
what makes a shared machine quicker and slower, and both sides of a pair find it in the same state. Each
variant is measured on a thread of its own, as any step is; this module only starts and ends them.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec import structs

from pgstrata.campaign.file.models import CampaignSpec
from pgstrata.campaign.plan.order import WindowSchedule
from pgstrata.driver.client import Driver
from pgstrata.driver.events import RoleDone, RoleSecond, Second, Window
from pgstrata.driver.spec import WindowsSpec
from pgstrata.errors import DriverError, PgstrataError, StoreError
from pgstrata.measure.comparison.participant import Participant
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.measurement import Part, cut_short
from pgstrata.measure.progress import Progress
from pgstrata.measure.step import StepResult
from pgstrata.store.record import Slice
from pgstrata.workload.core.language import Step

HEAD_START = 0.05
"""Seconds from the word to begin until the first window."""


@dataclass
class CommonStart:
    """The moment at which the first window begins: known once all drivers are ready."""

    nanoseconds: int = 0
    _given: threading.Event = field(default_factory=threading.Event)

    def give(self) -> None:
        self.nanoseconds = time.monotonic_ns() + int(HEAD_START * 1e9)
        self._given.set()

    def give_up(self) -> None:
        """Lets those go that wait for it."""
        self._given.set()

    def wait(self) -> int:
        """Nanoseconds of the monotonic clock; 0 where it was given up."""
        self._given.wait()
        return self.nanoseconds


class OwnWindows:
    """The windows of one variant in the schedule of all. number: of the variant, from 0."""

    def __init__(self, schedule: WindowSchedule, number: int, start: CommonStart) -> None:
        self._schedule, self._number, self._start = schedule, number, start
        self.ready = threading.Event()
        self.driver: Driver | None = None

    def spec(self) -> WindowsSpec:
        return self._schedule.spec(self._number)

    def moment(self, active: float) -> float:
        return self._start.nanoseconds / 1e9 + self._schedule.moment(self._number, active)

    def span(self, seconds: float) -> float:
        return self._schedule.moment(self._number, seconds) - self._schedule.moment(self._number, 0.0)

    def begin(self, driver: Driver) -> None:
        self.driver = driver
        self.ready.set()
        at = self._start.wait()
        if not at:  # interrupted while others were still connecting
            raise DriverError("ended before it began")
        driver.start(at)


@dataclass
class _Work:
    """What is measured of one participant, on a thread of its own."""

    participant: Participant
    windows: OwnWindows
    shown: bool
    """Whether its seconds are shown as the progress of all."""
    thread: threading.Thread | None = None
    result: StepResult | None = None
    error: PgstrataError | None = None
    broken: BaseException | None = None
    counts: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Operations and busy seconds of all connections, by window."""

    def take(self, windows: Sequence[Window]) -> None:
        for number, operations, busy in windows:
            before = self.counts.get(number, (0, 0.0))
            self.counts[number] = before[0] + operations, before[1] + busy

    @property
    def over(self) -> bool:
        """Whether its measuring has ended, perhaps before that of the others."""
        return self.thread is not None and not self.thread.is_alive()


class Block:
    """Measures one block of a step of all participants. Made anew for each.

    step: as long as the block; number: of the block, from 1; pairs: those of the blocks before it.
    """

    def __init__(
        self,
        participants: Sequence[Participant],
        step: Step,
        number: int,
        pairs: int,
        settings: CampaignSpec,
        progress: Progress,
        interrupts: Interrupts,
    ) -> None:
        assert step.seconds is not None
        self.step, self.number, self.pairs = step, number, pairs
        self.slice_seconds = settings.slice_seconds
        self.progress, self.interrupts = progress, interrupts
        role = next(role for role in step.roles if role.name == step.headline.role)
        self.role, self.clients = role.name, role.clients
        schedule = WindowSchedule(
            settings.slice_seconds, len(participants), step.warmup, secrets.randbits(32)
        )
        self.start = CommonStart()
        self.work = [
            _Work(participant, OwnWindows(schedule, index, self.start), shown=index == 0)
            for index, participant in enumerate(participants)
        ]

    def measure(self) -> list[tuple[Participant, PgstrataError]]:
        """Adds what was measured to each participant. Returns those that failed, and why.

        Raises Interrupted, with all drivers ended.
        """
        with self._ended_drivers():
            for work in self.work:
                work.thread = threading.Thread(
                    target=self._measure, args=(work,), name=work.participant.label
                )
                work.thread.start()
            while not all(work.windows.ready.is_set() or work.over for work in self.work):
                time.sleep(0.01)
            self.start.give()
            while not all(work.over for work in self.work):
                time.sleep(0.1)
                self.interrupts.check()
                left = sum(not work.over for work in self.work)
                if left == 1 < len(self.work):
                    self._stop()  # nobody to compare with any more
        for work in self.work:
            if work.broken is not None:
                raise work.broken
            if work.result is not None:
                work.participant.slices += self._slices(work, work.result)
                if work.result.error is not None:
                    work.error = cut_short(self.step, work.result.error)
        return [(work.participant, work.error) for work in self.work if work.error is not None]

    @contextmanager
    def _ended_drivers(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self.interrupts.shield():
                for work in self.work:
                    if work.windows.driver is not None and not work.over:
                        work.windows.driver.kill()
                self.start.give_up()
                for work in self.work:
                    if work.thread is not None and work.thread.ident is not None:
                        work.thread.join()

    def _measure(self, work: _Work) -> None:
        """On the thread of each participant."""
        measurement = work.participant.measurement
        assert measurement is not None
        before = measurement.seconds

        def on_second(event: Second) -> None:
            self._take(work, event.roles)
            if work.shown:
                self.progress.second(structs.replace(event, second=before + event.second))

        try:
            work.result = measurement.measure(Part(self.step, self.number, work.windows), on_second)
        except StoreError as error:
            work.broken = error  # of the results, not of this variant
        except PgstrataError as error:
            work.error = error
        except BaseException as error:
            work.broken = error

    def _take(self, work: _Work, roles: Sequence[RoleSecond | RoleDone]) -> None:
        for role in roles:
            if role.name == self.role:
                work.take(role.windows)

    def _stop(self) -> None:
        for work in self.work:
            if work.windows.driver is not None and not work.over:
                work.windows.driver.stop()

    def _slices(self, work: _Work, result: StepResult) -> list[Slice]:
        """`slices` of the step record, in the unit of its rate; a window that was cut short is none."""
        self._take(work, result.done.roles)
        operations = sum(n for n, _ in work.counts.values())
        busy = sum(b for _, b in work.counts.values())
        unit = (result.record.rate or 0.0) / (operations / busy) if operations else 0.0
        least = 0.5 * self.slice_seconds * self.clients
        return [
            Slice(pair=self.pairs + number + 1, seconds=round(b / self.clients, 6), rate=n / b * unit)
            for number, (n, b) in sorted(work.counts.items())
            if b > least
        ]


__all__ = ["Block"]
