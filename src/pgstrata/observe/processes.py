"""Disk and context switches of one cluster's own processes, where the host's counters belong to several.

From `/proc/PID/io` and `/proc/PID/status` (proc(5)): bytes that were fetched from and sent to the storage on
behalf of a process, and its voluntary and involuntary context switches. How many disk operations that were
the kernel does not count by process. A write is counted for who made the page dirty, so pages that a backend
left to the kernel are its own. What a process did that began and ended in between is not seen: parallel
workers, say.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pgstrata.observe.backends import PROC, processes, read_small

Counts = dict[str, int]

_IO = {b"read_bytes": "read_bytes", b"write_bytes": "write_bytes"}
_SWITCHES = (b"voluntary_ctxt_switches", b"nonvoluntary_ctxt_switches")


@dataclass(frozen=True)
class ProcessReading:
    """Counters of each process since its birth, by pid. Those of which none could be read are left out."""

    by_pid: dict[int, Counts]


def read_processes(postmaster: int, clients: list[int], proc: Path = PROC) -> ProcessReading:
    """Reads them now, about 15 µs per process. clients: backends, which have no children."""
    by_pid = {}
    for pid in processes(postmaster, clients, proc):
        if counts := _counts(pid, proc):
            by_pid[pid] = counts
    return ProcessReading(by_pid)


def totals(first: ProcessReading, second: ProcessReading) -> dict[str, float | int | None]:
    """Returns the differences between two readings, in the form of `host.totals`: `reads` and `writes` are
    not known.

    A process that was born in between counts with all it did; None where nobody's counter could be read.
    """

    def difference(name: str) -> int | None:
        known = [
            max(0, counts[name] - first.by_pid.get(pid, {}).get(name, 0))
            for pid, counts in second.by_pid.items()
            if name in counts
        ]
        return sum(known) if known else None

    names = ("read_bytes", "write_bytes", "context_switches")
    return {"reads": None, "writes": None, **{name: difference(name) for name in names}}


def _counts(pid: int, proc: Path) -> Counts:
    counts: Counts = {}
    for line in (read_small(f"{proc}/{pid}/io") or b"").splitlines():
        name, _, value = line.partition(b":")
        if name in _IO:
            counts[_IO[name]] = int(value)
    switches = [
        int(value)
        for line in (read_small(f"{proc}/{pid}/status") or b"").splitlines()
        for name, _, value in [line.partition(b":")]
        if name in _SWITCHES
    ]
    if len(switches) == len(_SWITCHES):
        counts["context_switches"] = sum(switches)
    return counts
