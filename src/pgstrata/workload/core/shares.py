"""Work divided over the connections of a role: who does what, and the script in which each finds its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pgstrata.workload.core.language import If, Op

T = TypeVar("T")


def spread(work: Sequence[T], connections: int, weight: Callable[[T], float]) -> list[list[T]]:
    """Returns the work spread over connections: the largest piece goes to the connection that has least so
    far; equal pieces in their order."""
    loads = [0.0] * connections
    shares: list[list[T]] = [[] for _ in range(connections)]
    for piece in sorted(work, key=lambda piece: -weight(piece)):
        least = loads.index(min(loads))
        loads[least] += weight(piece)
        shares[least].append(piece)
    return shares


def each_its_own(shares: Sequence[Sequence[Op]]) -> list[Op]:
    """Returns the ops of a script in which connection i does the i-th share."""
    if len(shares) == 1:
        return list(shares[0])
    return [If((f":client_id = {number}", share)) for number, share in enumerate(shares)]


__all__ = ["each_its_own", "spread"]
