"""Planning on paper: how long so many machines of one kind would take, and where more would not help."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.dispatch import Candidate, Dispatcher

ADMISSION_SECONDS = 25.0
"""What a machine takes beside the measured time of its qualification: two clusters, their load, looking."""

SAME = 0.01
"""Times that differ by less are the same."""


@dataclass(frozen=True)
class Forecast:
    """seconds: until the last assignment is home, by the estimates of the plan. busy: share of the machines'
    time in which they measure."""

    machines: int
    seconds: float
    busy: float


class AssignmentRecord(TypedDict):
    """What stays on one machine, as JSON."""

    workload: str
    repeat: int
    runs: int
    seconds: float
    disk_bytes: int
    kind: str


class MachinesRecord(TypedDict):
    """How long a number of machines takes, as JSON."""

    machines: int
    seconds: float
    busy: float


class ForecastRecord(TypedDict):
    """A plan on paper as JSON. enough: machines, beyond which more would not help; seconds_are: `about` or
    `at most`."""

    campaign: str
    asked: int
    enough: int
    seconds_are: str
    comparisons: list[AssignmentRecord]
    forecasts: list[MachinesRecord]


def forecast(assignments: Sequence[Assignment], machines: int, *, qualify_seconds: float = 0.0) -> Forecast:
    """Returns the forecast for this number of machines if each can do everything. qualify_seconds: before
    their first assignment."""
    admission = 2 * qualify_seconds + ADMISSION_SECONDS if qualify_seconds else 0.0
    anywhere = [Assignment(planned.workload, planned.repeat, planned.seconds) for planned in assignments]
    dispatcher = Dispatcher(anywhere, 1)
    free = [(admission, f"{number:05d}") for number in range(machines)]
    heapq.heapify(free)
    end = 0.0
    while dispatcher.waiting and free:
        at, name = heapq.heappop(free)
        machine = Candidate(name, "")
        if (assignment := dispatcher.next_for(machine)) is None:
            continue
        dispatcher.begin(assignment, name)
        dispatcher.done(assignment)
        end = max(end, at + assignment.seconds)
        heapq.heappush(free, (at + assignment.seconds, name))
    work = sum(planned.seconds for planned in assignments)
    return Forecast(machines, end, work / (machines * end) if end else 0.0)


def enough(assignments: Sequence[Assignment], *, qualify_seconds: float = 0.0) -> Forecast:
    """Returns the forecast for the fewest machines that take no longer than more machines would."""
    best = forecast(assignments, max(1, len(assignments)), qualify_seconds=qualify_seconds)
    low, high = 1, best.machines
    while low < high:
        middle = (low + high) // 2
        there = forecast(assignments, middle, qualify_seconds=qualify_seconds)
        if there.seconds <= best.seconds * (1 + SAME):
            high = middle
        else:
            low = middle + 1
    return forecast(assignments, low, qualify_seconds=qualify_seconds)


__all__ = ["Forecast", "enough", "forecast"]
