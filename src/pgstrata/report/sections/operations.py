"""What one operation costs in hardware, next to each rate: tells slower by CPU from slower by I/O."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

from pgstrata import numbers
from pgstrata.judge.costs import cost_pairs, cost_words, step_cost
from pgstrata.judge.marks import Mark, relative_mark, verdict_mark
from pgstrata.page.blocks import Cell, Column, Row, Section, Table, missing, words
from pgstrata.page.results import Repeats, RunSet, StepResults, WorkloadResults
from pgstrata.report.sections.summary import relative_cell
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.metrics import PER_OPERATION, PerOperation, relative_cost
from pgstrata.stats.verdict import Word
from pgstrata.store.read import MeasuredStep


def operations(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the absolute and relative cost per operation; None if nothing was observed."""
    costs = {
        step.name: {v: _cost(p) for v, p in step.by_variant.items() if p.rate} for step in workload.compared
    }
    seen = [
        name
        for name in PER_OPERATION
        if any(getattr(cost, name) is not None for by in costs.values() for cost in by.values())
    ]
    if not seen:
        return None
    tables = [_absolute(results, workload, costs, seen)]
    if results.others:
        tables.append(_relative(results, workload, costs, seen))
    return Section(
        f"cost-{workload.name}" if workload.name.isalnum() else "cost",
        f"Why: what one operation costs ({workload.name})",
        tables,
        folded=len(workload.compared) * len(results.variants) > 60,
    )


def _cost(repeats: Repeats) -> PerOperation:
    """Returns the median of each figure over the repeats."""
    costs = [step_cost(measured.record) for measured in repeats.repeats]
    known = {name: [v for c in costs if (v := getattr(c, name)) is not None] for name in PER_OPERATION}
    return PerOperation(**{name: median(values) if values else None for name, values in known.items()})


Costs = dict[str, dict[str, PerOperation]]


def _absolute(results: RunSet, workload: WorkloadResults, costs: Costs, seen: Sequence[str]) -> Table:
    def cells(step: StepResults, variant: str) -> list[Cell]:
        cost, rate = costs[step.name][variant], results.rate(step, variant)
        figures = [getattr(cost, name) for name in seen]
        return [
            Cell(rate, numbers.rate(rate)),
            words(step.unit),
            *(missing("not observed") if f is None else Cell(f, numbers.significant(f)) for f in figures),
        ]

    return Table(
        name="operations",
        title=f"Hardware per operation: {workload.name} — less is better",
        columns=[
            Column("step", "Step", align="left"),
            Column("variant", "Variant", align="left"),
            Column("rate", "Rate"),
            Column("unit", "Unit", align="left"),
            *(Column(PER_OPERATION[n], PER_OPERATION[n], rule=n == seen[0]) for n in seen),
        ],
        rows=_rows(results.variants, workload, costs, cells),
        lead=1,
        keys=(("workload", workload.name),),
        how="Everything that happened during a step, divided by the operations its rate counts: cpu is "
        "the CPU of all the server's processes in µs, host cpu that of the whole host, client included, "
        "cpu/o the same as published tables have it (% of all CPUs ÷ rate), cs context switches, r and w "
        "disk reads and writes, rKB and wKB their volume, client cpu the driver's own. Background writes and "
        "autovacuum are charged too, so a step compares only with itself under another variant.",
    )


def _relative(results: RunSet, workload: WorkloadResults, costs: Costs, seen: Sequence[str]) -> Table:
    low, high = results.thresholds
    words_of = {} if results.by_thresholds else _proven(results, workload, seen)

    def mark(step: StepResults, variant: str, name: str, ratio: float) -> Mark:
        if results.by_thresholds:
            return relative_mark(1 / ratio, results.thresholds) if ratio else "good"
        proven = verdict_mark(words_of.get((step.name, variant, name)))
        return proven if proven in ("good", "bad") else ""

    def cells(step: StepResults, variant: str) -> list[Cell]:
        row_cells = [replace(relative_cell(results, step, variant), small="")]
        base = costs[step.name].get(results.base)
        ratios = relative_cost(costs[step.name][variant], base) if base is not None else None
        for name in seen:
            ratio = None if ratios is None else getattr(ratios, name)
            if ratio is None:
                row_cells.append(Cell(None, numbers.UNKNOWN, "missing", "the base has none, or it is 0"))
            else:
                row_cells.append(Cell(ratio, numbers.ratio(ratio), mark(step, variant, name, ratio)))
        return row_cells

    return Table(
        name="operations-relative",
        title=f"Hardware per operation relative to {results.base}: {workload.name} — rate above 1, cost "
        "below 1 is better",
        columns=[
            Column("step", "Step", align="left"),
            Column("variant", "Variant", align="left"),
            Column("relative_rate", "Relative rate"),
            *(Column(PER_OPERATION[n], PER_OPERATION[n], rule=n == seen[0]) for n in seen),
        ],
        rows=_rows(results.others, workload, costs, cells),
        keys=(("workload", workload.name),),
        how="The figures above divided by the base's. Where a rate fell, look for the cost that rose "
        "with it: cpu means more work per operation, r or w more I/O, cs more waiting on each other. "
        + ("Green is cheaper." if results.by_thresholds else PROVEN_COSTS),
        legend=(
            ("bad", f"costs more, 1 ÷ ratio ≤ {low:g}" if results.by_thresholds else "proven dearer"),
            ("good", f"costs less, 1 ÷ ratio ≥ {high:g}" if results.by_thresholds else "proven cheaper"),
        ),
    )


PROVEN_COSTS = (
    "A colour means proven over the repeats, adjusted for the number of figures: green costs less, red more. "
    "Without repeats nothing is proven of a cost, and nothing is coloured."
)


def _figure(name: str, measured: MeasuredStep) -> float | None:
    figure: float | None = getattr(step_cost(measured.record), name)
    return figure


def _proven(
    results: RunSet, workload: WorkloadResults, seen: Sequence[str]
) -> dict[tuple[str, str, str], Word]:
    """Returns the proven word for each figure of each step and variant."""
    pairs = {}
    for step in workload.compared:
        base = step.by_variant.get(results.base)
        for variant in results.others:
            repeats = step.by_variant.get(variant)
            if base is None or repeats is None:
                continue
            for name in seen:
                pairs[step.name, variant, name] = cost_pairs(
                    base.repeats, repeats.repeats, partial(_figure, name)
                )
    return cost_words(pairs, Criterion(results.margin))


def _rows(
    variants: Sequence[str],
    workload: WorkloadResults,
    costs: Costs,
    cells: Callable[[StepResults, str], list[Cell]],
) -> list[Row]:
    rows: list[Row] = []
    for step in workload.compared:
        present = [v for v in variants if v in costs[step.name]]
        for index, variant in enumerate(present):
            row_cells = [words(step.name), words(variant), *cells(step, variant)]
            rows.append(Row(row_cells, "next" if index else "", variant))
    return rows
