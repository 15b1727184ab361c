"""What every workload has in common: how it is asked for, and how long and big it will be."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile
from typing import TYPE_CHECKING, Annotated, Any, Protocol, runtime_checkable

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    field_validator,
    model_validator,
)

from pgstrata.errors import UsageError
from pgstrata.files.user_files import shown
from pgstrata.server.features import Feature, Features
from pgstrata.workload.core.language import Phase

if TYPE_CHECKING:
    from pgstrata.page.blocks import Section
    from pgstrata.page.results import RunSet, WorkloadResults

SHORTEST_SECONDS = 0.001
LONGEST_SECONDS = 30 * 86_400.0
"""Of a step, a query or a wait: thirty days. Longer is a slip of the keyboard."""

MOST_ROWS = 10**12
"""Of a table: a hundred terabytes."""

MOST_RATE = 1e9
"""Per second: far more than a machine can do."""

MOST_CLIENTS = 10_000
"""Connections of a role: far more than a server takes."""

MOST_SEED = 2**53 - 1
"""JSON readers keep whole numbers up to here."""

Seconds = Annotated[float, Field(ge=SHORTEST_SECONDS, le=LONGEST_SECONDS)]
"""Of something that is measured."""

Wait = Annotated[float, Field(ge=0, le=LONGEST_SECONDS)]
"""Seconds of something that may be left out: a warm-up, a pause."""

WaitPerMillion = Annotated[float, Field(ge=0, le=86_400)]
"""Seconds of a pause for each million rows."""

Rows = Annotated[int, Field(ge=1, le=MOST_ROWS)]

Clients = Annotated[int, Field(ge=1, le=MOST_CLIENTS)]


def _one_or_more(value: object) -> object:
    if isinstance(value, str):
        return value.split()
    return (value,) if isinstance(value, int) else value


OneOrMore = BeforeValidator(_one_or_more)
"""Of a list: it may be one text with spaces between, a list of one number the number itself."""

_UP_TO = re.compile(r"(\d{1,9})\.\.(\d{1,9})", re.ASCII)


def _numbers_of_clients(value: object) -> object:
    values = _one_or_more(value)
    if not isinstance(value, str) or not isinstance(values, list):
        return values
    return [number for text in values for number in (_doubled(text) if ".." in text else [text])]


def _doubled(text: str) -> list[int]:
    """Returns the numbers that `1..48` stands for: 1, 2, 4, … 32, 48."""
    match = _UP_TO.fullmatch(text)
    first, last = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= first < last <= MOST_CLIENTS:
        raise ValueError(
            f"{shown(text)!r} is no range of clients: write 1..N, with N from 2 to {MOST_CLIENTS:,}"
        )
    return [*takewhile(lambda n: n < last, (first << step for step in count())), last]


def _as_named(value: tuple[int, ...]) -> int | list[int]:
    """Returns a single number as a number, not a list, as it was recorded before there were lists."""
    return value[0] if len(value) == 1 else list(value)


NumbersOfClients = BeforeValidator(_numbers_of_clients)
OneNumberPlain = PlainSerializer(_as_named)

ClientCounts = Annotated[tuple[Clients, ...], NumbersOfClients]
"""Numbers of connections, one after another: a list, a number, or a text with numbers and ranges such as
`1..48`, which doubles from 1 and ends in 48."""


REFINED = 4
"""Points that are added to a range of clients where nothing is said of them: two for a change of the verdict,
two for a knee."""


class NotInVersionError(UsageError):
    """A server of this version cannot do what the options ask for; others may."""


def need_feature(server: Features, feature: Feature, what: str, why: str) -> None:
    """Raises NotInVersionError for servers without a feature: of what, and why."""
    if not server.has(feature):
        raise NotInVersionError(
            f"{what} needs PostgreSQL {feature.since} or later: {why}", "leave out this version"
        )


class WorkloadOptions(BaseModel):
    """Options of every workload; a workload adds its own fields, each described with its unit."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    seed: int = Field(
        1,
        ge=0,
        le=MOST_SEED,
        description="seed of all random streams; the same seed gives the same rows and operations",
    )


FILLED_IN = "filled in"
"""Annotation of an option that pgstrata itself fills in."""


def is_filled_in(options: type[BaseModel], name: str) -> bool:
    """Returns whether pgstrata itself fills in an option."""
    field = options.model_fields.get(name)
    return field is not None and FILLED_IN in field.metadata


class CurveOptions(WorkloadOptions):
    """Options of a workload whose steps are measured with several numbers of clients."""

    refine: int = Field(
        0,
        ge=0,
        le=100,
        description="numbers of clients that may be added to three or more while variants take turns, where "
        f"a verdict changes or a rate stops growing; {REFINED} with a range such as `1..48`, else none",
    )

    @field_validator("clients", check_fields=False)
    @classmethod
    def _no_number_twice(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if twice := next((number for number in value if value.count(number) > 1), None):
            raise ValueError(f"{twice} stands there twice: name each number of clients once")
        return value

    @model_validator(mode="before")
    @classmethod
    def _ranges_are_refined(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "refine" in given:
            return given
        steps = given.get("steps")
        tables = [given, *(steps if isinstance(steps, list | tuple) else ())]
        clients = [table.get("clients") for table in tables if isinstance(table, dict)]
        has_range = any(isinstance(value, str) and ".." in value for value in clients)
        return given | {"refine": REFINED} if has_range else given


@dataclass(frozen=True)
class RunCost:
    """What a plan shows before anything ran: order of magnitude, from rates of a small current server.

    seconds: of all steps and settle waits of one run. disk_bytes: the data folder at its largest,
    write-ahead log included.
    """

    seconds: float
    disk_bytes: int


class NamedWorkload(Protocol):
    """The parts that all workloads share. `scales` are named option sets, for runs without a file."""

    @property
    def name(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def Options(self) -> type[WorkloadOptions]: ...

    @property
    def scales(self) -> Mapping[str, Mapping[str, Any]]: ...

    def estimate(self, options: Any) -> RunCost: ...


class WorkloadKind(NamedWorkload, Protocol):
    """A named benchmark."""

    def phases(self, options: Any, server: Features) -> list[Phase]:
        """Returns the phases of one run, in order, for a server with these features.

        Raises NotInVersionError where this server cannot do what the options ask for.
        """
        ...


@runtime_checkable
class Selectable(Protocol):
    """A workload whose steps can be measured alone, or for a time of one's own."""

    def only(self, steps: Sequence[str], seconds: float) -> Mapping[str, Any]:
        """Returns options with which these steps are measured for `seconds` each, and as little else as
        possible. Names that the workload does not know are ignored: the caller looks at the phases."""
        ...


@runtime_checkable
class Divisible(Protocol):
    """A workload whose steps do without one another: some of them can be measured on another machine."""

    def part(self, steps: Sequence[str]) -> Mapping[str, Any]:
        """Returns options with which only these steps of the workload are measured, each for as long as
        ever."""
        ...


@runtime_checkable
class NeedsExtensions(Protocol):
    """A workload that some servers cannot run because they lack an extension."""

    def extensions(self, options: Any) -> Sequence[str]:
        """Returns the extensions' names as CREATE EXTENSION takes them; looked for in every server before
        anything starts."""
        ...


@runtime_checkable
class NamesFiles(Protocol):
    """Options that name files or folders, which have to be there where a run is measured."""

    def files(self) -> Iterator[str]:
        """Yields the name of each file, as the options have it."""
        ...


@runtime_checkable
class OwnReport(Protocol):
    """A workload that has a section of its own in the report."""

    def report(self, results: RunSet, workload: WorkloadResults) -> Section | None:
        """Returns the report's section of one workload of the campaign; None if its runs have nothing of the
        kind."""
        ...
