"""One step of all variants at the same time, each driver in its own windows of a common schedule.

Connections stay open from window to window, so a window may be as short as some milliseconds: shorter than
what makes a shared machine quicker and slower, and both sides of a pair find it in the same state. Each
variant is measured on a thread of its own, as any step is; this module only starts and ends them.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pgstrata.campaign.conduct import DATABASE, without_password
from pgstrata.campaign.interrupt import Interrupts
from pgstrata.campaign.lane import Lane, known
from pgstrata.campaign.measure import Measured, driver_spec, measure, step_seed
from pgstrata.campaign.profiles import profiler_of
from pgstrata.campaign.progress import Progress
from pgstrata.campaign.spec import CampaignSpec
from pgstrata.campaign.turns import Windows
from pgstrata.driver import Driver
from pgstrata.errors import DriverError, PgstrataError
from pgstrata.observe import StepWatch
from pgstrata.workload.language import Step

Json = dict[str, Any]

HEAD_START = 0.05
"""Seconds from the word to begin until the first window."""

LEAST_SECONDS = 5.0
"""Measured of each variant before the first look at a verdict: caches and clock rates have settled then."""

GROWTH = 1.05
"""Pairs that must have come between two looks, as a factor: a look takes time of the same machine."""


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
    """Measures one step of all lanes. Made anew for each step."""

    def __init__(
        self,
        lanes: Sequence[Lane],
        base: str,
        step: Step,
        spec: CampaignSpec,
        progress: Progress,
        interrupts: Interrupts,
    ) -> None:
        assert step.seconds is not None
        self.base, self.step, self.spec = base, step, spec
        self.progress, self.interrupts = progress, interrupts
        self.seconds = spec.max_seconds / len(lanes) if spec.until == "verdict" else step.seconds
        self.windows = Windows(spec.slice_seconds, len(lanes), step.warmup, secrets.randbits(32))
        role = next(role for role in step.roles if role.name == step.headline.role)
        self.role, self.clients = role.name, role.clients
        self.seats = [Seat(lane, place) for place, lane in enumerate(lanes)]
        self.begin = threading.Event()
        self.zero = 0
        self.looked = 0
        self.last: int | None = None
        """The last pair that the verdict is from; those measured until everybody had stopped are not."""

    def measure(self) -> Iterator[tuple[Lane, Measured | None, PgstrataError | None]]:
        """What was measured of each lane, and why it failed, if it did.

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
                if self._enough():
                    self._stop()
        for seat in self.seats:
            if seat.broken is not None:
                raise seat.broken
            if seat.measured is not None:
                seat.measured.record["slices"] = self._slices(seat, seat.measured.record)
                if (error := seat.measured.error) is not None:
                    what = f"{self.step.name}: {error.message}"
                    seat.error = DriverError(what, error.hint, error.event)
            yield seat.lane, seat.measured, seat.error

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
        except PgstrataError as error:
            seat.error = error
        except BaseException as error:
            seat.broken = error

    def _measure(self, seat: Seat) -> Measured:
        lane, step = seat.lane, self.step
        c = lane.conductor
        seed = step_seed(
            getattr(c.run.workload.options, "seed", self.spec.seed), c.run.key.repeat, lane.order, step.name
        )
        spec = driver_spec(step, lane.cluster.connection(DATABASE), seed, self.spec.engine)
        spec |= {"seconds": self.seconds, "turns": self.windows.spec(seat.place)}
        lane.told = without_password(spec)
        c.builder.spec(lane.order, step.name, lane.told)
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
            profile = self.spec.profile
            measured = measure(
                step,
                lane.order,
                spec,
                watch,
                on_second=lambda event: self._second(seat, event),
                profiler=profiler_of(profile, recordings, round_) if profile else None,
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
        driver.start(self.zero)

    def _second(self, seat: Seat, event: Json) -> None:
        for role in event["roles"]:
            told = role.pop("turns", [])
            if role["name"] == self.role:
                seat.take(told)
        if seat.place == 0:
            self.progress.second(event)

    # --- when it ends -------------------------------------------------------------------------

    def _enough(self) -> bool:
        left = [seat for seat in self.seats if not seat.gone]
        if len(left) < 2:
            return bool(left)  # nobody to compare with
        rates = {seat.lane.label: self._rates(seat.windows) for seat in left}
        pairs = min(map(len, rates.values()))
        if self.spec.until == "time" or pairs < LEAST_SECONDS / self.spec.slice_seconds:
            return False
        if pairs < self.looked * GROWTH:
            return False
        self.looked = pairs
        if known(rates, self.base, self.spec.margin):
            self.last = max(pair for of_lane in rates.values() for pair in of_lane)
        return self.last is not None

    def _stop(self) -> None:
        for seat in self.seats:
            if seat.driver is not None and not seat.gone:
                seat.driver.stop()

    def _rates(self, windows: Mapping[int, tuple[int, float]]) -> dict[int, float]:
        """Operations per second by pair (from 1); a window that was cut short is none."""
        least = 0.5 * self.spec.slice_seconds * self.clients
        full = [(number, n, busy) for number, (n, busy) in list(windows.items()) if busy > least]
        return {number + 1: n * self.clients / busy for number, n, busy in sorted(full)}

    def _slices(self, seat: Seat, record: Json) -> list[Json]:
        """`slices` of the step record, in the unit of its rate."""
        assert seat.measured is not None
        for role in seat.measured.done["roles"]:
            told = role.pop("turns", [])
            if role["name"] == self.role:
                seat.take(told)
        operations = sum(n for n, _ in seat.windows.values())
        busy = sum(b for _, b in seat.windows.values()) / self.clients
        unit = record["rate"] / (operations / busy) if operations else 0.0
        return [
            {"pair": pair, "seconds": round(seat.windows[pair - 1][1] / self.clients, 6), "rate": rate * unit}
            for pair, rate in self._rates(seat.windows).items()
            if self.last is None or pair <= self.last
        ]


__all__ = ["Together"]
