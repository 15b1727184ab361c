"""What each judged load took beside its time."""

from __future__ import annotations

from pgstrata import numbers
from pgstrata.page.blocks import Cell, Column, Row, Table, words
from pgstrata.page.results import RunSet, StepResults, WorkloadResults
from pgstrata.store.record import JudgedLoad

_HOW = (
    "Of one execution, the mean of all rounds; times and rates are those of the verdict. Parallel workers "
    "are the most that were seen at the same time. Replayed is the write-ahead log that a server read; redo, "
    "and the sync of its files before, which is not judged, are told by its log."
)


def judged_loads(results: RunSet, workload: WorkloadResults) -> Table | None:
    """Returns the table of the judged loads; None if no load was judged."""
    rows = [
        row
        for step in workload.compared
        for variant in results.variants
        if (row := _row(results, step, variant)) is not None
    ]
    if not rows:
        return None
    return Table(
        name="loads",
        title=f"Loads, and what they take beside their time: {workload.name}",
        columns=[
            Column("step", "Step", align="left"),
            Column("variant", "Variant", align="left"),
            Column("seconds", "Time", "s"),
            Column("rate", "Rate"),
            Column("wal", "WAL written", "MB", rule=True),
            Column("temp", "Temporary", "MB"),
            Column("workers", "Parallel workers"),
            Column("replayed", "Replayed", "MB", rule=True),
            Column("replay_rate", "Replayed", "MB/s"),
            Column("redo", "Redo", "s"),
            Column("sync", "Files synced", "s"),
        ],
        rows=rows,
        keys=(("workload", workload.name),),
        how=_HOW,
    )


def _row(results: RunSet, step: StepResults, variant: str) -> Row | None:
    repeats, rate = step.by_variant.get(variant), results.rate(step, variant)
    record = None if repeats is None else repeats.typical.record
    load = None if record is None else record.judged_load
    if record is None or load is None or not rate or not record.rate:
        return None
    # Work is the same on all sides: what one execution takes by the rate of the verdict.
    seconds = record.rate / rate * record.seconds / load.executions
    replayed = _each(load.replayed_bytes, load)
    return Row(
        [
            words(step.name),
            words(variant),
            _cell(seconds),
            Cell(rate, f"{numbers.rate(rate)} {step.unit}"),
            _cell(_each(record.wal_bytes, load), 1e6),
            _cell(_each(load.temp_bytes, load), 1e6),
            _workers(load.parallel_workers),
            _cell(replayed, 1e6),
            _cell(None if replayed is None else replayed / seconds, 1e6),
            _cell(_each(load.redo_seconds, load)),
            _cell(_each(load.sync_seconds, load)),
        ],
        variant=variant,
    )


def _workers(most: int | None) -> Cell:
    return words("") if most is None else Cell(most, numbers.count(most))


def _each(value: float | None, load: JudgedLoad) -> float | None:
    return None if value is None else value / load.executions


def _cell(value: float | None, unit: float = 1) -> Cell:
    """Returns the cell of a figure; blank if a step has none of the kind."""
    return words("") if value is None else Cell(value / unit, numbers.significant(value / unit))


__all__ = ["judged_loads"]
