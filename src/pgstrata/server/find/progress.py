"""What a build says while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

PLAIN_SECONDS = 15.0
"""Plain output says this often how far a build is."""


@dataclass(frozen=True)
class BuildProgress:
    """How far a build is.

    what: `17.11 o2`; stage: `source`, `configure`, `compile`, `install`, `extensions`; done, total: source
    files compiled and to be compiled, 0 where nobody knows yet; now: the file that was begun last;
    seconds: since the build began; left: estimated seconds to its end, None where nobody knows.
    """

    what: str
    stage: str
    done: int = 0
    total: int = 0
    now: str = ""
    seconds: float = 0.0
    left: float | None = None

    def __str__(self) -> str:
        text = f"building {self.what}: {self.stage}"
        if self.total:
            text += f" {min(self.done, self.total)} of {self.total}"
        if self.now:
            text += f", {self.now}"
        if self.left is not None:
            text += f", about {round(self.left)} s left"
        return text


class PlainBuildProgress:
    """Progress as sentences: one when a stage begins, and every 15 s of a long one."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say, self._stage, self._said = say, "", 0.0

    def __call__(self, progress: BuildProgress) -> None:
        new = progress.stage != self._stage
        if new or progress.seconds - self._said >= PLAIN_SECONDS:
            self._stage, self._said = progress.stage, progress.seconds
            self._say(f"  {progress}")
