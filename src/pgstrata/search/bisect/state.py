"""What a search has measured, on disk: written whole after every measurement, so that any end leaves it
good."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from pgstrata.errors import StoreError, UsageError
from pgstrata.files import disk
from pgstrata.files.bounded import BoundError, json_as
from pgstrata.files.disk import read_regular, storing
from pgstrata.search.bisect.line import Range
from pgstrata.search.bisect.procedure import Asked, By, Procedure, TaskOutcome, Why

FILE = "bisect.json"
VERSION = 1
MOST_BYTES = 64 << 20

DISTURBED = 0.1
"""Share of the time of the CPUs from which on what others use of it disturbs a measurement of the rate."""


class Measurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One comparison: positions of its two servers, log ratio with its error, rates per second, when it was
    measured (ISO 8601), for how many seconds, and the campaign that holds its runs. others: share of the time
    of the CPUs that other programs used meanwhile. by: what was measured; empty: what the question says.
    plans: a sentence for each plan that changed. cpu: log ratio of the CPU per operation, turned as that of
    the rates."""

    base: int
    other: int
    why: Why
    log_ratio: float
    error: float
    pairs: int
    base_rate: float
    other_rate: float
    unit: str
    campaign: str
    measured_seconds: float
    build_seconds: float
    seconds: float
    at: str
    others: float = 0.0
    by: By | Literal[""] = ""
    plans: list[str] = []
    cpu: float | None = None

    @property
    def disturbed(self) -> bool:
        """Whether others used so much that a difference comes out smaller than it is."""
        return self.others > DISTURBED


class SetAside(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A position that cannot be measured, and why: no evidence."""

    position: int
    why: str
    at: str


class SameCode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A position whose server executes the same code as that of another one: it is not measured."""

    position: int
    other: int
    at: str


class State(msgspec.Struct, forbid_unknown_fields=True):
    """version: of this file. question: what decides the measurements. line: ids of all stops, good end
    first. disturbed: measurements that were made again, as others used the CPUs: no evidence. codes: digest
    of the code of each server that was built, by position. prior: how likely each commit was to have made the
    change; empty where it is not known yet. one_way: why the ends are not measured both ways;
    only: by what they are then."""

    version: int
    question: dict[str, Any]
    line: list[str]
    measured: list[Measurement] = []
    disturbed: list[Measurement] = []
    set_aside: list[SetAside] = []
    same: list[SameCode] = []
    codes: dict[int, str] = {}
    prior: list[float] = []
    one_way: str = ""
    only: By | Literal[""] = ""

    @property
    def steps(self) -> int:
        """How much is known: measurements, and positions that need none."""
        return len(self.measured) + len(self.set_aside) + len(self.same)

    @property
    def asked(self) -> Asked:
        """What the search goes by, as it was asked."""
        by: Asked = self.question.get("by", "rate")
        return by

    def by_of(self, measurement: Measurement) -> By:
        """Returns by which measure a measurement was made."""
        if measurement.by:
            return measurement.by
        return "rate" if self.asked == "both" else self.asked

    def measured_by(self, by: By) -> list[Measurement]:
        """Returns the measurements of one kind, in their order."""
        return [m for m in self.measured if self.by_of(m) == by]

    def procedure(self, smallest: float, by: By) -> Procedure:
        """Returns the search by one measure with all measurements of this state in it. smallest: log ratio
        that is looked for. Raises StoreError for positions that are not on the line."""
        seen = [TaskOutcome(m.base, m.other, m.log_ratio, m.error, by, m.why) for m in self.measured_by(by)]
        try:
            return Procedure(
                len(self.line) - 1,
                seen,
                [set_aside.position for set_aside in self.set_aside],
                smallest=smallest,
                same={same_code.position: same_code.other for same_code in self.same},
                prior=self.prior,
            )
        except ValueError as error:
            raise StoreError(f"{FILE} is damaged: {error}", "remove the folder to begin anew") from error


def now() -> str:
    """Returns the time as ISO 8601, in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def load(folder: Path) -> State | None:
    """Returns the state of a folder; None if it has none. Raises StoreError for a file that is damaged."""
    path = folder / FILE
    try:
        state = json_as(read_regular(path, MOST_BYTES), State)
    except FileNotFoundError:
        return None
    except (OSError, BoundError) as error:
        raise StoreError(
            f"{path} cannot be used: {getattr(error, 'strerror', None) or error}",
            "its search cannot go on: name another folder with --results, or remove this one",
        ) from error
    if state.version != VERSION:
        raise StoreError(
            f"{path} was written by another version of pgstrata", "name another folder with --results"
        )
    return state


def begin(folder: Path, line: Range, question: dict[str, Any]) -> State:
    """Returns the state of a search that may have begun already.

    Raises UsageError where the folder has one of another question, StoreError for one that is damaged.
    """
    ids = [stop.id for stop in line.stops]
    state = load(folder)
    if state is None:
        return State(VERSION, question, ids)
    differs = [key for key in {**state.question, **question} if state.question.get(key) != question.get(key)]
    if differs or state.line != ids:
        what = ", ".join(sorted(differs)) or f"the {line.kind}s"
        raise UsageError(
            f"{folder} holds a search that differs in {what}", "name another folder with --results"
        )
    return state


def save(folder: Path, state: State) -> None:
    """Writes the state whole or not at all, synced. Raises StoreError."""
    with storing("store the state of the search", folder):
        disk.replace(folder / FILE, msgspec.json.format(msgspec.json.encode(state), indent=1) + b"\n")


__all__ = ["FILE", "Measurement", "SameCode", "SetAside", "State", "begin", "load", "now", "save"]
