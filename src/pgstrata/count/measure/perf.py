"""Counting with the hardware's own counters: user-mode instructions of a backend, by perf_event_open(2).

A counter is opened while the backend waits for the first operation and read when it waits after the last one.
What is not the operation (the first executions of a statement) is in a shorter run too, on a connection of
its own, and goes out by the difference of the two.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from msgspec import structs

from pgstrata.count.measure.callgrind import CallGraph
from pgstrata.count.measure.engine import Steering, drive
from pgstrata.count.measure.marks import Length
from pgstrata.driver.spec import Spec
from pgstrata.errors import ServerError
from pgstrata.workload.core.language import Step

_SYSCALL = {"x86_64": 298, "aarch64": 241}
_DISABLED, _EXCLUDE_KERNEL, _EXCLUDE_HV = 1 << 0, 1 << 5, 1 << 6
_ENABLED_AND_RUNNING = 0b11  # PERF_FORMAT_TOTAL_TIME_ENABLED | _RUNNING
_ENABLE = 0x2400
_ATTRIBUTES = struct.Struct("=IIQQQQQII4Q")
"""perf_event_attr of the first version, 64 bytes and more: type, size, config, period, sample_type,
read_format, flags, wakeup, bp_type, and the rest, which is 0."""

HARDWARE_INSTRUCTIONS = (0, 1)
PAGE_FAULTS = (1, 2)
"""A software event that every kernel has: it shows that counters are opened, read and subtracted as they
should."""

_libc = ctypes.CDLL(None, use_errno=True)


class Counter:
    """One event of one process, from `__init__` on. Raises OSError where the kernel has none to give."""

    def __init__(self, pid: int, event: tuple[int, int] = HARDWARE_INSTRUCTIONS) -> None:
        number = _SYSCALL.get(platform.machine())
        if number is None:
            raise OSError(38, f"no counters known for {platform.machine()}")
        kind, config = event
        flags = _DISABLED | _EXCLUDE_HV | (_EXCLUDE_KERNEL if kind == 0 else 0)
        attributes = _ATTRIBUTES.pack(
            kind, _ATTRIBUTES.size, config, 0, 0, _ENABLED_AND_RUNNING, flags, 0, 0, 0, 0, 0, 0
        )
        fd = _libc.syscall(number, attributes, pid, -1, -1, 8)  # PERF_FLAG_FD_CLOEXEC
        if fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        self._fd = fd
        if _libc.ioctl(fd, _ENABLE, 0) < 0:
            code = ctypes.get_errno()
            os.close(fd)
            raise OSError(code, os.strerror(code))

    def read(self) -> int:
        """Returns the number of events until now. Raises ServerError if the counter was not on all the
        time."""
        value, enabled, running = struct.unpack("=QQQ", os.read(self._fd, 24))
        if running < enabled:
            raise ServerError(
                "the hardware's counter was shared with others and did not run all the time",
                "end what else counts on this machine, or count with --engine valgrind",
            )
        return int(value)

    def close(self) -> None:
        os.close(self._fd)


def counters_missing(event: tuple[int, int] = HARDWARE_INSTRUCTIONS) -> str:
    """Returns why the hardware's instructions cannot be counted here; empty where they can."""
    try:
        counter = Counter(0, event)
    except OSError as error:
        if error.errno in (1, 13):
            return "the kernel does not allow it (perf_event_paranoid)"
        return f"this machine has no counter of instructions ({error.strerror})"
    try:
        sum(range(1000))
        return "" if counter.read() > 0 else "the counter of instructions stays at 0"
    except ServerError as error:
        return error.message
    finally:
        counter.close()


class _Counters(Steering):
    def __init__(self, event: tuple[int, int]) -> None:
        self._event = event
        self._open: dict[str, Counter] = {}
        self.counts: dict[str, int] = {}

    def ready(self, pids: Mapping[str, int]) -> None:
        try:
            for role, pid in pids.items():
                self._open[role] = Counter(pid, self._event)
        except OSError as error:
            raise ServerError(
                f"the instructions of a backend cannot be counted: {error.strerror}",
                "as root, or with kernel.perf_event_paranoid at 1 or less",
            ) from error

    def done(self) -> None:
        self.counts = {role: counter.read() for role, counter in self._open.items()}

    def close(self) -> None:
        for counter in self._open.values():
            counter.close()


class PerfEngine:
    """event: type and number of perf_event_attr; called `what` in results."""

    name: Literal["valgrind", "perf"] = "perf"
    marks = False
    slow = False
    simulated = False

    def __init__(self, event: tuple[int, int] = HARDWARE_INSTRUCTIONS, what: str = "instructions:u") -> None:
        self._event, self.event = event, what
        self.tool = f"perf_event_open, Linux {platform.release()}"

    def under(self, folder: Path) -> list[str]:
        return []

    def count(
        self, step: Step, lengths: Mapping[str, Length], spec: Spec, folder: Path
    ) -> dict[str, CallGraph]:
        warm = {role: length.warm for role, length in lengths.items()}
        begun = {role.name for role in step.roles if role.operations == lengths[role.name].whole}
        before: dict[str, int] = {}
        if all(warm.values()) and begun == set(lengths):
            shorter = replace(step, roles=[replace(r, operations=warm[r.name]) for r in step.roles])
            before = self._run(structs.replace(spec, roles=shorter.spec().roles))
        whole = self._run(spec)
        return {
            role: CallGraph(("Ir",), [max(0.0, float(count - before.get(role, 0)))])
            for role, count in whole.items()
        }

    def _run(self, spec: Spec) -> dict[str, int]:
        counters = _Counters(self._event)
        try:
            drive(spec, counters)
        finally:
            counters.close()
        return counters.counts

    def processes(self, folder: Path) -> dict[str, float]:
        return {}
