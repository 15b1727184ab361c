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
    "contains",
    "within",
    "rows",
    "insert",
    "set",
    "limit",
    "offset",
    "key",
    "cast",
    "sequence",
    "argument",
    "guess",
]
"""equal, unequal, less, greater, like, regular: how a column is compared with it. any: an array of values
that a column may have; element: of an array or a document for searching; contains, within: a part of what the
column has, or more than that. rows: an array of what is put into a column. insert, set: it is put into a
column. limit, offset: of rows. key: of a document; cast: what a key leads to is cast; sequence: its name;
argument: of a function that is not known. guess: its place says what a usual value is."""


class NotUnderstoodError(Exception):
    """Why nothing can be drawn for a statement."""


@dataclass(frozen=True)
class Sampled:
    """An expression on the columns of one table. text: as SQL, in which a parameter that is the key of a
    document stands as `$n`; alias: what the table is called in it; keys: numbers of these parameters."""

    table: KnownColumn
    alias: str
    text: str
    keys: tuple[int, ...] = ()


@dataclass(frozen=True)
class Argument:
    """A place among the arguments of a function that is not known, from 0. schema: empty where none is
    written; count: of its arguments; name: that is written before it, empty where none is."""

    schema: str
    function: str
    place: int
    count: int
    name: str = ""


@dataclass(frozen=True)
class Use:
    """What a parameter is for. column: None where no single one can be told. change: what the statement
    does to the column before it compares. guess: the value that a guess has; of a key, as what it is written
    (`list`, `path`, `predicate`). type: it is cast to, empty
    where it is not. sampled: what it is compared with where that is more than a column, or whose key it
    is. argument: of which function it is one."""

    kind: Kind
    column: KnownColumn | None = None
    change: Callable[[str], str] | None = None
    guess: str | None = None
    type: str = ""
    sampled: Sampled | None = None
    argument: Argument | None = None


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
    """Returns the highest $n of a statement whose literals are gone; 0 if there is none."""
    return max((int(digits) for digits in re.findall(r"\$([0-9]{1,5})\b", text)), default=0)


__all__ = ["Argument", "Kind", "NotUnderstoodError", "Sampled", "Understood", "Use", "numbers_in"]
