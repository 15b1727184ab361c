"""Errands of a command as the machines of a fleet do them: machines of one kind, each with what it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from typing import Any

import msgspec

from pgstrata.errors import StoreError
from pgstrata.files import digests
from pgstrata.files.disk import storing
from pgstrata.fleet import provision
from pgstrata.fleet.admission import look_at, words_of
from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.home import ARRIVED, bring_home
from pgstrata.fleet.machine import driver_build
from pgstrata.fleet.portable import portable
from pgstrata.fleet.roles import Machine, RetryError, UnfitError
from pgstrata.fleet.tasks import Do, Done, Look, TreeParcel, Unable, decode_answer, encode
from pgstrata.measure.errands import Errand, Errands
from pgstrata.server.find.sources import is_source
from pgstrata.store import Results
from pgstrata.store.record import MachineRecord


class ErrandJob:
    """Errands until none is left. topic: under which machines tell how far they are."""

    def __init__(self, errands: Errands, topic: str) -> None:
        self._errands, self._topic = errands, topic
        self._results = Results(errands.results)
        self._driver = driver_build()
        self._place = self._results.root / ARRIVED
        self._mark = self._place / "mark"
        with storing("begin", self._results.root):
            self._place.mkdir(parents=True, exist_ok=True)
            self._mark.touch()
        self._kind = ""
        self._given: dict[str, Errand] = {}
        self.left: dict[str, Assignment] = {}
        """Assignments that are known and neither home nor failed."""
        self.words: dict[str, list[str]] = {}
        """Verdicts so far: none of errands."""
        self._tree: tuple[str, TreeParcel] | None = None
        """The first tree that was packed, which most errands need: the base of a count, an anchor."""

    def admit(self, machine: Machine, others: Sequence[Machine]) -> Generator[bytes | None, Any, None]:
        """Raises UnfitError where the machine takes no part: what machines of several kinds count is not
        comparable."""
        spec = self._errands.fleet
        look = Look(data_dir=None, servers=(), mark=str(self._mark.resolve()))
        seen = yield from look_at(machine, others, look, self._driver, spec.machines)
        while not self._kind and any(_is_looked_at(other) for other in others):
            machine.doing = "waits for others to say what they are"
            yield None
        if not self._kind:
            alike = [m.alike for m in (machine, *others) if m.alike and m.state == "arriving"]
            self._kind = self._errands.preferred(sorted(set(alike))) or Counter(alike).most_common(1)[0][0]
            self._errands.begin(self._kind)
        if seen.alike != self._kind:
            raise UnfitError(
                f"it is of another kind ({seen.alike}) than the machines that measure ({self._kind}), and "
                "counts of both are not comparable"
            )
        machine.record = MachineRecord(
            name=machine.name,
            kind=seen.kind,
            fingerprint=seen.fingerprint,
            qualification=None,
            trial=seen.trial,
        )

    def further(self, number: int) -> Sequence[Assignment] | None:
        if not self._kind:
            return ()
        return [self._known(errand) for errand in self._errands.next(number)] or None

    def earlier(self, id: str) -> Assignment | None:
        errand = self._errands.earlier(id)
        return None if errand is None else self._known(errand)

    def _known(self, errand: Errand) -> Assignment:
        assignment = Assignment(
            self._errands.name, 1, 0.0, runs=tuple(errand.runs), errand=errand.id, name=errand.name
        )
        self._given[errand.id] = errand
        self.left[errand.id] = assignment
        return assignment

    def task(self, assignment: Assignment, machine: Machine, attempt: int) -> bytes:
        """Raises UsageError, ServerError where it cannot travel."""
        errand = self._given[assignment.id]
        shared = self._place.resolve() / f"{assignment.id}-{attempt}.tar" if machine.shares else None
        if shared is not None:
            shared.unlink(missing_ok=True)
        owner = digests.of(f"{self._topic}\0{machine.name}")[:16]
        return encode(
            Do(
                does=self._errands.does,
                campaigns=tuple(portable(plan, chosen) for plan, chosen in errand.questions),
                asked=errand.asked,
                trees={spec: self._packed(spec, errand) for spec in errand.servers if is_source(spec)},
                machine=msgspec.structs.replace(machine.record, attempt=attempt),
                kind=machine.alike,
                folder=owner,
                limit=self._errands.most_seconds,
                topic=self._topic,
                shared=str(shared) if shared is not None else "",
            )
        )

    def _packed(self, spec: str, errand: Errand) -> TreeParcel:
        if self._tree is not None and self._tree[0] == spec:
            return self._tree[1]
        folder = errand.questions[0][0].campaign.folder
        packed = provision.packed_tree(spec, folder, lambda text: None)
        self._tree = self._tree or (spec, packed)
        return packed

    def arrived(self, assignment: Assignment, machine: str, answer: bytes) -> None:
        """Raises RetryError, ServerError and UsageError for what cannot be used, StoreError."""
        reply = decode_answer(answer)
        if isinstance(reply, Unable):
            raise RetryError(words_of(reply), fault=reply.machine and not reply.ended)
        if not isinstance(reply, Done) or (reply.runs is not None and not assignment.runs):
            raise RetryError(f"it answered with {type(reply).__name__} of something else")
        try:
            runs = [] if reply.runs is None else bring_home(self._results, assignment, reply.runs)
        except OSError as error:
            raise StoreError(f"{error.filename}: {error.strerror}") from error
        self._errands.arrived(self._given[assignment.id], reply.answer, runs)
        del self.left[assignment.id]

    def failed(self, assignment: Assignment, reason: str) -> None:
        del self.left[assignment.id]
        self._errands.failed(self._given[assignment.id], reason)

    def open_workloads(self) -> None:
        """Returns None: no errand is more wanted than another."""


def _is_looked_at(machine: Machine) -> bool:
    """Returns whether a machine was asked what it is and has not answered yet."""
    return machine.state == "arriving" and machine.admission is not None and not machine.alike


__all__ = ["ErrandJob"]
