"""Variants that take turns: all clusters loaded once, then each measured step in pairs A B, B A, B A, A B, …

What drifts on the machine hits all variants alike, and the ratio of neighbours does not see it. Steps that
only read are cut into slices while all clusters are up. A step that writes would meet other data in every
turn, so it is repeated whole, each time from the same snapshot of the data folder, with no other cluster up.
"""

from __future__ import annotations

import itertools
import math
import secrets
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path

from msgspec import structs

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.plan.order import (
    Schedule,
    begins_anew,
    data_at,
    data_of,
    laid_out_alike,
    loaded_at,
    longest,
    schedule_of,
    warmed_up,
)
from pgstrata.errors import PgstrataError, StoreError
from pgstrata.layout import draw
from pgstrata.measure.comparison.alone import AloneExecution, budget, candidates
from pgstrata.measure.comparison.block import Block
from pgstrata.measure.comparison.frozen import FrozenTurns
from pgstrata.measure.comparison.participant import Participant, known
from pgstrata.measure.comparison.queries import QueryExecution
from pgstrata.measure.comparison.windows import WindowTurns
from pgstrata.measure.placement import draw_cpus
from pgstrata.measure.run.active import DATABASE, ActiveRun
from pgstrata.observe.old import database_bytes
from pgstrata.server.cluster.loaded import find
from pgstrata.server.config.timers import TurnLengths
from pgstrata.stats.estimate import LEAST_BLOCKS
from pgstrata.store.record import ComparisonRecord, TurnKind
from pgstrata.turns.frozen import FROZEN_ROUNDS, TURN_SECONDS
from pgstrata.turns.model import order_of_pair
from pgstrata.turns.windows import block_lengths, warmup_of_block
from pgstrata.workload.core.language import Step

START_APART_SECONDS = 0.01
"""Between the starts of two servers that come up together: enough for one to be first."""


class Comparison:
    """One workload and repeat on all variants. Made anew for each group of runs."""

    def __init__(self, campaign: Campaign, runs: Sequence[ActiveRun], base: str) -> None:
        self.settings, self.base = campaign.spec, base
        self.progress, self.interrupts = runs[0].progress, runs[0].interrupts
        self.participants = [Participant(run) for run in runs]
        settings, variants = self.settings, [run.planned.variant for run in runs]
        self._times = tuple(name for name in settings.judge if name != "rate")
        self._alike = laid_out_alike(variants)
        self._anew = begins_anew(settings, runs[0].planned.workload, variants)
        self._planned_bytes = runs[0].planned.workload.cost.disk_bytes
        comparison = ComparisonRecord(
            id=_goes_on_from(runs) or secrets.token_hex(8),
            variants=tuple(p.label for p in self.participants),
            base=base,
            slice_seconds=settings.slice_seconds,
            rounds=settings.rounds,
            until=settings.until,
            max_seconds=settings.max_seconds if settings.until == "verdict" else None,
            margin=settings.margin,
            turns=settings.turns,
            window_seconds=settings.window_seconds if settings.turns == "frozen" else None,
            layout="shared" if self._alike else "own",
            judge=self._times,
            times_margin=settings.times_margin,
        )
        for run in runs:
            run.comparison = comparison
            run.keep_steps(comparison.id)

    def measure(self) -> list[tuple[Path, str | None]]:
        """Measures all runs. Returns the folder of each, and why it failed or None, in their order.

        A variant that fails leaves the comparison; what it measured is kept, and the others go on. Raises
        StoreError where results cannot be stored, and Interrupted; nothing is left running.
        """
        try:
            self._load()
            self._record_freezer()
            while step := self._next_step():
                self.interrupts.check()
                if self._taken(step):
                    continue
                schedule = schedule_of(step, self.settings)
                match schedule.how:
                    case "once":
                        self._each(Participant.step_alone)
                    case "queries":
                        self._queries(schedule)
                    case "rounds":
                        self._rounds(schedule)
                    case "frozen":
                        self._frozen(schedule)
                    case "windows":
                        self._blocks(schedule)
                    case "slices" | "whole":
                        self._slices(schedule)
            for participant in self.participants:
                participant.run.keep_log()
        finally:
            # All of them, whatever is wrong with one.
            with self.interrupts.shield(), ExitStack() as stack:
                for participant in self.participants:
                    stack.callback(participant.take_down)
        return [participant.finish() for participant in self.participants]

    # --- participants -------------------------------------------------------------------------

    @property
    def here(self) -> list[Participant]:
        """Those that have not failed."""
        return [participant for participant in self.participants if participant.error is None]

    def _try(self, participant: Participant, work: Callable[[Participant], object]) -> None:
        """Does something with one variant; one that fails leaves the comparison."""
        try:
            work(participant)
        except StoreError:
            raise
        except PgstrataError as error:
            participant.leave(error)

    def _each(self, work: Callable[[Participant], object]) -> None:
        for participant in self.here:
            self._try(participant, work)

    # --- before the first measured step -------------------------------------------------------

    def _load(self) -> None:
        """Every cluster up with its data. The same server and initdb options load once: the data folder
        of the first is copied to the others. All are started anew then, so that none has in memory
        what its load left there."""
        donors: dict[tuple[object, ...], Participant] = {}
        may = self._all_may_begin_with_kept_data()
        for participant in self.participants:
            end = loaded_at(participant.run.phases)
            if may and self._adopted(participant):
                continue
            donor = donors.setdefault(data_of(participant.run.planned.variant), participant)
            if donor is participant or donor.error is not None or not end:
                self._try(participant, partial(Participant.load, phases=end))
            else:
                self.progress.say(f"  {participant.label}: data copied from {donor.label}")
                self._try(participant, partial(Participant.adopt, donor=donor))
        self._draw_layout()
        self._each(lambda participant: participant.cluster.start())

    def _draw_layout(self) -> None:
        """Where the memory of servers that start from now on will lie: of the same programs, alike.

        Different programs have no layout in common that would cancel: the kernel draws one at each start.
        """
        layout = draw() if self._alike else None
        for participant in self.here:
            participant.cluster.layout = layout

    def _record_freezer(self) -> None:
        """What stops the processes of each, which is known when they run."""
        for participant in self.here:
            freezer, comparison = participant.cluster.freezer, participant.run.comparison
            if freezer is not None and comparison is not None:
                participant.run.comparison = structs.replace(comparison, freezer=freezer.kind)

    def _all_may_begin_with_kept_data(self) -> bool:
        """A load that is measured is left out of all or of none: they take turns at the same steps."""
        measured = any(
            loaded_at(p.run.phases) != data_at(p.run.phases)
            for p in self.participants
            if p.run.planned.data_key
        )
        return not measured or all(find(p.run.planned.data_key) for p in self.participants)

    def _adopted(self, participant: Participant) -> bool:
        found: list[bool] = []
        self._try(participant, lambda participant: found.append(participant.adopt_kept()))
        return found != [False]

    def _next_step(self) -> Step | None:
        """Brings every variant to its next step, the same for all (`check_interleaved`)."""

        def forward(participant: Participant) -> None:
            participant.keep_loaded()
            while participant.phase is not None and not isinstance(participant.phase, Step):
                participant.prepare()
                participant.keep_loaded()

        self._each(forward)
        steps = (participant.phase for participant in self.here)
        return next((step for step in steps if isinstance(step, Step)), None)

    def _taken(self, step: Step) -> bool:
        """Whether an earlier attempt has finished the step, of all variants or of none."""
        found = [participant.run.kept_step(step) for participant in self.participants]
        if len(self.here) < len(self.participants) or None in found:
            return False
        for participant, data in zip(self.participants, found, strict=True):
            assert data is not None
            participant.take(data)
        return True

    # --- measured steps -----------------------------------------------------------------------

    def _queries(self, schedule: Schedule) -> None:
        """A pass over all queries on each variant, then each query alone in pairs, all clusters up."""
        watched = self.settings.until == "verdict"
        with ExitStack() as rows:
            self._each(partial(Participant.measure_once, rows=rows))
            if len(self.here) > 1:
                QueryExecution(
                    self.base,
                    self.here,
                    schedule.step,
                    margin=self.settings.margin,
                    seconds=self.settings.max_seconds if watched else None,
                    pairs=None if watched else schedule.count,
                    leave=self._try,
                ).execute()
            for participant in self.participants:
                participant.store_once()

    def _slices(self, schedule: Schedule) -> None:
        """Slices (or whole steps) in turn, all clusters up."""
        # What a replica has left to do would be done in the slices of others.
        self._each(lambda participant: participant.cluster.await_replayed())
        self._begin(schedule.count, "whole" if schedule.how == "whole" else "slices")
        pair = 0
        while self._goes_on(pair, schedule.count, may_end=_balanced(pair)):
            pair += 1
            for participant in self._order(pair):
                step = warmed_up(schedule.step, self.settings, first=not participant.slices)
                self._try(participant, partial(Participant.measure_slice, step=step, pair=pair))
        self._alone(schedule.step)
        self._end()

    def _blocks(self, schedule: Schedule) -> None:
        """Measures slices so short that all drivers stay connected, each working in windows of its own.

        They come in blocks. Each block has new connections, on CPUs that all variants share and that are
        drawn anew. Where servers start anew, it is in the opposite order before every second block, and
        verdicts are looked at when both orders had as many: the server that starts last may be faster by a
        percent."""
        fixed = self.settings.until == "time"
        lengths = block_lengths(longest(schedule.step, self.settings, len(self.here)), fixed=fixed)
        self._begin(len(lengths), "windows")
        if not fixed:
            for participant in self.here:
                participant.span = max(1.0, len(lengths) / LEAST_BLOCKS)
        data_bytes = self._loaded_bytes() if self._anew else None
        pairs = 0
        for number, seconds in enumerate(lengths, 1):
            self.interrupts.check()
            if self._anew:
                self._start_anew(number)
                if not self.here:
                    break
            warmup = warmup_of_block(number, schedule.step.warmup, data_bytes=data_bytes)
            step = replace(schedule.step, seconds=seconds, warmup=warmup)
            cpus = draw_cpus(step, self.settings)
            turns = WindowTurns(self.settings.slice_seconds, len(self.here), step.warmup, cpus)
            for participant in self.here:
                participant.cpus |= set(cpus)
            block = Block(self.here, step, number, pairs, turns, self.progress, self.interrupts)
            for participant, error in block.measure():
                participant.leave(error)
            pairs += math.ceil(seconds / self.settings.slice_seconds)
            self._block_ends(pairs)
            looks = not fixed and number >= LEAST_BLOCKS and number % 2 == 0
            alone = len(self.here) < 2 and not fixed
            if not self.here or alone or (looks and self._known()):
                break
        self._end()

    def _rounds(self, schedule: Schedule) -> None:
        """Whole steps in turn, each from the snapshot of its cluster, the others stopped."""
        self._begin(schedule.count, "rounds")
        for participant in self.here:
            participant.cluster.stop("fast")
        self._each(lambda participant: participant.cluster.save())
        pair = 0
        while self._goes_on(pair, schedule.count, may_end=_balanced(pair)):
            pair += 1
            self._draw_layout()
            for participant in self._order(pair):
                self.progress.round_begins(pair, participant.label)
                step = warmed_up(schedule.step, self.settings, first=not participant.slices)
                self._try(participant, partial(Participant.measure_round, step=step, pair=pair))
        if not self._alone(schedule.step, restored=True):
            self._each(lambda participant: participant.cluster.start())
        for participant in self.here:
            participant.cluster.drop_snapshot()
        self._end()

    def _alone(self, step: Step, *, restored: bool = False) -> bool:
        """Executes alone what the rounds of a replay call slower or faster. Returns whether servers were
        started for it. restored: they are stopped, and begin with the data of their snapshots."""
        if step.alone is None or len(self.here) < 2:
            return False
        base = next((one for one in self.here if one.label == self.base), None)
        if base is None:
            return False
        others = [one for one in self.here if one is not base]
        margin, watched = self.settings.margin, self.settings.until == "verdict"
        differing = candidates(base, others, watched=watched, margin=margin)
        if differing and restored:
            self._draw_layout()
            self._each(Participant.restored)
        used = sum(one.seconds for participant in self.here for one in participant.slices)
        if base.error is None:
            AloneExecution(
                base, self.here, step, margin=margin, seconds=budget(used), leave=self._try
            ).execute(differing)
        return bool(differing) and restored

    def _frozen(self, schedule: Schedule) -> None:
        """Whole steps of all at the same time, each from the snapshot of its cluster, in frozen turns."""
        self._begin(schedule.count, "frozen")
        if again := schedule.count > 1 or self.settings.until == "verdict":
            for participant in self.here:
                participant.cluster.stop("fast")
            self._each(lambda participant: participant.cluster.save())
        operations = 0  # of a stretch, which is known when the first one has worked for a while
        for number in itertools.count(1):
            if again:
                self._draw_layout()
                for participant in self._order(number):
                    self._try(participant, Participant.restored)
            self._each(self._set_timers)
            if not self.here:
                break
            freezers = [freezer for one in self.here if (freezer := one.cluster.freezer) is not None]
            turns = FrozenTurns(schedule.step, freezers, self.settings.window_seconds, operations)
            pairs = self._pairs()
            block = Block(self.here, schedule.step, number, pairs, turns, self.progress, self.interrupts)
            for participant, error in block.measure():
                participant.leave(error)
            operations = turns.operations
            self._block_ends(self._pairs())
            if not self._goes_on(number, schedule.count, may_end=number >= FROZEN_ROUNDS):
                break
            for participant in self.here:
                participant.cluster.stop("immediate")  # the next round puts the snapshot in its place
        for participant in self.here:
            participant.cluster.drop_snapshot()
        self._each(lambda participant: participant.cluster.set_timers(None))
        self._end()

    def _loaded_bytes(self) -> int:
        """The size of the largest database, which its server has to read again when it starts anew."""
        sizes: list[int] = []

        def size(participant: Participant) -> None:
            with participant.cluster.connect(DATABASE) as session:
                sizes.append(database_bytes(session) or self._planned_bytes)

        self._each(size)
        return max(sizes, default=self._planned_bytes)

    def _start_anew(self, number: int) -> None:
        """Starts servers again before a block, each time another one first; they come up together."""
        with ThreadPoolExecutor(len(self.here)) as pool:
            list(pool.map(lambda participant: participant.cluster.stop("fast"), self.here))
            self._draw_layout()
            starts: dict[Participant, Future[None]] = {}
            for participant in self._order(number):
                starts[participant] = pool.submit(participant.cluster.start)
                time.sleep(START_APART_SECONDS)
            self._each(lambda participant: starts[participant].result())

    def _pairs(self) -> int:
        """The last pair that there is of the present step."""
        return max((one.pair for participant in self.here for one in participant.slices), default=0)

    def _block_ends(self, pair: int) -> None:
        """This was the last pair before servers start anew."""
        for participant in self.here:
            participant.blocks.append(pair)

    def _set_timers(self, participant: Participant) -> None:
        """The server's own clock runs on while it is frozen."""
        turns = TurnLengths(len(self.here), self.settings.window_seconds, TURN_SECONDS)
        timers = participant.cluster.set_timers(turns)
        if (comparison := participant.run.comparison) is not None:
            participant.run.comparison = structs.replace(comparison, timers=timers)

    def _begin(self, parts: int, turns: TurnKind) -> None:
        step = self.here[0].phase
        assert isinstance(step, Step)
        if step.seconds is not None:
            rounds = parts if turns == "frozen" and self.settings.until == "time" else 1
            step = replace(step, seconds=longest(step, self.settings, len(self.here)) * rounds)
        self.progress.step_begins(step)
        for participant in self.here:
            participant.begin(parts, turns)

    def _end(self) -> None:
        for participant in self.participants:
            participant.store()

    def _order(self, pair: int) -> list[Participant]:
        return [self.here[place] for place in order_of_pair(pair, len(self.here))]

    def _goes_on(self, done: int, count: int, *, may_end: bool) -> bool:
        """Whether more is measured after so many pairs or rounds of those that are asked for. may_end: where
        a verdict is waited for, it may be looked at now."""
        self.interrupts.check()
        if len(self.here) < 2 and done:
            return False  # nobody to compare with
        if not self.here:
            return False
        if self.settings.until == "time" or not done:
            return done < count
        used = sum(one.seconds for participant in self.participants for one in participant.slices)
        return used < self.settings.max_seconds and not (may_end and self._known())

    def _known(self) -> bool:
        return known(self.here, self.base, self.settings.margin, self._times, self.settings.times_margin)


def _balanced(pairs: int) -> bool:
    """After an odd pair one variant has come first once more than the other."""
    return pairs % 2 == 0


def _goes_on_from(runs: Sequence[ActiveRun]) -> str | None:
    """The comparison that an earlier attempt began, where this one goes on with it."""
    return next((step.comparison for run in runs for step in run.planned.kept), None)


__all__ = ["Comparison"]
