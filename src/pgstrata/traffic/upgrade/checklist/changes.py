"""The table of what changed between major versions (`changes.toml`), and where an application meets it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from importlib import resources
from typing import Literal

import msgspec

from pgstrata.files import digests
from pgstrata.server.config.settings import major_of
from pgstrata.server.find.model import version_number
from pgstrata.sql_tokens import tokens

Effect = Literal["refused", "fails", "starts", "access", "rebuild", "answers", "default"]

EVERY = "any"


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """An entry of the table; `changes.toml` says what its keys mean."""

    id: str
    since: str
    effect: Effect
    title: str
    section: str
    act: str
    types: tuple[str, ...] = ()
    catalog: str = ""
    code: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    values: str = ""
    strings: bool = False
    case: bool = False
    both: bool = False
    """Only what `catalog` finds counts, and only where `code` matches, too."""
    perhaps: bool = False
    """What `code` finds fails only for some values, or where a name is what it seems to be."""
    minor: bool = False
    """Most applications have it, and few of them notice."""
    plant: str = ""
    statement: str = ""
    loads: bool = False
    """The new version takes what `plant` makes: only pg_upgrade refuses it, or answers differ."""
    unplanted: str = ""
    since_old: str = ""
    """The first version that can make the example."""

    @property
    def source(self) -> str:
        """Where the change is documented."""
        if self.since == EVERY:
            return self.section
        return f"release notes of {self.since}, {self.section}"

    @property
    def by_hand(self) -> bool:
        """Whether nothing that is given to an upgrade shows it."""
        return not (self.types or self.catalog or self.code or self.settings)

    @cached_property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """`code`, compiled."""
        return tuple(re.compile(pattern, re.DOTALL) for pattern in self.code)

    def meets(self, code: Code) -> bool:
        """Returns whether a statement has the change in it."""
        if not self.code:
            return False
        if self.strings:
            texts = code.with_strings if self.case else code.with_strings_lowered
        else:
            texts = code.without_strings if self.case else code.without_strings_lowered
        return any(all(pattern.search(text) for pattern in self.patterns) for text in texts)

    def queries(self) -> Iterator[str]:
        """Yields what the database is asked: each row names an object."""
        if self.types:
            yield _COLUMNS.format(types=", ".join(f"'{name}'" for name in self.types))
        if self.catalog:
            yield self.catalog


@cache
def changes() -> tuple[Change, ...]:
    """Returns the whole table, oldest version first."""
    return tuple(msgspec.convert(tomllib.loads(_text("changes.toml"))["change"], list[Change]))


def table_digest() -> str:
    """Returns a digest of the table and of what servers are asked: answers to other questions are others."""
    return digests.of(_text("changes.toml") + _text("questions.toml"))


def _text(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def crossed(old: int, new: int) -> list[Change]:
    """Returns the changes that an upgrade meets. old, new: versions as servers count them, 170011."""
    before, after = major_of(old), major_of(new)
    return [
        change
        for change in changes()
        if change.since == EVERY or before < major_of(version_number(change.since)) <= after
    ]


def beyond_table(new: int) -> str:
    """Returns the newest version that the table knows, where a server is newer; else an empty text."""
    newest = max((change.since for change in changes() if change.since != EVERY), key=version_number)
    return newest if major_of(new) > major_of(version_number(newest)) else ""


class Code:
    """A statement as patterns see it: without comments, white space as one space, bodies of functions as
    statements of their own."""

    def __init__(self, text: str) -> None:
        self._text = text[:MOST_LETTERS]

    @cached_property
    def with_strings(self) -> tuple[str, ...]:
        """The statement and the bodies in it."""
        return tuple(_plain(self._text, strings=True))

    @cached_property
    def without_strings(self) -> tuple[str, ...]:
        """The same with all strings emptied."""
        return tuple(_plain(self._text, strings=False))

    @cached_property
    def with_strings_lowered(self) -> tuple[str, ...]:
        """In lower case, as patterns are: to ignore the case of letters takes them longer."""
        return tuple(text.lower() for text in self.with_strings)

    @cached_property
    def without_strings_lowered(self) -> tuple[str, ...]:
        """In lower case, with all strings emptied."""
        return tuple(text.lower() for text in self.without_strings)


MOST_DEPTH = 3
"""Of bodies within bodies."""

MOST_LETTERS = 200_000
"""Of a statement that are looked at; patterns take a time that grows with them, and no faster."""


def _plain(text: str, *, strings: bool, depth: int = 0) -> Iterator[str]:
    parts: list[str] = []
    bodies: list[str] = []
    words: list[str] = []
    for kind, piece in tokens(text):
        if kind in ("space", "comment"):
            if parts and parts[-1] != " ":
                parts.append(" ")
            continue
        if kind == "word":
            words.append(piece.lower())
        if kind == "dollar":
            bodies.append(piece[piece.index("$", 1) + 1 :].rpartition("$")[0].rpartition("$")[0])
            piece = "''"
        elif kind == "string":
            if words[-1:] == ["as"] and _makes_code(words):
                bodies.append(piece.strip("'").replace("''", "'"))
            piece = piece if strings else "''"
        parts.append(piece)
    yield "".join(parts).strip().removesuffix(";").rstrip()
    if depth < MOST_DEPTH:
        for body in bodies:
            yield from _plain(body, strings=strings, depth=depth + 1)


def _makes_code(words: Sequence[str]) -> bool:
    return words[0] == "create" and bool({"function", "procedure"} & set(words[:4]))


_COLUMNS = """
WITH RECURSIVE wanted(oid) AS (
    SELECT t.oid FROM pg_type t WHERE t.oid IN (
        SELECT pg_catalog.to_regtype(CASE WHEN name ~ '[.]' THEN name ELSE 'pg_catalog.' || name END)::oid
        FROM pg_catalog.unnest(ARRAY[{types}]::text[]) AS name)
    UNION
    SELECT n.oid FROM wanted w, LATERAL (
        SELECT t.oid FROM pg_type t WHERE t.typtype = 'd' AND t.typbasetype = w.oid
        UNION ALL SELECT t.oid FROM pg_type t WHERE t.typtype = 'b' AND t.typelem = w.oid
        UNION ALL SELECT r.rngtypid FROM pg_range r WHERE r.rngsubtype = w.oid
        UNION ALL SELECT t.oid FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid
            WHERE t.typtype = 'c' AND a.atttypid = w.oid AND NOT a.attisdropped AND a.attnum > 0
    ) n
)
SELECT c.oid::regclass || '.' || a.attname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE a.atttypid IN (SELECT oid FROM wanted) AND c.relkind IN ('r', 'm', 'p', 'c', 'f')
AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_(toast|temp)'
"""
"""Columns of some types, by way of domains, arrays, ranges and composite types, as pg_upgrade does."""

__all__ = ["EVERY", "Change", "Code", "Effect", "beyond_table", "changes", "crossed", "table_digest"]
