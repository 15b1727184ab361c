"""What the host did while a step ran: CPU, context switches, disks, memory, once per second.

Everything is read from /proc and /sys through file descriptors that stay open; psutil would read the
same files at five to ten times the cost, and this runs beside the measurement.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgstrata.observe.backends import children, resident_bytes

ROOT = Path("/")
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
_SECTOR = 512  # Documentation/block/stat.rst: sectors of 512 bytes whatever the device has
# Reading the memory of more processes than this in one second would cost more than 1 ms of CPU;
# with more of them it is read less often.
_PROCESSES_PER_SECOND = 50


# --- one reading ------------------------------------------------------------------------------


@dataclass(frozen=True)
class HostReading:
    """Counters of the host since it was started (CPU in seconds), and memory as it stands (bytes).

    The four disk counters are None where the device is not known.
    """

    time: float  # monotonic, seconds
    cpu_user: float
    cpu_system: float
    cpu_iowait: float
    cpu_steal: float
    cpu_idle: float
    context_switches: int
    disk_reads: int | None
    disk_read_bytes: int | None
    disk_writes: int | None
    disk_write_bytes: int | None
    memory_used_bytes: int
    page_cache_bytes: int

    @property
    def cpu_busy(self) -> float:
        """Seconds the CPUs worked for this machine."""
        return self.cpu_user + self.cpu_system


RATES = (
    "cpu_user",
    "cpu_system",
    "cpu_iowait",
    "cpu_steal",
    "cpu_idle",
    "context_switches",
    "disk_reads",
    "disk_read_bytes",
    "disk_writes",
    "disk_write_bytes",
)


class HostCounters:
    """The open files a reading is made from. Raises OSError where /proc is not there."""

    def __init__(self, devices: Sequence[str] = (), root: Path = ROOT) -> None:
        self._files: list[int] = []
        try:
            self._stat = self._open(root / "proc/stat")
            self._memory = self._open(root / "proc/meminfo")
            self._disks = [self._open(root / "sys/dev/block" / d / "stat") for d in devices]
        except OSError:
            self.close()
            raise

    def _open(self, path: Path) -> int:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._files.append(fd)
        return fd

    def close(self) -> None:
        while self._files:
            os.close(self._files.pop())

    def read(self) -> HostReading:
        """Reads all counters now, about 50 µs."""
        now = time.monotonic()
        cpu, switches = _cpu(_all(self._stat))
        disks = [_disk(os.pread(fd, 512, 0)) for fd in self._disks]
        used, cache = _memory(os.pread(self._memory, 4096, 0))
        reads, read_bytes, writes, write_bytes = (
            [sum(column) for column in zip(*disks, strict=True)] if disks else [None] * 4
        )
        return HostReading(now, *cpu, switches, reads, read_bytes, writes, write_bytes, used, cache)


def _all(fd: int) -> bytes:
    """Returns the text of /proc/stat, which is longer than one page on machines with many CPUs; `ctxt` stands
    near its end."""
    parts, offset = [], 0
    while chunk := os.pread(fd, 65536, offset):
        parts.append(chunk)
        offset += len(chunk)
        if b"\nctxt " in chunk and b"\nbtime" in chunk:
            break
    return b"".join(parts)


def cpu_seconds(line: bytes) -> tuple[float, float, float, float, float]:
    """Returns user, system, iowait, steal and idle in CPU seconds, from the line of a CPU, or of all, in
    /proc/stat.

    proc(5): guest time is within user already; interrupts count as system, as they do in vmstat.
    """
    user, nice, system, idle, iowait, irq, softirq, steal = (int(v) * _TICK for v in line.split()[1:9])
    return user + nice, system + irq + softirq, iowait, steal, idle


def _cpu(text: bytes) -> tuple[tuple[float, float, float, float, float], int]:
    """Returns the times of `cpu_seconds` for all CPUs together, and context switches, from /proc/stat."""
    at = text.index(b"\nctxt ") + 6
    return cpu_seconds(text[: text.index(b"\n")]), int(text[at : text.index(b"\n", at)])


def _disk(text: bytes) -> tuple[int, int, int, int]:
    """Reads, bytes read, writes, bytes written (Documentation/block/stat.rst)."""
    fields = text.split()
    return int(fields[0]), int(fields[2]) * _SECTOR, int(fields[4]), int(fields[6]) * _SECTOR


def _memory(text: bytes) -> tuple[int, int]:
    """Returns used memory (total − available) and page cache in bytes.

    `Cached` of /proc/meminfo includes shared memory, and so PostgreSQL's shared buffers: they are
    taken out, what is left are pages of files.
    """
    values: dict[bytes, int] = {}
    for line in text.splitlines():
        key, _, value = line.partition(b":")
        values[key] = int(value.split()[0]) * 1024 if value.split() else 0
    available = values.get(b"MemAvailable", values.get(b"MemFree", 0))
    cache = values.get(b"Cached", 0) + values.get(b"Buffers", 0) - values.get(b"Shmem", 0)
    return values.get(b"MemTotal", 0) - available, max(0, cache)


def rates(first: HostReading, second: HostReading) -> dict[str, float | None]:
    """Returns every counter per second between two readings."""
    elapsed = max(second.time - first.time, 1e-9)
    row: dict[str, float | None] = {}
    for name in RATES:
        a, b = getattr(first, name), getattr(second, name)
        row[name] = None if a is None or b is None else max(0.0, b - a) / elapsed
    return row


def totals(first: HostReading, second: HostReading) -> dict[str, float | int | None]:
    """Returns the differences between two readings: disk operations and bytes, context switches, CPU
    seconds."""

    def difference(name: str) -> int | None:
        a, b = getattr(first, name), getattr(second, name)
        return None if a is None or b is None else max(0, b - a)

    return {
        "reads": difference("disk_reads"),
        "read_bytes": difference("disk_read_bytes"),
        "writes": difference("disk_writes"),
        "write_bytes": difference("disk_write_bytes"),
        "context_switches": difference("context_switches"),
        "cpu_seconds": second.cpu_busy - first.cpu_busy,
    }


# --- once per second --------------------------------------------------------------------------


class Sampler:
    """A thread that reads the host at begin + 1 s, + 2 s, … until it is told to stop.

    Row n covers the n-th second of the step, as the driver's events do; the last one may be shorter.
    Rates are the mean since the row before, so a sample that came late distorts nothing.
    `cpu_seconds` is what the thread itself has used, `failure` what ended it early.
    `each` is called at every sample.
    """

    def __init__(
        self,
        counters: HostCounters,
        postmaster: int | None = None,
        clients: Sequence[int] = (),
        interval: float = 1.0,
        each: Callable[[], object] | None = None,
    ) -> None:
        self._counters = counters
        self._postmaster = postmaster
        self._clients = list(clients)
        self._interval = interval
        self._each = each
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pgstrata-host", daemon=True)
        self._previous: HostReading | None = None
        self._begin = 0.0
        self._rss: int | None = None
        self.rows: list[dict[str, float | int | None]] = []
        self.cpu_seconds = 0.0
        self.failure: str | None = None

    def start(self, first: HostReading) -> None:
        """Starts sampling. `first` is the reading taken at the begin of the step; its time is second 0."""
        self._begin = first.time
        self._previous = first
        self._thread.start()

    def stop(self, last: HostReading | None = None) -> None:
        """Ends the thread and adds the last, shorter row. `last` was read at the end of the step."""
        self._stop.set()
        if self._thread.ident is None:
            return
        self._thread.join()
        if last is None:
            return
        # The tick that fell together with the end leaves a sliver: no second of its own.
        if self._previous is not None and last.time - self._previous.time > 0.05 * self._interval:
            self._rss = self._read_rss()
            self._row(last)

    def _deadlines(self) -> Iterator[float]:
        n = 1
        while True:
            yield self._begin + n * self._interval
            # After a pause (a suspended machine, a starved thread) go on with the next whole second.
            n = max(n + 1, int((time.monotonic() - self._begin) / self._interval) + 1)

    def _run(self) -> None:
        try:
            for turn, deadline in enumerate(self._deadlines()):
                if self._stop.wait(max(0.0, deadline - time.monotonic())):
                    return
                self._sample(turn)
                self.cpu_seconds = time.thread_time()
        except Exception as error:  # observing never ends a run: what is missing is said
            self.failure = f"{type(error).__name__}: {error}"

    def _sample(self, turn: int) -> None:
        reading = self._counters.read()
        if self._each is not None:
            self._each()
        stride = 1 + len(self._clients) // _PROCESSES_PER_SECOND
        if turn % stride == 0:
            self._rss = self._read_rss()
        self._row(reading)

    def _read_rss(self) -> int | None:
        if self._postmaster is None:
            return None
        return resident_bytes([self._postmaster, *children(self._postmaster)])

    def _row(self, reading: HostReading) -> None:
        assert self._previous is not None
        second = int((self._previous.time - self._begin) / self._interval + 0.5)
        self.rows.append(
            {
                "second": second,
                **rates(self._previous, reading),
                "memory_used_bytes": reading.memory_used_bytes,
                "page_cache_bytes": reading.page_cache_bytes,
                "server_rss_bytes": self._rss,
            }
        )
        self._previous = reading
