"""The participants of a comparison together: what is done with all of them, and when a step has enough."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from pgstrata.campaign.plan.order import laid_out_alike, longest
from pgstrata.campaign.study import Study
from pgstrata.errors import PgstrataError, StoreError
from pgstrata.layout import draw
from pgstrata.measure.run.active import ActiveRun
from pgstrata.measure.turns.participant import Participant, known
from pgstrata.stats.criterion import FIRST
from pgstrata.store.record import TurnKind
from pgstrata.turns.model import order_of_pair
from pgstrata.turns.table import KINDS
from pgstrata.workload.core.language import Step

ROUNDS_BY_THE_CLOCK = 5
"""Rounds may take so many times `max_seconds` by the clock: where a step is short, nearly all of that is
putting the snapshot back and starting the server."""


_dice = random.SystemRandom()

START_APART_SECONDS = 0.01
"""Between the starts of two servers that come up together: enough for one to be first."""


class Group:
    """All participants of a comparison, those that have failed included. base: label of the variant that
    others are compared with."""

    def __init__(self, settings: Study, runs: Sequence[ActiveRun], base: str) -> None:
        self.settings, self.base = settings, base
        self.workload = runs[0].planned.workload
        self.variants = [run.planned.variant for run in runs]
        self.progress, self.interrupts = runs[0].progress, runs[0].interrupts
        self.participants = [Participant(run) for run in runs]
        self.times = tuple(name for name in settings.judge if name != "rate")
        """Response times that have verdicts of their own."""
        self.is_alike = laid_out_alike(self.variants)
        """Whether the memory of all servers lies at the same places."""
        self._before = 2 * _dice.randrange(len(runs))
        """Pairs of the order that are left out at its begin."""
        self._deadline = math.inf
        """Of the present step, by the clock."""

    # --- all of them --------------------------------------------------------------------------

    @property
    def here(self) -> list[Participant]:
        """The participants that have not failed."""
        return [participant for participant in self.participants if participant.error is None]

    def attempt(self, participant: Participant, work: Callable[[Participant], object]) -> None:
        """Does something with a single participant, which leaves the comparison if that fails.

        Raises StoreError: it is of the results.
        """
        try:
            work(participant)
        except StoreError:
            raise
        except PgstrataError as error:
            participant.leave(error)

    def each(self, work: Callable[[Participant], object]) -> None:
        """Does something with each participant that has not failed."""
        for participant in self.here:
            self.attempt(participant, work)

    def each_in_drawn_order(self, work: Callable[[Participant], object]) -> None:
        """Does the same in an order that is drawn.

        Who reads the data first gets other memory for it, which lasts as long as its server does: half a
        percent, which must not always be the base's (benchmarks/results/queries.md).
        """
        for participant in _dice.sample(self.here, len(self.here)):
            self.attempt(participant, work)

    def order(self, pair: int) -> list[Participant]:
        """Returns the participants in their order in a pair or round, from 1; which of them begins the first
        one is drawn."""
        return [self.here[place] for place in order_of_pair(pair + self._before, len(self.here))]

    def draw_layout(self) -> None:
        """Draws where the memory of servers that start from now on will lie: of the same programs, alike.

        Different programs have no layout in common that would cancel: the kernel draws one at each start.
        """
        layout = draw() if self.is_alike else None
        for participant in self.here:
            participant.cluster.layout = layout

    def save(self) -> None:
        """Stops all servers and keeps a snapshot of the data of each."""
        for participant in self.here:
            participant.cluster.stop("fast")
        self.each(lambda participant: participant.cluster.save())

    def drop_snapshots(self) -> None:
        """Frees the space of the snapshots."""
        for participant in self.here:
            participant.cluster.data_folder.drop_snapshot()

    def start_anew(self, number: int) -> None:
        """Starts all servers again, each time (`number`) another one first; they come up together."""
        with ThreadPoolExecutor(len(self.here)) as pool:
            list(pool.map(lambda participant: participant.cluster.stop("fast"), self.here))
            self.draw_layout()
            starts: dict[Participant, Future[None]] = {}
            for participant in self.order(number):
                starts[participant] = pool.submit(participant.cluster.start)
                time.sleep(START_APART_SECONDS)
            self.each(lambda participant: starts[participant].result())

    # --- one step -----------------------------------------------------------------------------

    def begin(self, turns: TurnKind, parts: int, *, rounds: int = 1, one_start: bool = False) -> None:
        """Begins the next step of all, which will be measured in so many parts at least. rounds: whole steps
        that progress is shown of; one_start: servers live through all of it."""
        step = self.here[0].phase
        assert isinstance(step, Step)
        if step.seconds is not None:
            step = replace(step, seconds=longest(step, self.settings, len(self.here)) * rounds)
        self.progress.step_begins(step)
        self._deadline = math.inf
        if self.settings.until == "verdict" and KINDS[turns].from_snapshot:
            self._deadline = time.monotonic() + ROUNDS_BY_THE_CLOCK * self.settings.max_seconds
        if self.settings.until == "verdict":
            parts = max(parts, FIRST)
        for participant in self.here:
            participant.begin(parts, turns)
            participant.one_start = one_start

    def goes_on(self, done: int, count: int, *, may_end: bool) -> bool:
        """Returns whether more is measured after `done` of `count` pairs or rounds.

        may_end: where a verdict is waited for, it may be looked at now. Raises Interrupted.
        """
        self.interrupts.check()
        if len(self.here) < 2 and done:
            return False  # no other variant to compare with
        if not self.here:
            return False
        if self.settings.until == "time" or not done:
            return done < count
        if done >= FIRST and time.monotonic() >= self._deadline:
            return False
        return self.used_seconds() < self.settings.max_seconds and not (may_end and self.known())

    def used_seconds(self) -> float:
        """Returns the seconds that have been measured of all variants at the present step."""
        return sum(part.seconds for participant in self.participants for part in participant.slices)

    def known(self) -> bool:
        """Returns whether every variant has its verdict on the present step."""
        settings = self.settings
        return known(self.here, self.base, settings.margin, self.times, settings.times_margin)

    def last_pair(self) -> int:
        """Returns the number of the last pair of the present step; 0 before the first."""
        return max((part.pair for participant in self.here for part in participant.slices), default=0)

    def block_ends(self, pair: int) -> None:
        """Notes the last pair before connections or servers are new."""
        for participant in self.here:
            participant.blocks.append(pair)

    def end(self) -> None:
        """Stores what was measured of the present step, also of participants that have failed. The base is
        first: the rates that are told of the others are its rate × their ratios."""
        base = next((p for p in self.participants if p.label == self.base), self.participants[0])
        others = [participant for participant in self.participants if participant is not base]
        ratios = [participant.ratio_to(base) for participant in others]
        rate = base.store()
        for participant, ratio in zip(others, ratios, strict=True):
            participant.store(None if rate is None or ratio is None else (rate, ratio))


def is_balanced(pairs: int) -> bool:
    """Returns False after an odd pair: one variant has come first once more than the other."""
    return pairs % 2 == 0


__all__ = ["Group", "is_balanced"]
