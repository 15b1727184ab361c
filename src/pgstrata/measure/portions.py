"""Turns of a short query in portions: A B B A … within a pair, on connections that stay open for it.

A backend works faster or slower by chance: with the memory it has got, with the CPU it is on, with what else
runs on the machine. That changes from turn to turn, and within one. In portions of some milliseconds on a CPU
that both sides share it is nearly the same for both (benchmarks/results/queries.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pgstrata.driver.client import Driver, driver_failure
from pgstrata.driver.events import Event, Failure, SliceEnded, StatementDone
from pgstrata.driver.spec import Spec
from pgstrata.errors import DriverError
from pgstrata.measure.placement import pin
from pgstrata.workload.core.language import Step

SLICE_SECONDS = 0.0005
"""In which a transaction may begin: that of a portion takes longer, so there is one."""

PORTION_SECONDS = 0.01
"""That a portion takes about: of each side ten in a turn of a tenth of a second."""

MOST_OF_PORTION = 12
"""Executions in a portion."""

MOST_PORTIONS = 8
"""Of each side in a turn."""

MOST_SLICES = 1000
"""After so many slices in which no transaction has begun the machine does not let the driver work."""

LONGEST_SECONDS = 86_400.0
"""Of a step in which portions are given: when it ends is not said beforehand."""


def portions_of(seconds: float, turn_seconds: float) -> tuple[int, int]:
    """Returns how many executions a portion of a query has, and how many portions a turn. seconds: of an
    execution; turn_seconds: of a turn, about. Portions are one or an even number, so that none comes first
    more often."""
    executions = max(1, min(MOST_OF_PORTION, round(PORTION_SECONDS / max(seconds, 1e-6))))
    portions = min(MOST_PORTIONS, round(turn_seconds / max(executions * seconds, 1e-6)))
    return executions, max(1, portions // 2 * 2)


def as_portion(step: Step) -> Step:
    """Returns a step each of whose transactions is a portion: what the only one of this step does."""
    (role,) = step.roles
    return replace(step, roles=[replace(role, operations=None)], seconds=LONGEST_SECONDS)


class Portions:
    """A connected driver that executes a portion when it is asked to. Its methods raise DriverError."""

    def __init__(self, driver: Driver) -> None:
        self._driver, self._events = driver, driver.events()

    def execute(self) -> list[StatementDone]:
        """Executes a portion and returns what was done: up to the statement that failed."""
        for _ in range(MOST_SLICES):
            self._driver.give_slice(SLICE_SECONDS)
            if done := list(self._slice()):
                return done
        raise DriverError("no transaction has begun in any slice", "too much else runs on this machine")

    def _slice(self) -> Iterator[StatementDone]:
        for event in self._events:
            match event:
                case StatementDone():
                    yield event
                    if event.error is not None:
                        return
                case SliceEnded():
                    return
                case _:
                    _check(event)
        raise DriverError("the driver ended before it was told to")

    def end(self) -> None:
        """Lets the driver end its connection."""
        self._driver.stop()
        for event in self._events:
            _check(event)
        self._driver.close()


def _check(event: Event) -> None:
    if isinstance(event, Failure):
        raise driver_failure(event)


@contextmanager
def connected(spec: Spec, cpus: Sequence[int], *, pins_backends: bool) -> Iterator[Portions]:
    """Connects a driver for portions. cpus: the only ones that it uses, empty: any; pins_backends: its
    backends use them only, too. Whoever is done calls `end`. Raises DriverError."""
    with Driver(spec, cpus=cpus) as driver:
        ready = driver.ready()
        if pins_backends and cpus:
            pin((pid for role in ready.roles for pid in role.pids), cpus)
        driver.start()
        yield Portions(driver)


__all__ = ["Portions", "as_portion", "connected", "portions_of"]
