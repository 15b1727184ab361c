"""What slices of two variants that took turns say of each other, as pairs for `pgstrata.stats`."""

from __future__ import annotations

from collections.abc import Sequence

from pgstrata.store.record import Slice, StepRecord, TurnKind

Sides = tuple[list[float], list[float]]
"""Of base and other, in the order of the pairs: other ÷ base is how many times as fast the other one is."""


def step_pairs(base: StepRecord, other: StepRecord) -> Sides:
    """Those of two step records."""
    return pairs_of(base.slices, other.slices, base.turns)


def pairs_of(base: Sequence[Slice], other: Sequence[Slice], turns: TurnKind | None) -> Sides:
    """Slices of both that were taken as pairs. turns: how they were taken.

    Both slices of a pair take equally long, and their rates are compared; in frozen turns both do the same
    work, and their times are: the other's as those of the base, and the other way round. So the ratio of
    totals is that of all operations where the length is the same, and that of all the time where the work
    is: a stall counts with as long as it took.
    """
    second = {one.pair: one for one in other}
    both = [(one, second[one.pair]) for one in base if one.pair in second]
    if turns == "frozen":
        return [theirs.seconds for _, theirs in both], [ours.seconds for ours, _ in both]
    return [ours.rate for ours, _ in both], [theirs.rate for _, theirs in both]


__all__ = ["Sides", "pairs_of", "step_pairs"]
