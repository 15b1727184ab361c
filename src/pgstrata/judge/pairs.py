"""What slices of two variants that took turns say of each other, as pairs for `pgstrata.stats`."""

from __future__ import annotations

import bisect
from itertools import groupby

from pgstrata.store.record import TookTurns

Pairs = tuple[list[float], list[float], tuple[int, ...]]
"""Of base and other, in the order of the pairs: other ÷ base is how many times as fast the other one is; and
how many pairs each block has, where servers were started anew between blocks."""


def pairs_of(base: TookTurns, other: TookTurns) -> Pairs:
    """The slices of both that were taken as pairs.

    Both slices of a pair take equally long, and their rates are compared; in frozen turns both do the same
    work, and their times are: the other's as those of the base, and the other way round. So the ratio of
    totals is that of all operations where the length is the same, and that of all the time where the work
    is: a stall counts with as long as it took.
    """
    second = {one.pair: one for one in other.slices}
    both = [(one, second[one.pair]) for one in base.slices if one.pair in second]
    block = (bisect.bisect_left(base.blocks, ours.pair) for ours, _ in both)
    blocks = tuple(len(list(own)) for _, own in groupby(block)) if base.blocks else ()
    if base.turns == "frozen":
        return [theirs.seconds for _, theirs in both], [ours.seconds for ours, _ in both], blocks
    return [ours.rate for ours, _ in both], [theirs.rate for _, theirs in both], blocks


__all__ = ["Pairs", "pairs_of"]
