"""Statements that the rounds of a replay call slower or faster, executed with nothing beside them.

All clusters are up with the data that the rounds began with, on which answers are compared first. One
statement after the other, those with the largest share of the time first, takes turns on the base and on the
variants that differ, until it is known or its time is over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgstrata import numbers
from pgstrata.errors import DriverError
from pgstrata.judge.alone import FIRST, AloneTurns, judge_alone
from pgstrata.judge.disturbance import LEFT_OUT
from pgstrata.judge.pairs import left_out
from pgstrata.judge.statements import RoundKey, judge_statements
from pgstrata.measure.turns.answers import compare_answers
from pgstrata.measure.turns.group import Group
from pgstrata.measure.turns.participant import Participant
from pgstrata.measure.turns.statement_causes import Slower, search_statement_causes
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.verdict import Verdict
from pgstrata.store.record import AloneRecord, AloneRecords, Slice
from pgstrata.store.statement import Statement
from pgstrata.turns.model import order_of_pair
from pgstrata.workload.core.language import AloneStatement, Step

MOST_STATEMENTS = 20
"""Executed alone after the rounds of one step."""

MOST_PAIRS = 60
"""Of one statement."""

LEAST_SECONDS, MOST_SECONDS = 60.0, 300.0
"""Of all statements together; between them it is a share of what the rounds took."""

SHARE = 0.25


@dataclass
class Candidate:
    """A statement that rounds call slower or faster. seconds: of an execution, on the slower side; others:
    the variants that differ from the base."""

    statement: Statement
    share: float = 0.0
    seconds: float = 0.0
    others: list[Participant] = field(default_factory=list)


def candidates(
    base: Participant, others: Sequence[Participant], *, watched: bool, margin: float
) -> list[Candidate]:
    """Returns what the rounds call slower or faster, those with the largest share of the time first; none of
    a variant against which the step was disturbed."""
    sides: dict[str, Participant] = {}
    disturbed: dict[str, set[RoundKey]] = {}
    for other in others:
        out, known = left_out(base, other)
        if out <= LEFT_OUT * known:
            sides[other.label] = other
            disturbed[other.label] = other.disturbed_rounds(base)
    rounds = {label: other.rounds() for label, other in sides.items()}
    by_statement: dict[Statement, Candidate] = {}
    criterion = Criterion(margin)
    judged = judge_statements(base.rounds(), rounds, watched=watched, criterion=criterion, left_out=disturbed)
    for label, statements in judged.items():
        for statement in statements:
            if statement.verdict.decided and statement.verdict.word != "same":
                candidate = by_statement.setdefault(statement.statement, Candidate(statement.statement))
                candidate.share = max(candidate.share, statement.share)
                candidate.seconds = max(candidate.seconds, statement.base.mean, statement.other.mean)
                candidate.others.append(sides[label])
    return sorted(by_statement.values(), key=lambda ranked: -ranked.share)


def budget(rounds_seconds: float) -> float:
    """Returns the seconds that may be spent on statements alone."""
    return min(MOST_SECONDS, max(LEAST_SECONDS, SHARE * rounds_seconds))


class AloneExecution:
    """Executes candidates alone and keeps what came of it with the step of each participant.

    leave: called with a participant whose server cannot go on. slower: those that are slower alone, too.
    """

    def __init__(
        self,
        base: Participant,
        here: Sequence[Participant],
        step: Step,
        *,
        margin: float,
        seconds: float,
        leave: Callable[[Participant, Callable[[Participant], object]], None],
    ) -> None:
        assert step.alone is not None
        self._base, self._here, self._make = base, here, step.alone
        self._margin, self._seconds, self._leave = margin, seconds, leave
        self._records: dict[str, list[AloneRecord]] = {participant.label: [] for participant in here}
        self.slower: list[Slower] = []

    def execute(self, candidates: Sequence[Candidate]) -> None:
        """Executes them and keeps the records. Raises Interrupted."""
        begun = time.monotonic()
        chosen = candidates[:MOST_STATEMENTS]
        if chosen:
            text = numbers.counted(len(chosen), "statement")
            self._base.run.progress.say(
                f"  {text} that differ, executed alone for {numbers.duration(self._seconds)} at most"
            )
            assert self._base.measurement is not None
            with self._base.measurement.scratch("alone") as folder:
                self._each(chosen, folder, begun + self._seconds)
        for candidate in candidates[MOST_STATEMENTS:]:
            self._keep(candidate, {}, f"only the {MOST_STATEMENTS} with the largest share of the time are")
        for participant in self._here:
            if participant.measurement is not None:
                participant.measurement.alone = AloneRecords(
                    statements=tuple(self._records[participant.label]),
                    seconds=round(time.monotonic() - begun, 3),
                    budget_seconds=self._seconds,
                    most_statements=MOST_STATEMENTS,
                )

    def _each(self, chosen: Sequence[Candidate], folder: Path, deadline: float) -> None:
        """Executes the statements one after the other, each with its share of the time that is left."""
        steps = self._make({candidate.statement.number: candidate.seconds for candidate in chosen}, folder)
        for number, candidate in enumerate(chosen):
            left = deadline - time.monotonic()
            statement = steps[candidate.statement.number]
            if statement.step is None:
                self._keep(candidate, {}, statement.why_not)
            elif left <= 0:
                self._keep(candidate, {}, f"the time for it was over ({numbers.duration(self._seconds)})")
            else:
                self._one(candidate, statement, time.monotonic() + left / (len(chosen) - number))

    def _one(self, candidate: Candidate, statement: AloneStatement, deadline: float) -> None:
        """Executes a statement in pairs, until its verdict is known for all its variants."""
        sides = [self._base, *candidate.others]
        first = self._pair(sides, statement, 0)  # reads what it needs into memory
        if isinstance(first, str):
            self._keep(candidate, {}, first)
            return
        if statement.of_length is not None:
            # Beside the others one may wait for what nobody holds here: of the executions that filled a turn
            # there a scheduler's tick is a large part.
            step = statement.of_length(1 / min(part.rate for part in first.values()))
            statement = replace(statement, step=step)
        slices: dict[str, list[Slice]] = {side.label: [] for side in sides}
        reason = ""
        for pair in range(1, MOST_PAIRS + 1):
            parts = self._pair(sides, statement, pair)
            if isinstance(parts, str):
                self._keep(candidate, {}, parts)
                return
            for label, part in parts.items():
                slices[label].append(part)
            if pair >= FIRST and pair % 2 == 0 and self._known(candidate, slices):
                break
            if time.monotonic() > deadline:
                reason = f"its time was over after {numbers.counted(pair, 'pair')}"
                break
        seconds = {label: _mean(turns) for label, turns in slices.items() if turns}
        self.slower += [
            Slower(candidate.statement, other, statement, seconds)
            for other in candidate.others
            if self._verdict(other, slices).word == "slower"
        ]
        self._keep(candidate, slices, reason)

    def _pair(
        self, sides: Sequence[Participant], statement: AloneStatement, pair: int
    ) -> Mapping[str, Slice] | str:
        """Returns a turn of each side, by its label, or why there is none if the statement does not
        execute."""
        parts: dict[str, Slice] = {}
        for place in order_of_pair(pair, len(sides)) if pair else range(len(sides)):
            part = self._turn(sides[place], statement, pair)
            if isinstance(part, str):
                return part
            parts[sides[place].label] = part
        return parts

    def _turn(self, side: Participant, statement: AloneStatement, pair: int) -> Slice | str:
        """Takes a turn of a variant. Returns its slice, or why there is none if the statement does not
        execute."""
        if side.error is not None or side.measurement is None:
            return f"{side.label} left the comparison"
        assert statement.step is not None
        try:
            executed = side.measurement.execute(statement.step)
        except DriverError as error:
            self._leave(side, lambda participant: participant.cluster.standbys.check())
            return error.message
        role = executed.done.roles[0]
        if role.replay is not None:
            for failure in role.replay.failures:
                if failure.number == statement.number and failure.now is not None:
                    return f"it fails alone: {failure.message}"
        total = next(
            (totals for totals in role.statements_by_name if totals.number == statement.number), None
        )
        if total is None or not total.count or total.seconds_total <= 0:
            return "no execution came to its end"
        return Slice(
            pair=max(1, pair),
            seconds=total.seconds_total,
            rate=total.count / total.seconds_total,
            other_load=executed.other_load(side.load_limit),
        )

    def _verdict(self, other: Participant, slices: Mapping[str, Sequence[Slice]]) -> Verdict:
        """Returns what the turns so far say of a variant."""
        base = AloneTurns(slices[self._base.label], self._base.load_limit)
        turns = AloneTurns(slices[other.label], other.load_limit)
        return judge_alone([(base, turns)], Criterion(self._margin))

    def _known(self, candidate: Candidate, slices: Mapping[str, Sequence[Slice]]) -> bool:
        return all(self._verdict(other, slices).decided for other in candidate.others)

    def _keep(self, candidate: Candidate, slices: Mapping[str, Sequence[Slice]], reason: str) -> None:
        for side in (self._base, *candidate.others):
            record = AloneRecord(
                number=candidate.statement.number,
                name=candidate.statement.name,
                slices=tuple(slices.get(side.label, ())),
                reason=reason,
            )
            self._records[side.label].append(record)


def _mean(turns: Sequence[Slice]) -> float:
    """Returns the mean seconds of an execution."""
    return sum(part.seconds for part in turns) / sum(part.seconds * part.rate for part in turns)


def execute_alone(group: Group, step: Step, *, restored: bool = False) -> bool:
    """Compares answers of a replay, then executes alone what its rounds call slower or faster. Returns
    whether servers were started for it. restored: they are stopped, and begin with the data of their
    snapshots."""
    if step.alone is None or len(group.here) < 2:
        return False
    base = next((participant for participant in group.here if participant.label == group.base), None)
    if base is None:
        return False
    others = [participant for participant in group.here if participant is not base]
    margin, watched = group.settings.margin, group.settings.until == "verdict"
    differing = candidates(base, others, watched=watched, margin=margin)
    if restored:
        group.draw_layout()
        group.each(Participant.restored)
        # Otherwise the data of one variant may differ from that of another.
        compare_answers(group, base, step)
    used = sum(part.seconds for participant in group.here for part in participant.slices)
    if base.error is None:
        execution = AloneExecution(
            base, group.here, step, margin=margin, seconds=budget(used), leave=group.attempt
        )
        execution.execute(differing)
        if group.settings.why_seconds:
            search_statement_causes(group, base, step, execution.slower)
    return restored


__all__ = ["AloneExecution", "Candidate", "budget", "candidates", "execute_alone"]
