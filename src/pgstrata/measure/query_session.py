"""A connection that stays open while one query is executed on it in several turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from pgstrata.driver.client import Driver, driver_failure
from pgstrata.driver.events import Done, Event, Failure, SliceEnded, StatementDone
from pgstrata.errors import DriverError
from pgstrata.observe.other_load import LoadReading, OtherLoad
from pgstrata.store.record import Slice

SLICE_SECONDS = 0.02
"""In which a turn's executions, one transaction of the driver, must begin; they begin again where they take
less. A driver that waits for its next slice looks every twentieth of it."""

MOST_SLICES = 1000
"""In which they may fail to begin, because the driver waits for a CPU."""


class ExecutedTurn(NamedTuple):
    """What a turn did. load: of other programs beside it, None where it is not known."""

    statements: Sequence[StatementDone]
    load: LoadReading | None

    def other_load(self, limit: float) -> float | None:
        """Returns the share of the CPUs that other programs used; None where it is not known, or any may be
        used (limit: 1)."""
        return None if self.load is None or limit >= 1 else self.load.record(limit).other_load

    def slice(self, pair: int, load_limit: float, without: int = 0) -> Slice | None:
        """Returns these executions, of one query on one connection, as a slice; None where nothing was timed.

        without: how many of the first do not count. load_limit: as of `other_load`.
        """
        counted = self.statements[without:]
        seconds = sum(statement.seconds for statement in counted)
        if not counted or seconds <= 0:
            return None
        cpu = [statement.cpu.seconds for statement in counted if statement.cpu is not None]
        return Slice(
            pair=pair,
            seconds=seconds,
            rate=len(counted) / seconds,
            other_load=self.other_load(load_limit),
            cpu_seconds=round(sum(cpu), 9) if len(cpu) == len(counted) else None,
        )


class QuerySession:
    """A driver that is ready, given its slices, whose transaction is the executions of one turn."""

    def __init__(self, driver: Driver) -> None:
        driver.start()
        self._driver, self._events = driver, driver.events()
        self.is_new = True
        """Whether nothing has been executed on it."""

    def execute(self) -> ExecutedTurn:
        """Executes the query as often as in each turn. Raises DriverError where that was cut short."""
        self.is_new = False
        load: OtherLoad | None = None
        with suppress(OSError):
            load = OtherLoad()
        statements: list[StatementDone] = []
        for _ in range(MOST_SLICES):
            self._driver.give_slice(SLICE_SECONDS)
            for event in self._until(SliceEnded):
                if isinstance(event, StatementDone):
                    statements.append(event)
            if statements:
                break
        reading = None
        with suppress(OSError):
            reading = load.read() if load is not None else None
        return ExecutedTurn(statements, reading)

    def end(self) -> None:
        """Lets the driver close its connection. Raises DriverError where it has failed."""
        self._driver.stop()
        for _ in self._until(Done):
            pass
        self._driver.close()

    def _until(self, last: type[SliceEnded] | type[Done]) -> Iterator[Event]:
        """Yields the driver's events before the one of this type."""
        for event in self._events:
            if isinstance(event, Failure):
                raise driver_failure(event)
            if isinstance(event, last):
                return
            yield event
        raise DriverError("the driver ended in the middle of a turn")


__all__ = ["ExecutedTurn", "QuerySession"]
