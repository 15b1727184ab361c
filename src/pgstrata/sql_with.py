"""The queries of a statement's WITH clauses, and how they are written as ones that are not inlined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pgstrata.sql_tokens import Token, tokens

LONGEST = 10_000
"""Characters of a statement that is written in another way: people are to read it."""

_QUERY = frozenset(("select", "values", "table"))
_BEHIND = _QUERY | {"insert", "update", "delete", "merge"}
"""First words of what stands behind a list of WITH queries."""


class _UncertainError(Exception):
    """The statement has something that is not known here."""


@dataclass(frozen=True)
class _WithQuery:
    """A query of a WITH clause. name: as the server has it; place_of_as: of its AS among the tokens;
    is_plain: it is neither MATERIALIZED nor NOT MATERIALIZED."""

    name: str
    place_of_as: int
    is_plain: bool


def materialized(text: str, names: Collection[str]) -> str | None:
    """Returns a SELECT with AS MATERIALIZED for the WITH queries of these names, without a semicolon.

    names: as EXPLAIN has them. None without names, where the statement is long or cannot be read for certain,
    and where a name is not that of exactly one WITH query, or that query says [NOT] MATERIALIZED.
    """
    if not names or len(text) > LONGEST:
        return None
    pieces = tokens(text)
    places = [place for place, token in enumerate(pieces) if token.kind not in ("space", "comment")]
    while places and pieces[places[-1]].text == ";":
        places.pop()
    if not places:
        return None
    try:
        queries = _with_queries([pieces[place] for place in places])
    except _UncertainError:
        return None
    counts = Counter(query.name for query in queries)
    chosen = [query for query in queries if query.name in names]
    if {query.name for query in chosen} != set(names) or any(
        counts[query.name] > 1 or not query.is_plain for query in chosen
    ):
        return None
    changed = {places[query.place_of_as] for query in chosen}
    return "".join(
        token.text + (" MATERIALIZED" if place in changed else "")
        for place, token in enumerate(pieces[: places[-1] + 1])
    ).lstrip()


def on_one_line(text: str) -> str:
    """Returns a statement with a blank for each space and line comment between its tokens."""
    return "".join(" " if token.kind == "space" else token.text for token in tokens(text)).strip()


def _with_queries(pieces: Sequence[Token]) -> list[_WithQuery]:
    """Returns the WITH queries of a statement without spaces and comments. Raises _UncertainError."""
    closing = _closing(pieces)
    first = next((piece for piece in pieces if piece.text != "("), None)
    if first is None or _word(first) not in _QUERY | {"with"}:
        raise _UncertainError
    queries: list[_WithQuery] = []
    for place, piece in enumerate(pieces):
        if _word(piece) == "with" and (place == 0 or pieces[place - 1].text == "("):
            queries += _of_clause(pieces, place + 1, closing)
    return queries


def _closing(pieces: Sequence[Token]) -> dict[int, int]:
    """Returns the places of closing parentheses by those that they close.

    Raises _UncertainError where they do not match, a quote is never closed, or there are several statements.
    """
    opened: list[int] = []
    closing: dict[int, int] = {}
    for place, piece in enumerate(pieces):
        if piece.text == "(":
            opened.append(place)
        elif piece.text == ")" and opened:
            closing[opened.pop()] = place
        elif piece.text in (")", ";") or (piece.kind == "other" and piece.text[0] in "'\""):
            raise _UncertainError
    if opened:
        raise _UncertainError
    return closing


def _of_clause(pieces: Sequence[Token], place: int, closing: dict[int, int]) -> list[_WithQuery]:
    """Returns the queries of the WITH clause whose list begins at a place. Raises _UncertainError."""

    def at(place: int) -> Token:
        if place >= len(pieces):
            raise _UncertainError
        return pieces[place]

    def behind(place: int) -> int:
        """Returns the place after the closing parenthesis of the one that opens at `place`. Raises
        _UncertainError if none opens there."""
        if at(place).text != "(":
            raise _UncertainError
        return closing[place] + 1

    queries = []
    if _word(at(place)) == "recursive" and at(place + 1).text.lower() not in ("as", "("):
        place += 1
    while True:
        name = _name(at(place))
        place += 1
        if at(place).text == "(":
            place = behind(place)
        if _word(at(place)) != "as":
            raise _UncertainError
        place_of_as = place
        place += 2 if _word(at(place + 1)) == "not" else 1
        place += _word(at(place)) == "materialized"
        queries.append(_WithQuery(name, place_of_as, place == place_of_as + 1))
        place = behind(place)
        if at(place).text == ",":
            place += 1
        elif _word(at(place)) in _BEHIND or at(place).text == "(":
            return queries
        else:
            raise _UncertainError


def _word(token: Token) -> str:
    return token.text.lower() if token.kind == "word" else ""


def _name(token: Token) -> str:
    """Returns a name as the server has it. Raises _UncertainError."""
    if token.kind == "word" and token.text.isascii():
        return token.text.lower()
    if token.kind == "name" and token.text.startswith('"'):
        return token.text[1:-1].replace('""', '"')
    raise _UncertainError


__all__ = ["LONGEST", "materialized", "on_one_line"]
