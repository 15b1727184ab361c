"""System V and POSIX shared memory that a killed server leaves behind.

A server that ends by itself, also by SIGQUIT, removes its segments. One killed with SIGKILL cannot:
its System V segment (a few bytes that guard the data folder), its POSIX segments in /dev/shm and,
before 10, its System V semaphores stay until somebody removes them.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import struct
from pathlib import Path

from pgstrata.server.account import run_as, seeing_as, server_account

_IPC_RMID = 0
_GETPID = 11  # semctl: the process that last changed a semaphore
_GETVAL = 12
_SEMAPHORES_PER_SET = 16  # sysv_sema.c: one more follows, which marks the set as PostgreSQL's
_SEMAPHORE_MAGIC = 537
_SHM = Path("/dev/shm")
_libc = ctypes.CDLL(None, use_errno=True)


def posix_segments(pid: int) -> list[str]:
    """Names in /dev/shm of the segments that a process has mapped; for the postmaster, its control
    segment, in which the handles of all others are written."""
    try:
        with seeing_as(server_account()):
            maps = Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return []
    return sorted(set(re.findall(r"/dev/shm/(PostgreSQL\.\d+)", maps)))


def remove_left(pid_file: Path, postmaster: int, segments: list[str]) -> None:
    """Removes what a killed server has left; only when none of its processes runs any more.

    pid_file: its postmaster.pid; segments: as `posix_segments` found them while it ran.
    """

    def remove() -> None:
        _remove_sysv_memory(pid_file)
        _remove_posix(segments)
        if postmaster:
            _remove_sysv_semaphores(postmaster)

    run_as(server_account(), remove)


def _remove_posix(names: list[str]) -> None:
    """Removes control segments and the segments whose handles they hold."""
    for name in names:
        path = _SHM / name
        try:
            owner, content = path.stat().st_uid, path.read_bytes()
        except OSError:
            continue
        # A handle is an unsigned 32-bit number; where it stands differs between versions, so every
        # aligned number counts that names a segment of the same owner.
        handles = {number for (number,) in struct.iter_unpack("=I", content[: len(content) // 4 * 4])}
        for other in _SHM.glob("PostgreSQL.*"):
            number = other.name.partition(".")[2]
            with contextlib.suppress(OSError):
                if number.isdigit() and int(number) in handles and other.stat().st_uid == owner:
                    other.unlink()
        with contextlib.suppress(OSError):
            path.unlink()


def _remove_sysv_memory(pid_file: Path) -> None:
    """Removes the System V segment named in a postmaster.pid, unless a process is attached."""
    try:
        fields = pid_file.read_text().splitlines()[6].split()
        identifier = int(fields[1])
        rows = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    except (OSError, IndexError, ValueError):
        return
    for row in rows:
        # Columns: key shmid perms size cpid lpid nattch …; the key must fit as well, because the
        # numbers start anew when the machine does.
        if int(row[1]) == identifier and int(row[0]) == int(fields[0]) and int(row[6]) == 0:
            _libc.shmctl(identifier, _IPC_RMID, None)


def _remove_sysv_semaphores(pid: int) -> None:
    """Removes the semaphore sets a postmaster of 9.6 made: each carries its number and a magic value."""
    try:
        rows = [line.split() for line in Path("/proc/sysvipc/sem").read_text().splitlines()[1:]]
    except OSError:
        return
    for row in rows:
        identifier, size = int(row[1]), int(row[3])
        if size != _SEMAPHORES_PER_SET + 1:
            continue
        made_by = _libc.semctl(identifier, _SEMAPHORES_PER_SET, _GETPID, 0)
        if made_by == pid and (_libc.semctl(identifier, _SEMAPHORES_PER_SET, _GETVAL, 0) == _SEMAPHORE_MAGIC):
            _libc.semctl(identifier, 0, _IPC_RMID, 0)
