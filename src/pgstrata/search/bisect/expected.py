"""How long a search is expected to take, before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pgstrata.search.bisect.hunt import SearchSettings
from pgstrata.search.bisect.procedure import By
from pgstrata.search.bisect.state import State
from pgstrata.source import build_cache

BUILD_SECONDS = 240.0
"""Of a server, where the cache has none that would tell."""

AROUND_SECONDS = 20.0
"""For two clusters and their data, beside the seconds that are measured of each."""

COUNT_SECONDS = 60.0
"""Of a count of two starts of each."""

MORE = 3
"""Comparisons beside those of the servers between the ends: of the ends, and of what is found."""


@dataclass(frozen=True)
class Expected:
    """builds: of servers, both ends included; comparisons; seconds of one build and of one comparison. known:
    where the time of a build is from."""

    builds: int
    comparisons: int
    build_seconds: float
    comparison_seconds: float
    known: str

    @property
    def minutes(self) -> float:
        """Of all."""
        return (self.builds * self.build_seconds + self.comparisons * self.comparison_seconds) / 60


def expected(search: SearchSettings, state: State | None) -> Expected:
    """Returns what a search from its beginning is expected to need."""
    n = search.line.n
    # Each build halves what is left; never more than there are, with the good end.
    between = min(n - 1, n.bit_length() + 2)
    builds = between + 2 if search.line.kind == "commit" else 0
    build_seconds, known = _build_seconds(state)
    measures: Sequence[By] = ("rate", "instructions") if search.by == "both" else (search.by,)
    each = max(_comparison_seconds(search, state, by) for by in measures)
    return Expected(builds, between + MORE + 2 * search.both_ways, build_seconds, each, known)


def _build_seconds(state: State | None) -> tuple[float, str]:
    done = [m.build_seconds for m in state.measured if m.build_seconds > 1] if state is not None else []
    if done:
        return median(done), "as those of this search"
    built = [kept.record.seconds for kept in build_cache.built() if kept.record.seconds > 1]
    return (median(built), "as those in the cache") if built else (BUILD_SECONDS, "a guess")


def _comparison_seconds(search: SearchSettings, state: State | None, by: By) -> float:
    if state is not None:
        done = [m.seconds - m.build_seconds for m in state.measured_by(by)]
        if done:
            return median(done)
    return COUNT_SECONDS if by == "instructions" else 2 * search.work.seconds + AROUND_SECONDS


__all__ = ["Expected", "expected"]
