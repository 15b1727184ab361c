"""Turns that end with a transaction: slices of statements that are longer than slices in windows may be.

All drivers stay connected, and one after the other is given a slice. It lasts until every transaction that
was begun in it has ended, and only then the next driver is given its own.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from pgstrata import numbers
from pgstrata.driver.client import Driver
from pgstrata.driver.events import SliceEnded, Stretch
from pgstrata.driver.message import GivenSlices
from pgstrata.errors import ServerError
from pgstrata.measure.step import StepResult
from pgstrata.measure.turns.connected import BlockTurns, Counts, MeasuredTurn, OwnTurns, turns_of_windows
from pgstrata.measure.turns.frozen import ActiveClock
from pgstrata.turns.model import order_of_pair
from pgstrata.workload.core.language import Step

WAIT_SECONDS = 0.1
"""Longest wait for the end of a slice at a time."""

AGAIN_SECONDS = 0.01
"""When a participant is given its next slice is not known: it is looked at as often as this."""


class OwnSlices(OwnTurns):
    """The slices of one participant. changed: said whenever it has come further."""

    def __init__(self, participants: int, cpus: Sequence[int], changed: threading.Condition) -> None:
        super().__init__()
        self.cpus = cpus
        self.clock = ActiveClock()
        self.clock.stop()
        self.is_started = False
        self.ended = 0
        """Slices that have ended."""
        self.given_at = 0.0
        self._zero = math.inf
        self._participants, self._changed = participants, changed

    def spec(self) -> GivenSlices:
        return GivenSlices()

    def start(self, driver: Driver) -> None:
        driver.start()
        with self._changed:
            self.is_started = True
            self._changed.notify()

    def give(self, seconds: float, *, measured: bool) -> None:
        """Gives the next slice. measured: it is no warm-up."""
        self.clock.go_on()
        self.given_at = time.monotonic()
        if measured and self._zero == math.inf:
            self._zero = self.clock.at(self.given_at)
        if self.driver is not None:
            self.driver.give_slice(seconds)

    def stretch(self, event: Stretch | SliceEnded) -> None:
        self.clock.stop()
        with self._changed:
            self.ended = event.number + 1
            self._changed.notify()

    def moment(self, active: float) -> float:
        now = time.monotonic()
        left = self._zero + active - self.clock.at(now)
        if not math.isfinite(left):
            return now + AGAIN_SECONDS
        return now + max(left, AGAIN_SECONDS if self.clock.stands_still else left)

    def passed(self, moment: float) -> float:
        return max(0.0, self.clock.at(moment) - self._zero)

    def span(self, seconds: float) -> float:
        return seconds * self._participants


class GivenTurns(BlockTurns):
    """The slices of all participants in one block: a warm-up of each, then pairs A B, B A, …, until each has
    worked for `step.seconds`.

    pairs: those of the blocks before it, which decide the order; cpus: those that all participants share.
    """

    def __init__(
        self, step: Step, slice_seconds: float, participants: int, pairs: int, cpus: Sequence[int] = ()
    ) -> None:
        super().__init__()
        assert step.seconds is not None
        self._seconds, self._warmup = step.seconds, step.warmup
        self._slice_seconds, self._limit = slice_seconds, step.overtime
        self._cpus = len(cpus or os.sched_getaffinity(0))
        self._changed = threading.Condition()
        self.members: list[OwnSlices] = [
            OwnSlices(participants, cpus, self._changed) for _ in range(participants)
        ]
        self.pairs = 0
        """Whole ones."""
        self._order = self._turns(pairs)
        self.turn: int | None = None
        """Whose turn it is; None before the first and after the last."""
        self._is_over = False
        self._over: Sequence[bool] = [False] * participants

    def begin(self) -> Mapping[int, ServerError]:
        for own_turns in self.members:
            if own_turns.driver is not None:
                own_turns.driver.others_seconds = len(self.members) * (
                    self._slice_seconds + self._warmup + self._limit
                )
            own_turns.tell(begin=True)
        return {}

    def go_on(self, over: Sequence[bool]) -> Mapping[int, ServerError]:
        self._over = over
        with self._changed:
            if not self._may_go_on(over):
                self._changed.wait(WAIT_SECONDS)
            if not self._may_go_on(over):
                return self._too_long()
        if self._is_over:
            self.somebody_ended.wait(WAIT_SECONDS)
            self.somebody_ended.clear()
            return {}
        self.turn = next((turn for turn in self._order if not over[turn]), None)
        if self.turn is None:
            self._is_over = True
            for own_turns, ended in zip(self.members, over, strict=True):
                if own_turns.driver is not None and not ended:
                    own_turns.driver.stop()
        return {}

    def _may_go_on(self, over: Sequence[bool]) -> bool:
        """Returns whether the slice that was given last has ended, and all have started before the first."""
        if self.turn is None:
            return all(
                own_turns.is_started or ended for own_turns, ended in zip(self.members, over, strict=True)
            )
        return over[self.turn] or self.members[self.turn].ended >= self._given[self.turn]

    def _too_long(self) -> Mapping[int, ServerError]:
        if self.turn is None:
            return {}
        own_turns = self.members[self.turn]
        if time.monotonic() - own_turns.given_at < self._slice_seconds + self._warmup + self._limit:
            return {}
        limit = numbers.duration(self._limit)
        return {
            self.turn: ServerError(
                f"{limit} after the end of its slice there are statements without an answer",
                "a statement takes longer than that, or a script does not come to an end",
            )
        }

    def _turns(self, pairs: int) -> Iterator[int]:
        """Yields whose turn it is; each turn is given as it is drawn."""
        participants = len(self.members)
        self._given = [0] * participants
        if self._warmup > 0:
            for number in range(participants):
                yield self._give(number, self._warmup, measured=False)
        worked = [0.0] * participants
        while any(worked[n] < self._seconds for n in range(participants) if not self._over[n]):
            for number in order_of_pair(pairs + self.pairs + 1, participants):
                if self._over[number]:
                    continue
                own_turns = self.members[number]
                before = own_turns.clock.at(time.monotonic())
                yield self._give(number, self._slice_seconds, measured=True)
                worked[number] += own_turns.clock.at(time.monotonic()) - before
            self.pairs += 1

    def _give(self, number: int, seconds: float, *, measured: bool) -> int:
        self._given[number] += 1
        self.members[number].give(seconds, measured=measured)
        return number

    def end(self) -> None:
        for own_turns in self.members:
            own_turns.tell(begin=False)

    def measured(self, counts: Counts, result: StepResult, clients: int) -> list[MeasuredTurn]:
        """Returns the turns of pairs that are whole."""
        whole = {number: count for number, count in counts.items() if number < self.pairs}
        return turns_of_windows(whole, result, clients, least_seconds=0.0, cpus=self._cpus)


__all__ = ["GivenTurns"]
