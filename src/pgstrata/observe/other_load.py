"""How much of the CPUs other programs used while something was measured, and what kept it from a CPU.

What shares caches and cores with a server makes each of its operations slower by about the same time, so a
difference that is a share of an operation comes out smaller than it is. Taking turns does not cancel that,
and a server that waits for a CPU longer than its neighbour looks slower than it is."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import psutil

from pgstrata.observe.backends import cpu_seconds as cpu_of_process
from pgstrata.observe.backends import read_small, reaped_seconds
from pgstrata.observe.host import cpu_seconds
from pgstrata.store.record import Disturbance

STAT = Path("/proc/stat")
PRESSURE = Path("/proc/pressure/cpu")
QUOTA_FILES = (Path("/sys/fs/cgroup/cpu.stat"), Path("/sys/fs/cgroup/cpu/cpu.stat"))
"""Version 2 and version 1 of control groups, as a container sees its own."""


@dataclass(frozen=True)
class LoadReading:
    """What happened in some time, in seconds; readings of several times can be added.

    `available`: CPU seconds of the CPUs that this process may use. `other`: those that other programs used.
    `stolen`: those that another guest of the host had. `pressed`: time in which at least one process of the
    machine waited for a CPU, None without /proc/pressure. `throttled`: time for which the quota of a
    container stopped processes, None without one.
    """

    seconds: float
    available: float
    other: float
    stolen: float
    pressed: float | None
    throttled: float | None

    def plus(self, other: LoadReading) -> LoadReading:
        """Adds the reading of another time."""
        return LoadReading(
            self.seconds + other.seconds,
            self.available + other.available,
            self.other + other.other,
            self.stolen + other.stolen,
            None if self.pressed is None or other.pressed is None else self.pressed + other.pressed,
            None if self.throttled is None or other.throttled is None else self.throttled + other.throttled,
        )

    def record(self, allowed: float) -> Disturbance:
        """Converts the reading to the shares stored in run.json. allowed: the campaign's `other_load`."""
        length, available = max(self.seconds, 1e-9), max(self.available, 1e-9)
        return Disturbance(
            other_load=_share(self.other / available),
            stolen=_share(self.stolen / available),
            pressure=None if self.pressed is None else _share(self.pressed / length),
            throttled=None if self.throttled is None else _share(self.throttled / length),
            allowed=allowed,
        )


def added(readings: Iterable[LoadReading | None]) -> LoadReading | None:
    """Adds up readings; a figure that one of them lacks is None. None where there is no reading at all."""
    known = [reading for reading in readings if reading is not None]
    return reduce(LoadReading.plus, known) if known else None


@dataclass(frozen=True)
class _Counters:
    """Counters of the machine in seconds, at one moment of the monotonic clock."""

    time: float
    used: float
    ours: float
    stolen: float
    pressed: float | None
    throttled: float | None


class OtherLoad:
    """Watches the machine from its creation on.

    Counted are the CPUs that this process may use. The CPU time of this process, of its living descendants
    and of those it has reaped is its own; all other use is that of other programs. Raises OSError where /proc
    cannot be read.
    """

    def __init__(self) -> None:
        self._cpus = os.sched_getaffinity(0)
        self._begin = self._counters()

    def read(self) -> LoadReading:
        """Returns what happened since the creation. Raises OSError."""
        begin, end = self._begin, self._counters()
        seconds = end.time - begin.time
        return LoadReading(
            seconds=seconds,
            available=seconds * len(self._cpus),
            other=max(0.0, end.used - begin.used - max(0.0, end.ours - begin.ours)),
            stolen=max(0.0, end.stolen - begin.stolen),
            pressed=_difference(begin.pressed, end.pressed),
            throttled=_difference(begin.throttled, end.throttled),
        )

    def share(self) -> float:
        """Returns the share of the CPU time, 0 … 1, that other programs used or another guest had. Raises
        OSError."""
        reading = self.read()
        return _share((reading.other + reading.stolen) / max(reading.available, 1e-9))

    def _counters(self) -> _Counters:
        used, stolen = self._used_and_stolen()
        now = time.monotonic()
        return _Counters(now, used, own_cpu_seconds(), stolen, _pressed_seconds(), _throttled_seconds())

    def _used_and_stolen(self) -> tuple[float, float]:
        names, used, stolen = {b"cpu%d" % cpu for cpu in self._cpus}, 0.0, 0.0
        for line in STAT.read_bytes().splitlines():
            if line.split(maxsplit=1)[0] in names:
                user, system, _iowait, steal, _idle = cpu_seconds(line)
                used += user + system
                stolen += steal
        return used, stolen


def own_cpu_seconds() -> float:
    """Returns the CPU seconds of this process, its living descendants and the children it has reaped."""
    usage = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    total = sum(each.ru_utime + each.ru_stime for each in usage)
    descendants: Sequence[psutil.Process] = ()
    with suppress(psutil.Error):
        descendants = psutil.Process().children(recursive=True)
    for process in descendants:
        total += (cpu_of_process(process.pid) or 0.0) + reaped_seconds(process.pid)
    return total


def waited_seconds(pids: Iterable[int]) -> float | None:
    """Returns the seconds that processes were ready to run and waited for a CPU, since they were born.

    Source: the second number of /proc/PID/schedstat, in nanoseconds (the kernel's scheduler/sched-stats.rst).
    None where one of them has ended or the kernel does not tell.
    """
    total = 0
    for pid in pids:
        fields = (read_small(f"/proc/{pid}/schedstat") or b"").split()
        if len(fields) < 2:
            return None
        total += int(fields[1])
    return total / 1e9


def _pressed_seconds() -> float | None:
    """Returns the seconds in which at least one process waited for a CPU: `some … total=` in microseconds;
    None if not known."""
    try:
        line = PRESSURE.read_text().splitlines()[0]
        return int(line.rpartition("total=")[2]) / 1e6
    except (OSError, ValueError, IndexError):
        return None


def _throttled_seconds() -> float | None:
    for path in QUOTA_FILES:
        try:
            fields = dict(line.split() for line in path.read_text().splitlines())
        except (OSError, ValueError):
            continue
        if "throttled_usec" in fields:
            return int(fields["throttled_usec"]) / 1e6
        if "throttled_time" in fields:
            return int(fields["throttled_time"]) / 1e9
    return None


def _difference(begin: float | None, end: float | None) -> float | None:
    return None if begin is None or end is None else max(0.0, end - begin)


def _share(value: float) -> float:
    return round(min(1.0, max(0.0, value)), 4)


__all__ = ["LoadReading", "OtherLoad", "added", "own_cpu_seconds", "waited_seconds"]
