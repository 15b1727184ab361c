"""The order that a query asks for, apart from what its ORDER BY leaves open.

Rows that are equal in all keys may come in any order, and with LIMIT any of them may come. A query that is
asked twice, such rows by all columns upwards and then downwards, shows which those are.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
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


def end_of_order(text: str) -> int | None:
    """Returns where the outermost ORDER BY of a query ends; None where it has none."""
    depth = at = end = 0
    before, is_inside = "", False
    for token in tokens(text):
        at += len(token.text)
        if token.kind in ("space", "comment"):
            continue
        word = token.text.lower() if token.kind == "word" and before != "." else ""
        if token.text in ("(", "["):
            depth += 1
        elif token.text in (")", "]"):
            depth -= 1
        elif depth == 0:
            if is_inside and (word in BEHIND_ORDER or token.text == ";"):
                break
            is_inside = is_inside or (before, word) == ("order", "by")
        before, end = word or (token.text if token.kind == "other" else ""), at
    return end if is_inside else None


def all_rows_of(text: str) -> str | None:
    """Returns a query of the number of rows and of a digest, in any order, that a query without ORDER BY has
    before its outermost LIMIT, OFFSET or FETCH; None for other queries.

    Which of these rows it takes is open; if the digest is the same, so is the answer.
    """
    depth = at = 0
    before, begin = "", None
    for token in tokens(text):
        word = token.text.lower() if token.kind == "word" and before != "." else ""
        if token.text in ("(", "["):
            depth += 1
        elif token.text in (")", "]"):
            depth -= 1
        elif depth == 0 and ((before, word) == ("order", "by") or (token.text == ";" and begin is None)):
            return None
        elif depth == 0 and begin is None and word in _CUTS:
            begin = at
        if token.kind not in ("space", "comment"):
            before = word or (token.text if token.kind == "other" else "")
        at += len(token.text)
    if begin is None or not text[:begin].strip():
        return None
    return (
        "SELECT count(*), sum(('x' || substr(md5(found::text), 1, 15))::bit(60)::bigint) "
        f"FROM ({text[:begin]}\n) AS found"
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
