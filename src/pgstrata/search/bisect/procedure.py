"""What is measured next, from both ends to the commit that is found: decided by what was measured, nothing
else.

No I/O and no clock: the same outcomes lead to the same tasks, so a search that was stopped goes on where it
was by replaying what it had measured, and a simulation goes through the same procedure as a real search.

1. The bad end against the good one, twice at least, each time with servers started anew. Unless the
   difference is PROOF standard errors there is no search. Looking up to MOST_ENDS times at 3 standard errors
   accuses a range without a change in less than 1 of 100 cases.
2. Positions between them against the good end, each the one expected to tell most (`search.Search`), until
   every change is down to one commit, or to neighbours of which none can be built.
3. What was found against the commit before it. Where that contradicts, both are measured once more against
   the good end, and the search goes on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from pgstrata.search.bisect.search import Outcome, Search, pooled

PROOF = 3.0
"""Standard errors by which the ends must differ."""

LEAST_ENDS, MOST_ENDS = 2, 6
"""How often the ends are measured against each other before there is a search, or none."""

By = Literal["rate", "instructions"]
Asked = Literal["rate", "instructions", "both"]
"""What a search goes by; `both`: the measure by which the ends differ."""

BUILD_ERROR: Mapping[By, float] = {"rate": 0.003, "instructions": 0.0003}
"""Standard deviation of a log ratio from build to build, where code lies being moved by changes that do
nothing; of counts from start to start, too. What a start adds to a rate is in the error of its measurement
(`stats.estimate.START_ERROR`)."""

SAME = Outcome(0.0, 1e-9)
"""What is known of a server that executes the same code as the good end."""

MOST_DOUBTS = 2
"""How often a comparison of neighbours may send the search on."""

MOST_MEASUREMENTS = 80

Why = Literal["ends", "search", "culprit", "doubt"]


def change_of(log_ratio: float, by: By) -> float:
    """Returns the relative change of the rate (0.01: 1 % faster) or of the instructions (0.01: 1 % more)."""
    log = -log_ratio if by == "instructions" else log_ratio
    return math.expm1(log) if abs(log) < 50 else math.inf


@dataclass(frozen=True)
class Task:
    """Measure position `other` against position `base` (0: the good end)."""

    base: int
    other: int
    why: Why


@dataclass(frozen=True)
class TaskOutcome:
    """An outcome of a task: log ratio of the rates, and the standard error of this one measurement.

    by: what was measured; the ratio of instructions is turned over, so that below 0 is worse for both. why:
    as the task says.
    """

    base: int
    other: int
    log_ratio: float
    error: float
    by: By = "rate"
    why: Why = "search"

    @property
    def is_evidence(self) -> bool:
        """Whether the search goes by it. What was found, measured against what is before it, is profiled."""
        return self.base == 0 and self.why != "culprit"

    @property
    def is_profile(self) -> bool:
        """Whether it tells the functions in which both differ. Counted instructions always do."""
        return self.by == "instructions" or self.why == "culprit"

    @property
    def outcome(self) -> Outcome:
        """With the error that stays with a build."""
        return Outcome(self.log_ratio, math.hypot(self.error, BUILD_ERROR[self.by]))


@dataclass(frozen=True)
class Group:
    """The credible set of a change: commits first … last, one of which made it; one where first is last.

    size: how many of them are in it: not those that measurements have cleared. probability: that a change is
    among them. against_parent: the last against the one before the first, log ratio and error, None where it
    was not measured.
    """

    first: int
    last: int
    size: int
    probability: float
    against_parent: Outcome | None = None

    @property
    def confirmed(self) -> bool:
        """Whether it was measured to differ from what is before it."""
        against = self.against_parent
        return against is not None and abs(against.log_ratio) >= 2 * against.error


@dataclass(frozen=True)
class Conclusion:
    """What is known now.

    state: `ends` while these are measured, `none` where they do not differ, `open` during the search,
    `found`. effect: log ratio of bad to good with its standard error. visible: the smallest log ratio that
    would have been proven in 9 of 10 cases. groups: of each change that is suspected, in the order of the
    commits.
    """

    state: Literal["ends", "none", "open", "found"]
    effect: Outcome | None
    visible: float
    groups: Sequence[Group] = ()
    several: float = 0.0


class Procedure:
    """A search over n commits. seen: every outcome in its order; broken: positions that cannot be measured.

    smallest: log ratio below which a difference is not looked for. same, prior: as a `Search` has them.
    """

    def __init__(
        self,
        n: int,
        seen: Sequence[TaskOutcome] = (),
        broken: Sequence[int] = (),
        *,
        smallest: float = 0.01,
        same: Mapping[int, int] | None = None,
        prior: Sequence[float] = (),
    ) -> None:
        self.n, self.seen, self.smallest = n, list(seen), smallest
        self.search = Search(n, broken=set(broken), same=dict(same or {}), prior=prior)
        for task_outcome in self.seen:
            self._note(task_outcome)

    def add(self, task_outcome: TaskOutcome) -> None:
        """Takes the outcome of a task. Raises ValueError for what is no measurement."""
        self._note(task_outcome)
        self.seen.append(task_outcome)

    def set_aside(self, position: int) -> None:
        """Skips a position that does not build, or whose server does not start. Raises ValueError for an
        end."""
        if position in (0, self.n):
            raise ValueError("an end cannot be skipped")
        self.search.set_aside(position)

    def _note(self, task_outcome: TaskOutcome) -> None:
        if task_outcome.is_evidence:
            self.search.add(task_outcome.other, task_outcome.outcome)

    # --- the next task ------------------------------------------------------------------------

    def next(self) -> Task | None:
        """Returns what to measure now; None at the end."""
        state = self.ends
        if state == "ends":
            return Task(0, self.n, "ends")
        if state == "none" or len(self.seen) >= MOST_MEASUREMENTS:
            return None
        if (doubted := self._doubted()) is not None:
            return Task(0, doubted, "doubt")
        if not self.search.is_found():
            position = self.search.next_position(self.expected_error)
            return None if position is None else Task(0, position, "search")
        for group in self._groups():
            # Also where that is the good end, against which everything was measured: now for its profile.
            task = Task(group.first - 1, group.last, "culprit")
            if not any(
                (task_outcome.base, task_outcome.other) == (task.base, task.other) and task_outcome.is_profile
                for task_outcome in self.seen
            ):
                return task
        return None

    @property
    def expected_error(self) -> float:
        """Of the next measurement: what the others had."""
        return (
            median(task_outcome.outcome.error for task_outcome in self.seen)
            if self.seen
            else BUILD_ERROR["rate"]
        )

    # --- what is known ------------------------------------------------------------------------

    def conclusion(self) -> Conclusion:
        state = self.ends
        effect = self.effect
        visible = math.inf if effect is None else (PROOF + 1.28) * effect.error
        if state != "open" or effect is None:
            return Conclusion("ends" if state == "ends" else "none", effect, visible)
        is_found = self.search.is_found() and self._doubted() is None
        several = self.search.knowledge().several
        return Conclusion("found" if is_found else "open", effect, visible, self._groups(), several)

    @property
    def ends_are_the_same(self) -> bool:
        """Whether the servers of both ends execute the same code, so that nothing is measured."""
        return self.search.same.get(self.n) == 0

    @property
    def effect(self) -> Outcome | None:
        """The bad end against the good one, all measurements together; None where there are none."""
        if self.ends_are_the_same:
            return SAME
        ends = [task_outcome.outcome for task_outcome in self._of_ends()]
        return pooled(ends) if ends else None

    def _of_ends(self) -> list[TaskOutcome]:
        return [
            task_outcome
            for task_outcome in self.seen
            if task_outcome.is_evidence and task_outcome.other == self.n
        ]

    @property
    def times_of_ends(self) -> int:
        """How often the ends were measured against each other."""
        return len(self._of_ends())

    @property
    def ends(self) -> Literal["ends", "none", "open"]:
        """What is known of the ends: not enough, no difference, or one whose commit is looked for."""
        if self.ends_are_the_same:
            return "none"
        if any((task_outcome.base, task_outcome.other) != (0, self.n) for task_outcome in self.seen):
            return "open"  # it was proven once; measuring the end again in the search does not end it
        effect = self.effect
        if effect is None or self.times_of_ends < LEAST_ENDS:
            return "ends"
        if abs(effect.log_ratio) >= PROOF * effect.error and abs(effect.log_ratio) >= self.smallest / 2:
            return "open"
        within = abs(effect.log_ratio) + 2 * effect.error < self.smallest
        return "none" if within or self.times_of_ends >= MOST_ENDS else "ends"

    def _groups(self) -> list[Group]:
        return [
            Group(
                g[0].first,
                g[-1].last,
                sum(i.size for i in g),
                min(1.0, sum(i.probability for i in g)),
                self._against_parent(g[0].first - 1, g[-1].last),
            )
            for g in self.search.knowledge().credible()
        ]

    def _against_parent(self, base: int, other: int) -> Outcome | None:
        outcomes = [
            task_outcome.outcome
            for task_outcome in self.seen
            if (task_outcome.base, task_outcome.other) == (base, other)
        ]
        return pooled(outcomes) if outcomes else None

    def _contradicts(self, outcome: Outcome, effect: Outcome) -> bool:
        """Returns whether neighbours differ by something else than the change that is suspected between them.

        One change is all of the difference of the ends. What each of several is, these do not tell: then only
        neighbours that do not differ at all contradict."""
        if self.search.knowledge().several > 0.5:
            return abs(outcome.log_ratio) < 2 * outcome.error
        return abs(outcome.log_ratio - effect.log_ratio) > PROOF * math.hypot(outcome.error, effect.error)

    def _doubted(self) -> int | None:
        """Returns a position to be measured again because neighbours differ by something else than they
        should; None if there is none."""
        effect = self.effect
        doubts = 0
        for place, task_outcome in enumerate(self.seen):
            if task_outcome.base == 0 or effect is None:
                continue
            if not self._contradicts(task_outcome.outcome, effect):
                continue
            doubts += 1
            if doubts > MOST_DOUBTS:
                break
            after = {later.other for later in self.seen[place + 1 :] if later.base == 0}
            for position in (task_outcome.base, task_outcome.other):
                if position not in after and position > 0 and position not in self.search.broken:
                    return position
        return None


__all__ = [
    "BUILD_ERROR",
    "PROOF",
    "Asked",
    "By",
    "Conclusion",
    "Group",
    "Procedure",
    "Task",
    "TaskOutcome",
    "Why",
    "change_of",
]
