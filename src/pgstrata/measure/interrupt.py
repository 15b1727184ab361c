"""Ctrl-C, SIGTERM and SIGHUP as one exception, and stretches of code in which they have to wait."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType

from pgstrata.errors import Interrupted
from pgstrata.process_end import (
    CLEAR_SECONDS,
    FIRST_SECONDS,
    SAME_SECONDS,
    SECOND_SECONDS,
    call_after,
    end_process,
    ending_signals,
    may_end_process,
)
from pgstrata.server.system.guard import end_claimed

PATIENCE_SECONDS = 1.0
"""How long the exception of one signal may be on its way before the next one raises another."""

AGAIN_SECONDS = 0.02
"""After which a signal is sent again whose exception was swallowed."""


class Interrupts:
    """Signals raise Interrupted in the main thread while this is entered.

    Inside `shield()` — while something is taken down — they are only noted, and so are those that follow the
    first within a second: it is on its way out already, and another one on top of it could come just where
    the taking down begins. Where taking down takes too long (`FIRST_SECONDS`, `SECOND_SECONDS`), the process
    ends nevertheless. On another thread than the main one signals are not heard.
    """

    def __init__(self, say: Callable[[str], None] = lambda text: None) -> None:
        self.caught: int | None = None
        self._say = say
        self._shields = 0
        self._former: dict[int, object] = {}
        self._raised = -math.inf
        self._first = -math.inf
        self._limits = 0
        self._former_hook = sys.unraisablehook

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in ending_signals():
            self._former[number] = signal.signal(number, self._on_signal)
        self._former_hook, sys.unraisablehook = sys.unraisablehook, self._on_ignored
        return self

    def __exit__(self, *unused: object) -> None:
        # After a signal the limit holds until this process has ended: its threads are waited for, too.
        if self._former:
            sys.unraisablehook = self._former_hook
        for number, former in self._former.items():
            signal.signal(number, former)  # type: ignore[arg-type]

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        first = self.caught is None
        self.caught = self.caught or signum
        now = time.monotonic()
        if first:
            self._first = now
            self._end_after(FIRST_SECONDS)
        elif now - self._first > SAME_SECONDS and self._limits < 2:
            self._end_after(SECOND_SECONDS)
        if self._shields:
            self._tell("stopping the server and cleaning up, one moment")
            return
        if time.monotonic() - self._raised < PATIENCE_SECONDS:
            return
        self._raised = time.monotonic()
        if first:
            self._tell("interrupted: stopping the driver and the server")
        raise Interrupted(signum)

    def _end_after(self, seconds: float) -> None:
        if not may_end_process():
            return
        self._limits += 1
        call_after(seconds, self._end)

    def _end(self) -> None:
        """Ends this process although it is not done with cleaning up."""
        end_process(
            "cleaning up takes too long: servers are killed, the next start removes what is left",
            128 + (self.caught or signal.SIGTERM),
            partial(end_claimed, CLEAR_SECONDS),
        )

    def _on_ignored(self, what: sys.UnraisableHookArgs) -> None:
        """Handles exceptions that Python cannot raise: a signal may come in a finalizer or the callback of a
        weak reference, which swallow its exception. The signal is sent again, a moment later."""
        if not isinstance(what.exc_value, Interrupted):
            self._former_hook(what)
            return
        self._raised = -math.inf
        call_after(AGAIN_SECONDS, partial(self._send_again, what.exc_value.signum))

    def _send_again(self, signum: int) -> None:
        if signal.getsignal(signum) == self._on_signal:  # not after the end, where it would kill
            os.kill(os.getpid(), signum)

    def _tell(self, text: str) -> None:
        # It may come while something else is being written, and files cannot be written to in between; or
        # while a module is imported that printing needs.
        with suppress(RuntimeError, ImportError, AttributeError):
            self._say(text)

    def check(self) -> None:
        """Raises what arrived inside a shield."""
        if self.caught is not None:
            raise Interrupted(self.caught)

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Signals wait until the block has ended; `check()` then raises them."""
        self._shields += 1
        try:
            yield
        finally:
            self._shields -= 1


class Ending:
    """Ctrl-C and SIGTERM for one measurement: they raise Interrupted in the main thread, but for the first
    one while `measuring` is set, which is only noted: what was measured until then is worth keeping."""

    SIGNALS = (signal.SIGINT, signal.SIGTERM)

    def __init__(self) -> None:
        self.caught: int | None = None
        self.measuring = False
        self._former: dict[int, object] = {}

    def __enter__(self) -> Ending:
        for number in self.SIGNALS:
            self._former[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *unused: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)  # type: ignore[arg-type]

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        first = self.caught is None
        self.caught = self.caught or signum
        if not (first and self.measuring):
            raise Interrupted(signum)


__all__ = ["Ending", "Interrupted", "Interrupts"]
