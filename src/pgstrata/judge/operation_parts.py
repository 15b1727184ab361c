"""Where the time of an operation went that is slower or faster: parts that exclude each other, on both sides.

A client that works without pause spends clients ÷ (rate per second) on each operation. The kernel tells how
much of that its backend had a CPU, and the driver; samples of wait events tell as shares what the backend
waited for. What it waited for its client is the driver's CPU first. What it was not waiting, by the samples,
and had no CPU, by the kernel, it waited for one. Figures are of whole steps, and those of samples have an
error; the difference they are held against is that of the verdict, so a rest may be left.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from msgspec import Struct

from pgstrata import numbers
from pgstrata.judge.costs import connection_cpu, step_cost
from pgstrata.judge.divided import Divided, TwoSides
from pgstrata.judge.summary import sla_of
from pgstrata.stats.rates import over_repeats
from pgstrata.store.record import StepRecord
from pgstrata.units import parse_unit, seconds_per_operation

PartName = Literal[
    "connections", "driver", "cpu_wait", "running", "locks", "lwlocks", "io", "client", "other"
]

LABELS: Mapping[PartName, str] = {
    "connections": "CPU of the {role} connections",
    "driver": "CPU of the driver",
    "cpu_wait": "waiting for a CPU",
    "running": "on a CPU or waiting for one",
    "locks": "waiting for locks",
    "lwlocks": "waiting for LWLocks",
    "io": "waiting for I/O",
    "client": "waiting for the driver",
    "other": "other waits",
}

DIFFERENT = 0.25
"""Of the change by the verdict: whole steps that are further from it have no parts of it."""

ERRORS = 2.0
"""Standard errors within which a sampled part may not have moved."""

NAMED_EVENT = 0.2
"""Of the difference of its group: from this share on an event is named."""

_GROUPS: Mapping[str, PartName] = {
    "lock": "locks",
    "bufferpin": "locks",
    "buffer": "locks",
    "lwlock": "lwlocks",
    "lwlocknamed": "lwlocks",
    "lwlocktranche": "lwlocks",
    "io": "io",
    "client": "client",
}
"""By the type of a wait event, as servers from 9.6 on spell it, in small letters."""

_MOST_EVENTS = 3
"""That are named of a group."""


class OperationPartRecord(Struct, frozen=True, kw_only=True):
    """A part of an operation in JSON."""

    name: PartName
    events: tuple[str, ...]
    base_seconds: float
    other_seconds: float
    difference_seconds: float
    error_seconds: float | None


class OperationPartsRecord(Struct, frozen=True, kw_only=True):
    """The parts of an operation in JSON."""

    base_seconds: float
    other_seconds: float
    difference_seconds: float
    parts: tuple[OperationPartRecord, ...]
    sum_seconds: float | None
    unexplained_seconds: float | None
    not_apart: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class OperationPart(TwoSides):
    """Seconds of one part of an operation on both sides. label: for people; events: wait events of it that
    moved most; error: standard error of the difference, None where no sample is in it or that is not
    known."""

    name: PartName
    label: str
    base: float
    other: float
    events: tuple[str, ...] = ()
    error: float | None = None

    @property
    def title(self) -> str:
        """Its label, with the events that moved most."""
        return f"{self.label}: {' and '.join(self.events)}" if self.events else self.label

    @property
    def is_moved(self) -> bool:
        """Whether its difference is beyond the error of its samples."""
        return self.error is None or abs(self.difference) > ERRORS * self.error


@dataclass(frozen=True)
class OperationParts(Divided):
    """An operation of one client in seconds: base, that of the base's rate, and other, that ÷ the ratio of
    the verdict.

    parts: of whole steps; noun: what an operation is called; whole: its difference by the rates of whole
    steps; not_apart: what cannot be told apart; reason: why the parts are none of this difference, else
    empty.
    """

    base: float
    other: float
    whole: float
    noun: str
    parts: tuple[OperationPart, ...]
    not_apart: tuple[str, ...] = ()
    reason: str = ""

    def share(self, part: OperationPart) -> float | None:
        """Returns the share of a part in the difference; None where that is open."""
        return None if self.reason or not self.difference else part.difference / self.difference

    def record(self) -> OperationPartsRecord:
        """Returns the parts as JSON can hold them."""
        return OperationPartsRecord(
            base_seconds=self.base,
            other_seconds=self.other,
            difference_seconds=self.difference,
            parts=()
            if self.reason
            else tuple(
                OperationPartRecord(
                    name=part.name,
                    events=part.events,
                    base_seconds=part.base,
                    other_seconds=part.other,
                    difference_seconds=part.difference,
                    error_seconds=part.error,
                )
                for part in self.parts
            ),
            sum_seconds=None if self.reason else self.sum,
            unexplained_seconds=None if self.reason else self.unexplained,
            not_apart=() if self.reason else self.not_apart,
            reason=self.reason,
        )


def operation_parts(
    base: Sequence[StepRecord], other: Sequence[StepRecord], ratio: float | None = None
) -> OperationParts | None:
    """Returns the parts of an operation's time under the base and under another variant, from the repeats of
    a step.

    ratio: that of the verdict (`judge.compare`), else the one of both rates. Figures of parts are medians
    over the repeats. None where the rates cannot be compared: one is missing or not positive, or an SLA was
    missed.
    """
    if sla_of(base) is False or sla_of(other) is False:
        return None
    base, other = ([record for record in side if record.rate] for side in (base, other))
    rates = [over_repeats([record.rate or 0.0 for record in side]) for side in (base, other)]
    if rates[0] is None or rates[1] is None:
        return None
    whole = rates[1].value / rates[0].value
    before = seconds_per_operation(rates[0].value, base[0].rate_unit, _clients(base[0]))
    after = before / (whole if ratio is None else ratio)
    measured = _Measured.of([*base, *other])
    parts = _parts(_Side(base, measured), _Side(other, measured))
    change, of_whole = after - before, before / whole - before
    reason = ""
    if base[0].replay is not None:
        reason = "sessions of a replay wait between statements; each statement has its own time"
    elif not parts:
        reason = "neither CPU nor wait events of both sides are known"
    elif abs(change - of_whole) > DIFFERENT * abs(change):
        by_steps, by_verdict = (numbers.longer(1 + part / before) for part in (of_whole, change))
        reason = f"by the whole steps an operation takes {by_steps}, by the verdict {by_verdict}"
    noun = parse_unit(base[0].rate_unit).noun
    return OperationParts(before, after, of_whole, noun, tuple(parts), measured.not_apart, reason)


@dataclass(frozen=True)
class _Measured:
    """What is known of all repeats of both sides: CPU of the connections, wait events, CPU of the driver for
    the role alone."""

    cpu: bool
    waits: bool
    driver: bool

    @classmethod
    def of(cls, records: Sequence[StepRecord]) -> _Measured:
        return cls(
            cpu=all(connection_cpu(record) is not None for record in records),
            waits=all((record.waits or {}).get(record.role) for record in records),
            # With other roles in the step the driver's CPU cannot be told apart by role.
            driver=all(len(record.roles) == 1 for record in records),
        )

    @property
    def not_apart(self) -> tuple[str, ...]:
        """What cannot be told apart."""
        texts = []
        if not self.cpu:
            texts.append("the CPU of the connections is not known")
        if not self.waits:
            texts.append("wait events were not sampled on both sides: --waits 10")
        if not self.driver:
            texts.append("the CPU of the driver is that of several roles")
        return tuple(texts)


class _Side:
    """An operation of one side: seconds by part, and of events by the part they belong to."""

    def __init__(self, records: Sequence[StepRecord], measured: _Measured) -> None:
        repeats = [_of_record(record, measured) for record in records]
        self.role = records[0].role
        self.parts = {name: median(parts[name] for parts in repeats) for name in repeats[0]}
        self.shares: dict[PartName, float] = {}
        self.events: dict[str, float] = {}
        """By name as the server spells it."""
        self.seconds = median(map(_seconds, records))
        costs = [record.waits_cost for record in records if measured.waits]
        self.polls = sum(cost.polls for cost in costs if cost is not None) if None not in costs else 0
        for record in records if measured.waits else ():
            for event, share in (record.waits or {})[record.role].items():
                name = _group(event)
                self.shares[name] = self.shares.get(name, 0.0) + share / len(records)
                self.events[event] = self.events.get(event, 0.0) + share * _seconds(record) / len(records)

    def error(self, name: PartName) -> float | None:
        """Returns the standard error of a sampled part (Agresti and Coull 1998); a poll is one sample, as
        connections of one moment wait alike. None where it is not known."""
        if not self.polls:
            return None
        share = self.shares.get("running" if name == "cpu_wait" else name, 0.0)
        samples = self.polls + 4.0
        share = (share * self.polls + 2.0) / samples
        return self.seconds * math.sqrt(share * (1 - share) / samples)


def _of_record(record: StepRecord, measured: _Measured) -> dict[PartName, float]:
    """Returns the seconds by part in one repeat; all of them where it has wait events."""
    seconds = _seconds(record)
    cpu = (connection_cpu(record) or 0.0) / 1e6 if measured.cpu else 0.0
    driver = (step_cost(record).client_cpu or 0.0) / 1e6 if measured.driver else 0.0
    parts: dict[PartName, float] = {"connections": cpu} if measured.cpu else {}
    if not measured.waits:
        # What is more than the time of an operation is work beside that of the connections.
        return {**parts, "driver": min(driver, max(0.0, seconds - cpu))} if measured.driver else parts
    groups: dict[PartName, float] = dict.fromkeys(
        ("running", "locks", "lwlocks", "io", "client", "other"), 0.0
    )
    for event, share in (record.waits or {})[record.role].items():
        groups[_group(event)] += share * seconds
    running = groups.pop("running")
    if measured.driver:
        # While it works for a connection the backend waits for it.
        parts["driver"] = min(driver, groups["client"])
        groups["client"] -= parts["driver"]
    if measured.cpu:
        return {**parts, "cpu_wait": max(0.0, running - cpu), **groups}
    return {**parts, "running": running, **groups}


def _parts(base: _Side, other: _Side) -> list[OperationPart]:
    """Returns the parts that are there on a side, those of both CPUs first."""
    parts = []
    for name, label in LABELS.items():
        if name not in base.parts or not (base.parts[name] or other.parts[name]):
            continue
        errors = () if name in ("connections", "driver") else (base.error(name), other.error(name))
        known = [error for error in errors if error is not None]
        error = math.hypot(*known) if len(known) == 2 else None
        difference = other.parts[name] - base.parts[name]
        events = _events(base, other, name, difference)
        label = label.format(role=base.role)
        parts.append(OperationPart(name, label, base.parts[name], other.parts[name], events, error))
    return parts


def _events(base: _Side, other: _Side, group: PartName, difference: float) -> tuple[str, ...]:
    """Returns the wait events that make up most of the difference of their group, the largest first."""
    if group in ("running", "cpu_wait", "client") or not difference:
        return ()
    # 17 spells many of them differently (WALSync, WalSync): the base's spelling is taken.
    moved: dict[str, tuple[str, float]] = {}
    for sign, events in ((-1, base.events), (1, other.events)):
        for event, seconds in events.items():
            if _group(event) == group:
                name, before = moved.get(event.casefold(), (event, 0.0))
                moved[event.casefold()] = name, before + sign * seconds
    shares = sorted(((seconds / difference, name) for name, seconds in moved.values()), reverse=True)
    named = [name for share, name in shares if share >= NAMED_EVENT][:_MOST_EVENTS]
    return tuple(name.replace(": ", " ") if group == "other" else name.partition(": ")[2] for name in named)


def _group(event: str) -> PartName:
    """Returns the part that a state of a connection belongs to."""
    if event == "running":
        return "running"
    return _GROUPS.get(event.partition(":")[0].casefold(), "other")


def _clients(record: StepRecord) -> int:
    # The rate of a replay is that of its statements' own time.
    return record.headline.clients if record.replay is None else 1


def _seconds(record: StepRecord) -> float:
    return seconds_per_operation(record.rate or 0.0, record.rate_unit, _clients(record))


__all__ = ["DIFFERENT", "OperationPart", "OperationParts", "OperationPartsRecord", "operation_parts"]
