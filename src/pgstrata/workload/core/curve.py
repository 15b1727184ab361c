"""A step with several numbers of clients: a curve, with a place for further points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pgstrata.stats.criterion import LEAST_POINTS
from pgstrata.workload.core.language import Phase, Refine


def curve_phases(
    steps: str, clients: Sequence[int], refine: int, at: Callable[[int], Sequence[Phase]]
) -> Iterator[Phase]:
    """Yields the phases of each number of clients, then a place for at most `refine` further points.

    steps: common name of the steps, to which `-cN` is added where there are several numbers; at: gives the
    phases that measure with a number of clients.
    """
    for number in clients:
        yield from at(number)
    if refine and len(clients) >= LEAST_POINTS:
        yield Refine(steps, clients, refine, at)


__all__ = ["curve_phases"]
