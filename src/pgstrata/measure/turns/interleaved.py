"""A pair of turns in portions: one of each side after the other, A B B A …, on connections that stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from pgstrata.driver.events import StatementDone
from pgstrata.errors import DriverError
from pgstrata.measure.measurement import StepMeasurement
from pgstrata.measure.portions import Portions
from pgstrata.observe.other_load import LoadReading, OtherLoad
from pgstrata.workload.core.language import Step


@dataclass
class Interleaved:
    """What the sides of a pair did. done: executions that count, by the place of the side; failed: the place
    of the side that did not come to the end, and why: what its driver or a statement of it said."""

    done: list[list[StatementDone]]
    load: LoadReading | None = None
    failed: tuple[int, DriverError | StatementDone] | None = None


def interleave(
    sides: Sequence[tuple[StepMeasurement, Step]],
    portions: int,
    cpus: Sequence[int],
    check: Callable[[], None],
) -> Interleaved:
    """Executes portions of steps in turn, in this order and backwards.

    sides: a step whose transactions are portions (`as_portion`), and where; portions: of each side that
    count, after a first that does not; cpus: that all sides share, empty: left to the kernel; check: called
    before each portion, may raise.
    """
    pair = Interleaved([[] for _ in sides])
    watch: OtherLoad | None = None
    opened: list[Portions] = []
    places = range(len(sides))
    with ExitStack() as stack:
        for number in range(1 + portions):
            if number == 1:
                with suppress(OSError):
                    watch = OtherLoad()
            for place in places if number % 2 or not number else reversed(places):
                check()
                try:
                    if not number:
                        measurement, step = sides[place]
                        opened.append(stack.enter_context(measurement.portions(step, cpus)))
                    statements = opened[place].execute()
                    if number == portions:
                        opened[place].end()
                except DriverError as error:
                    pair.failed = place, error
                    return pair
                if failed := next((each for each in statements if each.error is not None), None):
                    pair.failed = place, failed
                    return pair
                pair.done[place] += statements if number else []
    with suppress(OSError):
        pair.load = watch.read() if watch is not None else None
    return pair


__all__ = ["Interleaved", "interleave"]
