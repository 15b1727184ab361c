"""Who takes part in a campaign on a fleet besides the engine: machines, the job that is done on them, and who
watches."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.dispatch import Candidate
from pgstrata.fleet.engine import Call, WorkerInfo

State = Literal["arriving", "ready", "measuring", "out", "gone"]


@dataclass
class Machine:
    """A machine as the client sees it. doing: in words; since: monotonic clock."""

    worker: WorkerInfo
    name: str
    kind: str = ""
    alike: str = ""
    host: str = ""
    state: State = "arriving"
    why: str = ""
    doing: str = ""
    assignment: Assignment | None = None
    since: float = field(default_factory=time.monotonic)
    left: float | None = None
    record: Any = None
    shares: bool = False
    call: Call | None = None
    admission: Generator[bytes | None, Any, None] | None = None
    unsure: bool = False
    """Whether a call was lost, so that it may be gone itself."""

    @property
    def address(self) -> str:
        return self.worker.address

    @property
    def candidate(self) -> Candidate:
        return Candidate(self.name, self.kind)


class UnfitError(Exception):
    """A machine takes no part, and why."""


class RetryError(Exception):
    """What a machine sent cannot be used; the assignment begins again elsewhere.

    fault: of the machine, which does not get it again.
    """

    def __init__(self, reason: str, *, fault: bool = True) -> None:
        super().__init__(reason)
        self.fault = fault


class FleetWork(Protocol):
    """What the machines are there for."""

    def admit(self, machine: Machine, others: Sequence[Machine]) -> Generator[bytes | None, Any, None]:
        """Yields tasks and gets their answers (bytes), or None to wait a moment; ends when the machine is
        ready. Raises UnfitError."""
        ...

    def task(self, assignment: Assignment, machine: Machine, attempt: int) -> bytes:
        """Returns the task for the machine. Raises UnfitError if the machine is not ready for this
        assignment."""
        ...

    def arrived(self, assignment: Assignment, machine: str, answer: bytes) -> None:
        """Takes an answer in. Raises RetryError, StoreError."""
        ...

    def failed(self, assignment: Assignment, reason: str) -> None:
        """Records a failed assignment: no further attempt is made. Raises StoreError."""
        ...

    def further(self, number: int) -> Sequence[Assignment] | None:
        """Returns assignments that have become known, this number at most; None where no more will come as
        long as nothing comes home."""
        ...

    def earlier(self, id: str) -> Assignment | None:
        """Returns an assignment that an earlier client has begun and that is not known yet, from now on as
        one that `further` has returned; None if it is not wanted."""
        ...

    def open_workloads(self) -> set[str] | None:
        """Returns the workloads whose verdicts are open; None where nothing has changed."""
        ...


class Watcher(Protocol):
    """What people and scripts are told."""

    def machine(self, machine: Machine, event: str) -> None:
        """Reports an event of a machine: `joins`, `ready`, `out`, `gone`, `begins`, `done`, `again`."""
        ...

    def assignment(self, assignment: Assignment, event: str, machine: str, reason: str) -> None:
        """Reports an event of an assignment: `begins`, `found`, `home`, `again`, `failed`, `waits` (for a
        machine of its kind)."""
        ...

    def refresh(self, machines: Sequence[Machine]) -> None:
        """Refreshes the display; called a few times a second."""
        ...


__all__ = ["FleetWork", "Machine", "RetryError", "State", "UnfitError", "Watcher"]
