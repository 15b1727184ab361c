"""What a kind of turns is, and the pairs that its slices become."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from pgstrata import numbers
from pgstrata.stats.criterion import FIRST
from pgstrata.store.record import ComparisonRecord, Slice, TurnKind

AGAIN_SECONDS = 0.2
"""Unmeasured begin of each slice after the first: a new connection reads its catalogs again."""

COPIED_BYTES = 300e6
"""Bytes per second of a data folder's copy, a typical disk assumed."""


@dataclass(frozen=True)
class Length:
    """What decides how long the turns of one variant at a step take."""

    seconds: float
    """Of one slice or round; of all windows together where the step ends by time."""
    count: int
    """Slices or rounds of the variant."""
    warmup: float
    """Seconds before the first measured second of a slice or round."""
    variants: int
    """Variants that take turns."""
    data_bytes: int
    """Size of the data, at its largest."""
    most_seconds: float | None
    """Measured of the variant at most until verdicts are known; None where the step ends by time."""
    begins_anew: bool
    """Whether servers are started anew in the middle of the step."""


class Pairs(NamedTuple):
    """Neighbouring slices of two variants, as arguments of `stats.estimate.estimate`.

    base, other: in the order of the pairs; other ÷ base is how many times as fast the other one is. blocks:
    how many pairs each batch has, where connections were new for each batch. by_totals: both did the
    same work. starts: of each server, where it lived through many pairs.
    """

    base: list[float]
    other: list[float]
    blocks: tuple[int, ...] = ()
    by_totals: bool = False
    starts: int = 0


Neighbours = Sequence[tuple[Slice, Slice]]
"""The slices of a base and of another variant that make a pair, in the order of the pairs."""


class Least(NamedTuple):
    """What has to be measured of a variant before there can be a verdict. what: its parts."""

    seconds: float
    what: str


class Kind(Protocol):
    """One way in which variants take turns at a step."""

    @property
    def name(self) -> TurnKind:
        """As step records have it."""

    @property
    def part(self) -> str:
        """The noun of what is measured of a variant in its turn."""

    @property
    def pair(self) -> str:
        """The noun of neighbouring parts, one per variant."""

    @property
    def keeps_connections(self) -> bool:
        """Whether connections stay open from turn to turn, so that turns are short."""

    @property
    def from_snapshot(self) -> bool:
        """Whether each part begins with the data of a snapshot, which takes as much disk again."""

    def cost(self, length: Length) -> float:
        """Returns the seconds of one variant by the clock, what is around its turns included."""

    def least(self, part_seconds: float) -> Least:
        """Returns what a verdict takes at least where it is waited for. part_seconds: of a slice or round."""

    def pairs(self, neighbours: Neighbours, blocks: tuple[int, ...]) -> Pairs:
        """Returns what judges read of recorded slices. blocks: pairs of each batch."""

    def describe(self, parts: int, comparison: ComparisonRecord) -> str:
        """Returns how a step with this many parts of each variant was measured, as pages say it."""


def least_parts(noun: str, part_seconds: float) -> Least:
    """Returns the parts before the first look at a verdict. The last one has to begin before the end."""
    text = f"{FIRST} {noun} of {numbers.duration(part_seconds)}"
    return Least((FIRST - 1) * part_seconds, text)


def pairs_by_rate(neighbours: Neighbours, blocks: tuple[int, ...]) -> Pairs:
    """Returns the pairs of slices that take equally long: their rates are compared."""
    return Pairs([ours.rate for ours, _ in neighbours], [theirs.rate for _, theirs in neighbours], blocks)


def order_of_pair(pair: int, variants: int) -> list[int]:
    """Returns the numbers of the variants in their order in one pair (from 1); none without variants.

    Every second pair is the one before it backwards, so that a steady drift cancels, and each such block
    begins with another variant: two take turns A B, B A, B A, A B. Were it always the same, the first would
    have the ends of every block and a drift that bends would count for it alone.
    """
    step = next(s for s in range(max(1, variants // 2), max(1, variants) + 1) if math.gcd(s, variants) == 1)
    block, backwards = divmod(pair - 1, 2)
    order = [(number + block * step) % variants for number in range(variants)]
    return order[::-1] if backwards else order


__all__ = [
    "AGAIN_SECONDS",
    "COPIED_BYTES",
    "Kind",
    "Least",
    "Length",
    "Neighbours",
    "Pairs",
    "least_parts",
    "order_of_pair",
    "pairs_by_rate",
]
