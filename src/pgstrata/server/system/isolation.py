"""Runs programs of others without privileges: builds, and probes such as `--version`.

As root they run as the account of servers, without capabilities, without the network where the kernel allows
that, and with an environment and a home of their own. Otherwise they run as this user, whose they are.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from pgstrata.server.system.account import Account, server_account
from pgstrata.server.system.process import server_env

_CLONE_NEWNET = 0x40000000
_PR_SET_NO_NEW_PRIVS = 38
_libc = ctypes.CDLL(None, use_errno=True)

PROBE_SECONDS = 30.0


def becoming(account: Account | None) -> Callable[[], None]:
    """Returns a function that a child runs between fork and exec to give up the rights of root; it does
    nothing if account is None.

    A change of the user's number from 0 drops all capabilities (capabilities(7)). A network namespace of
    its own has no device but a loopback that is down (network_namespaces(7)); a container may refuse one.
    """

    def become() -> None:
        if account is None:
            return
        _libc.unshare(_CLONE_NEWNET)
        os.setgroups(account.groups)
        os.setgid(account.gid)
        os.setuid(account.uid)
        _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)

    return become


def probe(command: Sequence[str | Path], seconds: float = PROBE_SECONDS) -> subprocess.CompletedProcess[str]:
    """Runs a program that tells something about itself, and returns what it printed.

    Raises OSError where it cannot be started, subprocess.TimeoutExpired where it does not end.
    """
    return subprocess.run(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env=server_env(),
        cwd="/",
        timeout=seconds,
        preexec_fn=becoming(server_account()),
    )


def hand_over_tree(folder: Path, account: Account | None) -> None:
    """Gives a folder and all that is in it to the account; no link is followed. Raises OSError."""
    if account is None:
        return
    for path, _, files in os.walk(folder):
        for name in files:
            # A link to a folder stands among the folders of the walk, and keeps its owner.
            with contextlib.suppress(FileNotFoundError):
                os.chown(Path(path, name), account.uid, account.gid, follow_symlinks=False)
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


__all__ = ["becoming", "hand_over_tree", "probe"]
