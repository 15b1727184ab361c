"""Values drawn as a column has them: common ones as often as ANALYZE found them, the rest between the bounds
of its histogram, NULL as often as there is none.

A value is drawn as if a row were drawn: what a third of the rows have, a third of the draws give.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from random import Random
from uuid import UUID

from pgstrata.traffic.synthetic.numbering import LARGEST, Numbering, base_type, numbering_of
from pgstrata.traffic.synthetic.statistics import KnownColumn

DENSE = 0.5
"""Where at least this share of the whole numbers between the bounds is there, one drawn between them
mostly is, too."""

APART = 1_000_000
"""How far above the largest key new ones begin: other statements get theirs from sequences meanwhile."""


class UnknownValuesError(Exception):
    """Nothing says which values a column has."""


@dataclass(frozen=True)
class _Stretch:
    """A part of a distribution: one value, or what lies between two. share: of all rows with a value."""

    low: str
    high: str
    share: float


class Distribution:
    """The values of one column. Raises UnknownValuesError where nothing is known of them."""

    def __init__(self, column: KnownColumn) -> None:
        self.column = column
        common = [(value, share) for value, share in column.common if share > 0]
        if not common and not column.bounds:
            common = [(label, 1.0) for label in column.labels] or _booleans(column)
        if not common and not column.bounds:
            raise UnknownValuesError
        self._numbering = self._usable_numbering([value for value, _ in common])
        whole = max(1e-9, 1.0 - column.null_share)
        rest = max(0.0, whole - sum(share for _, share in common)) if len(column.bounds) > 1 else 0.0
        self._rest = rest
        buckets = [
            _Stretch(low, high, rest / (len(column.bounds) - 1))
            for low, high in itertools.pairwise(column.bounds)
        ]
        points = [_Stretch(value, value, share) for value, share in common]
        self._stretches = self._in_order(points, buckets)
        self._edges = list(itertools.accumulate(stretch.share for stretch in self._stretches))
        if self._edges[-1] <= 0:  # values are known, and that nobody has them
            self._edges = list(range(1, len(self._stretches) + 1))
        self._dense = self._is_dense(len(common))
        self._common = dict(common)

    def _usable_numbering(self, common: Sequence[str]) -> Numbering | None:
        known = [*common, *self.column.bounds]
        scale = numbering_of(self.column.type, known)
        try:
            for value in known if scale is not None else ():
                scale.number(value)  # type: ignore[union-attr]
        except (ValueError, OverflowError):
            return None
        return scale

    def _in_order(self, points: list[_Stretch], buckets: list[_Stretch]) -> list[_Stretch]:
        """Returns common values among the buckets, sorted by their numbers; for types without numbers in
        front of the buckets, whose order is the collation's."""
        if self._numbering is None:
            return [*sorted(points, key=lambda stretch: stretch.low), *buckets]
        number = self._numbering.number
        return sorted([*points, *buckets], key=lambda stretch: (number(stretch.low), number(stretch.high)))

    def _is_dense(self, common: int) -> bool:
        """Returns whether a value between two bounds is likely to exist."""
        bounds, column = self.column.bounds, self.column
        if self._numbering is None or len(bounds) < 2 or base_type(column.type) not in (*LARGEST, "date"):
            return False
        span = self._numbering.number(bounds[-1]) - self._numbering.number(bounds[0]) + 1
        return ((column.distinct or 0.0) - common) / span >= DENSE

    @property
    def knows_all(self) -> bool:
        """Whether its values are known, or can be told from those that are."""
        return self._dense or len(self.column.bounds) < 2

    def equal(self, dice: Random) -> str:
        """Returns a value that exists, as far as that is known."""
        stretch = self._stretches[self._place(dice.random())]
        if self._dense and self._numbering is not None:
            return self._between(stretch, dice.random())
        return dice.choice((stretch.low, stretch.high))

    def value(self, dice: Random) -> str | None:
        """Returns the value of a random row: NULL as often as rows have it."""
        return None if dice.random() < self.column.null_share else self.equal(dice)

    def at(self, share: float) -> str:
        """Returns the value that has this share of the rows below it, 0 to 1."""
        place = self._place(share)
        stretch = self._stretches[place]
        before = self._edges[place - 1] if place else 0.0
        width = self._edges[place] - before
        return self._between(stretch, (share * self._edges[-1] - before) / width if width else 0.0)

    def selectivity(self) -> float:
        """Returns the share of the rows that have a value drawn by `equal`, on the average."""
        distinct = (self.column.distinct or 0.0) - len(self._common)
        common = sum(share * share for share in self._common.values())
        rest = max(0.0, 1.0 - self.column.null_share - sum(self._common.values()))
        return min(1.0, common + (rest * rest / distinct if distinct >= 1 else 0.0))

    def beginning(self, value: str, share: float) -> str:
        """Returns the shortest beginning of a value that about this share of the rows has as well, or
        fewer."""
        known = [(known_value, part) for known_value, part in self._common.items()]
        known += [(bound, self._rest / len(self.column.bounds)) for bound in self.column.bounds]
        finest = min(part for _, part in known)
        for length in range(1, len(value)):
            begin = value[:length]
            having = sum(part for known_value, part in known if known_value.startswith(begin))
            if having <= max(share, finest * 1.01):
                # What is rarer than one bound cannot be counted: a letter more is a tenth, as of digits.
                more = math.ceil(math.log10(finest) - math.log10(share)) if 0 < share < finest else 0
                return value[: length + max(0, more)]
        return value

    def _place(self, share: float) -> int:
        return min(bisect.bisect_right(self._edges, share * self._edges[-1]), len(self._edges) - 1)

    def _between(self, stretch: _Stretch, share: float) -> str:
        if self._numbering is None or stretch.low == stretch.high:
            return stretch.low if share < 0.5 else stretch.high
        low, high = self._numbering.number(stretch.low), self._numbering.number(stretch.high)
        # Whole numbers: a fraction of large ones would lose digits.
        return self._numbering.text(min(high, low + (high - low + 1) * int(share * (1 << 53)) // (1 << 53)))


def _booleans(column: KnownColumn) -> list[tuple[str, float]]:
    return [("t", 1.0), ("f", 1.0)] if column.type == "boolean" else []


class FreshKeys:
    """Values of a column that no row has yet, each once.

    Whole numbers go on above the largest, texts get an ending, UUIDs are drawn. Of other types None is
    known. Raises UnknownValuesError for those.
    """

    def __init__(self, column: KnownColumn) -> None:
        self._column = column
        self._given = 0
        known = [*column.bounds, *(value for value, _ in column.common)]
        self._type = base_type(column.type)
        if self._type in (*LARGEST, "numeric"):
            largest = max((int(value) for value in map(_number, known) if value is not None), default=0)
            most = LARGEST.get(self._type, 2**63 - 1)
            # Where a type is nearly full its room is divided.
            self._next = largest + min(APART, max(1, (most - largest) // 2))
            self._most = most
        elif self._type not in ("uuid", "text", "character varying", "character"):
            raise UnknownValuesError

    def value(self, dice: Random) -> str:
        self._given += 1
        if self._type == "uuid":
            return str(UUID(int=dice.getrandbits(128), version=4))
        if self._type in ("text", "character varying", "character"):
            return self._text(dice)
        return str(min(self._most, self._next + self._given))

    def _text(self, dice: Random) -> str:
        known = self._column.bounds or tuple(value for value, _ in self._column.common)
        like = dice.choice(known) if known else "key"
        ending = f"{dice.getrandbits(40):x}{self._given:x}"
        limit = longest(self._column.type)
        return (like + ending if limit is None else like[: max(0, limit - len(ending))] + ending[-limit:])[
            : limit or None
        ]


def _number(text: str) -> Decimal | None:
    try:
        decimal = Decimal(text)
    except InvalidOperation:
        return None
    return decimal if decimal.is_finite() else None


def longest(type: str) -> int | None:
    """Returns how many letters a type holds: 20 of `character varying(20)`; None where it does not say."""
    inside = type.partition("(")[2].partition(")")[0]
    return int(inside) if inside.isdigit() and type.startswith("character") else None


__all__ = ["Distribution", "FreshKeys", "UnknownValuesError", "longest"]
