"""Who gets which assignment next: rules only, no engine and no clock.

Assignments whose verdict is open come first, and of those the long ones: what is left at the end is short,
and what is known already can wait. Repeats of one workload go to different machines where there are several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

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
        self._waiting = {one.id: one for one in assignments}
        self._running: dict[str, tuple[Assignment, str]] = {}
        self._attempts = {id_: Attempts() for id_ in self._waiting}
        self._had: Counter[tuple[str, str]] = Counter(had)
        self._most = most
        self.known: set[str] = set()
        """Workloads whose verdicts are all clear."""

    @property
    def waiting(self) -> list[Assignment]:
        """Those that nobody works at, in the order of their value."""
        return sorted(self._waiting.values(), key=self._value)

    @property
    def running(self) -> list[tuple[Assignment, str]]:
        """Those that are worked at, and by which machine."""
        return list(self._running.values())

    @property
    def finished(self) -> bool:
        return not self._waiting and not self._running

    def begun(self, assignment: Assignment) -> int:
        """How often it was begun."""
        return self._attempts[assignment.id].begun

    def _value(self, assignment: Assignment) -> tuple[bool, float, int]:
        return assignment.workload in self.known, -assignment.seconds, assignment.repeat

    def fits(self, assignment: Assignment, machine: Candidate) -> bool:
        """Whether this machine may do it at all."""
        fits_kind = not assignment.kind or fnmatchcase(machine.kind.lower(), assignment.kind.lower())
        return fits_kind and machine.name not in self._attempts[assignment.id].unfit

    def next_for(self, machine: Candidate, coming: Collection[Candidate] = ()) -> Assignment | None:
        """What this machine does next; None where nothing is for it.

        coming: other machines that will be free in a moment. A further repeat of what this machine has
        measured already is left to them.
        """
        best: tuple[int, tuple[bool, float, int], Assignment] | None = None
        for assignment in self._waiting.values():
            if not self.fits(assignment, machine):
                continue
            here = self._had[assignment.workload, machine.name]
            others = (other for other in coming if other.name != machine.name)
            if here and any(
                self.fits(assignment, other) and self._had[assignment.workload, other.name] < here
                for other in others
            ):
                continue
            value = self._value(assignment)
            # Open verdicts before anything, then who has not measured it yet.
            key = (int(value[0]) * 1_000_000 + here, value, assignment)
            if best is None or key[:2] < best[:2]:
                best = key
        return best[2] if best is not None else None

    def begin(self, assignment: Assignment, machine: str, *, begun: int | None = None) -> int:
        """A machine works at it from now on. Returns which attempt that is, from 1.

        begun: of one that an earlier client has begun.
        """
        del self._waiting[assignment.id]
        self._running[assignment.id] = assignment, machine
        self._had[assignment.workload, machine] += 1
        attempts = self._attempts[assignment.id]
        attempts.begun = begun if begun is not None else attempts.begun + 1
        return attempts.begun

    def done(self, assignment: Assignment) -> None:
        """It has come home."""
        del self._running[assignment.id]

    def lost(self, assignment: Assignment, reason: str) -> bool:
        """Its machine was lost in the middle. Whether it waits for another one; else it has failed."""
        machine = self._stop(assignment)
        attempts = self._attempts[assignment.id]
        attempts.reason = f"{machine}: {reason}"
        return self._again(assignment)

    def refused(self, assignment: Assignment, reason: str) -> bool:
        """Its machine cannot do it, and does not get it again. The same answer as `lost`."""
        machine = self._stop(assignment)
        self._attempts[assignment.id].unfit.add(machine)
        self._attempts[assignment.id].reason = f"{machine}: {reason}"
        return self._again(assignment)

    def called_off(self, assignment: Assignment) -> None:
        """It waits again, as if it had not been begun."""
        self._stop(assignment)
        self._attempts[assignment.id].begun -= 1
        self._waiting[assignment.id] = assignment

    def reason(self, assignment: Assignment) -> str:
        """Why it was not done the last time."""
        return self._attempts[assignment.id].reason

    def give_up(self, assignment: Assignment) -> None:
        """It has failed: no machine is left that could do it."""
        del self._waiting[assignment.id]

    def _stop(self, assignment: Assignment) -> str:
        _, machine = self._running.pop(assignment.id)
        self._had[assignment.workload, machine] -= 1
        return machine

    def _again(self, assignment: Assignment) -> bool:
        again = self._attempts[assignment.id].begun < self._most
        if again:
            self._waiting[assignment.id] = assignment
        return again


__all__ = ["Candidate", "Dispatcher"]
