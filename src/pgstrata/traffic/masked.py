"""Statements with other values in the place of their literals, that parse and run as they did."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from pgstrata.sql_tokens import Token, tokens
from pgstrata.traffic.literals import Purpose, purposes
from pgstrata.traffic.mask import Mask

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?", re.ASCII)
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|x(?P<hex>[0-9a-fA-F]{1,2})|u(?P<u>[0-9a-fA-F]{4})|U(?P<U>[0-9a-fA-F]{8})"
    r"|(?P<letter>.))|''",
    re.DOTALL,
)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = str.maketrans({value: f"\\{name}" for name, value in _LETTERS.items()} | {"\\": "\\\\", "'": "''"})
_OF_SCHEMA = frozenset(("create", "alter", "do"))


class Masked(NamedTuple):
    """text: the statement. parameters: the purposes of those that are no plain values, by number. kept: it
    has string constants that stay, as they are a schema's or code."""

    text: str
    parameters: Mapping[int, Purpose]
    kept: bool


def masked(text: str, mask: Mask, pieces: Sequence[Token] | None = None) -> Masked:
    """Returns the statement with other literals in it, without its comments. pieces: its tokens, if they are
    there already."""
    pieces = tokens(text) if pieces is None else pieces
    by_number = dict(purposes(pieces))
    parts: list[str] = []
    parameters: dict[int, Purpose] = {}
    kept = False
    for number, (kind, piece) in enumerate(pieces):
        purpose = by_number.get(number)
        if kind == "comment":
            parts.append(" ")
        elif kind == "space":
            parts.append(" " if "--" in piece else piece)
        elif kind == "other" and piece[0] in "'\"":
            parts.append(piece[0])  # never closed: whatever it is
        elif purpose is None:
            parts.append(piece)
        elif kind == "parameter":
            parts.append(piece)
            if purpose is not Purpose.VALUE:
                parameters[int(piece[1:8])] = purpose
        elif purpose in (Purpose.SETTING, Purpose.PLACE):
            kept = kept or (kind in ("string", "dollar") and _first_word(pieces) in _OF_SCHEMA)
            parts.append(piece)
        elif kind == "word":
            parts.append(f"'{mask(piece)}'")  # of SET app.user = word
        elif kind == "number":
            parts.append(mask(piece) if _NUMBER.fullmatch(piece) else piece)
        else:
            other = mask.pattern if purpose is Purpose.PATTERN else mask
            parts.append(
                _dollar(piece, other) if kind == "dollar" else _string(piece, other, _uescape(pieces, number))
            )
    return Masked("".join(parts), parameters, kept)


def _first_word(pieces: Sequence[Token]) -> str:
    return next((text.lower() for kind, text in pieces if kind == "word"), "")


# --- strings ------------------------------------------------------------------------------------

Change = Callable[[str], str]
"""Makes another value of a value."""


def _dollar(text: str, change: Change) -> str:
    tag = text[: text.index("$", 1) + 1]
    if not text.endswith(tag) or len(text) < 2 * len(tag):
        return tag  # never closed
    body = change(text[len(tag) : len(text) - len(tag)])
    # Letters that have come to be the tag would end the string.
    return f"{tag}{body.replace('$', '_') if tag in (body + tag)[:-1] else body}{tag}"


def _string(text: str, change: Change, uescape: str) -> str:
    opening = text.index("'")
    prefix, inner = text[:opening], text[opening + 1 : -1]
    match prefix:
        case "b" | "B":
            return text
        case "e" | "E":
            return f"{prefix}'{_unescaped(inner, change)}'"
        case "u&" | "U&":
            value = change(_of_unicode(inner, uescape))
            return f"{prefix}'{value.replace(uescape, 2 * uescape).replace(QUOTE, 2 * QUOTE)}'"
    return f"{prefix}'{change(inner.replace(2 * QUOTE, QUOTE)).replace(QUOTE, 2 * QUOTE)}'"


QUOTE = "'"


def _unescaped(inner: str, change: Change) -> str:
    """Masks the value that the inside of an E'…' stands for, so that it stays equal to the same value without
    escapes."""
    unescaped = bytearray()
    at = 0
    for match in _ESCAPE.finditer(inner):
        unescaped += inner[at : match.start()].encode("utf-8", "replace")
        at = match.end()
        if code := match["u"] or match["U"]:
            number = int(code, 16)
            unescaped += chr(number if number <= 0x10FFFF else 0xFFFD).encode("utf-8", "surrogatepass")
        elif match["octal"] or match["hex"]:
            unescaped.append((int(match["octal"], 8) if match["octal"] else int(match["hex"], 16)) & 255)
        else:
            letter = match["letter"] or QUOTE
            unescaped += _LETTERS.get(letter, letter).encode("utf-8", "replace")
    unescaped += inner[at:].encode("utf-8", "replace")
    return change(unescaped.decode("utf-8", "replace")).translate(_ESCAPED)


def _of_unicode(inner: str, escape: str) -> str:
    escaped = re.escape(escape)

    def letter(match: re.Match[str]) -> str:
        code = match[1] or match[2]
        number = int(code, 16) if code else 0
        return escape if not code else chr(number if number <= 0x10FFFF else 0xFFFD)

    decoded = re.sub(
        rf"{escaped}(?:\+([0-9a-fA-F]{{6}})|([0-9a-fA-F]{{4}})|{escaped})", letter, inner.replace("''", QUOTE)
    )
    return decoded.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _uescape(pieces: Sequence[Token], number: int) -> str:
    """Returns the character that replaces the backslash in this string: `U&'d!0061' UESCAPE '!'`."""
    behind = [piece for piece in pieces[number + 1 : number + 5] if piece.kind not in ("space", "comment")][
        :2
    ]
    if len(behind) == 2 and behind[0].text.lower() == "uescape" and len(behind[1].text) == 3:
        return behind[1].text[1]
    return "\\"


__all__ = ["Masked", "masked"]
