"""Statements that set configuration parameters: which one, and where its value stands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pgstrata.sql_tokens import Token

ENCODING = "client_encoding"
UTF8 = "UTF8"


class Assignment(NamedTuple):
    """A parameter that is set. A name or a value may be a `$n` of the statement."""

    #: Lower case; empty where a `$n` has it.
    name: str
    #: Number of the `$n`, 0 without one.
    name_parameter: int
    #: Places of the value's tokens.
    value: tuple[int, ...]
    value_parameter: int
    #: The statement does nothing else.
    is_alone: bool

    @property
    def has_data(self) -> bool:
        """True where the value is an application's, not a setting of the server."""
        return holds_data(self.name)


def holds_data(name: str) -> bool:
    """Returns whether a parameter of this name has an application's values: `app.user_id`."""
    return "." in name or name.lower() == "application_name"


def may_assign(text: str) -> bool:
    """Returns whether a statement is worth looking through."""
    lower = text[:4096].lower()
    return "set" in lower


def assignments(pieces: Sequence[Token]) -> list[Assignment]:
    """Returns the parameters that a statement sets by SET, RESET or set_config."""
    return list(_assignments(pieces))


def _assignments(pieces: Sequence[Token]) -> Iterator[Assignment]:
    places = [n for n, piece in enumerate(pieces) if piece.kind not in ("space", "comment")]
    words = [pieces[n].text.lower() if pieces[n].kind == "word" else pieces[n].text for n in places]
    starts = [0, *(n + 1 for n, word in enumerate(words) if word == ";")]
    is_single = len([n for n in starts if n < len(words)]) == 1
    for number, start in enumerate(starts):
        end = starts[number + 1] - 1 if number + 1 < len(starts) else len(words)
        statement = words[start:end]
        if statement[:1] == ["set"]:
            yield from _of_set(pieces, places[start:end], statement, is_single=is_single)
        elif statement == ["reset", ENCODING]:
            yield Assignment(ENCODING, 0, (), 0, is_single)
    for number, word in enumerate(words):
        if word == "set_config" and words[number + 1 : number + 2] == ["("]:
            is_alone = is_single and words[0] == "select" and number <= 3 and _ends_with_call(words, number)
            yield from _of_call(pieces, places, words, number + 2, is_alone=is_alone)


def _of_set(
    pieces: Sequence[Token], places: Sequence[int], words: Sequence[str], *, is_single: bool
) -> Iterator[Assignment]:
    at = 2 if words[1:2] in (["session"], ["local"]) else 1
    if words[at : at + 1] == ["names"]:
        yield Assignment(ENCODING, 0, tuple(places[at + 1 :]), 0, is_single)
        return
    name = ""
    while at < len(words) and words[at] not in ("=", "to"):
        name += words[at].strip('"') if words[at].startswith('"') else words[at]
        at += 1
    if at < len(words) and name:
        yield Assignment(name.lower(), 0, tuple(places[at + 1 :]), 0, is_single)


def _of_call(
    pieces: Sequence[Token], places: Sequence[int], words: Sequence[str], at: int, *, is_alone: bool
) -> Iterator[Assignment]:
    arguments: list[list[int]] = [[]]
    depth = 0
    for place in range(at, len(words)):
        word = words[place]
        if word == ")" and not depth:
            break
        depth += (word in ("(", "[")) - (word in (")", "]"))
        if word == "," and not depth:
            arguments.append([])
        else:
            arguments[-1].append(places[place])
    if len(arguments) < 2 or not arguments[0]:
        return
    first = pieces[arguments[0][0]]
    name = first.text[first.text.find("'") + 1 : -1].lower() if first.kind == "string" else ""
    value = arguments[1]
    yield Assignment(
        name,
        _parameter(first),
        tuple(value),
        _parameter(pieces[value[0]]) if value else 0,
        is_alone,
    )


def _ends_with_call(words: Sequence[str], number: int) -> bool:
    """Returns whether nothing comes behind the brackets of a call."""
    depth = 0
    for place in range(number + 1, len(words)):
        depth += (words[place] == "(") - (words[place] == ")")
        if not depth:
            return all(word == ";" for word in words[place + 1 :])
    return False


def _parameter(piece: Token) -> int:
    return int(piece.text[1:6]) if piece.kind == "parameter" else 0


def in_utf8(pieces: Sequence[Token], assignments: Sequence[Assignment]) -> str:
    """Returns the statement with UTF8 in the place of every other client_encoding."""
    texts = [piece.text for piece in pieces]
    for assignment in assignments:
        if assignment.name == ENCODING and assignment.value and not assignment.value_parameter:
            for place in assignment.value:
                texts[place] = ""
            texts[assignment.value[0]] = f"'{UTF8}'"
    return "".join(texts)


def sets_only_encoding(text: str, assignments: Sequence[Assignment]) -> bool:
    """Returns whether a statement does nothing but set client_encoding."""
    if len(assignments) == 1 and assignments[0].is_alone and assignments[0].name == ENCODING:
        return True
    start = text[:400].lower().split()
    return start[:1] == ["update"] and "pg_settings" in start[1:2] and ENCODING in text.lower()


_ROLE = re.compile(
    r"\s*(?:RESET\s+(?:ROLE|SESSION\s+AUTHORIZATION)"
    r"|SET\s+(?:SESSION\s+|LOCAL\s+)?(?:ROLE|SESSION\s+AUTHORIZATION)(?:\s*=\s*|\s+TO\s+|\s+)[^\s;=]+)[\s;]*",
    re.IGNORECASE,
)


def sets_only_role(text: str) -> bool:
    """Returns whether a statement does nothing but make its session act as another role."""
    return _ROLE.fullmatch(text) is not None


def data_places(pieces: Sequence[Token], assignments: Sequence[Assignment]) -> frozenset[int]:
    """Returns the places of literals and words that are an application's values."""
    return frozenset(
        place
        for assignment in assignments
        if assignment.has_data
        for place in assignment.value
        if pieces[place].kind in ("string", "dollar", "number", "word", "parameter")
    )


__all__ = [
    "ENCODING",
    "UTF8",
    "Assignment",
    "assignments",
    "data_places",
    "holds_data",
    "in_utf8",
    "may_assign",
    "sets_only_encoding",
    "sets_only_role",
]
