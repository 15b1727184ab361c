"""CPU seconds of the server's processes over exactly one step, read from the kernel.

What is read: the scheduler's own run-time clock of each process (`clock_gettime` on its CPU clock,
the one `clock_getcpuclockid(3)` names). It counts nanoseconds, includes the slice that is running
right now and threads that have ended, needs no permission and costs about 1 µs per process.
`/proc/<pid>/stat` shows the same sum cut down to clock ticks (10 ms, twice); `/proc/<pid>/schedstat`
knows the first thread only and lags by up to a tick while it runs. Where the clock cannot be read,
`/proc/<pid>/stat` is.

Processes that are born or die within the step are not lost: their parent takes over their CPU time
when it reaps them (`cutime` and `cstime` of the postmaster). So the sum

    postmaster + living descendants + time of reaped children

only ever grows, and its difference over the step is the CPU time of the whole cluster. Only the
`cutime`/`cstime` part of it is in clock ticks: the error is at most 2 ticks (20 ms) per reading.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
_TICK = 1.0 / os.sysconf("SC_CLK_TCK")
# Linux names the CPU clock of another process by its pid: include/linux/posix-timers.h, CPUCLOCK_SCHED.
_CPUCLOCK_SCHED = 2
# Fields of /proc/<pid>/stat behind the closing parenthesis of the name, counted from 0 (proc(5) from 3).
_PPID, _UTIME, _STIME, _CUTIME, _CSTIME = 1, 11, 12, 13, 14


def read_small(path: str) -> bytes | None:
    """Returns the content of a small file of /proc; None if it cannot be read. Plain calls: they cost a third
    of pathlib's."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = b""
        while more := os.read(fd, 65536):  # lists come in pieces of about a page
            text += more
        return text
    except OSError:
        return None
    finally:
        os.close(fd)


def _stat(pid: int, proc: Path) -> list[bytes] | None:
    """Returns the fields of /proc/<pid>/stat behind the name, which may itself hold blanks and
    parentheses."""
    text = read_small(f"{proc}/{pid}/stat")
    return None if text is None else text[text.rfind(b")") + 2 :].split()


def cpu_seconds(pid: int, proc: Path = PROC) -> float | None:
    """Returns the CPU seconds a living (or not yet reaped) process has used, all its threads; None if it is
    gone."""
    if proc == PROC:
        try:
            return time.clock_gettime((~pid << 3) | _CPUCLOCK_SCHED)
        except (OSError, OverflowError):
            pass  # gone, or a kernel without these clocks: the file tells
    fields = _stat(pid, proc)
    if fields is None or len(fields) <= _STIME:
        return None
    return (int(fields[_UTIME]) + int(fields[_STIME])) * _TICK


def reaped_seconds(pid: int, proc: Path = PROC) -> float:
    """Returns the CPU seconds of the children a process has reaped, and of theirs; the resolution is a clock
    tick."""
    fields = _stat(pid, proc)
    if fields is None or len(fields) <= _CSTIME:
        return 0.0
    return (int(fields[_CUTIME]) + int(fields[_CSTIME])) * _TICK


def children(pid: int, proc: Path = PROC) -> list[int]:
    """Returns the pids of the children of a process, those not yet reaped included."""
    text = read_small(f"{proc}/{pid}/task/{pid}/children")
    if text is not None:
        return [int(child) for child in text.split()]
    if not (proc / str(pid)).exists():
        return []
    # A kernel built without CONFIG_PROC_CHILDREN: ask every process for its parent.
    pids = []
    for entry in proc.iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name), proc)
            if fields is not None and len(fields) > _PPID and int(fields[_PPID]) == pid:
                pids.append(int(entry.name))
    return pids


def processes(postmaster: int, known: Iterable[int] = (), proc: Path = PROC) -> list[int]:
    """Returns the postmaster and all its descendants. Those of `known` are not asked for children: saves
    time."""
    leaves = set(known)
    pids, todo = [], [postmaster]
    while todo:
        pid = todo.pop()
        pids.append(pid)
        if pid not in leaves:
            todo.extend(children(pid, proc))
    return pids


@dataclass(frozen=True)
class CpuReading:
    """CPU seconds used since their birth by `backends` (by pid), and by the cluster since its start."""

    backends: dict[int, float] = field(default_factory=dict)
    total: float | None = None


@dataclass(frozen=True)
class CpuUsed:
    """What a step cost the server, in CPU seconds.

    rows: one per connection (`role`, `client` from 1, `pid`, `cpu_seconds`, None where the backend
    had gone before it could be read), and one of role `server`: everything else of the cluster.
    Parallel workers of a query belong to `server`: they live too shortly to be told apart.
    """

    rows: list[dict[str, object]]
    by_role: dict[str, float]
    total: float | None


class ServerCpu:
    """Reads the CPU clocks of one cluster: of the connections of each role, and of all its processes."""

    def __init__(self, postmaster: int | None, roles: Mapping[str, Sequence[int]], proc: Path = PROC) -> None:
        self.postmaster = postmaster
        self.roles = {role: list(pids) for role, pids in roles.items()}
        self._clients = [pid for pids in self.roles.values() for pid in pids]
        self._proc = proc
        self._last: dict[int, float] = {}

    def read_backends(self) -> dict[int, float]:
        """Returns the CPU seconds of every connection's backend; the last known value for backends that have
        ended."""
        for pid in self._clients:
            seconds = cpu_seconds(pid, self._proc)
            if seconds is not None:
                self._last[pid] = seconds
        return dict(self._last)

    def read(self) -> CpuReading:
        """Reads all clocks now. About 1 µs per connection and 20 µs per other process."""
        backends = self.read_backends()
        if self.postmaster is None:
            return CpuReading(backends)
        return CpuReading(backends, self._total(self.postmaster))

    def _total(self, postmaster: int) -> float | None:
        total = None
        # A process that is reaped between reading its clock and reading its parent's account would
        # be counted twice or not at all: read again until the account stood still.
        for _ in range(5):
            account = reaped_seconds(postmaster, self._proc)
            sum_ = account
            for pid in processes(postmaster, self._clients, self._proc):
                sum_ += cpu_seconds(pid, self._proc) or 0.0
                if pid != postmaster and pid not in self._last:
                    sum_ += reaped_seconds(pid, self._proc)
            if cpu_seconds(postmaster, self._proc) is None:
                return total
            total = sum_
            if reaped_seconds(postmaster, self._proc) == account:
                break
        return total

    def used(self, begin: CpuReading, end: CpuReading) -> CpuUsed:
        """Returns the difference of two readings."""
        rows: list[dict[str, object]] = []
        by_role: dict[str, float] = {}
        for role, pids in self.roles.items():
            by_role[role] = 0.0
            for client, pid in enumerate(pids, start=1):
                seconds = None
                if pid in end.backends:
                    # A backend not seen at the beginning was born since: all its time is the step's.
                    seconds = max(0.0, end.backends[pid] - begin.backends.get(pid, 0.0))
                    by_role[role] += seconds
                rows.append({"role": role, "client": client, "pid": pid, "cpu_seconds": seconds})
        clients = sum(by_role.values())
        if begin.total is None or end.total is None:
            return CpuUsed(rows, by_role, None)
        # The reaped children's ticks are coarser than the clocks: never less than what was seen.
        total = max(end.total - begin.total, clients)
        by_role["server"] = total - clients
        rows.append({"role": "server", "client": None, "pid": None, "cpu_seconds": by_role["server"]})
        return CpuUsed(rows, by_role, total)


def resident_bytes(pids: Iterable[int], proc: Path = PROC) -> int | None:
    """Returns the memory the server's processes hold: private pages of each, and shared ones once.

    Sum over processes of (resident − shared) from /proc/<pid>/statm, plus the largest `shared` of
    any one of them (shared buffers and program text, which nearly all processes map). It is the cheap
    stand-in for the sum of PSS: too high by pages still shared after fork (a few MB per process at
    most), too low by shared pages that only other processes have touched. Huge pages are not in it.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    private = shared = 0
    seen = False
    for pid in pids:
        fields = (read_small(f"{proc}/{pid}/statm") or b"").split()
        if len(fields) > 2:
            resident, mine = int(fields[1]), int(fields[2])
            private += resident - mine
            shared = max(shared, mine)
            seen = True
    return (private + shared) * page if seen else None
