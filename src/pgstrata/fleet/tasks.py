"""What a worker may be asked, and what it answers: typed values, never code, and no passwords.

They travel as MessagePack. A worker decodes them with the types below and refuses whatever does not fit, so
that the only thing a client can choose is one of these tasks and its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Struct

from pgstrata.errors import PgstrataError, UsageError
from pgstrata.store.record import Count, MachineRecord, Ordinal, Qualification, ServerRecord

Json = dict[str, Any]


class Parcel(Struct, frozen=True, kw_only=True):
    """Files on their way, as a compressed tar archive with its digest (SHA-256, hexadecimal).

    content: the archive; empty where it lies at `shared`, a path that both sides can read.
    """

    digest: str
    content: bytes = b""
    shared: str = ""


class Wanted(Struct, frozen=True, kw_only=True):
    """A server that a campaign needs.

    spec: resolved (`pg:17.11`), or of a source tree; variant: the number of the first variant that has it,
    from 0, which says what it is built with.
    """

    spec: str
    variant: Count

    @property
    def travels(self) -> bool:
        """Whether it is made once for each kind of machine and sent to the others."""
        return self.spec.partition(":")[0] not in ("path", "dsn")


class TreeParcel(Struct, frozen=True, kw_only=True):
    """A source tree that lies on the client's machine only."""

    origin: str
    label: str
    identity: str
    version: str
    facts: Json
    files: Parcel


class Portable(Struct, frozen=True, kw_only=True):
    """A campaign of one workload as it travels: resolved servers, checked options, texts of its files.

    document: a study as JSON holds it. options: what runs record as the workload's. files: by their name
    below the folder that the campaign gets there; paths: of the client, to names in `files`.
    """

    document: Json
    options: Json
    files: dict[str, bytes]
    paths: dict[str, str]


class Provided(Struct, frozen=True, kw_only=True, tag="provided"):
    """A server as it lies in the cache of a machine: below `servers`, in `folder`."""

    spec: str
    variant: Count
    server: ServerRecord
    folder: str
    files: Parcel


# --- tasks ------------------------------------------------------------------------------------


class Look(Struct, frozen=True, kw_only=True, tag="look"):
    """What is this machine, and may it take part? data_dir: that of the campaign; mark: a file of the
    client's results folder, which a machine that shares it can see."""

    data_dir: str | None
    servers: tuple[Wanted, ...]
    mark: str = ""


class Provide(Struct, frozen=True, kw_only=True, tag="provide"):
    """Fetch or build a server, and send it."""

    campaign: Portable
    server: Wanted
    topic: str
    tree: TreeParcel | None = None


class Install(Struct, frozen=True, kw_only=True, tag="install"):
    """Put a server that another machine has made into the cache."""

    server: Provided


class Qualify(Struct, frozen=True, kw_only=True, tag="qualify"):
    """Look at the machine and measure the base against itself for `seconds` of each of two clusters.

    margin: what it has to see in `minutes`. number: of the base among the variants, from 0.
    """

    campaign: Portable
    servers: tuple[Provided, ...]
    number: Count
    seconds: float
    minutes: float
    margin: float
    disk_bytes: Count
    topic: str


class Compare(Struct, frozen=True, kw_only=True, tag="compare"):
    """Measure one repeat of a workload on all variants.

    machine: what its runs say of where they were made. limit: seconds after which it is ended. shared: a
    folder that the client reads, too, for what is sent back.
    """

    campaign: Portable
    servers: tuple[Provided, ...]
    repeat: Ordinal
    machine: MachineRecord
    limit: float
    topic: str
    shared: str = ""


class Do(Struct, frozen=True, kw_only=True, tag="do"):
    """Do what a capability offers to fleets under the name `does` (`Capability.errands`).

    asked: values that its function decodes, and refuses where they do not fit. trees: of the servers that are
    built for it, by spec. kind: of this machine, as it said itself. folder: name of the one that stays there
    for what follows. limit, shared: as of a comparison.
    """

    does: str
    campaigns: tuple[Portable, ...]
    asked: bytes
    trees: dict[str, TreeParcel]
    machine: MachineRecord
    kind: str
    folder: str
    limit: float
    topic: str
    shared: str = ""


Task = Look | Provide | Install | Qualify | Compare | Do


# --- answers ----------------------------------------------------------------------------------


class SeenMachine(Struct, frozen=True, kw_only=True, tag="seen"):
    """A machine: its name, its host's identity, its kind, and what decides whether it may take part.

    alike: the kind by which counts are comparable: CPU model, C library and compiler.
    clock: seconds since 1970 there. cpus: numbers of those it may use. have: specs of the servers that are
    there already. shares: whether it sees the client's results folder.
    """

    name: str
    host: str
    kind: str
    alike: str
    fingerprint: str
    trial: bool
    pgstrata: str
    driver: str
    clock: float
    cpus: tuple[int, ...]
    have: tuple[str, ...]
    shares: bool


class Installed(Struct, frozen=True, kw_only=True, tag="installed"):
    """The server is in the cache."""


class Qualified(Struct, frozen=True, kw_only=True, tag="qualified"):
    """What the machine can see; problem: why it takes no part, empty where it does."""

    qualification: Qualification
    problem: str = ""


class MeasuredRuns(Struct, frozen=True, kw_only=True, tag="measured"):
    """The run folders of a comparison, failed runs among them."""

    runs: Parcel
    failed: tuple[str, ...] = ()


class Done(Struct, frozen=True, kw_only=True, tag="done"):
    """What the function of a capability answers, and the runs that it has made."""

    answer: bytes
    runs: Parcel | None = None


class Unable(Struct, frozen=True, kw_only=True, tag="unable"):
    """What was asked did not come to an end, and nothing is left of it.

    machine: the machine's fault, so that another one may do it; else it would fail anywhere. ended: it was
    told to stop.
    """

    message: str
    hint: str = ""
    machine: bool = True
    ended: bool = False


Answer = SeenMachine | Provided | Installed | Qualified | MeasuredRuns | Done | Unable

_TASK: msgspec.msgpack.Decoder[Task] = msgspec.msgpack.Decoder(Task)
_ANSWER: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer)


def encode(value: Task | Answer) -> bytes:
    """Encodes a task or an answer as it travels."""
    return msgspec.msgpack.encode(value)


def decode_task(text: bytes) -> Task:
    """Raises UsageError for what is no task."""
    with _refusing("task"):
        return _TASK.decode(text)


def decode_answer(text: bytes) -> Answer:
    """Raises UsageError for what is no answer."""
    with _refusing("answer"):
        return _ANSWER.decode(text)


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    try:
        yield
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UsageError(
            f"this is no {what} of a fleet: {error}", "client and workers must be of the same release"
        ) from error


def unable(error: PgstrataError | OSError) -> Unable:
    """Returns an error of a machine as an answer."""
    if isinstance(error, PgstrataError):
        return Unable(message=error.message, hint=error.hint)
    return Unable(message=f"{error.filename or 'the machine'}: {error.strerror or error}")
