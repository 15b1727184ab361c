"""The order that a query asks for, apart from what its ORDER BY leaves open.

Rows that are equal in all keys may come in any order, and with LIMIT any of them may come. A query that is
asked twice, such rows by all columns upwards and then downwards, shows which those are.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pgstrata.sql_tokens import tokens

BEHIND_ORDER = frozenset(("limit", "offset", "fetch", "for"))
"""Reserved words that end an ORDER BY."""


_CUTS = frozenset(("limit", "offset", "fetch"))


class Order(NamedTuple):
    """The rows of an answer in their order.

    groups: digests of the groups of rows that are equal in all keys, each group in any order; is_open: behind
    them are rows in the place of which others would be as right.
    """

    groups: tuple[bytes, ...]
    is_open: bool


class _Word(NamedTuple):
    """A token of a query. word: its lower case where it is a word that may be reserved; before: the word, or
    the sign, in front of it; begin, end: where it stands; is_outermost: whether it is in no brackets."""

    text: str
    word: str
    before: str
    begin: int
    end: int
    is_outermost: bool


def _words(text: str) -> Iterator[_Word]:
    """Yields the tokens of a query but for blanks and comments."""
    depth = end = 0
    before = ""
    for token in tokens(text):
        begin, end = end, end + len(token.text)
        if token.kind in ("space", "comment"):
            continue
        word = token.text.lower() if token.kind == "word" and before != "." else ""
        step = {"(": 1, "[": 1, ")": -1, "]": -1}.get(token.text, 0)
        depth += step
        yield _Word(token.text, word, before, begin, end, depth == 0 and not step)
        before = word or (token.text if token.kind == "other" else "")


def end_of_order(text: str) -> int | None:
    """Returns where the outermost ORDER BY of a query ends; None where it has none."""
    end, is_inside = 0, False
    for each in _words(text):
        if each.is_outermost:
            if is_inside and (each.word in BEHIND_ORDER or each.text == ";"):
                break
            is_inside = is_inside or (each.before, each.word) == ("order", "by")
        end = each.end
    return end if is_inside else None


def all_rows_of(text: str) -> str | None:
    """Returns a query of the number of rows and of a digest, in any order, that a query without ORDER BY has
    before its outermost LIMIT, OFFSET or FETCH; None for other queries.

    Which of these rows it takes is open; if the digest is the same, so is the answer.
    """
    begin = None
    for each in _words(text):
        if not each.is_outermost:
            continue
        if (each.before, each.word) == ("order", "by") or (each.text == ";" and begin is None):
            return None
        if begin is None and each.word in _CUTS:
            begin = each.begin
    if begin is None or not text[:begin].strip():
        return None
    return (
        "SELECT count(*), sum(('x' || substr(md5(answer::text), 1, 15))::bit(60)::bigint) "
        f"FROM ({text[:begin]}\n) AS answer"
    )


def in_both_directions(text: str, columns: int) -> tuple[str, str] | None:
    """Returns a query with the rows that its ORDER BY leaves open in order of all columns, upwards and
    downwards; None where it has no ORDER BY."""
    end = end_of_order(text)
    if end is None:
        return None
    numbers = range(1, columns + 1)
    up, down = ("".join(f", {n} {direction}" for n in numbers) for direction in ("ASC", "DESC"))
    return text[:end] + up + text[end:], text[:end] + down + text[end:]


def order_of(upwards: Sequence[bytes], downwards: Sequence[bytes]) -> Order:
    """Returns the order of an answer from its rows in both directions.

    As far as both hold the same rows in another order, these are a group.
    """
    groups: list[bytes] = []
    group: list[bytes] = []
    balance: Counter[bytes] = Counter()
    for up, down in zip(upwards, downwards, strict=False):
        group.append(up)
        balance[up] += 1
        balance[down] -= 1
        for row in (up, down):
            if not balance[row]:
                del balance[row]
        if not balance:
            groups.append(hashlib.md5(b"\n".join(sorted(group)), usedforsecurity=False).digest())
            group = []
    return Order(tuple(groups), bool(group) or len(upwards) != len(downwards))


def digests_of(orders: Sequence[Order]) -> tuple[list[str], bool]:
    """Returns the digest of each order as far as none is open, and whether that leaves unknown if they are
    the same."""
    is_open = any(order.is_open for order in orders)
    length = min(len(order.groups) for order in orders) if is_open else None
    digests = [
        hashlib.md5(b"".join(order.groups[:length]), usedforsecurity=False).hexdigest() for order in orders
    ]
    return digests, is_open and len(set(digests)) == 1


__all__ = ["Order", "all_rows_of", "digests_of", "end_of_order", "in_both_directions", "order_of"]
