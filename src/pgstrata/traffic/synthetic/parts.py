"""Parts of documents, as conditions like `document @> $1` have them."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pgstrata.files.bounded import BoundError, json_any

MOST_DOCUMENTS = 2000
"""That are looked at."""

MOST_LETTERS = 1000
"""Of a part."""


def likely_parts(documents: Sequence[str], rows: float, wanted: float | None) -> list[str]:
    """Returns one part of each document, `{"key": value}` of an object, `[value]` of an array.

    The key is that which leads to about as many rows as a call had, else that in most documents.

    rows: of the table; wanted: of a call, None where nothing says it.
    """
    by_key: dict[str, list[str]] = {}
    for document in documents[:MOST_DOCUMENTS]:
        try:
            value = json_any(document)
        except BoundError:
            continue
        for key, part in _parts(value):
            text = json.dumps(part)
            if len(text) <= MOST_LETTERS:
                by_key.setdefault(key, []).append(text)
    if not by_key:
        return []
    if wanted is None:
        return max(by_key.values(), key=len)
    return min(by_key.values(), key=lambda parts: _distance(parts, rows, wanted))


def _parts(value: Any) -> list[tuple[str, Any]]:
    match value:
        case dict():
            return [(key, {key: inner}) for key, inner in value.items()]
        case list() if value:
            return [("", [value[0]])]
    return []


def _distance(parts: Sequence[str], rows: float, wanted: float) -> float:
    return abs(math.log(max(1.0, rows * share_of_equal(parts)) / max(1.0, wanted)))


def share_of_equal(values: Sequence[str]) -> float:
    """Returns the share of the other rows that have the value of a row, in the mean, as the sample has it."""
    pairs = sum(count * (count - 1) for count in Counter(values).values())
    return pairs / max(1, len(values) * (len(values) - 1))


__all__ = ["likely_parts", "share_of_equal"]
