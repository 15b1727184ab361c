"""Statements without their literals: what makes two of them the same statement with other values.

A shape is written as pg_stat_statements writes it: literals become $1, $2, … in their order, comments go,
white space is one space, and a list behind IN is written as one value however long it is. Columns by their
number (`ORDER BY 1`) and modifiers of types (`varchar(20)`) are no literals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pgstrata.sql_tokens import Token, tokens
from pgstrata.traffic.literals import Purpose, may_have_places, purposes
from pgstrata.traffic.settings import assignments, data_places

LONGEST_SHAPE = 4000
"""Letters of a shape that are kept: what differs behind them is one shape."""

_LIST = re.compile(r"\b(IN|in|In)\s*\(\s*\0(?:\s*,\s*\0)*\s*\)")
VALUE = "\0"
"""Stands for each value until all are numbered; no statement can hold it."""

_OPERANDS = frozenset(("string", "dollar", "name", "parameter", "number"))
# Behind these a minus belongs to the number; behind any other word, which is a column, it subtracts.
_BEFORE_SIGNS = frozenset(
    [
        "select",
        "and",
        "or",
        "not",
        "where",
        "when",
        "then",
        "else",
        "in",
        "between",
        "limit",
        "offset",
        "values",
        "by",
        "like",
        "ilike",
        "is",
        "return",
        "returning",
        "set",
        "case",
        "on",
        "having",
        "to",
        "default",
        "from",
    ]
)


class ShapedText(NamedTuple):
    """text: the shape. literals: it had some; parameters: the highest $n in it; kind: of which statements
    there is something to know, empty for all others."""

    text: str
    literals: bool
    parameters: int
    kind: str


def shape(text: str, pieces: Sequence[Token] | None = None) -> ShapedText:
    """Returns the normalized form of a statement. pieces: its tokens, if they are there already."""
    parts: list[str] = []
    literals = 0
    highest = 0
    before = Token("", "")
    pieces = tokens(text) if pieces is None else pieces
    kept = (
        {number for number, purpose in purposes(pieces) if purpose is Purpose.PLACE}
        if may_have_places(text)
        else set()
    )
    data = data_places(pieces, assignments(pieces)) if text[:4].lower() == "set " else ()
    for number, token in enumerate(pieces):
        kind, word = token
        if kind in ("space", "comment"):
            if parts and parts[-1] != " ":
                parts.append(" ")
            continue
        if number in kept:
            parts.append(word)
        elif (
            number in data or kind in ("string", "dollar", "number") or (kind == "other" and word[0] in "'\"")
        ):
            if kind == "number" and parts and parts[-1] == "-" and _signed(parts, before):
                parts.pop()
            literals += 1
            parts.append(VALUE)
        elif kind == "parameter":
            highest = max(highest, int(word[1:8]))
            parts.append(VALUE)
        else:
            parts.append(word)
        if word != "-":
            before = token
    while parts and parts[-1] in (" ", ";"):
        parts.pop()
    whole = "".join(parts)
    if VALUE in whole:
        whole = _numbered(whole)
    cut = whole if len(whole) <= LONGEST_SHAPE else whole[:LONGEST_SHAPE] + " …"
    return ShapedText(cut, literals > 0, highest, kind_of(whole))


def _signed(parts: list[str], before: Token) -> bool:
    """Returns whether the minus at the end of `made` is the sign of the number that comes. before: the token
    that stands in front of it."""
    if before.kind in _OPERANDS:
        return False
    if before.kind == "word":
        return before.text.lower() in _BEFORE_SIGNS
    return before.text not in (")", "]")


def _numbered(text: str) -> str:
    first, *rest = _LIST.sub(lambda match: f"{match[1]} ({VALUE} /*, ... */)", text).split(VALUE)
    return first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))


# --- what there is to know of some statements --------------------------------------------------

COPY_IN, PASSWORD, PREPARE, EXECUTE, DEALLOCATE, BEGIN, END, DDL, UTILITY = (
    "copy in",
    "password",
    "prepare",
    "execute",
    "deallocate",
    "begin",
    "end",
    "ddl",
    "utility",
)

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for kind, pattern in (
        (COPY_IN, r"(?:.*;\s*)?COPY\b[^;]*\bFROM\s+STDIN\b"),
        (
            PASSWORD,
            r"(?:.*;\s*)?(?:CREATE|ALTER)\s+(?:(?:ROLE|USER|GROUP|SERVER)\b[^;]*\bPASSWORD"
            r"|SUBSCRIPTION\b[^;]*\bCONNECTION)\b",
        ),
        (DEALLOCATE, r"DEALLOCATE\s+(?!(?:PREPARE\s+)?ALL\b)"),
        (PREPARE, r"PREPARE\s+(?!TRANSACTION\b)"),
        (EXECUTE, r"EXECUTE\s"),
        (BEGIN, r"(?:BEGIN|START\s+TRANSACTION)\b"),
        (
            END,
            r"(?:(?:COMMIT|END|ABORT|ROLLBACK(?!\s+(?:(?:WORK|TRANSACTION)\s+)?TO\b))(?!\s+PREPARED\b)"
            r"|PREPARE\s+TRANSACTION)\b",
        ),
        (DDL, r"(?:CREATE|ALTER|DROP|GRANT|REVOKE|COMMENT\s+ON|SECURITY\s+LABEL|REASSIGN\s+OWNED|IMPORT)\b"),
        (UTILITY, r"(?:VACUUM|ANALYZE|ANALYSE|REINDEX|CLUSTER|CHECKPOINT)\b"),
    )
)
_FIRST_LETTERS = frozenset("CcAaDdPpEeBbSsRrGgIiVv")


def kind_of(text: str) -> str:
    """Returns the kind of a normalized statement, one of the names above, or empty."""
    if text[:1] not in _FIRST_LETTERS and not any(word in text.upper() for word in ("STDIN", "PASSWORD")):
        return ""
    return next((kind for kind, pattern in _KINDS if pattern.match(text)), "")


_FORGETS = re.compile(r"(?:\A|;\s*)(?:DEALLOCATE\s+(?:PREPARE\s+)?|DISCARD\s+)ALL\b", re.IGNORECASE)


def forgets(text: str) -> bool:
    """Returns whether a normalized statement drops all that its session has prepared."""
    return _FORGETS.search(text) is not None


_LEADING = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)


def without_leading_comments(text: str) -> str:
    """Returns a statement from its first word on."""
    match = _LEADING.match(text)
    return text[match.end() :] if match else text


def bare(name: str) -> str:
    """Returns a name without its quotes and the space around it, in lower case."""
    return name.strip(' "').lower()


__all__ = [
    "BEGIN",
    "COPY_IN",
    "DDL",
    "DEALLOCATE",
    "END",
    "EXECUTE",
    "PASSWORD",
    "PREPARE",
    "UTILITY",
    "ShapedText",
    "bare",
    "forgets",
    "kind_of",
    "shape",
    "without_leading_comments",
]
