"""Parameters whose values a server is asked for: keys of documents, what expressions have on sampled rows,
and names of sequences."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from pgstrata.sql_text import literal
from pgstrata.traffic.synthetic.expressions import KEY_UNKNOWN
from pgstrata.traffic.synthetic.names import Tables
from pgstrata.traffic.synthetic.numbering import base_type
from pgstrata.traffic.synthetic.origins import Hide, Origin, Value, array_of, constant, pattern_beginning
from pgstrata.traffic.synthetic.questions import Questions
from pgstrata.traffic.synthetic.statistics import KnownColumn
from pgstrata.traffic.synthetic.use import NotUnderstoodError, Sampled, Use

MOST_TRIED = 8
"""Keys of which one is chosen by how many rows a call had."""

_PREFIX = re.compile(r"^(?:p|par|param|arg|in|i|v)?_", re.IGNORECASE)
"""That arguments of functions have before the name of a column."""

LISTED = 5
"""Values in an array behind ANY."""


class AskedExpressions:
    """Of one statement. uses: of its parameters by their numbers; questions: None where no server may be
    asked; rows: that a call had, where all of them are rows on which its conditions hold."""

    def __init__(self, uses: Mapping[int, Use], questions: Questions | None, rows: float | None) -> None:
        self._uses, self._questions, self._rows = uses, questions, rows
        self._keys: dict[int, str] = {}

    def key_origin(self, number: int) -> Origin:
        """Returns the key of a document, one for all calls. Raises NotUnderstoodError."""
        key = self._key(number)
        value = array_of([key]) if self._uses[number].guess else key
        return constant(number, value, f"guessed: a key of the documents, {key}")

    def compared_origin(self, number: int, use: Use) -> Origin | None:
        """Returns the values of the expression that a parameter is compared with; None where they are not
        known. Raises NotUnderstoodError where the key of a document is not."""
        if use.sampled is None or self._questions is None or use.kind in ("regular", "element"):
            return None
        values = self._questions.values(self._with_keys(use.sampled))
        if not values:
            return None

        def draw(dice: Random, hide: Hide) -> Sequence[Value]:
            match use.kind:
                case "any":
                    return (array_of([hide(dice.choice(values)) for _ in range(LISTED)]),)
                case "like":
                    return (pattern_beginning(hide(dice.choice(values)[:4])),)
            return (hide(dice.choice(values)),)

        return Origin((number,), draw, f"{use.sampled.text} of sampled rows")

    def sequence_origin(self, number: int, use: Use) -> Origin:
        """Returns the sequence of the column that a number is put into, or any. Raises NotUnderstoodError."""
        known = self._questions.sequences() if self._questions is not None else ()
        column = use.column
        if column is not None:
            place = column.schema, column.table, column.name
            sequence = next(
                (
                    candidate
                    for candidate in known
                    if place == (candidate.schema, candidate.table, candidate.column)
                ),
                None,
            )
            if sequence is not None:
                return Origin(
                    (number,), lambda dice, hide: (sequence.name,), f"the sequence of {column.title}"
                )
        if not known:
            raise NotUnderstoodError("which name nextval is given is not known")
        return Origin((number,), lambda dice, hide: (dice.choice(known).name,), "any sequence", guessed=True)

    def argument_column(self, use: Use, tables: Tables) -> tuple[KnownColumn | None, str]:
        """Returns the column that an argument of a function is named after, None where there is none, and the
        type of the argument. Raises NotUnderstoodError where nothing is known of the function."""
        assert use.argument is not None
        argument = self._questions.argument(use.argument) if self._questions is not None else None
        if argument is None:
            raise NotUnderstoodError(f"what function {use.argument.function} is given is not known")
        name, type_ = argument
        for named in (name, _PREFIX.sub("", name)):
            for column in tables.columns_named(named) if named else ():
                if base_type(column.type) == base_type(type_):
                    return column, type_
        return None, type_

    def _key(self, number: int) -> str:
        if number not in self._keys:
            sampled = self._uses[number].sampled
            if sampled is None or self._questions is None:
                raise NotUnderstoodError(KEY_UNKNOWN)
            keys = self._questions.keys(self._with_keys(sampled))
            keys = [key for key in keys if self._leads_on(number, key)]
            if not keys:
                raise NotUnderstoodError(KEY_UNKNOWN)
            self._keys[number] = self._likely(number, keys[:MOST_TRIED])
        return self._keys[number]

    def _leads_on(self, number: int, key: str) -> bool:
        """Returns whether documents behind a key have keys, where the statement has one of them."""
        assert self._questions is not None
        for use in self._uses.values():
            if use.kind == "key" and use.sampled is not None and use.sampled.keys[-1:] == (number,):
                return bool(self._questions.keys(self._with_keys(use.sampled, {number: key})))
        return True

    def _likely(self, number: int, keys: Sequence[str]) -> str:
        """Returns the key that leads to about as many rows as a call had, or the most frequent one."""
        compared = [
            use.sampled
            for use in self._uses.values()
            if use.kind == "equal" and use.sampled is not None and number in use.sampled.keys
        ]
        if self._rows is None or len(compared) != 1 or len(keys) == 1 or self._questions is None:
            return keys[0]
        (sampled,) = compared
        if any(other != number and other not in self._keys for other in sampled.keys):
            return keys[0]
        distances: dict[str, float] = {}
        for key in keys:
            values = self._questions.values(self._with_keys(sampled, {number: key}))
            if values:
                rows = max(1.0, sampled.table.rows * _share_of_equal(values))
                distances[key] = abs(math.log(rows / max(1.0, self._rows)))
        return min(distances, key=lambda key: distances[key], default=keys[0])

    def _with_keys(self, sampled: Sampled, tried: Mapping[int, str] | None = None) -> Sampled:
        """Returns the expression with its keys in their places."""
        chosen = {number: (tried or {}).get(number) or self._key(number) for number in sampled.keys}
        text = sampled.text
        for number, key in chosen.items():
            several = self._uses[number].guess
            written = literal(array_of([key]) if several else key)
            text = re.sub(rf"\${number}(?![0-9])", lambda _, written=written: written, text)  # type: ignore[misc]
        return replace(sampled, text=text, keys=())


def _share_of_equal(values: Sequence[str]) -> float:
    """Returns the share of the other rows that have the value of a row, in the mean, as the sample has it."""
    pairs = sum(count * (count - 1) for count in Counter(values).values())
    return pairs / max(1, len(values) * (len(values) - 1))


__all__ = ["AskedExpressions"]
