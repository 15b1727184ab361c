"""The texts of the queries as old versions understand them."""

from __future__ import annotations

import re

AS_LEFT_OUT_SINCE = 80400
"""From here on AS before a column's name can be left out (release notes of 8.4)."""

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


def for_version(text: str, version_num: int) -> str:
    """A query with AS before each column's name, for versions that do not understand it without."""
    return text if version_num >= AS_LEFT_OUT_SINCE else _with_as(text)


def _with_as(text: str) -> str:
    made: list[str] = []
    listing = [False]  # by parentheses around: whether these are a SELECT's columns
    operand = False  # whether what is before could be a column
    for match in _TOKEN.finditer(text):
        token, word = match[0], match[0].lower()
        if match["space"]:
            made.append(token)
            continue
        if match["word"] and word not in _NO_NAMES and operand and listing[-1]:
            made.append("AS ")
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
        made.append(token)
    return "".join(made)
