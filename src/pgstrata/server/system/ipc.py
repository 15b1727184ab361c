"""System V and POSIX shared memory that a killed server leaves behind.

A server that ends by itself, also by SIGQUIT, removes its segments. One killed with SIGKILL cannot: its
System V segment, its POSIX segments in /dev/shm and, before 10, its System V semaphores stay until
somebody removes them. The same holds for the servers that initdb runs.

Nothing has to be known beforehand. The System V segment begins with a header (`PGShmemHeader` of
storage/pg_shmem.h, the same from 9.6 to 18) that names the data folder by device and inode, the process
that made it, and the control segment among the POSIX ones, in which the handles of all others stand.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import stat
import struct
from collections.abc import Iterable
from pathlib import Path

from pgstrata.server.system.account import account_of, run_as, seeing_as

_IPC_RMID = 0
_SHM_RDONLY = 0o10000
_GETPID = 11  # semctl: the process that last changed a semaphore
_GETVAL = 12
_SEMAPHORES_PER_SET = 16  # sysv_sema.c: one more follows, which marks the set as PostgreSQL's
_SEMAPHORE_MAGIC = 537
_HEADER = struct.Struct("@iiNNIPQQ")  # magic creatorPID totalsize freeoffset dsm_control index device inode
# Before 9.4 without the control handle, before 8.4 without the index either.
_OLD_HEADERS = (struct.Struct("@iiNNPQQ"), struct.Struct("@iiNNQQ"))
_HEADER_MAGIC = 679834894
_CONTROL_MAGIC = 0x9A503D32  # dsm.c: PG_DYNSHMEM_CONTROL_MAGIC
_CONTROL_BYTES = 1 << 22
_NAME = re.compile(r"PostgreSQL\.\d+")
_SHM = Path("/dev/shm")
_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


def posix_segments(pid: int, uid: int) -> list[str]:
    """Returns the names in /dev/shm of the segments that a process of this user has mapped; for the
    postmaster, its control segment."""
    try:
        with seeing_as(account_of(uid)):
            maps = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return []
    return sorted(set(re.findall(rf"/dev/shm/({_NAME.pattern})", maps)))


def remove_left(data: Path, segments: Iterable[str] = ()) -> None:
    """Removes what servers of a data folder have left; only when none of its processes runs any more.

    segments: of /dev/shm that are known to be theirs, as `posix_segments` found them while they ran.
    """
    try:
        about = data.lstat()
    except OSError:
        return

    known = [name for name in segments if (_SHM / name).exists()]
    if not known and not _unattached(about.st_uid):
        return  # as after every server that ended by itself

    def remove() -> None:
        for name in known:
            _remove_posix(name)
        for identifier, maker, control in _sysv_segments(about):
            _remove_posix(f"PostgreSQL.{control}")
            _remove_sysv_semaphores(maker)
            _libc.shmctl(identifier, _IPC_RMID, None)

    # Only the owner may, where root lacks CAP_SYS_ADMIN; and nobody else's can be hit.
    run_as(account_of(about.st_uid), remove)


def _sysv_segments(data: os.stat_result) -> list[tuple[int, int, int]]:
    """Returns the segments of servers of this data folder that nobody is attached to: number, maker, control
    handle."""
    segments = []
    for identifier in _unattached(data.st_uid):
        address = _libc.shmat(identifier, None, _SHM_RDONLY)
        if address in (None, ctypes.c_void_p(-1).value):
            continue
        begin = ctypes.string_at(address, _HEADER.size)
        _libc.shmdt(ctypes.c_void_p(address))
        for header in (_HEADER, *_OLD_HEADERS):
            magic, maker, *rest, device, inode = header.unpack_from(begin)
            if (magic, device, inode) == (_HEADER_MAGIC, data.st_dev, data.st_ino):
                segments.append((identifier, maker, rest[2] if header is _HEADER else 0))
                break
    return segments


def _unattached(uid: int) -> list[int]:
    """Returns the numbers of a user's System V segments that no process is attached to."""
    # Columns: key shmid perms size cpid lpid nattch uid …
    rows = [[int(word) for word in row[:8]] for row in _rows("shm")]
    return [row[1] for row in rows if row[6] == 0 and row[7] == uid and row[3] >= _HEADER.size]


def _remove_posix(name: str) -> None:
    """Removes a segment of this process's user, and where it is a control segment those it names."""
    content = _content(name)
    if content is None:
        return
    numbers = [number for (number,) in struct.iter_unpack("=I", content[: len(content) // 4 * 4])]
    if numbers[:1] == [_CONTROL_MAGIC]:
        # A handle is an unsigned 32-bit number; where it stands differs between versions, so every
        # aligned number counts that names a segment of the same user.
        handles = set(numbers[1:])
        for other in _SHM.glob("PostgreSQL.*"):
            number = other.name.partition(".")[2]
            if number.isdigit() and int(number) in handles and _content(other.name) is not None:
                other.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (_SHM / name).unlink()


def _content(name: str) -> bytes | None:
    """Returns the first bytes of a segment of this process's user; None if it is not such a segment."""
    if not _NAME.fullmatch(name):
        return None
    try:
        file = os.open(_SHM / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(file)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
            return None
        return os.read(file, _CONTROL_BYTES)
    finally:
        os.close(file)


def _remove_sysv_semaphores(pid: int) -> None:
    """Removes the semaphore sets a server of 9.6 made: each carries its number and a magic value."""
    for row in _rows("sem"):
        identifier, size = int(row[1]), int(row[3])
        if size != _SEMAPHORES_PER_SET + 1:
            continue
        made_by = _libc.semctl(identifier, _SEMAPHORES_PER_SET, _GETPID, 0)
        if made_by == pid and (_libc.semctl(identifier, _SEMAPHORES_PER_SET, _GETVAL, 0) == _SEMAPHORE_MAGIC):
            _libc.semctl(identifier, 0, _IPC_RMID, 0)


def _rows(what: str) -> list[list[str]]:
    try:
        return [line.split() for line in Path(f"/proc/sysvipc/{what}").read_text().splitlines()[1:]]
    except OSError:
        return []
