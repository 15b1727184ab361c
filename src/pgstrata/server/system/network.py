"""The network of servers under test: a namespace of its own, with nothing in it but a loopback device.

Unix sockets lie in the file system, so clients find a server there as before. The loopback device is up
because servers before 15 send their statistics to themselves by UDP.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Literal

from pgstrata.server.system.account import Account

Way = Literal["root", "user"]
"""How a network is closed: by root in the thread that forks, or in the child by a user namespace."""

_NEW_USER = 0x10000000  # CLONE_NEWUSER (sched.h)
_NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_SET_FLAGS = 0x8914  # SIOCSIFFLAGS (sockios.h)
_UP = 0x1  # IFF_UP (if.h)
_SET_DUMPABLE = 4  # PR_SET_DUMPABLE (prctl.h)
_THREAD = "/proc/thread-self/ns/net"
_libc = ctypes.CDLL(None, use_errno=True)


def way_to_close(account: Account | None) -> Way | None:
    """Returns how this kernel lets pgstrata start a process of `account` without a network, None if it does
    not. Tried once for each account."""
    return _tried(account, is_root=os.geteuid() == 0)


@lru_cache
def _tried(account: Account | None, *, is_root: bool) -> Way | None:
    ways: list[Way] = ["root", "user"] if is_root else ["user"]
    return next((way for way in ways if _works(way, account)), None)


def _works(way: Way, account: Account | None) -> bool:
    codes: list[int] = []

    def attempt() -> None:
        identity = (
            {}
            if account is None
            else {"user": account.uid, "group": account.gid, "extra_groups": account.groups}
        )
        with contextlib.suppress(OSError, subprocess.SubprocessError), outside_of_network(way):
            codes.append(
                subprocess.run(
                    ["/bin/true"],
                    preexec_fn=enter_closed_network if way == "user" else None,
                    cwd="/",
                    **identity,  # type: ignore[call-overload]
                ).returncode
            )

    # A thread of its own: one that could not come back from its namespace must not go on.
    thread = threading.Thread(target=attempt, name="pgstrata-network")
    thread.start()
    thread.join()
    return codes == [0]


@contextlib.contextmanager
def outside_of_network(way: Way | None) -> Iterator[None]:
    """Puts this thread into a new network namespace, which processes that it forks inherit, and takes it back
    at the end. Does nothing unless `way` is "root". Raises OSError."""
    if way != "root":
        yield
        return
    before = os.open(_THREAD, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _unshare(_NEW_NETWORK)
        try:
            _bring_up_loopback()
            yield
        finally:
            if _libc.setns(before, _NEW_NETWORK) != 0:
                raise _last_error()
    finally:
        os.close(before)


def enter_closed_network() -> None:
    """Moves this process into new user and network namespaces, with its account as it was; for a child
    between fork and exec. Raises OSError."""
    uid, gid = os.geteuid(), os.getegid()
    # After a change of account the kernel gives the files below /proc/self to root (proc(5)).
    _libc.prctl(_SET_DUMPABLE, 1, 0, 0, 0)
    _unshare(_NEW_USER | _NEW_NETWORK)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        file = os.open(f"/proc/self/{name}", os.O_WRONLY)
        try:
            os.write(file, text.encode())
        finally:
            os.close(file)
    _bring_up_loopback()


def has_own_network(pid: int) -> bool | None:
    """Returns whether a process lives in another network namespace than pgstrata, None if /proc does not
    say."""
    try:
        return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()
    except OSError:
        return None


def _unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        raise _last_error()


def _bring_up_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", _UP))


def _last_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))


__all__ = ["Way", "enter_closed_network", "has_own_network", "outside_of_network", "way_to_close"]
