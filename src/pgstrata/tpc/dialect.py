"""The texts of the queries as old versions understand them."""

from __future__ import annotations

import re
from itertools import pairwise

from pgstrata.server.features import Feature, Features

_TOKEN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)|(?P<operand>'(?:[^']|'')*'|"[^"]*"|\d+(?:\.\d+)?)|(?P<word>[A-Za-z_]\w*)|(?P<other>.)""",
    re.DOTALL,
)
_NO_NAMES = frozenset(
    {
        "all",
        "and",
        "as",
        "asc",
        "between",
        "by",
        "case",
        "cast",
        "date",
        "desc",
        "distinct",
        "else",
        "end",
        "except",
        "exists",
        "filter",
        "from",
        "group",
        "having",
        "in",
        "intersect",
        "interval",
        "is",
        "like",
        "limit",
        "not",
        "null",
        "offset",
        "on",
        "or",
        "order",
        "over",
        "partition",
        "rows",
        "select",
        "then",
        "union",
        "when",
        "where",
        "with",
        "within",
    }
)
"""Words of the queries that name no column."""


def understood_by(text: str, server: Features) -> str:
    """Returns a query as a server understands it, with the same answer: || for concat(), AS before column
    names, the old name of a function, and for a server without NULLS FIRST and NULLS LAST a sort key that
    places the NULLs."""
    if not server.has(Feature.CONCAT):
        text = _with_operators(text)
    if not server.has(Feature.OPTIONAL_AS):
        text = _with_as(text)
    if not server.has(Feature.STDDEV_SAMP):
        text = re.sub(r"\bstddev_samp\b", "stddev", text)
    if not server.has(Feature.NULLS_ORDER):
        text = _with_nulls_placed(text)
    return text


def _with_as(text: str) -> str:
    parts: list[str] = []
    listing = [False]  # by parentheses around: whether these are a SELECT's columns
    operand = False  # whether what is before could be a column
    for match in _TOKEN.finditer(text):
        token, word = match[0], match[0].lower()
        if match["space"]:
            parts.append(token)
            continue
        if match["word"] and word not in _NO_NAMES and operand and listing[-1]:
            parts.append("AS ")
        if token == "(":
            listing.append(False)
        elif token == ")" and len(listing) > 1:
            listing.pop()
        elif word == "select":
            listing[-1] = True
        elif word == "from":
            listing[-1] = False
        operand = (
            token == ")"
            or bool(match["operand"])
            or bool(match["word"] and (word not in _NO_NAMES or word in ("end", "null")))
        )
        parts.append(token)
    return "".join(parts)


def _with_operators(text: str) -> str:
    """Returns the query with `||` for concat(), which takes NULL for an empty text."""
    words = [match[0] for match in _TOKEN.finditer(text)]
    while (at := next((i for i, word in enumerate(words) if word.lower() == "concat"), None)) is not None:
        begin = words.index("(", at) + 1
        end = begin + _closing(words[begin:])
        inside = words[begin:end]
        parts = _listed(inside, _outermost(inside), 0, len(inside))
        joined = " || ".join(f"coalesce({part}, '')" for part in parts)
        words = [
            match[0]
            for match in _TOKEN.finditer(f"{''.join(words[:at])}({joined}){''.join(words[end + 1 :])}")
        ]
    return "".join(words)


def _closing(words: list[str]) -> int:
    """Returns the place of the parenthesis that closes the one before these words."""
    depth = 1
    for at, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0:
            return at
    return len(words)


def _with_nulls_placed(text: str) -> str:
    """Returns the query with its outermost ORDER BY rewritten without NULLS FIRST and NULLS LAST.

    NULL is sorted above everything else, so that these say nothing new of one direction; in the other
    whether the key is NULL is a key of its own before it.
    """
    words = [match[0] for match in _TOKEN.finditer(text)]
    outer = _outermost(words)
    begin = next((at for at in outer if words[at].lower() == "order"), None)
    if begin is None or "nulls" not in (word.lower() for word in words[begin:]):
        return text
    first = next(at for at in outer if at > begin and words[at].lower() == "by") + 1
    last = next((at for at in outer if at > first and words[at].lower() in ("limit", "offset")), len(words))
    columns = _columns(words, outer)
    keys = [_key(key.split(), columns) for key in _listed(words, outer, first, last)]
    rest = "".join(words[last:])
    return "".join(words[:first]) + " " + ", ".join(keys) + (f" {rest}" if rest else "")


def _key(words: list[str], columns: list[tuple[str, str]]) -> str:
    """Returns a key of ORDER BY without NULLS FIRST and NULLS LAST. columns: of SELECT, each with its name; a
    key can be a name or a number of theirs, but nothing can be computed from these."""
    if [word.lower() for word in words[-2:-1]] != ["nulls"]:
        return " ".join(words)
    nulls_first, words = words[-1].lower() == "first", words[:-2]
    descending = words[-1].lower() == "desc"
    key = " ".join(words[:-1] if words[-1].lower() in ("asc", "desc") else words)
    if descending == nulls_first:
        return " ".join(words)
    if key.isdigit():
        computed = columns[int(key) - 1][0]
    else:
        computed = next((column for column, name in columns if name.lower() == key.lower()), key)
    return f"({computed}) IS NULL{' DESC' if nulls_first else ''}, {' '.join(words)}"


def _columns(words: list[str], outer: list[int]) -> list[tuple[str, str]]:
    """Returns the columns of the outermost SELECT, each as expression and name; AS stands before each
    name."""
    first = next(at for at in outer if words[at].lower() == "select") + 1
    last = next(at for at in outer if at > first and words[at].lower() == "from")
    columns = []
    for column in _listed(words, outer, first, last):
        computed, _, name = column.rpartition(" AS ")
        columns.append((computed, name) if computed else (column, column))
    return columns


def _outermost(words: list[str]) -> list[int]:
    """Returns the places of the words that are in no parentheses."""
    depth, places = 0, []
    for at, word in enumerate(words):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word != ")":
            places.append(at)
    return places


def _listed(words: list[str], outer: list[int], first: int, last: int) -> list[str]:
    """Returns the parts between the commas from `first` to before `last`, with one blank between their
    words."""
    commas = [at for at in outer if first <= at < last and words[at] == ","]
    bounds = [first - 1, *commas, last]
    return [" ".join("".join(words[begin + 1 : end]).split()) for begin, end in pairwise(bounds)]
