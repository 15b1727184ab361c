"""Statements without their literals: what makes two of them the same statement with other values.

A shape is written as pg_stat_statements writes it: literals become $1, $2, … in their order, comments go,
white space is one space, and a list behind IN is written as one value however long it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

LONGEST_SHAPE = 4000
"""Letters of a shape that are kept: what differs behind them is one shape."""

_STRING = r"[eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*'|(?:[bBxXnN]|[uU]&)?'[^']*(?:''[^']*)*'"
_TOKEN = re.compile(
    r"(?P<space>(?:\s|--[^\n]*)+)"
    r"|(?P<comment>/\*)"
    rf"|(?P<string>{_STRING})"
    r"|(?P<dollar>\$(?:[^\W\d]\w*)?\$)"
    r'|(?P<name>(?:[uU]&)?"[^"]*(?:""[^"]*)*")'
    r"|(?P<parameter>\$[0-9]+)"
    r"|(?P<number>0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|(?:[0-9][0-9_]*(?:\.[0-9_]*)?|\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<word>[^\W\d][\w$]*)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_IN_COMMENT = re.compile(r"/\*|\*/")
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


class Shape(NamedTuple):
    """text: the shape. literals: it had some; parameters: the highest $n in it; kind: of which statements
    there is something to know, empty for all others."""

    text: str
    literals: bool
    parameters: int
    kind: str


class Token(NamedTuple):
    """A piece of a statement. kind: the name of a group of `_TOKEN`; a comment and a dollar-quoted string are
    whole."""

    kind: str
    text: str


def tokens(text: str) -> list[Token]:
    """The statement cut into pieces that give it back when they are joined. What is never closed reaches to
    its end."""
    found: list[Token] = []
    at, size = 0, len(text)
    while at < size:
        match = _TOKEN.match(text, at)
        assert match is not None  # `other` takes any letter
        kind, end = str(match.lastgroup), match.end()
        if kind == "comment":
            end = _behind_comment(text, at)
        elif kind == "dollar":
            closing = text.find(match.group(), end)
            end = size if closing < 0 else closing + end - at
        elif kind == "other" and match.group() in "'\"":
            end = size
        found.append(Token(kind, text[at:end]))
        at = end
    return found


def _behind_comment(text: str, at: int) -> int:
    depth = 0
    for match in _IN_COMMENT.finditer(text, at):
        depth += 1 if match.group() == "/*" else -1
        if not depth:
            return match.end()
    return len(text)


def shape(text: str) -> Shape:
    """The shape of a statement."""
    made: list[str] = []
    literals = 0
    highest = 0
    before = Token("", "")
    for token in tokens(text):
        kind, word = token
        if kind in ("space", "comment"):
            if made and made[-1] != " ":
                made.append(" ")
            continue
        if kind in ("string", "dollar", "number") or (kind == "other" and word[0] in "'\""):
            if kind == "number" and made and made[-1] == "-" and _signed(made, before):
                made.pop()
            literals += 1
            made.append(VALUE)
        elif kind == "parameter":
            highest = max(highest, int(word[1:8]))
            made.append(VALUE)
        else:
            made.append(word)
        if word != "-":
            before = token
    while made and made[-1] in (" ", ";"):
        made.pop()
    whole = "".join(made)
    if VALUE in whole:
        whole = _numbered(whole)
    cut = whole if len(whole) <= LONGEST_SHAPE else whole[:LONGEST_SHAPE] + " …"
    return Shape(cut, literals > 0, highest, kind_of(whole))


def _signed(made: list[str], before: Token) -> bool:
    """Whether the minus at the end of what is made is the sign of the number that comes. before: the token
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

COPY_IN, PASSWORD, PREPARE, EXECUTE, FORGETS, BEGIN, END = (
    "copy in",
    "password",
    "prepare",
    "execute",
    "forgets",
    "begin",
    "end",
)

_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE | re.DOTALL))
    for kind, pattern in (
        (COPY_IN, r"(?:.*;\s*)?COPY\b[^;]*\bFROM\s+STDIN\b"),
        (
            PASSWORD,
            r"(?:CREATE|ALTER)\s+(?:ROLE|USER|GROUP|SUBSCRIPTION|SERVER|USER\s+MAPPING)\b.*\b(?:PASSWORD|password)\b",
        ),
        (FORGETS, r"(?:DEALLOCATE|DISCARD\s+(?:ALL|PLANS))\b"),
        (PREPARE, r"PREPARE\s+(?!TRANSACTION\b)"),
        (EXECUTE, r"EXECUTE\s"),
        (BEGIN, r"(?:BEGIN|START\s+TRANSACTION)\b"),
        (
            END,
            r"(?:COMMIT|END|ABORT|ROLLBACK(?!\s+(?:(?:WORK|TRANSACTION)\s+)?TO\b)|PREPARE\s+TRANSACTION)\b",
        ),
    )
)
_FIRST_LETTERS = frozenset("CcAaDdPpEeBbSsRr")


def kind_of(text: str) -> str:
    """Of a shape, one of the names above, or empty."""
    if text[:1] not in _FIRST_LETTERS and "STDIN" not in text.upper():
        return ""
    return next((kind for kind, pattern in _KINDS if pattern.match(text)), "")


# --- masking ----------------------------------------------------------------------------------


def masked(text: str, mask: Callable[[str], str]) -> str:
    """The statement with other literals in it, without its comments. mask: makes another value of a value.

    Counts behind LIMIT, OFFSET and FETCH, and what utility statements set, are no data and stay.
    """
    made: list[str] = []
    words: list[str] = []
    utility = False
    for token in tokens(text):
        kind, word = token
        if kind == "comment":
            made.append(" ")
        elif kind == "space":
            made.append(" " if "--" in word else word)
        elif kind == "string":
            keep = utility or (words and words[-1] in ("interval", "zone"))
            made.append(word if keep else _masked_string(word, mask))
        elif kind == "dollar":
            tag = word[: word.index("$", 1) + 1]
            body = (
                word[len(tag) : len(word) - len(tag)]
                if word.endswith(tag) and len(word) >= 2 * len(tag)
                else ""
            )
            # A body of code is no value.
            made.append(
                word if utility or (words and words[0] in ("create", "do")) else f"{tag}{mask(body)}{tag}"
            )
        elif kind == "number":
            keep = utility or (words and words[-1] in ("limit", "offset", "first", "next"))
            made.append(word if keep else _masked_number(word, mask))
        elif kind == "other" and word[0] in "'\"":
            made.append(word[0])
        else:
            if kind == "word":
                words.append(word.lower())
                if len(words) == 1:
                    utility = words[0] in _UTILITY
            elif word == ";":
                words.clear()
            elif words and word not in ("-", "+"):
                words.append("")
            made.append(word)
    return "".join(made)


_UTILITY = frozenset(
    "set reset show begin start commit end rollback savepoint release listen notify vacuum analyze".split()  # noqa: SIM905
)


def _masked_string(text: str, mask: Callable[[str], str]) -> str:
    opening = text.index("'")
    prefix, inner = text[:opening], text[opening + 1 : -1]
    if prefix in ("b", "B", "x", "X"):
        return text if prefix in "bB" else f"{prefix}'{mask(inner)}'"
    if prefix in ("e", "E") or prefix.endswith("&"):
        # Escapes stay what they are: masking their letters would make others of them.
        parts = re.split(
            r"(\\(?:[0-7]{1,3}|x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|\+[0-9a-fA-F]{6}|.)|'')",
            inner,
        )
        return (
            prefix
            + "'"
            + "".join(p if i % 2 else mask(p).replace("\\", "/") for i, p in enumerate(parts))
            + "'"
        )
    return f"{prefix}'{mask(inner.replace(chr(39) * 2, chr(39))).replace(chr(39), chr(39) * 2)}'"


def _masked_number(text: str, mask: Callable[[str], str]) -> str:
    return mask(text) if re.fullmatch(r"[0-9]+(?:\.[0-9]+)?", text) else text


__all__ = [
    "BEGIN",
    "COPY_IN",
    "END",
    "EXECUTE",
    "FORGETS",
    "PASSWORD",
    "PREPARE",
    "Shape",
    "Token",
    "kind_of",
    "masked",
    "shape",
    "tokens",
]
