"""The three tables a report begins with: rates, relative rates, background write rates.

Data only: variants down, steps across, in each cell the number, its spread over the repeats and its mark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pgstrata.errors import UsageError
from pgstrata.judge.machines import shown_machine
from pgstrata.judge.marks import (
    THRESHOLDS,
    Mark,
    background_mark,
    check_thresholds,
    column_marks,
    relative_mark,
)
from pgstrata.stats.rates import Rate, geometric_mean, over_repeats, relative
from pgstrata.store import Run
from pgstrata.store.record import StepRecord


@dataclass(frozen=True)
class SummaryCell:
    """A number with what is known of its error.

    value: a rate per second, or a ratio; low, high: over the repeats; n: how many repeats; std_error: of
    the value, None for n = 1. sla_met: None where the step has no target, False if any repeat missed it.
    """

    value: float | None
    mark: Mark
    n: int = 0
    low: float | None = None
    high: float | None = None
    std_error: float | None = None
    sla_met: bool | None = None


@dataclass(frozen=True)
class SummaryColumn:
    """A step; `unit` is that of its rate."""

    step: str
    unit: str
    group: str


@dataclass(frozen=True)
class SummaryRow:
    """A variant's cells, one for each column."""

    variant: str
    cells: tuple[SummaryCell, ...]


@dataclass(frozen=True)
class SummaryTable:
    """`target`: rows/s asked for, by column, in the table of background rates."""

    columns: tuple[SummaryColumn, ...]
    rows: tuple[SummaryRow, ...]
    target: tuple[float | None, ...] = ()

    def cell(self, variant: str, step: str) -> SummaryCell:
        """Raises KeyError when the table has no such row or column."""
        for row in self.rows:
            for column, cell in zip(self.columns, row.cells, strict=True):
                if row.variant == variant and column.step == step:
                    return cell
        raise KeyError(f"{variant}, {step}")


@dataclass(frozen=True)
class Summary:
    """One workload's tables; `background` is None where no step has a target."""

    workload: str
    base: str
    absolute: SummaryTable
    relative: SummaryTable
    background: SummaryTable | None


def summarise(
    runs: Iterable[Run],
    *,
    variants: Sequence[str] | None = None,
    base: str | None = None,
    thresholds: tuple[float, float] = THRESHOLDS,
) -> list[Summary]:
    """Returns the tables of every workload among the finished runs, in the order they were first measured.

    variants: rows and their order, default as first measured; base: default the first of them. Runs of
    one variant and workload are its repeats, wherever they were made. Only steps marked `measured`
    count. Raises UsageError for a base that is not among the variants and for impossible thresholds.
    """
    check_thresholds(thresholds)
    done = sorted((run for run in runs if run.done), key=lambda run: (run.record.started, run.run_id))
    variants = list(variants) if variants is not None else list(dict.fromkeys(run.variant for run in done))
    if base is not None and base not in variants:
        raise UsageError(f"there is no variant {base!r} to compare with", f"there is {', '.join(variants)}")
    if not variants:
        return []
    base = base or variants[0]
    return [
        _workload(workload, [run for run in done if run.workload == workload], variants, base, thresholds)
        for workload in dict.fromkeys(run.workload for run in done)
    ]


def step_columns(records: Iterable[StepRecord]) -> tuple[SummaryColumn, ...]:
    """Returns the measured steps of several runs, each once, in the workload's order."""
    first: dict[str, StepRecord] = {}
    order: dict[str, int] = {}
    for record in records:
        if record.measured:
            first.setdefault(record.name, record)
            order[record.name] = max(order.get(record.name, 0), record.order)
    return tuple(
        SummaryColumn(name, first[name].rate_unit, first[name].group)
        for name in sorted(first, key=lambda name: order[name])
    )


def _workload(
    workload: str,
    runs: Sequence[Run],
    variants: Sequence[str],
    base: str,
    thresholds: tuple[float, float],
) -> Summary:
    columns = step_columns(step for run in runs for step in run.steps)
    by_step: dict[tuple[str, str], list[tuple[Run, StepRecord]]] = {}
    for run in runs:
        for step in run.steps:
            by_step.setdefault((run.variant, step.name), []).append((run, step))

    # Rates of one machine: those of several have no middle that means anything.
    of_one = shown_machine(runs, base)

    def at(variant: str, column: SummaryColumn) -> list[StepRecord]:
        records = by_step.get((variant, column.step), [])
        return [step for run, step in records if of_one in (None, run.machine)]

    def by_machine(variant: str, column: SummaryColumn) -> dict[str, list[StepRecord]]:
        grouped: dict[str, list[StepRecord]] = {}
        for run, step in by_step.get((variant, column.step), []):
            grouped.setdefault(run.machine, []).append(step)
        return grouped

    absolute = [_absolute_column([at(variant, column) for variant in variants]) for column in columns]
    ratios = [
        [
            _relative_cell(by_machine(variant, column), by_machine(base, column), thresholds)
            for variant in variants
        ]
        for column in columns
    ]
    with_target = [column for column in columns if any(_targets(at(v, column)) for v in variants)]
    return Summary(
        workload=workload,
        base=base,
        absolute=_table(columns, variants, absolute),
        relative=_table(columns, variants, ratios),
        background=_table(
            with_target,
            variants,
            [[_background_cell(at(variant, column)) for variant in variants] for column in with_target],
            [max(t for v in variants for t in _targets(at(v, column))) for column in with_target],
        )
        if with_target
        else None,
    )


def _table(
    columns: Sequence[SummaryColumn],
    variants: Sequence[str],
    by_column: Sequence[Sequence[SummaryCell]],
    target: Sequence[float | None] = (),
) -> SummaryTable:
    rows = [
        SummaryRow(variant, tuple(cells[number] for cells in by_column))
        for number, variant in enumerate(variants)
    ]
    return SummaryTable(tuple(columns), tuple(rows), tuple(target))


def _absolute_column(repeats: Sequence[Sequence[StepRecord]]) -> list[SummaryCell]:
    rates = [_rate(records) for records in repeats]
    met = [sla_of(records) for records in repeats]
    marks = column_marks([rate.value if rate else None for rate in rates], met)
    return [
        SummaryCell(rate.value, mark, rate.n, rate.low, rate.high, rate.std_error, ok)
        if rate
        else SummaryCell(None, "missing")
        for rate, mark, ok in zip(rates, marks, met, strict=True)
    ]


def _relative_cell(
    records: Mapping[str, Sequence[StepRecord]],
    base: Mapping[str, Sequence[StepRecord]],
    thresholds: tuple[float, float],
) -> SummaryCell:
    """Returns the cell of a relative rate. The records of both sides are by machine: each machine divides its
    own rates, and the mean of the ratios counts."""
    common = records.keys() & base.keys()
    # One side measured here and the other there: as --across-hosts has it, not as a rule.
    pairs = (
        [(records[machine], base[machine]) for machine in sorted(common)]
        if common
        else [
            (
                [r for machine_records in records.values() for r in machine_records],
                [r for machine_records in base.values() for r in machine_records],
            )
        ]
    )
    rates = [(_rate(ours), _rate(theirs)) for ours, theirs in pairs]
    ratios = [ratio for ours, theirs in rates if (ratio := relative(ours, theirs)) is not None]
    value = ratios[0].value if len(ratios) == 1 else geometric_mean([ratio.value for ratio in ratios])
    if value is None:
        return SummaryCell(None, "missing")
    every = [record for ours, _ in pairs for record in ours]
    met = sla_of(every)
    comparable = met is not False and sla_of([r for _, theirs in pairs for r in theirs]) is not False
    return SummaryCell(
        value,
        relative_mark(value, thresholds, comparable=comparable),
        len([record for record in every if record.rate is not None]),
        min(ratio.low for ratio in ratios),
        max(ratio.high for ratio in ratios),
        ratios[0].std_error if len(ratios) == 1 else None,
        met,
    )


def _background_cell(records: Sequence[StepRecord]) -> SummaryCell:
    rate = over_repeats([r.background_rate for r in records if r.background_rate is not None])
    if rate is None:
        return SummaryCell(None, "missing")
    met = sla_of(records)
    return SummaryCell(rate.value, background_mark(met), rate.n, rate.low, rate.high, rate.std_error, met)


def sla_of(records: Sequence[StepRecord]) -> bool | None:
    """Returns the SLA over the repeats: False if any missed it, None where there is no target."""
    known = [record.sla_met for record in records if record.sla_met is not None]
    return all(known) if known else None


def _rate(records: Sequence[StepRecord]) -> Rate | None:
    return over_repeats([record.rate for record in records if record.rate is not None])


def _targets(records: Sequence[StepRecord]) -> list[float]:
    return [record.target_rate for record in records if record.target_rate is not None]
