"""What a line of the checklist is, and what the lines of one new version are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from pgstrata.traffic.upgrade.checklist.changes import Change
from pgstrata.traffic.upgrade.checklist.rehearsal import Answers, Rehearsal

State = Literal["fails", "before", "after", "look", "note", "unknown", "hand"]

STATES: Mapping[State, str] = {
    "fails": "fails",
    "before": "before the upgrade",
    "after": "after the upgrade",
    "look": "to look at",
    "unknown": "not known",
    "note": "to know",
    "hand": "not visible from here",
}
"""In the order in which a reader wants them, with what they are called."""

MOST_OBJECTS = 200

REFUSED_STATEMENTS = "refused-statements"


class Line(msgspec.Struct, frozen=True):
    """A line of the checklist.

    objects: where it is met, the first of `count`; act: SQL, a command, or what to do; source: where it is
    documented, empty where a server said it.
    """

    id: str
    state: State
    title: str
    act: str
    objects: list[str] = []
    count: int = 0
    source: str = ""

    @property
    def must(self) -> bool:
        """Whether something has to be done for it."""
        return self.state in ("before", "after")


@dataclass(frozen=True)
class Material:
    """What the lines of one new version are made of.

    definitions: statements of the dumps, as they stand in the files; statements: of the log, by number;
    names: how these are called; settings: of the user's config files, name and value; left_out: what was not
    defined because it reaches outside; database_bytes, old_bytes: of the loaded database on the new and the
    old version, and analyze_seconds: of ANALYZE on the new one, where they were measured.
    """

    rehearsal: Rehearsal
    label: str
    changes: Sequence[Change]
    definitions: Sequence[str]
    statements: Mapping[int, str]
    names: Mapping[int, str]
    settings: Sequence[tuple[str, str]]
    left_out: Sequence[str] = ()
    database_bytes: int | None = None
    old_bytes: int | None = None
    analyze_seconds: float | None = None

    @property
    def old(self) -> Answers:
        return self.rehearsal.old

    @property
    def new(self) -> Answers:
        return self.rehearsal.new[self.label]


def line(id: str, state: State, title: str, act: str, objects: Sequence[str] = (), source: str = "") -> Line:
    """Returns a line with the first of its objects."""
    return Line(id, state, title, act, list(objects[:MOST_OBJECTS]), len(objects), source)


__all__ = ["MOST_OBJECTS", "REFUSED_STATEMENTS", "STATES", "Line", "Material", "State", "line"]
