"""Ctrl-C, SIGTERM and SIGHUP as one exception, and stretches of code in which they have to wait."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

PATIENCE_SECONDS = 1.0
"""How long the exception of one signal may be on its way before the next one raises another."""


class Interrupted(BaseException):
    """A signal asks pgstrata to end. Not an Exception: nothing but the command line catches it."""

    def __init__(self, signum: int) -> None:
        super().__init__(signal.Signals(signum).name)
        self.signum = signum

    @property
    def exit_code(self) -> int:
        """128 + signal, as shells report it: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.signum


class Interrupts:
    """Signals raise Interrupted in the main thread while this is entered.

    Inside `shield()` — while something is taken down — they are only noted, and so are those that follow the
    first within a second: it is on its way out already, and another one on top of it could come just where
    the taking down begins.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, say: Callable[[str], None] = lambda text: None) -> None:
        self.caught: int | None = None
        self._say = say
        self._shields = 0
        self._former: dict[int, object] = {}
        self._raised = -math.inf

    def __enter__(self) -> Interrupts:
        for number in self.SIGNALS:
            self._former[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *unused: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)  # type: ignore[arg-type]

    def _on_signal(self, signum: int, frame: FrameType | None) -> None:
        first = self.caught is None
        self.caught = self.caught or signum
        if self._shields:
            self._tell("stopping the server and cleaning up, one moment")
            return
        if time.monotonic() - self._raised < PATIENCE_SECONDS:
            return
        self._raised = time.monotonic()
        if first:
            self._tell("interrupted: stopping the driver and the server")
        raise Interrupted(signum)

    def _tell(self, text: str) -> None:
        # It may come while something else is being written, and files cannot be written to in between.
        with suppress(RuntimeError):
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
