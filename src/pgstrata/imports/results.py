"""Imported figures of a campaign by workload, variant and step, as tables and charts read them."""

from __future__ import annotations

from dataclasses import dataclass

from pgstrata import numbers
from pgstrata.page.results import RunSet
from pgstrata.stats.rates import middle
from pgstrata.store.imported import ImportedStep
from pgstrata.store.read import Run

StepKey = tuple[str, int | None]


@dataclass(frozen=True)
class ImportedResults:
    """One workload. `steps`: of each variant, all repeats of each step. `kinds`: steps in their order, with
    their unit; steps of one name in two units are two."""

    workload: str
    runs: tuple[Run, ...]
    variants: tuple[str, ...]
    kinds: tuple[tuple[StepKey, str], ...]
    steps: dict[tuple[str, StepKey, str], list[ImportedStep]]

    def rate(self, variant: str, key: StepKey, unit: str) -> float | None:
        """Returns the geometric mean over the repeats; None where the variant has no such step."""
        steps = self.steps.get((variant, key, unit))
        if not steps:
            return None
        return middle([step.rate for step in steps]) if all(step.rate for step in steps) else 0.0

    def first(self, key: StepKey, unit: str) -> str:
        """Returns the first variant with the step: others are shown relative to it."""
        return next(v for v in self.variants if (v, key, unit) in self.steps)


def imported_results(results: RunSet) -> list[ImportedResults]:
    """Returns what was imported into a campaign, a workload each."""
    all_imported = []
    for workload in dict.fromkeys(run.workload for run in results.imported):
        runs = [run for run in results.imported if run.workload == workload]
        runs.sort(key=lambda run: (run.record.started, run.record.variant_order))
        steps: dict[tuple[str, StepKey, str], list[ImportedStep]] = {}
        for run in runs:
            for step in run.record.imported.steps if run.record.imported else ():
                steps.setdefault((run.variant, step.key, step.unit), []).append(step)
        kinds = dict.fromkeys((key, unit) for _, key, unit in steps)
        variants = dict.fromkeys(run.variant for run in runs)
        all_imported.append(ImportedResults(workload, tuple(runs), tuple(variants), tuple(kinds), steps))
    return all_imported


def label_of(key: StepKey) -> str:
    """Returns a step as a reader sees it."""
    name, clients = key
    return name if clients is None else f"{name}, {numbers.counted(clients, 'client')}"


__all__ = ["ImportedResults", "StepKey", "imported_results", "label_of"]
