"""What slices of two variants that took turns say of each other, as pairs for `pgstrata.stats`."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import groupby

from pgstrata.stats import sequential
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.verdict import Verdict, compare
from pgstrata.store.record import Slice, TookTurns
from pgstrata.turns.model import Pairs
from pgstrata.turns.table import kind_of

WAITED = 0.1
"""A pair is left out where one of its slices waited for a CPU, which other programs had, for more than this
share of its time. What is left is so little that both sides wait alike, and enough of it not to choose by
chance."""


def pairs_of(base: TookTurns, other: TookTurns) -> Pairs:
    """Returns the slices of both that make pairs, without disturbed ones.

    Which numbers of two slices are compared is known to the kind of turns: the ratio of totals is that of all
    operations where slices take equally long, and that of all the time where both do the same work.
    """
    out = disturbed_pairs(base, other)
    both = [pair for pair in neighbours(base, other) if pair[0].pair not in out]
    block = [bisect.bisect_left(base.blocks, ours.pair) for ours, _ in both]
    blocks = tuple(len(list(group)) for _, group in groupby(block)) if base.blocks else ()
    pairs = kind_of(base.turns).pairs(both, blocks)
    return pairs._replace(starts=1) if base.one_start and other.one_start else pairs


def left_out(base: TookTurns, other: TookTurns) -> tuple[int, int]:
    """Returns how many pairs are left out because other programs disturbed a side, and how many pairs there
    are of which that is known."""
    known = [ours.pair for ours, theirs in neighbours(base, other) if _tells(ours) and _tells(theirs)]
    return len(disturbed_pairs(base, other).intersection(known)), len(known)


def disturbed_pairs(base: TookTurns, other: TookTurns) -> frozenset[int]:
    """Returns the numbers of the pairs in which other programs disturbed a side: a slice waited for a CPU,
    or, where that is not known, other programs used more of the CPUs than allowed."""
    limits = base.load_limit, other.load_limit
    return frozenset(
        pair[0].pair
        for pair in neighbours(base, other)
        if any(_disturbed(part, limit) for part, limit in zip(pair, limits, strict=True))
    )


def neighbours(base: TookTurns, other: TookTurns) -> list[tuple[Slice, Slice]]:
    """Returns the slices of both that make pairs, disturbed ones too."""
    second = {part.pair: part for part in other.slices}
    return [(part, second[part.pair]) for part in base.slices if part.pair in second]


def _tells(part: Slice) -> bool:
    return part.waited is not None or part.other_load is not None


def _disturbed(part: Slice, load_limit: float) -> bool:
    if part.waited is not None:
        return part.waited > WAITED
    return part.other_load is not None and part.other_load > load_limit


def verdict_of(pairs: Pairs, criterion: Criterion, *, watched: bool, span: float | None) -> Verdict:
    """Returns the verdict on pairs. watched: measuring stopped when it was clear, so it is judged by the
    interval that allows for it; span: as of `sequential.look`."""
    if watched:
        return sequential.look(*pairs, criterion=criterion, span=span)
    return compare(*pairs, criterion=criterion)


def ratio_of(base: TookTurns, other: TookTurns, criterion: Criterion, *, watched: bool) -> float | None:
    """Returns how many times as fast the other is, as the verdict on the same slices says; None without
    pairs."""
    verdict = verdict_of(pairs_of(base, other), criterion, watched=watched, span=base.span)
    return verdict.ratio if verdict.n else None


def together(parts: Sequence[Pairs]) -> Pairs:
    """Returns the pairs of several repeats one after the other; blocks only where all of them have some."""
    base = [rate for part in parts for rate in part.base]
    other = [rate for part in parts for rate in part.other]
    blocks = tuple(count for part in parts for count in part.blocks)
    by_totals = all(part.by_totals for part in parts)
    starts = sum(part.starts for part in parts)
    return Pairs(base, other, blocks if sum(blocks) == len(base) else (), by_totals, starts)


__all__ = [
    "WAITED",
    "Pairs",
    "disturbed_pairs",
    "left_out",
    "neighbours",
    "pairs_of",
    "ratio_of",
    "together",
    "verdict_of",
]
