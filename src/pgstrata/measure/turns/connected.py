"""How the participants of a batch take turns, as the batch sees it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Second, SliceEnded, Stretch
from pgstrata.driver.message import GivenSlices
from pgstrata.driver.spec import FrozenSpec, WindowsSpec
from pgstrata.errors import DriverError, ServerError
from pgstrata.measure.step import StepResult


class TurnCount(NamedTuple):
    """What all connections did in one window or stretch. Times in seconds, of all connections added up."""

    operations: int
    busy: float
    cpu_times: tuple[float, float] | None
    """In which their processes ran, and in which they were ready and waited; None where it is not known."""


NOTHING = TurnCount(0, 0.0, (0.0, 0.0))

Counts = Mapping[int, TurnCount]
"""By the number of a window or stretch."""

MeasuredTurn = tuple[int, float, float, float | None]
"""Number of a window or stretch, its seconds, the rate in them in the unit of the step, and the share of its
time in which its processes waited for a CPU (None where that is not known)."""


def plus(first: TurnCount, second: TurnCount) -> TurnCount:
    """Adds up two counts; CPU times are not known where one of them does not know."""
    a, b = first.cpu_times, second.cpu_times
    times = None if a is None or b is None else (a[0] + b[0], a[1] + b[1])
    return TurnCount(first.operations + second.operations, first.busy + second.busy, times)


def waited_share(
    cpu_times: tuple[float, float] | None, busy: float, connections: int, cpus: int
) -> float | None:
    """Returns the share of a slice's time, 0 … 1, in which other programs kept its processes from a CPU.

    cpu_times: seconds in which the processes ran, and in which they were ready and waited; busy: seconds of
    all connections added up. A connection's driver and backend work in turn, so `connections` of them can use
    as many CPUs at once, at most `cpus`. What they did not use of these is what others can have had:
    processes of the same side that wait for each other are not counted."""
    if cpu_times is None or busy <= 0:
        return None
    ran, waited = cpu_times
    usable = busy * min(connections, cpus) / connections
    return round(min(1.0, max(0.0, min(waited, usable - ran)) / usable), 4)


def turns_of_windows(
    counts: Counts, result: StepResult, clients: int, *, least_seconds: float, cpus: int
) -> list[MeasuredTurn]:
    """Returns what was measured in windows or given slices of the judged role. counts: of each; clients: of
    the role; least_seconds: of one that counts; cpus: that all participants may use."""
    operations = sum(count.operations for count in counts.values())
    busy = sum(count.busy for count in counts.values())
    unit = (result.record.rate or 0.0) / (operations / busy) if operations else 0.0
    return [
        (
            number,
            count.busy / clients,
            count.operations / count.busy * unit,
            waited_share(count.cpu_times, count.busy, clients, cpus),
        )
        for number, count in sorted(counts.items())
        if count.busy > least_seconds * clients
    ]


class OwnTurns(ABC):
    """Those of one participant: `pgstrata.measure.measurement.Turns`, and what its batch does with them."""

    cpus: Sequence[int] = ()
    """That driver and backends of all participants share; empty: left to the kernel."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.driver: Driver | None = None
        self._may_begin = False
        self._told = threading.Event()

    def tell(self, *, begin: bool) -> None:
        """Tells whether a driver that is ready may start; once."""
        self._may_begin = self._may_begin or begin
        self._told.set()

    def begin(self, driver: Driver) -> None:
        """Starts a driver that is ready, when all are."""
        self.driver = driver
        self.ready.set()
        self._told.wait()
        if not self._may_begin:  # interrupted while others were still connecting
            raise DriverError("ended before it began")
        self.start(driver)

    @abstractmethod
    def start(self, driver: Driver) -> None:
        """Starts the driver, once all participants are ready."""

    @abstractmethod
    def spec(self) -> WindowsSpec | FrozenSpec | GivenSlices:
        """Returns the part of the driver's spec about the turns."""

    @abstractmethod
    def moment(self, active: float) -> float:
        """Implements `pgstrata.observe.step_watch.OwnTime`."""

    @abstractmethod
    def passed(self, moment: float) -> float:
        """Implements `pgstrata.observe.step_watch.OwnTime`."""

    @abstractmethod
    def span(self, seconds: float) -> float:
        """Returns the seconds that pass while this variant is measured for `seconds`."""

    def second(self, event: Second) -> None:  # noqa: B027 - not every kind wants to know
        """Takes the driver's report of a second. On the participant's thread."""

    def stretch(self, event: Stretch | SliceEnded) -> None:  # noqa: B027 - not every kind has them
        """Takes the driver's report that a stretch, or a slice that it was given, has ended. On the
        participant's thread."""


class BlockTurns(ABC):
    """The turns of all participants in one batch."""

    members: Sequence[OwnTurns]
    """Those of each participant, in their order."""

    def __init__(self) -> None:
        self.somebody_ended = threading.Event()
        """Set where the measuring of a participant ends."""

    stops_alone = True
    """Whether the last participant that is left ends early: it has nobody to be compared with any more."""

    @abstractmethod
    def begin(self) -> Mapping[int, ServerError]:
        """Begins the turns when all drivers are ready, or have failed. Returns the participants that cannot
        take turns, and why."""

    @abstractmethod
    def go_on(self, over: Sequence[bool]) -> Mapping[int, ServerError]:
        """Lets a short time pass, and gives the turn on where it is due. over: whose measuring has ended.
        Returns who cannot take turns any more, and why."""

    @abstractmethod
    def end(self) -> None:
        """Lets all participants go on by themselves, to end: for every end, also an interrupt."""

    @abstractmethod
    def measured(self, counts: Counts, result: StepResult, clients: int) -> list[MeasuredTurn]:
        """Returns the windows or stretches of a participant that make pairs. counts: of the judged role,
        which has `clients` clients; result: of the whole batch."""


__all__ = ["BlockTurns", "Counts", "MeasuredTurn", "OwnTurns"]
