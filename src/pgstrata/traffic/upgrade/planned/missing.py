"""What a server does not have of the statistics."""

from __future__ import annotations

import msgspec

MOST_LISTED = 200
"""How many are kept with their reason."""


class NotRestored(msgspec.Struct, frozen=True):
    """A statistic that a server does not have. what: the table or column, and which; why: the reason."""

    what: str
    why: str


class Missing:
    """What is not restored, as it is met."""

    def __init__(self) -> None:
        self.listed: list[NotRestored] = []
        self.count = 0

    def add(self, what: str, why: str) -> None:
        """Adds a statistic: beyond `MOST_LISTED` it is only counted."""
        self.count += 1
        if len(self.listed) < MOST_LISTED:
            self.listed.append(NotRestored(what, why))


__all__ = ["Missing", "NotRestored"]
