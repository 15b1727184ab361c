"""What a search would do, before it begins or goes on: its line, what comes next, and how long it takes."""

from __future__ import annotations

from typing import TypedDict

from pgstrata.numbers import counted
from pgstrata.search.bisect import state as states
from pgstrata.search.bisect.expected import expected
from pgstrata.search.bisect.hunt import SearchSettings
from pgstrata.search.bisect.procedure import By
from pgstrata.search.bisect.state import State
from pgstrata.search.bisect.text import StopRecord, stop_record


class NextRecord(TypedDict):
    """The comparison that comes next, as JSON."""

    base: StopRecord
    other: StopRecord
    by: str


class PlanRecord(TypedDict):
    """A search that has not ended, as JSON. minutes: of the whole search, from its beginning; next: None
    where nothing is left to measure."""

    kind: str
    step: str
    good: StopRecord
    bad: StopRecord
    stops: int
    notes: list[str]
    measured: int
    next: NextRecord | None
    builds: int
    build_seconds: float
    comparisons: int
    comparison_seconds: float
    minutes: float
    folder: str


PlanRecords = list[PlanRecord]
"""Of several steps."""


def lines(search: SearchSettings) -> list[str]:
    """Returns what a search would do, as text. Raises UsageError where its folder holds another one."""
    line, state = search.line, _state(search)
    text = [f"{line.extent}, {line.what}; state in {search.folder}"]
    for name, stop in (("good", line.stops[0]), ("bad", line.stops[-1])):
        text.append(f"  {name}: {stop.name} {stop.subject}".rstrip())
    text += [f"note: {note}" for note in line.notes]
    if state.measured or state.set_aside:
        text.append(f"{counted(len(state.measured), 'measurement')} there already")
    next_ = search.ways(state).next()
    if next_ is None:
        return [*text, "nothing is left to measure"]
    by, task = next_
    text.append(
        f"next: {line.stops[task.other].name} against {line.stops[task.base].name}, by {_measure(by)}"
    )
    whole = expected(search, state)
    built = f"{counted(whole.builds, 'build')} of {_minutes(whole.build_seconds / 60)}, {whole.known}, and "
    return [
        *text,
        f"about {_minutes(whole.minutes)} in all: {built if whole.builds else ''}"
        f"{counted(whole.comparisons, 'comparison')} of {_minutes(whole.comparison_seconds / 60)}",
    ]


def plan_json(search: SearchSettings) -> PlanRecord:
    """Returns the same in the form that JSON can hold."""
    line, state = search.line, _state(search)
    next_, whole = search.ways(state).next(), expected(search, state)
    return {
        "kind": line.kind,
        "step": search.work.step,
        "good": stop_record(line, 0),
        "bad": stop_record(line, line.n),
        "stops": line.n + 1,
        "notes": list(line.notes),
        "measured": len(state.measured),
        "next": None
        if next_ is None
        else {
            "base": stop_record(line, next_[1].base),
            "other": stop_record(line, next_[1].other),
            "by": next_[0],
        },
        "builds": whole.builds,
        "build_seconds": whole.build_seconds,
        "comparisons": whole.comparisons,
        "comparison_seconds": whole.comparison_seconds,
        "minutes": whole.minutes,
        "folder": str(search.folder),
    }


def _state(search: SearchSettings) -> State:
    there = states.load(search.folder) if search.folder.is_dir() else None
    return there or states.begin(search.folder, search.line, search.question())


def _measure(by: By) -> str:
    return "counted instructions" if by == "instructions" else "the rate"


def _minutes(minutes: float) -> str:
    return f"{minutes:.0f} min" if minutes >= 10 else f"{minutes:.1f} min"


__all__ = ["PlanRecord", "PlanRecords", "lines", "plan_json"]
