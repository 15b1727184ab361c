"""What a run keeps of two plans of a query: nodes that moved, and what the planners decided otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgstrata.judge.plan_detail import differences
from pgstrata.judge.plan_times import NodeTime, is_executed, moved
from pgstrata.store.record import NodeMoved

MOST_DIFFERENCES = 40
LONGEST_DIFFERENCE = 400
"""Lines of two plans that are kept, and their characters."""


def nodes_moved(base: Any, other: Any) -> tuple[NodeMoved, ...]:
    """Returns the nodes of two executed plans that moved; none where one was not executed."""
    if not is_executed(base) or not is_executed(other):
        return ()
    return tuple(both_sides(ours, theirs) for ours, theirs in moved(base, other))


def both_sides(base: NodeTime | None, other: NodeTime | None) -> NodeMoved:
    """Returns a node of both sides, None of one that lacks it, as it is recorded."""
    ours, theirs = base or NodeTime("", 0.0, 0, 0, ""), other or NodeTime("", 0.0, 0, 0, "")
    return NodeMoved(
        node=theirs.title or ours.title,
        base_ms=None if base is None else round(ours.milliseconds, 3),
        other_ms=None if other is None else round(theirs.milliseconds, 3),
        base_buffers=ours.buffers,
        other_buffers=theirs.buffers,
        base_temporary=ours.temporary,
        other_temporary=theirs.temporary,
        base_fact=ours.fact,
        other_fact=theirs.fact,
    )


def plan_differences(wanted: Sequence[str], plain: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Returns what two planners decided otherwise, never nothing."""
    pairs = [
        (ours[:LONGEST_DIFFERENCE], theirs[:LONGEST_DIFFERENCE])
        for ours, theirs in differences(wanted, plain)[:MOST_DIFFERENCES]
    ]
    return tuple(pairs) or (("the same nodes in another order", "the same nodes in another order"),)


__all__ = ["both_sides", "nodes_moved", "plan_differences"]
