"""How the participants of a block take turns, as the block sees it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Second, Stretch
from pgstrata.driver.spec import FrozenSpec, WindowsSpec
from pgstrata.errors import DriverError, ServerError
from pgstrata.measure.step import StepResult

Counts = Mapping[int, tuple[int, float]]
"""Operations and busy seconds of all connections, by the number of a window or stretch."""

MeasuredTurn = tuple[int, float, float]
"""Number of a window or stretch, its seconds, and the rate in them in the unit of the step."""


class OwnTurns(ABC):
    """Those of one participant: `pgstrata.measure.measurement.Turns`, and what its block does with them."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.driver: Driver | None = None
        self._may_begin = False
        self._told = threading.Event()

    def tell(self, *, begin: bool) -> None:
        """Whether a driver that is ready may start; once."""
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
        """All are ready."""

    @abstractmethod
    def spec(self) -> WindowsSpec | FrozenSpec:
        """What the driver's spec says of them."""

    @abstractmethod
    def moment(self, active: float) -> float:
        """As `pgstrata.observe.step.OwnTime` has it."""

    @abstractmethod
    def passed(self, moment: float) -> float:
        """As `pgstrata.observe.step.OwnTime` has it."""

    @abstractmethod
    def span(self, seconds: float) -> float:
        """Seconds that pass while so many are measured of this variant."""

    def second(self, event: Second) -> None:  # noqa: B027 - not every kind wants to know
        """The driver has said what it did in a second. On the participant's thread."""

    def stretch(self, event: Stretch) -> None:  # noqa: B027 - not every kind has them
        """The driver has ended a stretch. On the participant's thread."""


class BlockTurns(ABC):
    """The turns of all participants in one block."""

    own: Sequence[OwnTurns]
    """Those of each participant, in their order."""

    stops_alone = True
    """Whether the last participant that is left ends early: it has nobody to be compared with any more."""

    @abstractmethod
    def begin(self) -> Mapping[int, ServerError]:
        """All drivers are ready, or have failed. Returns who cannot take turns, and why."""

    @abstractmethod
    def go_on(self, over: Sequence[bool]) -> Mapping[int, ServerError]:
        """Lets a short time pass, and gives the turn on where it is due. over: whose measuring has ended.
        Returns who cannot take turns any more, and why."""

    @abstractmethod
    def end(self) -> None:
        """All may go on by themselves, to end: for every end, also an interrupt."""

    @abstractmethod
    def measured(self, counts: Counts, result: StepResult, clients: int) -> list[MeasuredTurn]:
        """What of a participant's windows or stretches makes pairs. counts: of the judged role, of which
        there are so many clients; result: of the whole block."""


__all__ = ["BlockTurns", "Counts", "MeasuredTurn", "OwnTurns"]
