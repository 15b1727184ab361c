"""Frozen turns: all clusters are up with the same data, and whoever has not the turn is frozen.

Every process of a participant stops while others work, its driver too, whose clock stands still meanwhile: so
all that it measures, and every schedule it keeps, knows its own time only. A pair is the same stretch of the
step on both sides, so many operations of each connection: what comes up on the way (the table grows, a
checkpoint begins) is at the same place of both.
"""

from __future__ import annotations

import bisect
import itertools
import mmap
import os
import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce

from msgspec import structs

from pgstrata.campaign.plan.order import Schedule
from pgstrata.driver.client import Driver
from pgstrata.driver.events import Second, SliceEnded, Stretch
from pgstrata.driver.spec import FrozenSpec
from pgstrata.errors import ServerError
from pgstrata.measure.step import StepResult
from pgstrata.measure.turns.batch import Batch
from pgstrata.measure.turns.connected import (
    NOTHING,
    BlockTurns,
    Counts,
    MeasuredTurn,
    OwnTurns,
    plus,
)
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.server.config.timers import TurnLengths
from pgstrata.server.system.freezer import Freezer
from pgstrata.turns.frozen import FROZEN_ROUNDS, TURN_SECONDS
from pgstrata.turns.model import order_of_pair
from pgstrata.workload.core.language import Step

WAIT_SECONDS = 0.1
"""Longest wait for the end of a turn at a time."""

OF_A_STEP = 250
"""Stretches of a step that ends after its operations."""

OF_A_TURN = 5
"""Stretches of a turn elsewhere."""

AGAIN_SECONDS = 0.01
"""Of a frozen participant nobody knows when it goes on: it is looked at as often as this."""


class ActiveClock:
    """The time in which a participant could work; its driver reads its pauses in the same memory."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.memfd_create("pgstrata-turns"), "r+b")
        self._file.truncate(mmap.PAGESIZE)
        self._memory = mmap.mmap(self._file.fileno(), mmap.PAGESIZE)
        self.path = f"/proc/{os.getpid()}/fd/{self._file.fileno()}"
        self._paused = 0
        self._turns = [(0, 0)]
        """When each turn began, and all pauses until then, in nanoseconds."""
        self._stopped: int | None = None

    def stop(self) -> None:
        """Stops the clock: from now on it stands still, and every process that reads it is frozen already."""
        self._stopped = time.monotonic_ns()

    def go_on(self) -> None:
        """Lets the clock go on; called before the processes that read it go on."""
        if self._stopped is not None:
            now = time.monotonic_ns()
            self._paused += now - self._stopped
            struct.pack_into("=Q", self._memory, 0, self._paused)
            self._turns.append((now, self._paused))
            self._stopped = None

    @property
    def stands_still(self) -> bool:
        return self._stopped is not None

    def at(self, moment: float) -> float:
        """Returns the clock's time at a moment of the monotonic clock, both in seconds."""
        then = int(moment * 1e9)
        number = bisect.bisect_right(self._turns, then, key=lambda turn: turn[0]) - 1
        paused = self._turns[number][1]
        following = self._turns[number + 1] if number + 1 < len(self._turns) else None
        if following is not None:
            # It stopped so long before the next turn as that one's pauses are more.
            then = min(then, following[0] - (following[1] - paused))
        elif self._stopped is not None:
            then = min(then, self._stopped)
        return (then - paused) / 1e9


class OwnStretches(OwnTurns):
    """The turns of one participant. changed: said whenever it has come further."""

    def __init__(
        self,
        step: Step,
        freezer: Freezer,
        participants: int,
        changed: threading.Condition,
    ) -> None:
        super().__init__()
        self.freezer, self.clock = freezer, ActiveClock()
        self._role, self._warmup, self._participants = step.headline.role, step.warmup, participants
        self._changed, self._zero = changed, 0.0
        self.ended = 0
        """Stretches that it has ended."""
        self.seconds, self.operations = 0, 0
        """That its driver has told, and what the judged role has done in them."""

    def spec(self) -> FrozenSpec:
        return FrozenSpec(clock=self.clock.path, role=self._role)

    def join(self) -> None:
        """Freezes the driver, which is ready, with its server from now on. Raises ServerError if that
        fails."""
        if self.driver is not None:
            self.driver.others_seconds = (self._participants - 1) * TURN_SECONDS
            self.freezer.take(self.driver.pid)
        self.stop()
        self._zero = self.clock.at(time.monotonic()) + self._warmup

    def start(self, driver: Driver) -> None:
        driver.start()  # which it hears in its first turn

    def moment(self, active: float) -> float:
        now = time.monotonic()
        left = self._zero + active - self.clock.at(now)
        return now + max(left, AGAIN_SECONDS if self.clock.stands_still else left)

    def passed(self, moment: float) -> float:
        return self.clock.at(moment) - self._zero

    def span(self, seconds: float) -> float:
        return seconds * self._participants

    def second(self, event: Second) -> None:
        with self._changed:
            self.seconds += 1
            self.operations += sum(role.operations for role in event.roles if role.name == self._role)
            self._changed.notify()

    def stretch(self, event: Stretch | SliceEnded) -> None:
        with self._changed:
            self.ended = max(self.ended, event.number + 1)
            self._changed.notify()

    def go_on(self) -> None:
        self.clock.go_on()
        self.freezer.thaw()

    def stop(self) -> None:
        """Raises ServerError where a process does not stop."""
        self.freezer.freeze()
        # What waited for its disk has worked until now.
        self.clock.stop()


class FrozenTurns(BlockTurns):
    """Turns of about so many seconds, in which each does the same stretches.

    A stretch of a step that ends after its operations is a fixed share of them; elsewhere it is as long
    as in the rounds before, `operations` of each connection, and in the first round the first second of the
    first participant says how long. How many stretches make a pair is known before it begins, from
    what all have needed until then: were it what the first one of a pair does in its window, a stall would
    end the pair, and others would have next to nothing to do in theirs.
    """

    stops_alone = False  # what comes after the step begins where it ends

    def __init__(
        self, step: Step, freezers: Sequence[Freezer], window_seconds: float, operations: int = 0
    ) -> None:
        super().__init__()
        judged = next(role for role in step.roles if role.name == step.headline.role)
        self._window_seconds, self._clients = window_seconds, judged.clients
        self._changed = threading.Condition()
        number = len(freezers)
        self.members: list[OwnStretches] = [
            OwnStretches(step, freezer, number, self._changed) for freezer in freezers
        ]
        self.operations = max(1, judged.operations // OF_A_STEP) if judged.operations else operations
        """Of a stretch, of each connection; 0 until it is known."""
        self.pairs: list[int] = []
        """Up to which stretch each pair reaches."""
        self._order = _turns(number)
        self._turn, self._pair = next(self._order)
        self._begun = 0.0
        self._worked = 0.0
        """Seconds of all turns that are over."""

    def begin(self) -> Mapping[int, ServerError]:
        failed = {}
        for number, own_turns in enumerate(self.members):
            try:
                own_turns.join()
            except ServerError as error:
                failed[number] = error
        if self.operations:
            self._tell_length()
        for own_turns in self.members:
            own_turns.tell(begin=True)
        self._goes_on()
        return failed

    def go_on(self, over: Sequence[bool]) -> Mapping[int, ServerError]:
        with self._changed:
            if not self._is_done(over):
                self._changed.wait(WAIT_SECONDS)
                self._choose_length()
                if not self._is_done(over):
                    return {}
        for own_turns in (own_turns for own_turns, ended in zip(self.members, over, strict=True) if ended):
            if own_turns.driver is not None:
                own_turns.freezer.give_up(own_turns.driver.pid)
        if all(over):
            return {}
        before = self._turn
        while True:
            now = time.monotonic()
            self._worked += now - self._begun
            self._begun = now
            self._turn, self._pair = next(self._order)
            if not self._is_done(over):
                break
        if self._turn == before:
            return {}
        try:
            self.members[before].stop()
        except ServerError as error:
            return {before: error}
        finally:
            self._goes_on()
        return {}

    def _goes_on(self) -> None:
        self._begun = time.monotonic()
        self.members[self._turn].go_on()

    def _is_done(self, over: Sequence[bool]) -> bool:
        own_turns, passed = self.members[self._turn], time.monotonic() - self._begun
        if over[self._turn] or passed > TURN_SECONDS:
            return True
        if self._pair >= len(self.pairs):
            if self.pairs:
                self.pairs.append(self.pairs[-1] + self._stretches_of_a_pair())
            elif passed >= self._window_seconds and own_turns.ended:
                self.pairs.append(own_turns.ended)
            else:
                return False
        return own_turns.ended >= self.pairs[self._pair]

    def _stretches_of_a_pair(self) -> int:
        """Returns how many stretches fill a window, judged by the stretches that all have ended until now."""
        ended = sum(own_turns.ended for own_turns in self.members)
        return max(1, round(self._window_seconds * ended / max(self._worked, 1e-3)))

    def _choose_length(self) -> None:
        first = self.members[self._turn]
        if not self.operations and first.operations:
            rate = first.operations / first.seconds / self._clients
            self.operations = max(1, round(rate * self._window_seconds / OF_A_TURN))
            self._tell_length()

    def _tell_length(self) -> None:
        for own_turns in self.members:
            if own_turns.driver is not None:
                own_turns.driver.stretches_are(self.operations)

    def end(self) -> None:
        for own_turns in self.members:
            own_turns.tell(begin=False)
            own_turns.go_on()

    def measured(self, counts: Counts, result: StepResult, clients: int) -> list[MeasuredTurn]:
        """Returns the turns of a participant; a pair is left out if any connection has not ended, or not
        begun, all of its stretches."""
        role = next(role_done for role_done in result.done.roles if role_done.name == result.record.role)
        rate, seconds = result.record.rate or 0.0, result.record.seconds
        unit = rate * seconds / role.operations if role.operations else 0.0
        pairs: list[MeasuredTurn] = []
        for number, (begin, end) in enumerate(itertools.pairwise([0, *self.pairs])):
            stretches = [counts.get(stretch, NOTHING) for stretch in range(begin, end)]
            total = reduce(plus, stretches, NOTHING)
            whole = min(stretch.operations for stretch in stretches) > (clients - 0.5) * self.operations
            if total.busy > 0 and whole:
                rate = total.operations * clients / total.busy * unit
                # Which of its processes kept others of the same server from a CPU is not known.
                pairs.append((number, total.busy / clients, rate, None))
        return pairs


def _turns(participants: int) -> Iterator[tuple[int, int]]:
    """Yields the participant whose turn it is, and the number of its pair: A B, B A, and so on."""
    for pair in itertools.count(1):
        for number in order_of_pair(pair, participants):
            yield number, pair - 1


def measure(group: Group, schedule: Schedule) -> None:
    """Measures rounds of all participants at the same time, each from the snapshot of its cluster, and
    stores the step; the servers of the last round still run then."""
    settings = group.settings
    watched = settings.until == "verdict"
    group.begin("frozen", schedule.count, rounds=1 if watched else schedule.count)
    if again := schedule.count > 1 or watched:
        group.save()
    operations = 0  # of a stretch, which is known when the first one has worked for a while
    for number in itertools.count(1):
        if again:
            group.draw_layout()
            for participant in group.order(number):
                group.attempt(participant, Participant.restored)
        group.each(lambda participant: _set_timers(group, participant))
        if not group.here:
            break
        freezers = [freezer for side in group.here if (freezer := side.cluster.freezer) is not None]
        turns = FrozenTurns(schedule.step, freezers, settings.window_seconds, operations)
        pairs = group.last_pair()
        batch = Batch(group.here, schedule.step, number, pairs, turns, group.progress, group.interrupts)
        for participant, error in batch.measure():
            participant.leave(error)
        operations = turns.operations
        group.block_ends(group.last_pair())
        if not group.goes_on(number, schedule.count, may_end=number >= FROZEN_ROUNDS):
            break
        for participant in group.here:
            participant.cluster.stop("immediate")  # the next round puts the snapshot in its place
    group.drop_snapshots()
    group.each(lambda participant: participant.cluster.timers.set(None))
    group.end()


def _set_timers(group: Group, participant: Participant) -> None:
    """Sets the timers of a participant's server, whose own clock runs on while it is frozen."""
    turns = TurnLengths(len(group.here), group.settings.window_seconds, TURN_SECONDS)
    timers = participant.cluster.timers.set(turns)
    if (comparison := participant.run.comparison) is not None:
        participant.run.comparison = structs.replace(comparison, timers=timers)


__all__ = ["FrozenTurns", "measure"]
