"""Who gets which assignment next: rules only, no engine and no clock.

Assignments whose verdict is open come first, and of those the long ones: what is left at the end is short,
and what is known already can wait. Repeats of one workload go to different machines where there are several.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from pgstrata.fleet.assignments import Assignment


@dataclass(frozen=True)
class Candidate:
    """A machine as far as the rules look at it."""

    name: str
    kind: str


@dataclass
class Attempts:
    """What has become of an assignment: begun so often; who cannot do it, and the last reason."""

    begun: int = 0
    unfit: set[str] = field(default_factory=set)
    reason: str = ""


class Dispatcher:
    """The assignments of a campaign until each is done or has failed.

    most: so often each is begun. had: by workload the machines that measured repeats of it
    before.
    """

    def __init__(
        self,
        assignments: Iterable[Assignment],
        most: int,
        had: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._waiting: dict[tuple[str, str], list[Assignment]] = {}
        """By workload and kind, the best of each first: looking for the next one takes no longer where there
        are many."""
        self._running: dict[str, tuple[Assignment, str]] = {}
        self._attempts: dict[str, Attempts] = {}
        for assignment in assignments:
            self.add(assignment)
        self._had: Counter[tuple[str, str]] = Counter(had)
        self._most = most
        self.known: set[str] = set()
        """Workloads whose verdicts are all clear."""

    def add(self, assignment: Assignment) -> None:
        """Adds an assignment that has become known only now."""
        self._attempts[assignment.id] = Attempts()
        self._wait(assignment)

    @property
    def number_waiting(self) -> int:
        """How many nobody works at."""
        return sum(map(len, self._waiting.values()))

    @property
    def waiting(self) -> list[Assignment]:
        """Those that nobody works at, in the order of their value."""
        return sorted(chain.from_iterable(self._waiting.values()), key=self._value)

    @property
    def running(self) -> list[tuple[Assignment, str]]:
        """Those that are worked at, and by which machine."""
        return list(self._running.values())

    @property
    def finished(self) -> bool:
        return not self._waiting and not self._running

    def begun(self, assignment: Assignment) -> int:
        """Returns how often the assignment was begun."""
        return self._attempts[assignment.id].begun

    def _value(self, assignment: Assignment) -> tuple[bool, float, int]:
        return assignment.workload in self.known, *_length(assignment)

    def _wait(self, assignment: Assignment) -> None:
        group = self._waiting.setdefault((assignment.workload, assignment.kind), [])
        insort(group, assignment, key=_length)

    def _take(self, assignment: Assignment) -> None:
        group = self._waiting[assignment.workload, assignment.kind]
        group.remove(assignment)
        if not group:
            del self._waiting[assignment.workload, assignment.kind]

    def fits(self, assignment: Assignment, machine: Candidate) -> bool:
        """Returns whether this machine may do the assignment at all."""
        return assignment.suits(machine.kind) and machine.name not in self._attempts[assignment.id].unfit

    def next_for(self, machine: Candidate, coming: Collection[Candidate] = ()) -> Assignment | None:
        """Returns the next assignment for this machine, or None.

        coming: other machines that will be free in a moment. A further repeat of what this machine has
        measured already is left to them.
        """
        others = [other for other in coming if other.name != machine.name]
        firsts = (self._first_of(group, machine, others) for group in self._waiting.values())

        def key(assignment: Assignment) -> tuple[bool, int, tuple[bool, float, int]]:
            """Returns the key to sort by: open verdicts first, then workloads that this machine has measured
            least often."""
            value = self._value(assignment)
            return value[0], self._had[assignment.workload, machine.name], value

        return min((first for first in firsts if first is not None), key=key, default=None)

    def _first_of(
        self, group: Sequence[Assignment], machine: Candidate, others: Sequence[Candidate]
    ) -> Assignment | None:
        """Returns the best assignment of a single workload that this machine can do and need not leave to
        other machines."""
        for assignment in group:
            if not self.fits(assignment, machine):
                continue
            here = self._had[assignment.workload, machine.name]
            fewer = [other for other in others if self._had[assignment.workload, other.name] < here]
            if not any(self.fits(assignment, other) for other in fewer):
                return assignment
        return None

    def begin(self, assignment: Assignment, machine: str, *, begun: int | None = None) -> int:
        """Records that a machine works at the assignment from now on. Returns the number of the attempt, from
        1.

        begun: of one that an earlier client has begun.
        """
        self._take(assignment)
        self._running[assignment.id] = assignment, machine
        self._had[assignment.workload, machine] += 1
        attempts = self._attempts[assignment.id]
        attempts.begun = begun if begun is not None else attempts.begun + 1
        return attempts.begun

    def done(self, assignment: Assignment) -> None:
        """Records that the assignment has come home."""
        del self._running[assignment.id]

    def lost(self, assignment: Assignment, reason: str) -> bool:
        """Records that the assignment's machine was lost in the middle. Returns True if the assignment waits
        for another machine, False if it has failed."""
        machine = self._stop(assignment)
        attempts = self._attempts[assignment.id]
        attempts.reason = f"{machine}: {reason}"
        return self._again(assignment)

    def refused(self, assignment: Assignment, reason: str) -> bool:
        """Records that the assignment's machine cannot do it, and does not get it again. Returns the same as
        `lost`."""
        machine = self._stop(assignment)
        self._attempts[assignment.id].unfit.add(machine)
        self._attempts[assignment.id].reason = f"{machine}: {reason}"
        return self._again(assignment)

    def called_off(self, assignment: Assignment) -> None:
        """Makes the assignment wait again, as if it had not been begun."""
        self._stop(assignment)
        self._attempts[assignment.id].begun -= 1
        self._wait(assignment)

    def reason(self, assignment: Assignment) -> str:
        """Returns why the assignment was not done the last time."""
        return self._attempts[assignment.id].reason

    def give_up(self, assignment: Assignment) -> None:
        """Records that the assignment has failed: no machine is left that could do it."""
        self._take(assignment)

    def _stop(self, assignment: Assignment) -> str:
        _, machine = self._running.pop(assignment.id)
        self._had[assignment.workload, machine] -= 1
        return machine

    def _again(self, assignment: Assignment) -> bool:
        again = self._attempts[assignment.id].begun < self._most
        if again:
            self._wait(assignment)
        return again


def _length(assignment: Assignment) -> tuple[float, int]:
    return -assignment.seconds, assignment.repeat


__all__ = ["Candidate", "Dispatcher"]
