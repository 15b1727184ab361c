"""Asks why queries are slower or faster than on the base, and what helps, while all clusters are still up.

The variant executes the query with the base's plan, in turn with the base and with itself. Then each remedy
is tried on the variant, in turn with itself as it is. Everything stands in transactions that are rolled back,
but for a missing index, which is created once and dropped at the end.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from msgspec import structs

from pgstrata import numbers
from pgstrata.errors import PgstrataError, server_said
from pgstrata.judge.plan_detail import detail
from pgstrata.judge.plan_times import all_nodes, file_access, with_queries_of
from pgstrata.judge.query_causes import SETTLED, attribution, best_trial, look
from pgstrata.measure.explainer import Explainer
from pgstrata.measure.old_plan import find_old_plan, settings_of, statements
from pgstrata.measure.remedies import Candidate, candidates, created_indexes, missing_indexes
from pgstrata.measure.table_sizes import TableSizes
from pgstrata.measure.turns.arms import MESSAGE, Arm, ArmTurns
from pgstrata.measure.turns.cause_records import both_sides, nodes_moved, plan_differences
from pgstrata.measure.turns.participant import Participant
from pgstrata.sql_with import materialized
from pgstrata.stats.criterion import Criterion
from pgstrata.store.record import FileAccess, QueryCauseRecord, RemedyTrial, TrialTurns

NO_TIME = "the time for causes was over before (`why_seconds`)"

MOST_OTHERS = 50
"""Queries on which the effect of a remedy is measured."""

PAIR_SHARE = 0.2
"""Of the time of a query: for the turns that tell what an execution takes of the CPUs."""

OTHERS_SHARE = 0.25
"""Of the time of a query: for the effect of its remedy on others."""


@dataclass(frozen=True)
class Differing:
    """A query of a variant that is proven to differ from the base. seconds: of an execution by the label of
    the variant, without those that run into the limit; is_slower: the variant is; has_cpu: turns tell already
    what it takes of the CPUs."""

    name: str
    variant: Participant
    is_slower: bool
    seconds: Mapping[str, float]
    has_cpu: bool = True


def search_causes(
    base: Participant,
    differing: Sequence[Differing],
    others: Mapping[str, Mapping[str, float]],
    turns: ArmTurns,
    margin: float,
    words: tuple[str, str] = ("query differs", "queries differ"),
) -> None:
    """Looks into each query that differs and keeps what it finds with the step of its variant.

    others: seconds of an execution of all queries that end, by name and label. words: what differs, for one
    and for several. Raises Interrupted.
    """
    if not differing:
        return
    count = numbers.counted(len(differing), *words)
    left = turns.end - time.monotonic()
    base.run.progress.say(f"  why {count}, and what helps, for {numbers.duration(round(left))} at most")
    for number, query in enumerate(differing):
        begun = time.monotonic()
        if base.error is not None or query.variant.error is not None or query.variant.measurement is None:
            continue
        deadline = begun + (turns.end - begun) / (len(differing) - number)
        examination = _Examination(base, query, others, turns, Criterion(margin), deadline)
        cause = examination.failed(NO_TIME) if begun >= turns.end else _examined(examination)
        kept = structs.replace(cause, seconds=round(time.monotonic() - begun, 3))
        query.variant.measurement.query_causes.append(kept)


def _examined(examination: _Examination) -> QueryCauseRecord:
    try:
        return examination.record()
    except (psycopg.Error, PgstrataError) as error:
        return examination.failed(f"not looked into: {server_said(error, MESSAGE)}")


class _Examination:
    """One query of one variant."""

    def __init__(
        self,
        base: Participant,
        query: Differing,
        others: Mapping[str, Mapping[str, float]],
        turns: ArmTurns,
        criterion: Criterion,
        deadline: float,
    ) -> None:
        self._base, self._one, self._others = base, query, others
        self._turns, self._criterion, self._deadline = turns, criterion, deadline
        self._check = base.run.interrupts.check
        self._notes: list[str] = []
        self._three_arms: Sequence[Arm] = ()
        self._rewritten: Explainer | None = None
        """Asks the variant for the query with AS MATERIALIZED, where it inlines what the base does not."""
        cluster = query.variant.cluster
        self._may_change_schema = cluster.standbys.serving(reads_only=True) is cluster
        """A standby takes no other statistics or indexes than its primary's."""

    def record(self) -> QueryCauseRecord:
        """Returns the cause. Raises psycopg.Error, PgstrataError and Interrupted."""
        with ExitStack() as stack:
            return self._record(stack)

    def failed(self, why: str) -> QueryCauseRecord:
        """Returns the record of a query that could not be looked into."""
        for side in (self._base, self._one.variant):
            self._turns.check(side)
        return QueryCauseRecord(name=self._one.name, differences=(("", ""),), notes=(why, *self._notes))

    def _record(self, stack: ExitStack) -> QueryCauseRecord:
        query, base, variant = self._one, self._base, self._one.variant
        text = self._turns.text(query.name)
        self._old = Explainer(self._turns.connect(base, stack, query=query.name), text)
        self._new = Explainer(self._turns.connect(variant, stack, query=query.name), text)
        wanted_plan, plain_plan = self._old.plan(), self._new.plan()
        wanted, plain = detail(wanted_plan), detail(plain_plan)
        old, new = settings_of(self._old.connection), settings_of(self._new.connection)
        same = wanted == plain
        if self._may_change_schema:
            admin = self._turns.connect(variant, stack, superuser=True)
            sizes = TableSizes(admin)
            stack.callback(sizes.restore)
            self._turns.sizes = {variant.label: sizes}
        indexes: Sequence[str] = ()
        without: Sequence[str] = ()
        inlined: Sequence[str] = ()
        settings: dict[str, str] | None = None
        if not same:
            if self._may_change_schema:
                definitions = missing_indexes(
                    self._old.connection, self._new.connection, wanted_plan, self._check
                )
                created = created_indexes(self._new.connection, definitions, self._check)
                new_indexes = stack.enter_context(created)
                indexes, without = new_indexes.definitions, new_indexes.without
                self._notes += new_indexes.notes
            inlined = [n for n in with_queries_of(wanted_plan) if n not in with_queries_of(plain_plan)]
            if (rewritten := materialized(text, inlined)) is not None:
                self._rewritten = Explainer(self._new.connection, rewritten)
            asks = self._rewritten or self._new
            settings = find_old_plan(asks, wanted, wanted_plan, old, new, check=self._check).settings
        executed = self._executed(self._new, variant.label, without)
        of_base = self._executed(self._old, base.label, ())
        nodes = nodes_moved(of_base, executed)
        phases, files = self._phases(without), self._files(without)
        chosen: list[Candidate] = []
        if query.is_slower:
            chosen = candidates(
                self._new,
                executed,
                old,
                new,
                old_plan=settings,
                rewritten=self._rewritten,
                indexes=indexes,
                same_plan=same,
                without=without,
                check=self._check,
            )
            chosen = [each for each in chosen if self._may_change_schema or each.is_for_one_query]
        old_plan: Candidate | None = None
        if settings is not None:
            fences = (f"WITH {name} AS MATERIALIZED (…)" for name in inlined if self._rewritten)
            how, before = (*indexes, *fences, *statements(settings)), statements(settings)
            instead = self._rewritten.query if self._rewritten else ""
            old_plan = Candidate("setting", how, before, wanted, instead)
        elif not same:
            old_plan = next((each for each in chosen if each.plan == wanted), None)
        arms = self._three_arms = self._three(old_plan, without) if old_plan else []
        pair = (arms[0], arms[2]) if len(arms) > 2 else self._pair(without)
        trials = self._tried(chosen, without, wanted)
        return QueryCauseRecord(
            name=query.name,
            differences=() if same else plan_differences(wanted, plain),
            old_plan=old_plan.sql if old_plan else (),
            asked=self._new.asked + (self._rewritten.asked if self._rewritten else 0),
            base=tuple(arms[0].slices if arms else pair[0].slices),
            forced=tuple(arms[1].slices) if arms else (),
            new=tuple(pair[1].slices),
            cpu=(tuple(pair[0].cpu), tuple(pair[1].cpu)) if pair[1].slices else None,
            planning_seconds=phases[0] if phases else None,
            execution_seconds=phases[1] if phases else None,
            nodes=nodes,
            all_nodes=both_sides(all_nodes(of_base), all_nodes(executed)) if nodes else None,
            files=files,
            remedies=tuple(trials),
            notes=tuple(self._notes),
        )

    # --- plans --------------------------------------------------------------------------------

    def _executed(self, explainer: Explainer, label: str, before: Sequence[str]) -> Any:
        """Returns the executed plan of a side, or the plan alone where the execution does not come to its
        end."""
        self._check()
        seconds = self._one.seconds.get(label)
        limit = self._turns.limit_seconds
        if seconds is None:
            self._notes.append(f"{label}: not executed by EXPLAIN ANALYZE, it runs into its limit")
        elif time.monotonic() + 3 * seconds < self._deadline:
            try:
                return explainer.executed(limit, before)
            except psycopg.Error as error:
                if explainer.connection.broken:
                    raise
                self._notes.append(f"{label}: EXPLAIN ANALYZE: {server_said(error, MESSAGE)}")
        else:
            self._notes.append(f"{label}: not executed by EXPLAIN ANALYZE, there was no time")
        return explainer.plan(before)

    @property
    def _ends_on_both(self) -> bool:
        sides = (self._base, self._one.variant)
        return all(self._one.seconds.get(side.label) is not None for side in sides)

    def _phases(self, without: Sequence[str]) -> list[tuple[float, float]] | None:
        """Returns the least seconds on the base and on the variant, to plan the query and to execute it."""
        if not self._ends_on_both:
            return None
        limit = self._turns.limit_seconds
        ours, theirs = self._old.phases(limit), self._new.phases(limit, without)
        return list(zip(ours, theirs, strict=True)) if ours and theirs else None

    def _files(self, without: Sequence[str]) -> tuple[FileAccess, FileAccess] | None:
        """Returns what both sides read from files, once the caches have what they hold; None where the
        query does not end on both, time is short or a server reports an error."""
        once = sum(self._one.seconds.values())
        if not self._ends_on_both or time.monotonic() + 2 * once > self._deadline:
            return None
        limit = self._turns.limit_seconds
        with suppress(psycopg.Error):
            base = file_access(self._old.executed(limit, timing=False))
            other = file_access(self._new.executed(limit, without, timing=False))
            return FileAccess(pages=base[0], seconds=base[1]), FileAccess(pages=other[0], seconds=other[1])
        return None

    # --- measuring ----------------------------------------------------------------------------

    def _three(self, old_plan: Candidate, without: Sequence[str]) -> list[Arm]:
        """Measures the base, the variant with the base's plan, and the variant itself if the query comes to
        its end there."""
        query = self._one
        base = Arm(self._base, (), query.seconds.get(self._base.label))
        forced = Arm(query.variant, old_plan.before, base.seconds, old_plan.text)
        arms = [base, forced]
        own_seconds = query.seconds.get(query.variant.label)
        new = Arm(query.variant, without, own_seconds)
        if own_seconds is not None:
            arms.append(new)
        limit = query.variant.load_limit

        def is_known() -> bool:
            remaining = look(base.slices, forced.slices, limit, self._criterion, starts=1)
            if own_seconds is None:
                return remaining.decided
            change = look(base.slices, new.slices, limit, self._criterion, starts=1)
            removed = look(forced.slices, new.slices, limit, self._criterion)
            return attribution(change, remaining, removed) in SETTLED and change.decided

        now = time.monotonic()
        share = 0.4 if query.is_slower else 1.0
        if why := self._turns.in_turn(query.name, arms, now + share * (self._deadline - now), is_known):
            self._notes.append(f"with the plan of {self._base.label}: {why}")
        return arms

    def _pair(self, without: Sequence[str]) -> tuple[Arm, Arm]:
        """Measures the base and the variant where no other turns tell what an execution takes of the CPUs."""
        query = self._one
        sides = ((self._base, ()), (query.variant, without))
        base, new = (Arm(side, before, query.seconds.get(side.label)) for side, before in sides)
        if not query.has_cpu and self._ends_on_both:
            now = time.monotonic()
            share = PAIR_SHARE if query.is_slower else 1.0
            why = self._turns.in_turn(
                query.name, [base, new], now + share * (self._deadline - now), lambda: True
            )
            if why:
                self._notes.append(f"where the time went: {why}")
        return base, new

    def _tried(
        self, chosen: Sequence[Candidate], without: Sequence[str], wanted: Sequence[str]
    ) -> list[RemedyTrial]:
        trials: list[RemedyTrial] = []
        for number, candidate in enumerate(chosen):
            now = time.monotonic()
            left = (self._deadline - now) * (1 - OTHERS_SHARE)
            if left <= 0:
                self._notes.append(f"{numbers.counted(len(chosen) - number, 'remedy', 'remedies')} not tried")
                break
            trials.append(
                self._trial(candidate, without, now + left / (len(chosen) - number), wanted, len(chosen))
            )
        return self._with_others(trials, chosen, without)

    def _trial(
        self,
        candidate: Candidate,
        without: Sequence[str],
        deadline: float,
        wanted: Sequence[str],
        looks: int,
    ) -> RemedyTrial:
        query = self._one
        own_seconds = query.seconds.get(query.variant.label)
        turns = self._paired(query.name, own_seconds, candidate, without, deadline, looks)
        return RemedyTrial(
            kind=candidate.kind,
            sql=candidate.sql,
            turns=turns,
            limit_without=None if own_seconds is not None else self._turns.limit_seconds,
            plan_is_old=candidate.plan == tuple(wanted),
        )

    def _paired(
        self,
        query: str,
        seconds: float | None,
        candidate: Candidate,
        without: Sequence[str],
        deadline: float,
        looks: int,
    ) -> TrialTurns:
        """Measures a query on the variant, with and without a remedy. seconds: None where it does not end
        without."""
        variant = self._one.variant
        with_it = Arm(variant, candidate.before, seconds, candidate.text)
        plain = Arm(variant, without, seconds)
        if query == self._one.name and len(self._three_arms) > 2:
            _, forced, new = self._three_arms
            if (tuple(forced.before), forced.text) == (tuple(candidate.before), candidate.text):
                # Measured already.
                with_it, plain = (replace(arm, slices=[*arm.slices], cpu=[]) for arm in (forced, new))
                both = {part.pair for part in plain.slices} & {part.pair for part in with_it.slices}
                for arm in (plain, with_it):
                    arm.slices = [part for part in arm.slices if part.pair in both]
        arms = [plain, with_it] if seconds is not None else [with_it]

        def is_known() -> bool:
            if seconds is None:
                return True
            verdict = look(plain.slices, with_it.slices, variant.load_limit, self._criterion, looks)
            return verdict.decided

        reason = self._turns.in_turn(query, arms, deadline, is_known)
        return TrialTurns(
            name=query, without=tuple(plain.slices), with_it=tuple(with_it.slices), reason=reason
        )

    def _with_others(
        self, trials: list[RemedyTrial], chosen: Sequence[Candidate], without: Sequence[str]
    ) -> list[RemedyTrial]:
        """Returns the trials; the best has its effect on other queries, if the remedy affects them."""
        best = best_trial(trials, self._one.variant.load_limit, self._criterion)
        if best is None:
            return trials
        candidate = next(each for each in chosen if each.sql == best.sql)
        if candidate.is_for_one_query:
            return trials
        label = self._one.variant.label
        queries = sorted(
            ((seconds[label], name) for name, seconds in self._others.items() if label in seconds)
        )
        queries = [each for each in queries if each[1] != self._one.name]
        effects: list[TrialTurns] = []
        for number, (seconds, name) in enumerate(queries[:MOST_OTHERS]):
            now = time.monotonic()
            if now >= self._deadline:
                left = numbers.counted(len(queries) - number, "other query", "other queries")
                self._notes.append(f"its effect on {left} was not measured")
                break
            share = (self._deadline - now) / (min(len(queries), MOST_OTHERS) - number)
            effects.append(self._paired(name, seconds, candidate, without, now + share, 1))
        with_effects = structs.replace(best, others=tuple(effects))
        return [with_effects if trial is best else trial for trial in trials]


__all__ = ["Differing", "search_causes"]
