"""What slices of two variants that took turns say of each other, as pairs for `pgstrata.stats`."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from pgstrata.store.record import Slice, TookTurns

WAITED = 0.1
"""A pair is left out where one of its slices waited for a CPU, which other programs had, for more than this
share of its time. What is left is so little that both sides wait alike, and enough of it not to choose by
chance."""


class Pairs(NamedTuple):
    """Neighbouring slices of two variants, as arguments of `stats.estimate.estimate`.

    base, other: in the order of the pairs; other ÷ base is how many times as fast the other one is. blocks:
    how many pairs each block has, where connections were new for each block. by_totals: both did the
    same work.
    """

    base: list[float]
    other: list[float]
    blocks: tuple[int, ...] = ()
    by_totals: bool = False


def pairs_of(base: TookTurns, other: TookTurns) -> Pairs:
    """The slices of both that were taken as pairs.

    Both slices of a pair take equally long, and their rates are compared; in frozen turns both do the same
    work, and their times are: the other's as those of the base, and the other way round. So the ratio of
    totals is that of all operations where the length is the same, and that of all the time where the work
    is: a stall counts with as long as it took, and so such pairs are judged by their totals.
    """
    both = [pair for pair in _neighbours(base, other) if not _waited(pair)]
    block = [bisect.bisect_left(base.blocks, ours.pair) for ours, _ in both]
    blocks = tuple(len(list(group)) for _, group in groupby(block)) if base.blocks else ()
    if base.turns == "frozen":
        return Pairs([theirs.seconds for _, theirs in both], [ours.seconds for ours, _ in both], blocks, True)
    return Pairs([ours.rate for ours, _ in both], [theirs.rate for _, theirs in both], blocks)


def left_out(base: TookTurns, other: TookTurns) -> tuple[int, int]:
    """Returns how many pairs are left out because a side waited for a CPU, and how many pairs there are of
    which that is known."""
    known = [pair for pair in _neighbours(base, other) if None not in (part.waited for part in pair)]
    return sum(map(_waited, known)), len(known)


def _neighbours(base: TookTurns, other: TookTurns) -> list[tuple[Slice, Slice]]:
    second = {part.pair: part for part in other.slices}
    return [(part, second[part.pair]) for part in base.slices if part.pair in second]


def _waited(pair: tuple[Slice, Slice]) -> bool:
    return any(part.waited is not None and part.waited > WAITED for part in pair)


def together(parts: Sequence[Pairs]) -> Pairs:
    """The pairs of several repeats one after the other; blocks only where all of them have some."""
    base = [rate for one in parts for rate in one.base]
    other = [rate for one in parts for rate in one.other]
    blocks = tuple(count for one in parts for count in one.blocks)
    by_totals = all(one.by_totals for one in parts)
    return Pairs(base, other, blocks if sum(blocks) == len(base) else (), by_totals)


__all__ = ["WAITED", "Pairs", "left_out", "pairs_of", "together"]
