"""What a load took, phase by phase: stacked bars and their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgstrata import numbers
from pgstrata.page.blocks import Cell, Chart, Column, Row, Table, missing, words
from pgstrata.page.charts import axis, color, label, legend_above, rounded
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor


def seconds(step: StepResults | None, variant: str) -> float | None:
    """Returns the median seconds of a step over the repeats; None if it was not measured."""
    repeats = step.by_variant.get(variant) if step else None
    return None if repeats is None else repeats.median(lambda m: m.record.seconds)


def step_named(workload: WorkloadResults, name: str) -> StepResults | None:
    return next((step for step in workload.steps if step.name == name), None)


def stacked(
    results: RunSet,
    workload: WorkloadResults,
    phases: Mapping[str, Mapping[str, float | None]],
    title: str,
    how: str,
) -> Chart:
    """Returns a chart with a bar for each variant, its phases on top of each other. phases: name → variant →
    seconds."""
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "name": label(phase),
            "x": [label(v) for v in results.variants],
            "y": rounded([by_variant.get(v) for v in results.variants]),
            "marker": {"color": color(index)},
            "hovertemplate": "%{y:,.4~g} s",
        }
        for index, (phase, by_variant) in enumerate(phases.items())
    ]
    layout = {
        "barmode": "stack",
        "margin": {"l": 60, "r": 12, "t": 40, "b": 44},
        "hovermode": "x",
        "showlegend": True,
        "legend": legend_above(1.04),
        "xaxis": axis(type="category"),
        "yaxis": axis("seconds", rangemode="tozero"),
    }
    return Chart(anchor("load", workload.name), title, data, layout, 340, how)


def phase_table(
    results: RunSet,
    workload: WorkloadResults,
    phases: Mapping[str, Mapping[str, float | None]],
    title: str,
    how: str,
    *,
    together: bool,
) -> Table:
    """Returns a table of the seconds of each phase, a row for each variant. together: with their sum."""
    rows = []
    for variant in results.variants:
        values = [by_variant.get(variant) for by_variant in phases.values()]
        cells = [words(variant), *(_cell(value) for value in values)]
        if together:
            known = [v for v in values if v is not None]
            cells.append(_cell(sum(known) if known else None))
        rows.append(Row(cells, "base" if variant == results.base else "", variant))
    columns = [Column("variant", "Variant", align="left"), *(Column(p, p, "s") for p in phases)]
    if together:
        columns.append(Column("total", "Together", "s", rule=True))
    return Table("load-phases", title, columns, rows, how, keys=(("workload", workload.name),))


def _cell(value: float | None) -> Cell:
    return missing() if value is None else Cell(value, numbers.significant(value))


def sizes(step: StepResults | None, variant: str, tables: Sequence[str] = ()) -> tuple[float, float] | None:
    """Returns the bytes of the tables and of their indexes after a step; all of its tables unless named."""
    repeats = step.by_variant.get(variant) if step else None
    if repeats is None:
        return None
    by_table = repeats.typical.record.sizes.tables
    table_sizes = [v for name, v in by_table.items() if not tables or name in tables]
    if not table_sizes:
        return None
    return float(sum(v.table_bytes for v in table_sizes)), float(sum(v.index_bytes for v in table_sizes))
