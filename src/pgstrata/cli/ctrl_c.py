"""Ctrl-C in commands that take no signals themselves: a prompt end that no further Ctrl-C cuts short."""

from __future__ import annotations

import signal
import sys
import time
from functools import partial
from types import FrameType

from pgstrata.process_end import (
    CLEAR_SECONDS,
    FIRST_SECONDS,
    SAME_SECONDS,
    SECOND_SECONDS,
    call_after,
    end_process,
)


class CtrlC:
    """The handler of SIGINT. The first one raises KeyboardInterrupt; from then on the time runs in which the
    command may clean up, and later ones only shorten it."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._is_short = False

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
            call_after(FIRST_SECONDS, _end)
            raise KeyboardInterrupt
        if now - self._first > SAME_SECONDS and not self._is_short:
            self._is_short = True
            call_after(SECOND_SECONDS, _end)


def take_ctrl_c() -> None:
    """Handles SIGINT, unless this process was started with SIGINT ignored."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, CtrlC())


def _end() -> None:
    # Only a command that has a cluster has loaded this.
    guard = sys.modules.get("pgstrata.server.system.guard")
    end_process(
        "cleaning up takes too long: the next start removes what is left",
        128 + signal.SIGINT,
        *([partial(guard.end_claimed, CLEAR_SECONDS)] if guard else []),
    )


__all__ = ["CtrlC", "take_ctrl_c"]
