"""Which CPUs of this machine are alike, and how the CPUs of a run are described."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from pgstrata import numbers
from pgstrata.store.record import Cpus

SYSTEM = Path("/sys/devices/system/cpu")


def fastest_cpus(cpus: Collection[int] | None = None, system: Path = SYSTEM) -> list[int]:
    """Returns the CPUs of the fastest kind, in their order.

    cpus: those to choose from; by default those that this process may use (a cpuset, `taskset`). Where the
    machine has CPUs of several kinds, a server on a slow one cannot be compared with a server on a fast one.
    The kernel tells kinds by `cpu_capacity`, else by the highest frequency; where it tells neither, all are
    alike."""
    there = sorted(os.sched_getaffinity(0) if cpus is None else cpus)
    speeds = {cpu: _speed(system / f"cpu{cpu}") for cpu in there}
    best = max(speeds.values())
    # Frequencies of cores of one kind differ by a few percent on some machines.
    return [cpu for cpu in there if speeds[cpu] >= 0.9 * best]


def _speed(folder: Path) -> int:
    for name in ("cpu_capacity", "cpufreq/cpuinfo_max_freq"):
        try:
            return int((folder / name).read_text())
        except (OSError, ValueError):
            continue
    return 0


def sentence(cpus: Cpus) -> str:
    """Returns where servers and driver were, where the campaign named their CPUs; else an empty text."""
    if not (cpus.server or cpus.driver):
        return ""
    return f"Servers on {_named(cpus.server)}, the driver on {_named(cpus.driver)}, as the campaign says."


def _named(cpus: Sequence[int]) -> str:
    if not cpus:
        return "all CPUs"
    return f"{numbers.plural('CPU', len(cpus))} {', '.join(map(str, cpus))}"


__all__ = ["fastest_cpus", "sentence"]
