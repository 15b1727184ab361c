"""The statements of a replay, which travel by their number in the header of the captured file."""

from __future__ import annotations

import re
from typing import NamedTuple, Protocol

from pgstrata.errors import StoreError

_EARLIER = re.compile(r"#([0-9]+) ")


class Statement(NamedTuple):
    """A normalized statement of a replay."""

    number: int
    """Its number in the header of the captured file."""
    name: str
    """What events and records call it: the number and the beginning of its text, `#3 SELECT …`."""

    @property
    def text(self) -> str:
        """The beginning of its text."""
        return self.name.removeprefix(f"#{self.number} ")


class Recorded(Protocol):
    """What a record or an event tells of one statement."""

    @property
    def number(self) -> int | None: ...

    @property
    def name(self) -> str: ...


def statement_of(record: Recorded) -> Statement:
    """Returns the statement of a record. Raises StoreError where it has no number."""
    return recorded_statement(record.number, record.name)


def recorded_statement(number: int | None, name: str) -> Statement:
    """Returns the statement with this number and name. Raises StoreError where it has none.

    number: None in run folders that are older than this key; there the name alone has it.
    """
    if number is not None:
        return Statement(number, name)
    match = _EARLIER.match(name)
    if match is None:
        raise StoreError(f"the statement {name[:80]!r} has no number", "remove the damaged run's folder")
    return Statement(int(match[1]), name)


__all__ = ["Statement", "recorded_statement", "statement_of"]
