"""How much of the CPUs others used while this program measured.

What shares caches and cores with a server makes each of its operations slower by about the same time, so a
difference that is a share of an operation comes out smaller than it is. Turns do not cancel that.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

from pgstrata.observe.host import cpu_seconds

STAT = Path("/proc/stat")


class OtherProcesses:
    """From where it is made on: what neither this process used nor a child that has ended since.

    Servers and drivers are such children. Counted are the CPUs that this process may run on; steal, the time
    another guest of the host had them, is among it. Raises OSError where /proc cannot be read.
    """

    def __init__(self) -> None:
        self._cpus = os.sched_getaffinity(0)
        self._begun, self._busy, self._own = time.monotonic(), self._busy_seconds(), _own_seconds()

    def share(self) -> float:
        """Of the time of these CPUs since then, 0 … 1. Raises OSError."""
        time_of_all = (time.monotonic() - self._begun) * len(self._cpus)
        used = self._busy_seconds() - self._busy - (_own_seconds() - self._own)
        return min(1.0, max(0.0, used / time_of_all)) if time_of_all > 0 else 0.0

    def _busy_seconds(self) -> float:
        """In which these CPUs worked, or another guest had them."""
        names, seconds = {b"cpu%d" % cpu for cpu in self._cpus}, 0.0
        for line in STAT.read_bytes().splitlines():
            if line.split(maxsplit=1)[0] in names:
                user, system, _iowait, steal, _idle = cpu_seconds(line)
                seconds += user + system + steal
        return seconds


def _own_seconds() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


__all__ = ["OtherProcesses"]
