"""What a parameter of a statement is for, and what is known of the statement."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from pgstrata.traffic.synthetic.statistics import KnownColumn

Kind = Literal[
    "equal",
    "unequal",
    "less",
    "greater",
    "like",
    "regular",
    "any",
    "element",
    "insert",
    "set",
    "limit",
    "offset",
    "guess",
]
"""equal, unequal, less, greater, like, regular: how a column is compared with it. any: an array of values
that a column may have; element: of an array or a document for searching. insert, set: it is put into a
column. limit, offset: of rows. guess: its place says what a usual value is."""


class NotUnderstoodError(Exception):
    """Why nothing can be drawn for a statement."""


@dataclass(frozen=True)
class Use:
    """What a parameter is for. column: None where no single one can be told. change: what the statement does
    to the column before it compares. guess: the value that a guess has. type: it is cast to, empty where it
    is not."""

    kind: Kind
    column: KnownColumn | None = None
    change: Callable[[str], str] | None = None
    guess: str | None = None
    type: str = ""


@dataclass
class Understood:
    """text: the statement as a server prepares it. uses: of each parameter; none of one that is never used
    where its value says anything. reads: it changes nothing. single: its conditions are on one table, and
    hold together. whole: all rows on which they hold are its rows. upserts: what
    is there already is no failure of its INSERT."""

    text: str
    uses: dict[int, list[Use]] = field(default_factory=dict)
    reads: bool = True
    single: bool = True
    whole: bool = True
    upserts: bool = False


def numbers_in(text: str) -> int:
    """The highest $n of a statement whose literals are gone."""
    return max((int(found) for found in re.findall(r"\$([0-9]{1,5})\b", text)), default=0)


__all__ = ["Kind", "NotUnderstoodError", "Understood", "Use", "numbers_in"]
