"""What slices of two variants that took turns say of each other, as pairs for `pgstrata.stats`."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from pgstrata.store.record import TookTurns


class Pairs(NamedTuple):
    """What stands next to each other, as arguments of `stats.estimate.estimate`.

    base, other: in the order of the pairs; other ÷ base is how many times as fast the other one is. blocks:
    how many pairs each block has, where servers were started anew between blocks. by_totals: both did the
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
    second = {one.pair: one for one in other.slices}
    both = [(one, second[one.pair]) for one in base.slices if one.pair in second]
    block = (bisect.bisect_left(base.blocks, ours.pair) for ours, _ in both)
    blocks = tuple(len(list(own)) for _, own in groupby(block)) if base.blocks else ()
    if base.turns == "frozen":
        return Pairs([theirs.seconds for _, theirs in both], [ours.seconds for ours, _ in both], blocks, True)
    return Pairs([ours.rate for ours, _ in both], [theirs.rate for _, theirs in both], blocks)


def together(parts: Sequence[Pairs]) -> Pairs:
    """The pairs of several repeats one after the other; blocks only where all of them have some."""
    base = [rate for one in parts for rate in one.base]
    other = [rate for one in parts for rate in one.other]
    blocks = tuple(count for one in parts for count in one.blocks)
    by_totals = all(one.by_totals for one in parts)
    return Pairs(base, other, blocks if sum(blocks) == len(base) else (), by_totals)


__all__ = ["Pairs", "pairs_of", "together"]
