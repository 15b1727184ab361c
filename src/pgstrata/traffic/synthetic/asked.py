"""Parameters whose values a server is asked for: keys of documents, what expressions have on sampled rows,
and names of sequences."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from random import Random

from pgstrata.sql_text import identifier, literal
from pgstrata.traffic.synthetic.expressions import KEY_UNKNOWN
from pgstrata.traffic.synthetic.names import Tables
from pgstrata.traffic.synthetic.numbering import base_type
from pgstrata.traffic.synthetic.origins import Hide, Origin, Value, array_of, constant, pattern_beginning
from pgstrata.traffic.synthetic.parts import likely_parts, share_of_equal
from pgstrata.traffic.synthetic.questions import Questions, Sequenced
from pgstrata.traffic.synthetic.statistics import KnownColumn
from pgstrata.traffic.synthetic.use import NotUnderstoodError, Sampled, Use

MOST_TRIED = 8
"""Keys of which one is chosen by how many rows a call had."""

_PREFIX = re.compile(r"^(?:p|par|param|arg|in|i|v)?_", re.IGNORECASE)
"""That arguments of functions have before the name of a column."""

_SEQUENCE = re.compile(r"^(?:sq|seq|s)_", re.IGNORECASE)
"""That sequences have before the name of a table."""

LEAST_SHARED = 3
"""Letters with which names begin that belong together."""

LISTED = 5
"""Values in an array behind ANY."""


class AskedExpressions:
    """Of one statement. uses: of its parameters by their numbers, that which says most; all_uses: all of
    them; questions: None where no server may be
    asked; rows: that a call had, where all of them are rows on which its conditions hold."""

    def __init__(
        self,
        uses: Mapping[int, Use],
        all_uses: Mapping[int, Sequence[Use]],
        questions: Questions | None,
        rows: float | None,
    ) -> None:
        self._uses, self._all_uses = uses, all_uses
        self._questions, self._rows = questions, rows
        self._keys: dict[int, str] = {}

    def key_origin(self, number: int) -> Origin:
        """Returns the key of a document, one for all calls. Raises NotUnderstoodError."""
        key = self._key(number)
        return constant(number, self._written(number, key), f"guessed: a key of the documents, {key}")

    @property
    def may_ask(self) -> bool:
        """Whether a server is asked, and what it says may be kept."""
        return self._questions is not None

    def bound_origin(self, number: int, column: KnownColumn) -> Origin | None:
        """Returns values within the ranges of a column; None where they are not known."""
        bound = f"lower({identifier(column.table)}.{identifier(column.name)})"
        values = self._values(Sampled(column, column.table, bound))
        return self._drawn(number, values, f"the beginning of {column.title}") if values else None

    def part_origin(self, number: int, use: Use) -> Origin | None:
        """Returns parts of the documents of a column, or of an expression; None where they are not known."""
        sampled = use.sampled
        if use.column is not None:
            name = f"{identifier(use.column.table)}.{identifier(use.column.name)}"
            sampled = Sampled(use.column, use.column.table, name)
        if sampled is None or self._questions is None:
            return None
        parts = likely_parts(self._values(self._with_keys(sampled)), sampled.table.rows, self._rows)
        words = use.column.title if use.column is not None else sampled.text
        return self._drawn(number, parts, f"parts of {words} of sampled rows") if parts else None

    def _values(self, sampled: Sampled) -> Sequence[str]:
        return self._questions.values(sampled) if self._questions is not None else ()

    def _drawn(self, number: int, values: Sequence[str], words: str) -> Origin:
        return Origin((number,), lambda dice, hide: (hide(dice.choice(values)),), words)

    def compared_origin(self, number: int, use: Use) -> Origin | None:
        """Returns the values of the expression that a parameter is compared with; None where they are not
        known. Raises NotUnderstoodError where the key of a document is not."""
        if use.sampled is None or self._questions is None or use.kind == "regular":
            return None
        if use.kind == "contains" and (parts := self.part_origin(number, use)) is not None:
            return parts
        sampled = self._with_keys(use.sampled)
        if use.kind in ("element", "contains"):
            elements = self._questions.elements(sampled)
            if use.kind == "contains":
                elements = [array_of([element]) for element in elements]
            return self._drawn(number, elements, f"elements of {use.sampled.text}") if elements else None
        values = self._questions.values(sampled)
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
            if sequence is None:
                sequence = _named_after(column, known)
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
            keys = [key for key in keys if self._is_cast(number, key) and self._leads_on(number, key)]
            if not keys:
                raise NotUnderstoodError(KEY_UNKNOWN)
            self._keys[number] = self._likely(number, keys[:MOST_TRIED])
        return self._keys[number]

    def _is_cast(self, number: int, key: str) -> bool:
        """True if what a key leads to can be cast, where the statement does that."""
        return all(
            self._values(self._with_keys(use.sampled, {number: key}))
            for use in self._all_uses.get(number, ())
            if use.kind == "cast" and use.sampled is not None
        )

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
                rows = max(1.0, sampled.table.rows * share_of_equal(values))
                distances[key] = abs(math.log(rows / max(1.0, self._rows)))
        return min(distances, key=lambda key: distances[key], default=keys[0])

    def _with_keys(self, sampled: Sampled, tried: Mapping[int, str] | None = None) -> Sampled:
        """Returns the expression with its keys in their places."""
        chosen = {number: (tried or {}).get(number) or self._key(number) for number in sampled.keys}
        text = sampled.text
        for number, key in chosen.items():
            written = literal(self._written(number, key))
            text = re.sub(rf"\${number}(?![0-9])", lambda _, written=written: written, text)  # type: ignore[misc]
        return replace(sampled, text=text, keys=())

    def _written(self, number: int, key: str) -> str:
        """Returns a key as the statement has it."""
        match self._uses[number].guess:
            case "list":
                return array_of([key])
            case "path":
                return "$." + json.dumps(key)
            case "predicate":
                return f"exists($.{json.dumps(key)})"
        return key


def _named_after(column: KnownColumn, sequences: Sequence[Sequenced]) -> Sequenced | None:
    """Returns the sequence whose name begins as that of the table or the column does, `invoice_numbers`; None
    where none does."""

    def shared(sequence: Sequenced) -> int:
        name = _SEQUENCE.sub("", sequence.name.rpartition(".")[2].strip('"'))
        full = f"{column.table}_{column.name}"
        return max(_common_letters(name, other) for other in (full, column.name))

    free = [sequence for sequence in sequences if not sequence.table]
    best = max(free, key=lambda sequence: (shared(sequence), -len(sequence.name)), default=None)
    return best if best is not None and shared(best) >= LEAST_SHARED else None


def _common_letters(name: str, other: str) -> int:
    """Counts the letters with which two names begin alike."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False))))


__all__ = ["AskedExpressions"]
