"""A statement cut into its pieces, as PostgreSQL's scanner cuts it."""

from __future__ import annotations

import re
from typing import NamedTuple

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


class Token(NamedTuple):
    """A piece of a statement. kind: the name of a group of `_TOKEN`; a comment and a dollar-quoted string are
    whole."""

    kind: str
    text: str


_new = tuple.__new__  # as Token(…), which takes twice as long


def tokens(text: str) -> list[Token]:
    """Returns the statement cut into pieces that give it back when they are joined. A quote or comment that
    is never closed reaches to the end of the statement."""
    if "/*" not in text and "$" not in text:
        # Most statements: every match is a token.
        pieces = [_new(Token, (match.lastgroup, match[0])) for match in _TOKEN.finditer(text)]
        if ("other", "'") not in pieces and ("other", '"') not in pieces:
            return pieces
    result: list[Token] = []
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
        result.append(Token(kind, text[at:end]))
        at = end
    return result


def _behind_comment(text: str, at: int) -> int:
    depth = 0
    for match in _IN_COMMENT.finditer(text, at):
        depth += 1 if match.group() == "/*" else -1
        if not depth:
            return match.end()
    return len(text)


__all__ = ["Token", "tokens"]
