"""What was counted in one campaign: by workload and variant, with verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from pgstrata.count.verdicts import CountComparison, CountVerdict, compare_counts, margin_of_counts
from pgstrata.page.results import RunSet
from pgstrata.stats.criterion import Criterion
from pgstrata.store.choose import Side
from pgstrata.store.counted import plain_workload
from pgstrata.store.record import CountRecord


class Counts:
    """The counted runs of a campaign, compared."""

    def __init__(self, results: RunSet) -> None:
        self._results = results

    def side(self, variant: str) -> Side:
        """Returns the counted runs of a variant."""
        return Side(variant, tuple(run for run in self._results.counted if run.variant == variant))

    def of(self, workload: str) -> dict[str, CountRecord]:
        """Returns the counts of a workload by variant."""
        return {
            run.variant: run.record.counted
            for run in self._results.counted
            if plain_workload(run) == workload and run.record.counted is not None
        }

    @cached_property
    def comparisons(self) -> list[CountComparison]:
        """Verdicts on the counts of every variant but the base."""
        others = [side for v in self._results.others if (side := self.side(v)).runs]
        criterion = Criterion(margin_of_counts(self._results.counted))
        return compare_counts(self.side(self._results.base), others, criterion=criterion) if others else []

    @cached_property
    def _verdicts(self) -> Mapping[tuple[str, str, str, str], CountVerdict]:
        return {
            (s.workload, comparison.other, s.step, s.role): s
            for comparison in self.comparisons
            for s in comparison.steps
        }

    def verdict(self, workload: str, variant: str, step: str, role: str) -> CountVerdict | None:
        """Returns a verdict; None for the base, and where nothing was counted."""
        return self._verdicts.get((workload, variant, step, role))


def counts_of(results: RunSet) -> Counts:
    """Returns the counts of a campaign; they are compared once."""
    return results.derived(Counts)


__all__ = ["Counts", "counts_of"]
