"""One sitting of a step: all variants at the same time, each driver in its own windows of a common schedule.

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
from typing import Any

from pgstrata.campaign.file.models import CampaignSpec
from pgstrata.campaign.plan.order import Windows
from pgstrata.driver.client import Driver
from pgstrata.errors import DriverError, PgstrataError, StoreError
from pgstrata.measure.comparison.participant import Lane
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.progress import Progress
from pgstrata.measure.run.conduct import DATABASE
from pgstrata.measure.step import Measured, cut_short, measure
from pgstrata.observe import StepWatch
from pgstrata.workload.core.language import Step

Json = dict[str, Any]

HEAD_START = 0.05
"""Seconds from the word to begin until the first window."""


@dataclass
class Seat:
    """One variant at the table: its driver, and what its windows have told so far."""

    lane: Lane
    place: int
    thread: threading.Thread | None = None
    driver: Driver | None = None
    ready: threading.Event = field(default_factory=threading.Event)
    measured: Measured | None = None
    error: PgstrataError | None = None
    broken: BaseException | None = None
    windows: dict[int, tuple[int, float]] = field(default_factory=dict)
    """Operations and busy seconds of all connections, by window."""

    def take(self, told: Sequence[Sequence[float]]) -> None:
        for number, operations, busy in told:
            before = self.windows.get(int(number), (0, 0.0))
            self.windows[int(number)] = before[0] + int(operations), before[1] + busy

    @property
    def gone(self) -> bool:
        """Whether its measuring has ended before that of the others."""
        return self.thread is not None and not self.thread.is_alive()


class Together:
    """Measures one sitting of a step on all lanes. Made anew for each.

    step: as long as the sitting; number: of the sitting, from 1; pairs: those of the sittings before it.
    """

    def __init__(
        self,
        lanes: Sequence[Lane],
        step: Step,
        number: int,
        pairs: int,
        spec: CampaignSpec,
        progress: Progress,
        interrupts: Interrupts,
    ) -> None:
        assert step.seconds is not None
        self.step, self.seconds, self.spec = step, step.seconds, spec
        self.number, self.pairs = number, pairs
        self.progress, self.interrupts = progress, interrupts
        self.windows = Windows(spec.slice_seconds, len(lanes), step.warmup, secrets.randbits(32))
        role = next(role for role in step.roles if role.name == step.headline.role)
        self.role, self.clients = role.name, role.clients
        self.seats = [Seat(lane, place) for place, lane in enumerate(lanes)]
        self.begin = threading.Event()
        self.zero = 0

    def measure(self) -> list[tuple[Lane, PgstrataError]]:
        """Adds what was measured to slices and turns of each lane. Returns those that failed, and why.

        Raises Interrupted, with all drivers ended.
        """
        with self._ended_drivers():
            for seat in self.seats:
                seat.thread = threading.Thread(target=self._work, args=(seat,), name=seat.lane.label)
                seat.thread.start()
            while not all(seat.ready.is_set() or seat.gone for seat in self.seats):
                time.sleep(0.01)
            self.zero = time.monotonic_ns() + int(HEAD_START * 1e9)
            self.begin.set()
            while not all(seat.gone for seat in self.seats):
                time.sleep(0.1)
                self.interrupts.check()
                left = sum(not seat.gone for seat in self.seats)
                if left == 1 < len(self.seats):
                    self._stop()  # nobody to compare with any more
        for seat in self.seats:
            if seat.broken is not None:
                raise seat.broken
            if seat.measured is not None:
                seat.lane.turns += self._slices(seat, seat.measured)
                seat.lane.slices.append(seat.measured)
                if seat.measured.error is not None:
                    seat.error = cut_short(self.step, seat.measured.error)
        return [(seat.lane, seat.error) for seat in self.seats if seat.error is not None]

    @contextmanager
    def _ended_drivers(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self.interrupts.shield():
                for seat in self.seats:
                    if seat.driver is not None and not seat.gone:
                        seat.driver.kill()
                self.begin.set()
                for seat in self.seats:
                    if seat.thread is not None and seat.thread.ident is not None:
                        seat.thread.join()

    # --- on the thread of each seat -----------------------------------------------------------

    def _work(self, seat: Seat) -> None:
        try:
            seat.measured = self._measure(seat)
        except StoreError as error:
            seat.broken = error  # of the results, not of this variant
        except PgstrataError as error:
            seat.error = error
        except BaseException as error:
            seat.broken = error

    def _measure(self, seat: Seat) -> Measured:
        lane, step = seat.lane, self.step
        c = lane.conductor
        spec = lane.spec(step, self.number, turns=self.windows.spec(seat.place))
        # A second of one variant takes that of all the others, too.
        round_ = self.windows.moment(seat.place, self.seconds) - self.windows.moment(seat.place, 0.0)
        watch = StepWatch(
            lane.cluster,
            step.tables,
            DATABASE,
            interval=round_ / self.seconds,
            waits_hertz=self.spec.waits,
            windows=lambda active: self.zero / 1e9 + self.windows.moment(seat.place, active),
        )
        with c.builder.scratch("perf") as recordings:
            measured = measure(
                step,
                lane.order,
                spec,
                watch,
                on_second=lambda event: self._second(seat, event),
                profiler=lane.profiles.profiler(self.number, recordings, round_),
                cpus=self.spec.driver_cpus,
                begin=lambda driver: self._begin(seat, driver),
            )
            lane.profiles.add(measured.profiles)
        c.timings.add("observe", measured.observed.observe_seconds)
        return measured

    def _begin(self, seat: Seat, driver: Driver) -> None:
        seat.driver = driver
        seat.ready.set()
        self.begin.wait()
        if not self.zero:  # interrupted while others were still connecting
            raise DriverError(f"{self.step.name}: ended before it began")
        driver.start(self.zero)

    def _second(self, seat: Seat, event: Json) -> None:
        for role in event["roles"]:
            told = role.pop("turns", [])
            if role["name"] == self.role:
                seat.take(told)
        if seat.place == 0:
            before = sum(len(one.seconds) for one in seat.lane.slices)
            self.progress.second({**event, "second": before + event["second"]})

    def _stop(self) -> None:
        for seat in self.seats:
            if seat.driver is not None and not seat.gone:
                seat.driver.stop()

    def _slices(self, seat: Seat, measured: Measured) -> list[Json]:
        """`slices` of the step record, in the unit of its rate; a window that was cut short is none."""
        for role in measured.done["roles"]:
            told = role.pop("turns", [])
            if role["name"] == self.role:
                seat.take(told)
        operations = sum(n for n, _ in seat.windows.values())
        busy = sum(b for _, b in seat.windows.values())
        unit = measured.record["rate"] / (operations / busy) if operations else 0.0
        least = 0.5 * self.spec.slice_seconds * self.clients
        return [
            {"pair": self.pairs + number + 1, "seconds": round(b / self.clients, 6), "rate": n / b * unit}
            for number, (n, b) in sorted(seat.windows.items())
            if b > least
        ]


__all__ = ["Together"]
