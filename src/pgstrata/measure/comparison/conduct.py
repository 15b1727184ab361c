"""Variants that take turns: all clusters loaded once, then each measured step in pairs A B, B A, B A, A B, …

What drifts on the machine hits all variants alike, and the ratio of neighbours does not see it. Steps that
only read are cut into slices while all clusters are up. A step that writes would meet other data in every
turn, so it is repeated whole, each time from the same snapshot of the data folder, with no other cluster up.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pgstrata.campaign.file.models import Campaign
from pgstrata.campaign.plan.order import (
    AGAIN_SECONDS,
    SITTINGS,
    Turns,
    data_of,
    loaded_at,
    longest,
    sittings,
    turn_order,
    turns_of,
    warmed_up,
)
from pgstrata.errors import PgstrataError, StoreError
from pgstrata.measure.comparison.merge import join
from pgstrata.measure.comparison.participant import Lane, known
from pgstrata.measure.comparison.sitting import Together
from pgstrata.measure.profiles import TurnProfiles
from pgstrata.measure.query_plans import step_plans
from pgstrata.measure.run.conduct import DATABASE, Conductor
from pgstrata.measure.step import Measured, cut_short, measure
from pgstrata.observe import StepWatch
from pgstrata.server.cluster import Cluster
from pgstrata.workload.core.language import Step

Json = dict[str, Any]


class Interleaved:
    """One workload and repeat on all variants. Made anew for each group of runs."""

    def __init__(self, campaign: Campaign, conductors: Sequence[Conductor], base: str) -> None:
        self.spec, self.base = campaign.spec, base
        self.progress, self.interrupts = conductors[0].progress, conductors[0].interrupts
        self.lanes = []
        comparison = {
            "id": secrets.token_hex(8),
            "variants": [c.run.key.variant for c in conductors],
            "base": base,
            "slice_seconds": self.spec.slice_seconds,
            "rounds": self.spec.rounds,
            "until": self.spec.until,
            "max_seconds": self.spec.max_seconds if self.spec.until == "verdict" else None,
            "margin": self.spec.margin,
        }
        for c in conductors:
            c.comparison = comparison
            cluster = c.make_cluster()
            assert isinstance(cluster, Cluster)  # check_interleaved refuses others
            chosen = c.run.workload
            phases = chosen.workload.phases(chosen.options, c.run.variant.server.version_num)
            self.lanes.append(Lane(c, cluster, phases))

    def conduct(self) -> list[tuple[Path, str | None]]:
        """Measures all runs. Returns the folder of each, and why it failed or None, in their order.

        A variant that fails leaves the comparison; what it measured is kept, and the others go on. Raises
        StoreError where results cannot be stored, and Interrupted; nothing is left running.
        """
        try:
            self._load()
            while step := self._next_step():
                self.interrupts.check()
                turns = turns_of(step, self.spec)
                match turns.how:
                    case "once":
                        self._each(self._alone)
                    case "rounds":
                        self._rounds(step, turns)
                    case "windows":
                        self._windows(turns)
                    case "slices" | "whole":
                        self._turns(step, turns)
            for lane in self.lanes:
                lane.conductor.keep_log(lane.cluster)
        finally:
            with self.interrupts.shield():
                for lane in self.lanes:
                    with lane.conductor.timings.of("stop"):
                        lane.cluster.drop_snapshot()
                        lane.conductor.take_down(lane.cluster)
        return [
            (lane.conductor.finish(lane.error, lane.log_tail), lane.error.message if lane.error else None)
            for lane in self.lanes
        ]

    # --- variants -----------------------------------------------------------------------------

    @property
    def here(self) -> list[Lane]:
        """The variants that have not failed."""
        return [lane for lane in self.lanes if lane.error is None]

    def _try(self, lane: Lane, work: Callable[[Lane], object]) -> bool:
        """Does something with one variant; one that fails leaves the comparison."""
        try:
            work(lane)
        except StoreError:
            raise
        except PgstrataError as error:
            self._leaves(lane, error)
            return False
        return True

    def _leaves(self, lane: Lane, error: PgstrataError) -> None:
        lane.log_tail = lane.cluster.log_tail()
        lane.error = lane.conductor.explained(error, lane.cluster, lane.log_tail)
        self.progress.say(f"  {lane.label} FAILED and leaves the comparison: {lane.error.message}")
        with self.interrupts.shield():
            lane.cluster.stop("immediate")

    def _each(self, work: Callable[[Lane], object]) -> None:
        for lane in self.here:
            self._try(lane, work)

    # --- before the first measured step -------------------------------------------------------

    def _load(self) -> None:
        """Every cluster up with its data. The same server and initdb options load once: the data folder
        of the first is copied to the others. All are started anew then, so that none has in memory
        what its load left there."""
        donors: dict[tuple[object, ...], Lane] = {}
        for lane in self.lanes:
            donor = donors.setdefault(data_of(lane.conductor.run.variant), lane)
            if donor is lane or donor.error is not None or not loaded_at(lane.phases):
                self._try(lane, self._fill)
            else:
                self.progress.say(f"  {lane.label}: data copied from {donor.label}")
                self._try(lane, partial(self._adopt, donor=donor))
        self._each(lambda lane: lane.cluster.start())

    def _fill(self, lane: Lane) -> None:
        lane.conductor.check_disk()
        lane.conductor.start(lane.cluster)
        lane.conductor.create_database(lane.cluster)
        lane.conductor.keep_settings(lane.cluster, DATABASE)
        end = loaded_at(lane.phases)
        while lane.at < end:
            phase = lane.phases[lane.at]
            if isinstance(phase, Step):
                self._alone(lane)
            else:
                lane.conductor.prepare(lane.cluster, phase, DATABASE)
                lane.at += 1
        lane.cluster.stop("fast")

    def _adopt(self, lane: Lane, donor: Lane) -> None:
        lane.conductor.check_disk()
        lane.conductor.start(lane.cluster, donor.cluster.data_dir)
        lane.conductor.keep_settings(lane.cluster, DATABASE)
        lane.cluster.stop("fast")
        lane.conductor.work_facts = dict(donor.conductor.work_facts)
        lane.at, lane.order = donor.at, donor.order

    def _next_step(self) -> Step | None:
        """Brings every variant to its next step, the same for all (`check_interleaved`)."""

        def forward(lane: Lane) -> None:
            while lane.at < len(lane.phases) and not isinstance(phase := lane.phases[lane.at], Step):
                lane.conductor.prepare(lane.cluster, phase, DATABASE)
                lane.at += 1

        self._each(forward)
        for lane in self.here:
            if lane.at < len(lane.phases):
                phase = lane.phases[lane.at]
                assert isinstance(phase, Step)
                return phase
        return None

    def _alone(self, lane: Lane) -> None:
        """A step that is no comparison: a load, or one that records its queries one by one."""
        step = lane.phases[lane.at]
        assert isinstance(step, Step)
        lane.at += 1
        lane.order += 1
        lane.conductor.step(lane.cluster, step, lane.order, DATABASE, last=lane.at == len(lane.phases))

    # --- measured steps -----------------------------------------------------------------------

    def _turns(self, step: Step, turns: Turns) -> None:
        """Slices (or whole steps) in turn, all clusters up."""
        self._begin(step, turns.count)
        pair = 0
        while self._goes_on(pair, turns.count):
            pair += 1
            for lane in self._order(pair):
                self._try(lane, partial(self._measure, step=turns.step, pair=pair))
        self._end(step)

    def _windows(self, turns: Turns) -> None:
        """Slices so short that all drivers work at the same time, each in its own windows: in sittings."""
        lengths = sittings(longest(turns.step, self.spec, len(self.here)))
        self._begin(turns.step, len(lengths))
        pairs = 0
        for number, seconds in enumerate(lengths, 1):
            self.interrupts.check()
            warmup = turns.step.warmup if number == 1 else AGAIN_SECONDS
            step = replace(turns.step, seconds=seconds, warmup=warmup)
            together = Together(self.here, step, number, pairs, self.spec, self.progress, self.interrupts)
            for lane, error in together.measure():
                self._leaves(lane, error)
            pairs += math.ceil(seconds / self.spec.slice_seconds)
            if len(self.here) < 2 or (self.spec.until == "verdict" and number >= SITTINGS and self._known()):
                break
        self._end(turns.step)

    def _rounds(self, step: Step, turns: Turns) -> None:
        """Whole steps in turn, each from the snapshot of its cluster, the others stopped."""
        self._begin(step, turns.count)
        for lane in self.here:
            lane.cluster.stop("fast")
        self._each(lambda lane: lane.cluster.save())
        pair = 0
        while self._goes_on(pair, turns.count):
            pair += 1
            for lane in self._order(pair):
                self._try(lane, partial(self._round, step=step, pair=pair))
        for lane in self.here:
            self._try(lane, lambda lane: lane.cluster.start())
            lane.cluster.drop_snapshot()
        self._end(step)

    def _round(self, lane: Lane, step: Step, pair: int) -> None:
        # Also before the first round: data that has just been copied is cached as it is in every later one.
        with lane.conductor.timings.of("restore"):
            lane.cluster.restore()
        lane.cluster.start()
        self._measure(lane, step, pair)
        lane.cluster.stop("fast")

    def _begin(self, step: Step, pairs: int) -> None:
        self.progress.step_begins(step)
        for lane in self.here:
            lane.at += 1
            lane.order += 1
            lane.slices, lane.turns = [], []
            lane.profiles = TurnProfiles(self.spec.profile, pairs)

    def _order(self, pair: int) -> list[Lane]:
        return [self.here[place] for place in turn_order(pair, len(self.here))]

    def _goes_on(self, done: int, pairs: int) -> bool:
        self.interrupts.check()
        if len(self.here) < 2 and done:
            return False  # nobody to compare with
        if not self.here:
            return False
        if self.spec.until == "time" or not done:
            return done < pairs
        used = sum(turn["seconds"] for lane in self.lanes for turn in lane.turns)
        # After an odd pair one variant has come first once more than the other.
        return used < self.spec.max_seconds and (done % 2 == 1 or not self._known())

    def _known(self) -> bool:
        return known({lane.label: lane.rates() for lane in self.here}, self.base, self.spec.margin)

    def _measure(self, lane: Lane, step: Step, pair: int) -> None:
        c = lane.conductor
        step = warmed_up(step, self.spec, first=not lane.slices)
        spec = lane.spec(step, pair)
        watch = StepWatch(lane.cluster, step.tables, DATABASE, waits_hertz=self.spec.waits)
        begun = time.monotonic()
        with c.builder.scratch("perf") as recordings:
            profiler = lane.profiles.profiler(pair, recordings, step.seconds)
            cpus = self.spec.driver_cpus
            measured = measure(step, lane.order, spec, watch, profiler=profiler, cpus=cpus)
            lane.profiles.add(measured.profiles)
        around = time.monotonic() - begun - float(measured.done["seconds"]) - step.warmup
        c.timings.add("observe", measured.observed.observe_seconds)
        c.timings.add("connect", max(0.0, around - measured.observed.observe_seconds))
        lane.slices.append(measured)
        if measured.error is not None:
            raise cut_short(step, measured.error)
        lane.turns.append(
            {
                "pair": pair,
                "started": measured.record["started"],
                "seconds": measured.record["seconds"],
                "rate": measured.record["rate"],
            }
        )

    def _end(self, step: Step) -> None:
        """Puts the slices of each variant together and stores them, also of one that failed."""
        for lane in self.lanes:
            if not lane.slices:
                continue
            whole = join(step, lane.order, lane.slices)
            whole.record["slices"] = lane.turns
            self._store(lane, step, whole)
            lane.slices, lane.turns = [], []

    def _store(self, lane: Lane, step: Step, whole: Measured) -> None:
        self._ask_why(lane, step, whole)
        lane.conductor.driver_version = whole.driver_version
        lane.conductor.sizes = whole.observed.sizes or lane.conductor.sizes
        lane.conductor.store(step, whole, None)
        self.progress.say(f"  {lane.label}, {len(whole.record['slices'])} turns:")
        self.progress.step_ended(whole.record)

    def _ask_why(self, lane: Lane, step: Step, whole: Measured) -> None:
        """Profile and plans of a step, as a run on its own has them."""
        record = whole.record
        profile, notes = lane.profiles.keep(lane.order, step.name, lane.conductor.builder.attach)
        if profile:
            record["profile"] = profile
        if lane.error is None:
            record["plans"], more = step_plans(lambda: lane.cluster.connect(DATABASE), lane.told)
            notes += more
        record["notes"] += notes


__all__ = ["Interleaved"]
