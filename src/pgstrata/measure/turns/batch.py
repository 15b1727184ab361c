"""One batch of a step: all variants at the same time, each driver in its own turns.

Connections stay open from turn to turn, so a turn may be as short as some milliseconds: shorter than
what makes a shared machine quicker and slower, and both sides of a pair find it in the same state. Each
variant is measured on a thread of its own, as any step is; this module only starts and ends them. When it is
whose turn, and what of it makes pairs, is known to `windows` and `frozen`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from msgspec import structs

from pgstrata.driver.events import RoleDone, RoleSecond, Second, TurnTotals
from pgstrata.errors import PgstrataError, ServerError, StoreError
from pgstrata.measure.interrupt import Interrupts
from pgstrata.measure.measurement import Part, cut_short
from pgstrata.measure.progress import Progress
from pgstrata.measure.step import StepResult
from pgstrata.measure.turns.connected import NOTHING, BlockTurns, OwnTurns, TurnCount, plus
from pgstrata.measure.turns.participant import Participant
from pgstrata.store.record import Slice
from pgstrata.workload.core.language import Step


@dataclass
class _Work:
    """What is measured of one participant, on a thread of its own."""

    participant: Participant
    turns: OwnTurns
    shown: bool
    """Whether its seconds are shown as the progress of all."""
    thread: threading.Thread | None = None
    result: StepResult | None = None
    error: PgstrataError | None = None
    reason: ServerError | None = None
    """Why it could not take turns any more; its driver was ended then."""
    broken: BaseException | None = None
    counts: dict[int, TurnCount] = field(default_factory=dict)
    """By window or stretch."""

    def take(self, windows: Sequence[TurnTotals]) -> None:
        for number, operations, busy, times in windows:
            before = self.counts.get(number, NOTHING)
            self.counts[number] = plus(before, TurnCount(operations, busy, times))

    @property
    def over(self) -> bool:
        """Whether its measuring has ended, perhaps before that of the others."""
        return self.thread is not None and not self.thread.is_alive()


class Batch:
    """Measures one batch of a step of all participants. Made anew for each.

    step: as long as the batch; number: of the batch, from 1; pairs: those of the batches before it; turns: of
    the participants, in their order.
    """

    def __init__(
        self,
        participants: Sequence[Participant],
        step: Step,
        number: int,
        pairs: int,
        turns: BlockTurns,
        progress: Progress,
        interrupts: Interrupts,
    ) -> None:
        self.step, self.number, self.pairs = step, number, pairs
        self.turns = turns
        self.progress, self.interrupts = progress, interrupts
        role = next(role for role in step.roles if role.name == step.headline.role)
        self.role, self.clients = role.name, role.clients
        self.work = [
            _Work(participant, own_turns, shown=index == 0)
            for index, (participant, own_turns) in enumerate(zip(participants, turns.members, strict=True))
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
            while not all(work.turns.ready.is_set() or work.over for work in self.work):
                time.sleep(0.01)
                self.interrupts.check()
            self._failed(self.turns.begin())
            while not all(over := [work.over for work in self.work]):
                self._failed(self.turns.go_on(over))
                self.interrupts.check()
                if over.count(False) == 1 < len(self.work) and self.turns.stops_alone:
                    self._stop()  # nobody to compare with any more
        for work in self.work:
            if work.broken is not None:
                raise work.broken
            if work.result is not None:
                work.participant.slices += self._slices(work, work.result)
                if work.result.error is not None:
                    work.error = cut_short(self.step, work.result.error)
        return [
            (work.participant, error)
            for work in self.work
            if (error := work.reason or work.error) is not None
        ]

    @contextmanager
    def _ended_drivers(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self.interrupts.shield():
                for work in self.work:
                    if work.turns.driver is not None and not work.over:
                        work.turns.driver.kill()
                self.turns.end()
                for work in self.work:
                    if work.thread is not None and work.thread.ident is not None:
                        work.thread.join()

    def _failed(self, failed: Mapping[int, ServerError]) -> None:
        """Removes participants that cannot take turns: their drivers end, and their threads with them."""
        for number, error in failed.items():
            work = self.work[number]
            work.reason = error
            if work.turns.driver is not None:
                work.turns.driver.kill()

    def _measure(self, work: _Work) -> None:
        """Measures a participant, on its own thread."""
        measurement = work.participant.measurement
        assert measurement is not None
        before = int(measurement.seconds)

        def on_second(event: Second) -> None:
            work.turns.second(event)
            self._take(work, event.roles)
            if work.shown:
                self.progress.second(structs.replace(event, second=before + event.second))

        try:
            work.result = measurement.measure(
                Part(self.step, self.number, work.turns), on_second, work.turns.stretch
            )
        except StoreError as error:
            work.broken = error  # of the results, not of this variant
        except PgstrataError as error:
            work.error = error
        except BaseException as error:
            work.broken = error
        finally:
            self.turns.somebody_ended.set()

    def _take(self, work: _Work, roles: Sequence[RoleSecond | RoleDone]) -> None:
        for role in roles:
            if role.name == self.role:
                work.take(role.windows)

    def _stop(self) -> None:
        for work in self.work:
            if work.turns.driver is not None and not work.over:
                work.turns.driver.stop()

    def _slices(self, work: _Work, result: StepResult) -> list[Slice]:
        """Returns `slices` of the step record, in the unit of its rate; a window that was cut short is left
        out."""
        self._take(work, result.done.roles)
        return [
            Slice(pair=self.pairs + number + 1, seconds=round(seconds, 6), rate=rate, waited=waited)
            for number, seconds, rate, waited in self.turns.measured(work.counts, result, self.clients)
        ]


__all__ = ["Batch"]
