"""When this process is ended while it still cleans up: only where pgstrata is its program, after a limit."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

FIRST_SECONDS, SECOND_SECONDS = 3.8, 0.5
"""How long pgstrata may clean up after the first signal, and after the second. Then every server is killed
and this process ends; the next start removes what is left. So a command ends within 5 s of the first Ctrl-C
and within 1 s of the second."""

SAME_SECONDS = 0.1
"""Signals that follow each other faster are one: a terminal and a program between send it both."""

CLEAR_SECONDS = 0.4
"""How long folders are cleared after that."""

_allowed = False
_threads_left = False
_others: list[Callable[[], None]] = []


def allow_process_end() -> None:
    """Lets a signal end this process where cleaning up takes too long. Called by the command line: a program
    that uses pgstrata as a library is not ours to end."""
    global _allowed
    _allowed = True


def ending_signals() -> list[signal.Signals]:
    """Returns the signals that end a command: Ctrl-C, SIGTERM, and SIGHUP unless who started it had that one
    ignored, as nohup does."""
    hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangs_up else [])]


def may_end_process() -> bool:
    """Returns True where pgstrata is the program of this process."""
    return _allowed


def call_after(seconds: float, end: Callable[[], None]) -> None:
    """Calls `end` on a thread of its own after a limit, unless this process has ended by then."""
    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


@contextmanager
def ends_with_process(end: Callable[[], None]) -> Iterator[None]:
    """Registers `end` to be called if this process ends while the block runs: for processes that would
    outlive it."""
    _others.append(end)
    try:
        yield
    finally:
        _others.remove(end)


def end_process(words: str, code: int, *ends: Callable[[], None]) -> None:
    """Ends this process at once, with everything that would outlive it, and says so on standard error."""
    # No file object: another thread may be in the middle of writing to it.
    with suppress(OSError):
        os.write(2, f"{words}\n".encode())
    for end in (*_others, *ends):
        with suppress(Exception):
            end()
    os._exit(code)


def leave_thread_behind() -> None:
    """Notes that a thread is still in the code of a library, which cannot be told to end."""
    global _threads_left
    _threads_left = True


def exit_process(code: int) -> NoReturn:
    """Ends the program, as `multiprocessing` ends its processes: threads are waited for and exit functions
    are called, but no library cleans up. A thread in C++ code that needs the interpreter while it is taken
    down aborts the process ("terminate called without an active exception"). A thread that was left behind
    is not waited for: what OpenSSL frees at the end, libpq may still compute with."""
    if not _threads_left:
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
