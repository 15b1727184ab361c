"""The account a cluster runs as: PostgreSQL refuses to run as root."""

from __future__ import annotations

import contextlib
import ctypes
import os
import pwd
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pgstrata.errors import ServerError, UsageError

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Account:
    """An account of the system; `groups` are all groups it is in, its own included."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]


def server_account() -> Account | None:
    """Returns the account of servers when pgstrata runs as root; None when it runs as another user.

    `PGSTRATA_USER`, else `postgres`, else `nobody`. Raises UsageError when `PGSTRATA_USER` is
    unknown or root, ServerError when there is no such account at all.
    """
    if os.geteuid() != 0:
        return None
    named = os.environ.get("PGSTRATA_USER")
    for name in [named] if named else ["postgres", "nobody"]:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid == 0:
            raise UsageError(
                f"PGSTRATA_USER is {name}, which is root", "PostgreSQL needs an account without privileges"
            )
        return Account(name, entry.pw_uid, entry.pw_gid, tuple(os.getgrouplist(name, entry.pw_gid)))
    if named:
        raise UsageError(f"PGSTRATA_USER is {named}, and there is no such account")
    raise ServerError(
        "PostgreSQL refuses to run as root, and there is neither an account postgres nor nobody",
        "name one with PGSTRATA_USER, or run pgstrata as an ordinary user",
    )


def account_of(uid: int) -> Account | None:
    """Returns the account with this number; None for the account that pgstrata itself runs as."""
    if uid == os.geteuid():
        return None
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return Account(f"uid {uid}", uid, uid, ())
    return Account(entry.pw_name, uid, entry.pw_gid, tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)))


def blocked_at(path: Path, account: Account | None) -> Path | None:
    """Returns the first folder on the way to `path`, itself included, that the account may not enter.

    Parts that do not exist yet block nobody. None when the way is free.
    """
    if account is None:
        return None
    full = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would lose the names the user gave
    for folder in [*reversed(full.parents), full]:
        try:
            about = folder.stat()
        except OSError:
            return None
        if about.st_uid == account.uid:
            may = about.st_mode & 0o100
        elif about.st_gid in account.groups:
            may = about.st_mode & 0o010
        else:
            may = about.st_mode & 0o001
        if not may and not _really_may(folder, account, about.st_ctime_ns):
            return folder
    return None


@lru_cache(maxsize=256)
def _really_may(path: Path, account: Account, _changed: int) -> bool:
    """Asks the kernel, which knows access control lists and capabilities that the mode does not show.

    _changed: time of the folder's last change in nanoseconds; the answer is kept until there is another.
    """
    command = ["test", "-x", str(path)]
    try:
        return (
            subprocess.run(
                command, user=account.uid, group=account.gid, extra_groups=account.groups, cwd="/"
            ).returncode
            == 0
        )
    except OSError:
        return False


def check_reachable(path: Path, account: Account | None, what: str) -> None:
    """Raises ServerError when the account cannot reach `path`; `what` names it in the message."""
    if (folder := blocked_at(path, account)) and account:
        raise ServerError(
            f"the account {account.name}, as which servers run, cannot enter {folder}, so it cannot use "
            f"{what} {path}",
            f"chmod o+x {folder}, choose a place elsewhere, or name another account with PGSTRATA_USER",
        )


@contextlib.contextmanager
def seeing_as(account: Account | None) -> Iterator[None]:
    """Lets this thread read /proc as the account does.

    Root may read the working folders and memory maps of other accounts' processes only with
    CAP_SYS_PTRACE, which containers lack; an account may always read those of its own.
    """
    if account is None:
        yield
        return
    _libc.setfsgid(account.gid)
    _libc.setfsuid(account.uid)
    try:
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())


def run_as(account: Account | None, work: Callable[[], None]) -> None:
    """Runs `work` as the account, in a child where that is somebody else; its errors are lost.

    For what only an owner may do where root lacks CAP_SYS_ADMIN, such as removing shared memory.
    """
    if account is None:
        work()
        return
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(account.groups)
            os.setgid(account.gid)
            os.setuid(account.uid)
            work()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
