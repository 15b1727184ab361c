"""The queries of a step, each executed alone in pairs: A B, B A, A B, … until it is known.

All clusters are up, and one query is executed at a time on the whole machine. The next pair is that of the
query that is likely to be known first: so what takes little time begins, and as many as possible are known
when the time is over. Pairs of one query lie apart while others wait, so that they share no state of the
machine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from statistics import median

from pgstrata import numbers
from pgstrata.campaign.plan.order import Schedule, begins_anew
from pgstrata.driver.events import StatementDone
from pgstrata.errors import DriverError, server_said
from pgstrata.judge.single_queries import QuerySide, judge_query, scatter_of_pairs
from pgstrata.measure.measurement import other_load_of, turn_of
from pgstrata.measure.placement import draw_cpus
from pgstrata.measure.portions import as_portion
from pgstrata.measure.turns.arms import ArmTurns
from pgstrata.measure.turns.causes import Differing, search_causes
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.interleaved import interleave
from pgstrata.measure.turns.participant import Participant
from pgstrata.measure.turns.phases import mean_cpu, mean_planning
from pgstrata.measure.turns.query_pairs import (
    LONGEST_MESSAGE,
    Query,
    order_after_start,
    queries_of,
    replaced,
    with_execution,
)
from pgstrata.measure.turns.samples import plans_by_sample
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.estimate import START_ERROR
from pgstrata.stats.executions import FIRST, MOST
from pgstrata.stats.multiplicity import holds_among
from pgstrata.stats.verdict import Verdict
from pgstrata.store.record import QueryPairs
from pgstrata.turns.windows import START_AGAIN_SECONDS
from pgstrata.workload.core.language import Step
from pgstrata.workload.core.queries import planned_first

PLANNED_SECONDS = 1.0
"""A query that takes less than this, and is not executed in portions, is planned before it counts (EXPLAIN):
that reads catalogs, too, and what else its first execution takes, 5 to 18 ms, is little of it then."""

LINE_SECONDS = 30.0
"""Between two lines of how many queries are known."""

START_PAIRS = (8, 128)
"""Of one query before servers start anew, where they do, at least and at most: fewer hardly tell what a start
is by chance, and after more a few more starts cost nothing."""

OTHER_VERDICTS = 1.1
"""By how many times a page adjusts for more verdicts than those on the queries of a step, about: other steps
have verdicts, too."""

WORKERS = "Workers Planned"
"""In the plan of a query with parallel workers."""

READ_AGAIN_BYTES = 2 << 30
"""Data of one cluster with which servers still start anew between pairs. The first execution of a query that
reads it again does not count, and the page cache of a machine that measures has as much."""


class QueryExecution:
    """Executes the queries of a step in pairs and keeps what came of it with the step of each participant.

    pairs: of each query; None: until it is known. seconds: that may be spent on all of them; None: as long as
    it takes. leave: called with a participant whose server cannot go on. start_anew: starts all servers anew,
    in an order that its number decides; None: they live through all pairs.
    """

    def __init__(
        self,
        base: str,
        here: Sequence[Participant],
        step: Step,
        *,
        margin: float,
        seconds: float | None,
        pairs: int | None,
        leave: Callable[[Participant, Callable[[Participant], object]], None],
        start_anew: Callable[[int], None] | None = None,
    ) -> None:
        assert step.single is not None
        self._here, self._single, self._confined = list(here), step.single, step.confined
        self._base = next(
            (participant for participant in self._here if participant.label == base), self._here[0]
        )
        self._margin, self._seconds, self._pairs, self._leave = margin, seconds, pairs, leave
        self._start_anew, self._start, self._start_seconds = start_anew, 1, START_AGAIN_SECONDS
        self._queries = queries_of({participant.label: participant.once() for participant in self._here})
        self._comparisons = max(1, len(self._queries) * (len(self._here) - 1)) * OTHER_VERDICTS
        self._differences = 0

    def execute(self) -> None:
        """Executes them and keeps the records. Raises Interrupted."""
        begun = time.monotonic()
        limits = [] if self._seconds is None else [f"for {numbers.duration(self._seconds)} at most"]
        limits += [] if self._pairs is None else [f"{numbers.counted(self._pairs, 'pair')} each"]
        count = numbers.counted(len(self._queries), "query", "queries")
        self._base.run.progress.say(f"  {count} one at a time in turn, {', '.join(limits)}")
        deadline = math.inf if self._seconds is None else begun + self._seconds
        last_line = begun
        while waiting := [query for query in self._queries if self._goes_on(query)]:
            now = time.monotonic()
            if now >= deadline:
                break
            if self._pairs is None and now - last_line >= LINE_SECONDS:
                last_line = now
                known, left = sum(query.is_known for query in self._queries), numbers.clock(deadline - now)
                self._base.run.progress.say(f"  {known} of {count} known, at most {left} left")
            self._begin_anew(waiting)
            self._execute(min(waiting, key=lambda query: query.rank(now, deadline)))
        seconds = time.monotonic() - begun
        if self._pairs is None:
            self._sample_plans()
        self._keep(seconds)
        if self._pairs is None:
            known = sum(query.is_known for query in self._queries)
            self._base.run.progress.say(
                f"  {known} of {count} known after {numbers.duration(round(seconds))}"
            )

    def _goes_on(self, query: Query) -> bool:
        """Returns whether another pair of a query can add knowledge."""
        most = MOST if self._pairs is None else self._pairs
        return not query.is_known and query.pairs < most and len(self._sides(query)) > 1

    def _sides(self, query: Query) -> list[Participant]:
        """Returns the variants that execute a query, the base first; none without the base."""
        sides = [
            participant
            for participant in (self._base, *(other for other in self._here if other is not self._base))
            if participant.error is None
            and participant.label in query.turns
            and not query.turns[participant.label].end
        ]
        return sides if sides and sides[0] is self._base else []

    def _execute(self, query: Query) -> None:
        """Executes a pair of a query, and looks whether it is known."""
        sides = self._sides(query)
        if len(sides) < 2:
            return
        begun = time.monotonic()
        query.begin_pair(self._start, begun)
        places = order_after_start(self._start, query.pairs_of_start[self._start], len(sides))
        order = [sides[place] for place in places]
        if query.in_portions:
            self._in_portions(order, query)
        else:
            for side in order:
                self._base.run.interrupts.check()
                self._turn(side, query)
        query.pair_seconds += time.monotonic() - begun
        if self._start_anew is not None:
            base = self._side(self._base, query)
            query.scatter = max(scatter_of_pairs(base, self._side(side, query)) for side in sides[1:])
        # After an odd pair one variant has come first once more than the other, which few pairs forgive.
        looks = query.pairs >= FIRST and (query.pairs <= 2 * FIRST or query.pairs % 2 == 0)
        if looks and self._pairs is None:
            verdicts = [self._verdict(side, query) for side in self._sides(query)[1:]]
            query.is_known = all(self._holds(verdict) for verdict in verdicts)
            query.look(verdicts)
            if query.is_known:
                self._differences += sum(verdict.word != "same" for verdict in verdicts)

    def _begin_anew(self, waiting: Sequence[Query]) -> None:
        """Starts servers anew where another start tells more of the queries that took turns since the last
        than another pair of each."""
        taking = [query for query in waiting if query.pairs_of_start[self._start]]
        if self._start_anew is None or not taking:
            return
        pairs = sum(query.pairs_of_start[self._start] for query in taking) / len(taking)
        if pairs < START_PAIRS[0] or pairs < min(START_PAIRS[1], self._pairs_of_a_start(taking)):
            return
        self._start += 1
        begun = time.monotonic()
        self._start_anew(self._start)
        self._start_seconds = time.monotonic() - begun

    def _pairs_of_a_start(self, taking: Sequence[Query]) -> float:
        """Returns how many pairs of each query after each start make the error least for the time they take.

        It is a sample of two stages, of which the first is what a start is by chance (Cochran 1977, 10.6).
        """
        pair_seconds = sum(query.pair_seconds for query in taking) / sum(query.pairs for query in taking)
        scatter = median(query.scatter for query in taking)
        return scatter / START_ERROR * math.sqrt(self._start_seconds / len(taking) / pair_seconds)

    def _turn(self, side: Participant, query: Query) -> None:
        if side.error is not None or side.measurement is None:
            return
        # What a server that has just started reads again counts for nobody.
        warm = int(self._start > 1 and query.pairs_of_start[self._start] == 1)
        step = self._single.step(query.name, 1 + warm)
        if not warm and query.seconds < PLANNED_SECONDS and (planned := planned_first(step)) is not None:
            step, warm = planned, 1
        try:
            executed = side.measurement.execute(replace(step, confined=self._confined))
        except DriverError as error:
            self._ends(side, query, error)
            return
        if self._succeeds(side, query, executed.statements):
            load = executed.other_load(side.load_limit)
            self._add_turn(side, query, executed.statements[warm:], load)

    def _in_portions(self, order: Sequence[Participant], query: Query) -> None:
        """Executes a query on all variants in portions that take turns, in this order and backwards."""
        executions, portions = query.portions
        step = replace(as_portion(self._single.step(query.name, executions)), confined=self._confined)
        sides = [(side.measurement, step) for side in order if side.error is None and side.measurement]
        if len(sides) < len(order):
            return
        cpus = draw_cpus(step, self._base.run.settings) if self._is_serial(query, step) else ()
        pair = interleave(sides, portions, cpus, self._base.run.interrupts.check)
        if pair.failed is not None:
            place, why = pair.failed
            if isinstance(why, DriverError):
                self._ends(order[place], query, why)
            else:
                self._succeeds(order[place], query, [why])
            return
        for side, statements in zip(order, pair.done, strict=True):
            self._add_turn(side, query, statements, other_load_of(pair.load, side.load_limit))

    def _is_serial(self, query: Query, step: Step) -> bool:
        """Returns whether the plan of a query has no parallel workers on any variant: only then its backend
        does all of the work, and may share a CPU with that of another variant."""
        if query.is_serial is None:
            plans = (side.measurement.plan_of(step) for side in self._sides(query) if side.measurement)
            query.is_serial = all(plan is not None and WORKERS not in plan for plan in plans)
        return query.is_serial

    def _ends(self, side: Participant, query: Query, error: DriverError) -> None:
        """Notes that the driver of a query has ended with an error; its server may have ended, too."""
        self._leave(side, Participant.accepts_connections)
        message = server_said(error.message, LONGEST_MESSAGE)
        query.turns[side.label] = replaced(query.turns[side.label], end="rejected", reason=message)

    def _succeeds(self, side: Participant, query: Query, statements: Sequence[StatementDone]) -> bool:
        """Returns whether all executions have; notes the first that has not."""
        failed = next((statement for statement in statements if statement.error is not None), None)
        if failed is not None:
            query.turns[side.label] = with_execution(query.turns[side.label], failed)
        return failed is None

    def _add_turn(
        self,
        side: Participant,
        query: Query,
        statements: Sequence[StatementDone],
        other_load: float | None,
    ) -> None:
        turns = query.turns[side.label]
        if (turn := turn_of(statements, query.pairs, other_load)) is None:
            return
        query.turns[side.label] = replaced(
            turns,
            slices=(*turns.slices, turn),
            planning=(*turns.planning, mean_planning(statements)),
            cpu=(*turns.cpu, mean_cpu(statements)),
            starts=query.starts,
            blocks=tuple(query.blocks),
        )

    def _verdict(self, side: Participant, query: Query) -> Verdict:
        both = (self._side(self._base, query), self._side(side, query))
        labels = self._base.label, side.label
        return judge_query([both], self._single.limit_seconds, labels, Criterion(self._margin))

    def _holds(self, verdict: Verdict) -> bool:
        """Returns whether a verdict is decided, also among those of all queries."""
        if not verdict.decided:
            return False
        return verdict.word == "same" or holds_among(verdict.p_value, self._comparisons, self._differences)

    def differing(self) -> list[Differing]:
        """Returns the queries that are proven slower on a variant, largest losses first, then faster ones."""
        ranked: list[tuple[float, Differing]] = []
        for query in self._queries:
            if self._base.label not in query.turns:
                continue
            seconds = {
                label: turns.seconds
                for label, turns in query.turns.items()
                if not turns.end and turns.seconds is not None
            }
            for side in self._here:
                if side is self._base or side.error is not None or side.label not in query.turns:
                    continue
                verdict = self._verdict(side, query)
                if (
                    verdict.word in ("slower", "faster")
                    and self._holds(verdict)
                    and self._base.label in seconds
                ):
                    difference = Differing(query.name, side, verdict.word == "slower", seconds)
                    ranked.append((verdict.ratio, difference))
        return [
            difference for _, difference in sorted(ranked, key=lambda each: (not each[1].is_slower, each[0]))
        ]

    def _sample_plans(self) -> None:
        """Notes of the queries that differ how many plans they have with other samples of ANALYZE."""
        names = {difference.name for difference in self.differing()}
        steps = {name: replace(self._single.step(name, 1), confined=self._confined) for name in sorted(names)}
        several = set()
        for side in self._here:
            plans = plans_by_sample(side, steps, self._base.run.interrupts.check)
            for query in self._queries:
                if query.name in plans and side.label in query.turns:
                    turns = query.turns[side.label]
                    query.turns[side.label] = replaced(turns, plans=plans[query.name])
            several |= {name for name, count in plans.items() if count > 1}
        if several:
            count = numbers.counted(len(several), "query that differs has", "queries that differ have")
            self._base.run.progress.say(f"  {count} another plan with another sample of ANALYZE")

    def ending(self) -> dict[str, dict[str, float]]:
        """Returns the seconds of an execution of each query by the label of the variant, where it ends."""
        return {
            query.name: {
                label: turns.seconds
                for label, turns in query.turns.items()
                if turns.seconds is not None and not turns.end
            }
            for query in self._queries
        }

    def _side(self, participant: Participant, query: Query) -> QuerySide:
        return QuerySide(query.turns[participant.label], participant.load_limit)

    def _keep(self, seconds: float) -> None:
        for query in self._queries:
            if self._pairs is None and not query.is_known and len(self._sides(query)) > 1:
                a_pair = numbers.duration(query.seconds_of_pair)
                reason = (
                    f"its time was over after {numbers.counted(query.pairs, 'pair')}"
                    if query.pairs
                    else f"a pair would take {a_pair}, and the time was for shorter ones"
                )
                for label, turns in query.turns.items():
                    if not turns.end:
                        query.turns[label] = replaced(turns, reason=reason)
        for participant in self._here:
            if participant.measurement is not None:
                of_each = (query.turns.get(participant.label) for query in self._queries)
                participant.measurement.query_pairs = QueryPairs(
                    queries=tuple(turns for turns in of_each if turns is not None),
                    seconds=round(seconds, 3),
                    budget_seconds=self._seconds,
                    limit_seconds=self._single.limit_seconds,
                )


def measure(group: Group, schedule: Schedule) -> None:
    """Measures a pass over all queries on each variant, then each query alone in pairs, all clusters up."""
    watched = group.settings.until == "verdict"
    anew = begins_anew(group.settings, group.workload, group.variants, READ_AGAIN_BYTES)
    with ExitStack() as rows:
        group.each_in_drawn_order(partial(Participant.measure_once, rows=rows))
        if len(group.here) > 1:
            execution = QueryExecution(
                group.base,
                group.here,
                schedule.step,
                margin=group.settings.margin,
                seconds=group.settings.max_seconds if watched else None,
                pairs=None if watched else schedule.count,
                leave=group.attempt,
                start_anew=group.start_anew if watched and anew else None,
            )
            execution.execute()
            base = next((side for side in group.here if side.label == group.base), None)
            if watched and group.settings.why_seconds and base is not None:
                end = time.monotonic() + group.settings.why_seconds
                single, confined = schedule.step.single, schedule.step.confined
                assert single is not None
                turns = ArmTurns(single, group.interrupts, group.attempt, end, confined=confined)
                differing, ending = execution.differing(), execution.ending()
                search_causes(base, differing, ending, turns, group.settings.margin)
        for participant in group.participants:
            participant.store_once()


__all__ = ["QueryExecution", "measure"]
