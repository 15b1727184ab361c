"""Waits until other programs leave the CPUs alone (`pgstrata run --wait-quiet`)."""

from __future__ import annotations

import time
from collections.abc import Callable

from pgstrata import numbers
from pgstrata.observe.other_load import OtherLoad

QUIET = 0.1
"""Share of the CPUs that other programs may use in a quiet moment."""

LOOK_SECONDS = 3.0
"""How long other programs are watched at a time."""

SAY_SECONDS = 60.0
"""Between two lines that say what is waited for."""


class QuietWait:
    """A limited time to wait for quiet CPUs, shared by all runs of a command.

    seconds: the limit. say: prints a line. share: watches other programs for the seconds that it is given and
    returns the share of the CPUs, 0 … 1, that they used."""

    def __init__(
        self, seconds: float, say: Callable[[str], None], share: Callable[[float], float] | None = None
    ) -> None:
        self._left, self._say, self._share = seconds, say, share or _watch

    def wait(self, check: Callable[[], None]) -> bool:
        """Waits until the CPUs are quiet. Returns False if the limit is reached first.

        check: called after each look; what it raises ends the waiting."""
        last_line: float | None = None
        while self._left > 0:
            begun = time.monotonic()
            share = self._share(min(LOOK_SECONDS, self._left))
            check()
            if share <= QUIET:
                return True
            now = time.monotonic()
            self._left -= now - begun
            if last_line is None or now - last_line >= SAY_SECONDS:
                last_line = now
                left = numbers.clock(max(0.0, self._left))
                self._say(f"waiting for a quiet moment: other programs use {share:.0%} (at most {left} more)")
            if self._left <= 0:
                self._say(
                    f"other programs still use {share:.0%} of the CPUs: measuring all the same; what they "
                    "disturb is unclear"
                )
        return False


def _watch(seconds: float) -> float:
    load = OtherLoad()
    time.sleep(seconds)
    return load.share()


__all__ = ["QUIET", "QuietWait"]
