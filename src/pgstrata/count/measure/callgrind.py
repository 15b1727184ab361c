"""Reads what callgrind writes: instructions by function, and which function called which.

The format is that of Valgrind's manual, "Callgrind Format Specification". A part file holds what was executed
since the part before it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from pgstrata.errors import ServerError
from pgstrata.files.disk import read_regular
from pgstrata.files.user_files import shown

_NAMED = re.compile(r"\((\d+)\)(?: (.*))?")
_RECURSION = re.compile(r"'\d+$")

_IN_TREE = re.compile(r"(?:^|/)((?:src/(?:backend|include|common|port|timezone|interfaces|pl)|contrib)/.+)")

_MOST_DIGITS = 20

MOST_BYTES = 128 << 20
"""Of a part file; that of a backend has about 5 MB."""

MOST_ENTRIES = 500_000
"""Functions and calls of a part file; that of a backend has about 20,000."""

Key = tuple[str, str]
"""Object (path of the binary or library) and function."""


@dataclass
class Arc:
    """All calls of one function by another: how many, and what they cost, callees of the callee included."""

    calls: float = 0.0
    instructions: float = 0.0


@dataclass(frozen=True)
class Asking:
    """One call of the function that reports statistics, where it only looks at the clock (`left_out`)."""

    exclusive: float
    """Instructions of the function itself."""
    callees: tuple[str, ...]
    """Names of the functions that it calls there."""


@dataclass
class CallGraph:
    """What was executed: by event, by function, and by call."""

    events: tuple[str, ...] = ("Ir",)
    """Names of what was counted, instructions first (`Ir`)."""
    totals: list[float] = field(default_factory=lambda: [0.0])
    """The total of each event."""
    exclusive: dict[Key, float] = field(default_factory=dict)
    """Instructions in each function itself."""
    sources: dict[tuple[Key, str], float] = field(default_factory=dict)
    """Those of them whose source file is known, by it: that of the function, or of one inlined into it."""
    arcs: dict[tuple[Key, Key], Arc] = field(default_factory=dict)
    """All calls, by caller and callee."""
    asking: Asking | None = None
    operations: int = 1
    """Number of operations that the figures are a mean of."""

    @property
    def instructions(self) -> float:
        return self.totals[0]

    def count(self, event: str) -> float:
        """Returns the total of a single event; 0 if it was not counted."""
        return self.totals[self.events.index(event)] if event in self.events else 0.0

    def without(self, other: CallGraph) -> CallGraph:
        """Returns the graph minus the counts of `other`."""
        arcs = {pair: Arc(arc.calls, arc.instructions) for pair, arc in self.arcs.items()}
        for pair, arc in other.arcs.items():
            left = arcs.setdefault(pair, Arc())
            left.calls -= arc.calls
            left.instructions -= arc.instructions
        return CallGraph(
            self.events,
            [a - b for a, b in zip(self.totals, other.totals, strict=True)],
            _less(self.exclusive, other.exclusive),
            _less(self.sources, other.sources),
            {pair: arc for pair, arc in arcs.items() if arc.calls or arc.instructions},
            self.asking,
            self.operations,
        )

    def per(self, operations: int) -> CallGraph:
        """Returns the graph divided by this number of operations: the counts of a single operation."""
        return CallGraph(
            self.events,
            [total / operations for total in self.totals],
            {key: value / operations for key, value in self.exclusive.items()},
            {key: value / operations for key, value in self.sources.items()},
            {
                pair: Arc(arc.calls / operations, arc.instructions / operations)
                for pair, arc in self.arcs.items()
            },
            self.asking,
            self.operations * operations,
        )

    def only_totals(self) -> CallGraph:
        """Returns the graph without functions and calls."""
        return CallGraph(self.events, self.totals, operations=self.operations)

    def inclusive(self) -> dict[Key, float]:
        """Returns the instructions of each function with those of what it called.

        Calls of a function by itself are in it already; of functions that call each other in a circle the sum
        may be more than was executed, and is cut there.
        """
        sums = dict(self.exclusive)
        for (caller, callee), arc in self.arcs.items():
            if caller != callee:
                sums[caller] = sums.get(caller, 0.0) + arc.instructions
        return {key: min(value, self.instructions) for key, value in sums.items()}

    def calls(self) -> dict[Key, float]:
        """Returns how often each function was called."""
        sums: dict[Key, float] = {}
        for (_, callee), arc in self.arcs.items():
            sums[callee] = sums.get(callee, 0.0) + arc.calls
        return sums


K = TypeVar("K")


def _less(counts: Mapping[K, float], other: Mapping[K, float]) -> dict[K, float]:
    """Returns the counts minus those of `other`; what is nothing then is left out."""
    keys = {*counts, *other}
    return {key: left for key in keys if (left := counts.get(key, 0.0) - other.get(key, 0.0))}


def mean(graphs: Iterable[CallGraph]) -> CallGraph:
    """Returns the mean of the counts of several starts."""
    all_ = list(graphs)
    n = len(all_)
    total = CallGraph(
        all_[0].events, [sum(column) / n for column in zip(*(g.totals for g in all_), strict=True)]
    )
    for graph in all_:
        for key, value in graph.exclusive.items():
            total.exclusive[key] = total.exclusive.get(key, 0.0) + value / n
        for source, value in graph.sources.items():
            total.sources[source] = total.sources.get(source, 0.0) + value / n
        for pair, arc in graph.arcs.items():
            sum_ = total.arcs.setdefault(pair, Arc())
            sum_.calls += arc.calls / n
            sum_.instructions += arc.instructions / n
    return total


class _Names:
    """`(3) name` defines, `(3)` repeats; a plain name is itself."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._known)

    def read(self, text: str) -> str:
        match = _NAMED.fullmatch(text)
        if match is None:
            return text
        number, name = match.groups()
        if name is not None:
            self._known[number] = name
        return self._known.get(number, "???")


def read_part(path: Path) -> CallGraph:
    """Reads a single part file. Raises ServerError if it cannot be read or is cut."""
    try:
        data = read_regular(path, MOST_BYTES)
    except OSError as error:
        raise ServerError(
            f"{path.name}, which callgrind wrote, cannot be read: {error.strerror}", "count again"
        ) from error
    try:
        graph = _parse(io.TextIOWrapper(io.BytesIO(data), errors="replace"))
    except (ValueError, IndexError) as error:
        raise ServerError(
            f"{path.name}, which callgrind wrote, is damaged: {error}", "count again"
        ) from error
    if graph is None:
        raise ServerError(f"{path.name}, which callgrind wrote, is cut", "count again; the disk may be full")
    return graph


def _parse(lines: Iterable[str]) -> CallGraph | None:
    """Returns None where the end is missing. Raises ValueError and IndexError for what is no such file."""
    graph = CallGraph()
    objects, functions, files = _Names(), _Names(), _Names()
    here = called_in = source = ""
    function = callee = ""
    calls = 0.0
    inclusive = whole = False
    for line in map(str.rstrip, lines):
        named = len(objects) + len(functions) + len(files)
        if len(graph.exclusive) + len(graph.arcs) + len(graph.sources) + named > MOST_ENTRIES:
            raise ValueError(f"it names more than {MOST_ENTRIES:,} functions and calls")
        first = line[:1]
        if first.isdigit() or first in "+-*":
            numbers = line.split()[1:]  # the position is not needed
            if inclusive:
                arc = graph.arcs.setdefault(((here, function), (called_in or here, callee)), Arc())
                arc.calls += calls
                arc.instructions += _count(numbers[0]) if numbers else 0.0
                inclusive, called_in = False, ""
            elif numbers:
                key = (here, function)
                graph.exclusive[key] = graph.exclusive.get(key, 0.0) + _count(numbers[0])
                if source:
                    graph.sources[key, source] = graph.sources.get((key, source), 0.0) + _count(numbers[0])
                for place, number in enumerate(numbers):
                    graph.totals[place] += _count(number)
            continue
        name, sign, value = line.partition("=")
        if not sign:
            kind, _, rest = line.partition(": ")
            if kind == "events":
                graph.events = tuple(rest.split())
                if not graph.events:
                    raise ValueError("its list of events is empty")
                graph.totals = [0.0] * len(graph.events)
            elif kind == "totals":
                whole = True
            continue
        match name:
            case "ob":
                here = objects.read(value)
            case "fl" | "fi" | "fe":
                source = _source(files.read(value))
            case "cfi" | "cfl":
                files.read(value)  # which may be what names the file
            case "fn":
                function = _RECURSION.sub("", functions.read(value))
            case "cob":
                called_in = objects.read(value)
            case "cfn":
                callee = _RECURSION.sub("", functions.read(value))
            case "calls":
                calls, inclusive = _count(value.split()[0]), True
    return graph if whole else None


@lru_cache(maxsize=10_000)
def _source(path: str) -> str:
    """Returns a source file as people know it, from the top of its tree: builds of two trees have the same
    files. Nothing where it is not known."""
    if match := _IN_TREE.search(path):
        return match[1]
    return "" if path == "???" else path.rpartition("/")[2]


def _count(text: str) -> float:
    if len(text) > _MOST_DIGITS or not (text.isascii() and text.isdigit()):
        raise ValueError(f"{shown(text, 40)} is no number of instructions or calls")
    return float(text)


# --- what the server's own processes are ------------------------------------------------------

_MAINS: Mapping[str, str] = {
    "CheckpointerMain": "checkpointer",
    "BackgroundWriterMain": "background writer",
    "WalWriterMain": "WAL writer",
    "AutoVacLauncherMain": "autovacuum launcher",
    "AutoVacWorkerMain": "autovacuum worker",
    "PgstatCollectorMain": "statistics collector",
    "ApplyLauncherMain": "logical replication launcher",
    "PgArchiverMain": "archiver",
    "StartupProcessMain": "startup",
    "IoWorkerMain": "I/O worker",
    "ParallelWorkerMain": "parallel worker",
}


def own_processes(graph: CallGraph) -> dict[str, float]:
    """Returns the kind of server process that the graph was counted in and its instructions, without those
    inherited from the postmaster. Empty for any other process (a backend, the postmaster, a process without
    symbols)."""
    processes: dict[str, float] = {}
    for (_, (_, callee)), arc in graph.arcs.items():
        if name := _MAINS.get(callee):
            processes[name] = max(processes.get(name, 0.0), arc.instructions)
    return processes
