"""Work that capabilities give to the machines of a fleet: what travels, and what a machine does with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec
from rich.console import Console

from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.runs import Plan
from pgstrata.campaign.study import FleetSpec
from pgstrata.errors import UsageError
from pgstrata.files import digests
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.store import Run


@dataclass(frozen=True)
class Errand:
    """What one machine does as a whole.

    id: 16 hexadecimal digits, the same each time that the same is asked; name: for people. questions: what
    travels, each with the workload that is taken from its plan. servers: specs of those that are built or
    fetched there. asked: values that the function which does it decodes. runs: that come home.
    """

    id: str
    name: str
    questions: Sequence[tuple[Plan, ChosenWorkload]]
    servers: Sequence[str]
    asked: bytes
    runs: Sequence[PlannedRun] = ()


class Errands(Protocol):
    """What a command wants done, as a fleet asks for it: an errand at a time."""

    does: str
    """Name of the function that does it, among those that capabilities offer (`Capability.errands`)."""

    name: str
    """Of the whole, the same when the command is given again."""

    results: Path
    """Folder that is locked meanwhile, and that runs come home to."""

    fleet: FleetSpec
    most_seconds: float
    """After which a machine is to give an errand up."""

    def preferred(self, kinds: Sequence[str]) -> str:
        """Returns which of these kinds of machine all errands are kept to; empty where any will do, and the
        kind with most machines is taken."""
        ...

    def begin(self, kind: str) -> None:
        """Takes note of the kind of machine, before `next` is asked."""
        ...

    def next(self, number: int) -> Sequence[Errand]:
        """Returns errands to begin now, this number at most; none where nothing is due, or nothing before
        something comes home."""
        ...

    def earlier(self, id: str) -> Errand | None:
        """Returns the errand of this identity that an earlier start of the command has begun, from now on as
        one that `next` has returned; None if it is not wanted."""
        ...

    def arrived(self, errand: Errand, answer: bytes, runs: Sequence[Run]) -> None:
        """Takes in what a machine answers, and its runs, which are in the results folder. Raises UsageError
        or ServerError for what is no answer, StoreError."""
        ...

    def failed(self, errand: Errand, reason: str) -> None:
        """Takes note that no machine could do it."""
        ...


@dataclass(frozen=True)
class There:
    """What a machine has to do an errand with.

    campaigns: of the questions, in their order, with files of this machine. results: folder whose runs go
    home. lasting: folder that later errands of the same command find again on this machine. find: fetches or
    builds a server. check: raises where the end was asked for.
    """

    campaigns: Sequence[Campaign]
    asked: bytes
    results: Path
    lasting: Path
    kind: str
    find: Callable[[str, Build | None], Server] = field(repr=False)
    console: Console = field(repr=False)
    say: Callable[[str], None] = field(repr=False)
    check: Callable[[], None] = field(repr=False)


def errand_id(identity: object) -> str:
    """Returns the identity of an errand: the same for everything that is asked in the same way."""
    return digests.of(msgspec.json.encode(identity, order="sorted", enc_hook=str))[:16]


@contextmanager
def understood_as(what: str) -> Iterator[None]:
    """Decodes in the block what a client asked. Raises UsageError where that is not what it stands for."""
    try:
        yield
    except (msgspec.MsgspecError, ValueError) as error:
        hint = "client and workers must be of one release"
        raise UsageError(f"this is no {what}: {error}", hint) from error


__all__ = ["Errand", "Errands", "There", "errand_id", "understood_as"]
