"""Starting a process that cannot outlive pgstrata."""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from pgstrata.layout import Layout
from pgstrata.server.system.account import Account
from pgstrata.server.system.network import Way, enter_closed_network, outside_of_network

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
_launcher: tuple[int, threading.Thread] | None = None
_launcher_lock = threading.Lock()


def die_with_parent(death_signal: signal.Signals = signal.SIGKILL) -> None:
    """Makes the signal reach a child of this thread when pgstrata ends; called between fork and exec."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)


def _serve() -> None:
    while True:
        _jobs.get()()


def _on_launcher(job: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Runs a job on a thread that lives as long as the process.

    The kernel sends the parent-death signal when the *thread* that forked ends, so a server
    started by a short-lived thread would die with it.
    """
    # Kept here and not handed through a queue: a signal's exception may come between taking and keeping.
    answer: list[subprocess.Popen[bytes] | BaseException] = []
    done = threading.Event()

    def run() -> None:
        try:
            answer.append(job())
        except BaseException as error:
            answer.append(error)
        done.set()

    def undo() -> None:
        for started in answer:
            if isinstance(started, subprocess.Popen):
                started.kill()
                started.wait()

    _give(run)
    try:
        done.wait()
        result = answer[0]
        if isinstance(result, BaseException):
            raise result
        return result
    except BaseException:
        # Interrupted: the process may only now be about to start, and nobody would know of it.
        _give(undo)
        settle()
        raise


def start(
    command: Sequence[str], *, become: Callable[[], None] | None = None, **how: Any
) -> subprocess.Popen[Any]:
    """Starts a helper that is killed when pgstrata ends. Raises OSError.

    become: changes the account in the child (`isolation.becoming`); how: arguments of Popen. A helper that is
    being started when a signal comes is ended again: nobody would know of it.
    """

    def in_child() -> None:
        if become is not None:
            become()
        die_with_parent()  # a change of the account would clear the signal

    return _on_launcher(lambda: subprocess.Popen(list(command), preexec_fn=in_child, **how))


def _give(job: Callable[[], None]) -> None:
    global _launcher
    with _launcher_lock:
        # A fork takes no threads along: after one, the launcher must be made anew.
        if _launcher is None or _launcher[0] != os.getpid():
            _launcher = (os.getpid(), threading.Thread(target=_serve, name="pgstrata-launcher", daemon=True))
        if _launcher[1].ident is None:
            _launcher[1].start()
    _jobs.put(job)


def settle() -> None:
    """Returns when every process that was being started has started: afterwards none comes out of nowhere."""
    done = threading.Event()
    _give(done.set)
    done.wait()


def spawn(
    command: Sequence[str],
    *,
    account: Account | None,
    folder: Path,
    env: Mapping[str, str],
    output: IO[bytes] | int,
    death_signal: signal.Signals,
    cpus: Sequence[int] = (),
    layout: Layout | None = None,
    closed: Way | None = None,
    become: Callable[[], None] | None = None,
) -> subprocess.Popen[bytes]:
    """Starts `command` in its own session, as `account` where one is given.

    become: changes the account in the child instead, for one that gives up more than that.

    death_signal reaches it when pgstrata ends in whatever way; output takes its standard output
    and error; folder is its working folder; cpus the CPUs it may use (all if empty); layout: where its memory
    lies (without one where the kernel draws it); closed: how it is kept off the network (`way_to_close`),
    None leaves it the network of this process.
    Raises OSError when it cannot be started.
    """
    parent = os.getpid()
    prctl = _libc.prctl

    def in_child() -> None:
        if closed == "user":
            enter_closed_network()
        if become is not None:
            become()
        # A worker of a local fleet leaves SIGINT to its client; a server ends by it.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Runs after the change of account, which would clear the signal again.
        prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        if cpus:
            os.sched_setaffinity(0, cpus)
        if layout is not None:
            layout.take()

    who: dict[str, Any] = {}
    if account:
        who = {"user": account.uid, "group": account.gid, "extra_groups": account.groups}

    def launch() -> subprocess.Popen[bytes]:
        with outside_of_network(closed):
            return subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=dict(env) if layout is None else layout.filled(command, env),
                start_new_session=True,
                preexec_fn=in_child,
                **who,
            )

    return _on_launcher(launch)


def server_env(extra: Mapping[str, str] | None = None, data: Path | None = None) -> dict[str, str]:
    """Returns the environment of servers: small and the same for all users, so that none of the user's PG*,
    LC_* or LD_PRELOAD decides a measurement; LD_LIBRARY_PATH stays for builds that need it.

    data: the data folder, by which every process that a server starts can be told (`running`).
    """
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC", "HOME": "/"}
    if data is not None:
        env["PGDATA"] = os.path.realpath(data)
    if libraries := os.environ.get("LD_LIBRARY_PATH"):
        env["LD_LIBRARY_PATH"] = libraries
    return {**env, **(extra or {})}


def children(pid: int) -> list[int]:
    """Returns the processes that a process has started and that still run."""
    pids: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            pids += [int(child) for child in (task / "children").read_text().split()]
    except FileNotFoundError:  # it has ended, or the kernel does not keep this list
        import psutil

        with contextlib.suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
    except OSError:
        pass
    return pids
