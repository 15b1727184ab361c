"""The section of a report on what was imported: rates, ratios, trends, response times, where it is from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pgstrata import numbers
from pgstrata.imports.results import ImportedResults, StepKey, imported_results, label_of
from pgstrata.page.blocks import Block, Cell, Chart, Column, Prose, Row, Section, Table, missing, words
from pgstrata.page.charts import PALETTE, axis, color, dash, label, legend_above, rounded
from pgstrata.page.results import RunSet, anchor
from pgstrata.store.imported import ImportedStep

STEPS_PER_CHART = 8
MOST_CHARTS = 24
FEWEST_VARIANTS = 3

NOT_JUDGED = (
    "Other programs measured this, on machines and servers that pgstrata did not see. It is shown as their "
    "files have it, and no verdict, colour or exit code rests on it."
)


def imported_section(results: RunSet) -> Section | None:
    """Returns the section; None where nothing was imported."""
    all_imported = imported_results(results)
    if not all_imported:
        return None
    blocks: list[Block] = [Prose(NOT_JUDGED, "even")]
    for imported in all_imported:
        blocks.append(rate_table(imported))
        blocks += [
            table for table in (_latency_table(imported), _figures_table(imported)) if table is not None
        ]
        blocks += [*_trend_charts(imported), *_client_charts(imported), *_interval_charts(imported)]
        blocks.append(_files_table(imported))
    return Section("imported", "Imported", blocks)


def rate_table(imported: ImportedResults) -> Table:
    """Returns rates by step and variant; beside each but the first how many times that one's it is."""
    rows = []
    for key, unit in imported.kinds:
        first = imported.rate(imported.first(key, unit), key, unit)
        cells = [_rate_cell(imported, variant, key, unit, first) for variant in imported.variants]
        rows.append(Row([words(label_of(key)), words(unit), *cells]))
    return Table(
        name="imported-rates",
        title=f"Imported rates: {imported.workload}",
        columns=[
            Column("step", "Step", align="left"),
            Column("unit", "Unit", align="left"),
            *(Column(variant, variant) for variant in imported.variants),
        ],
        rows=rows,
        how="Behind each rate: how many times that of the first variant of the row it is. Repeats are one "
        "figure, their geometric mean.",
        keys=(("workload", imported.workload),),
    )


def _rate_cell(imported: ImportedResults, variant: str, key: StepKey, unit: str, first: float | None) -> Cell:
    rate = imported.rate(variant, key, unit)
    if rate is None:
        return missing("not in the files")
    if unit.startswith("relative to "):
        return Cell(rate, numbers.ratio(rate))
    small = "" if not first or variant == imported.first(key, unit) else f"× {numbers.ratio(rate / first)}"
    return Cell(rate, numbers.rate(rate), small=small)


def _latency_table(imported: ImportedResults) -> Table | None:
    names = [
        name
        for name in ("mean", "stddev", "p50", "p95", "p99", "max")
        if any(name in step.latency for steps in imported.steps.values() for step in steps)
    ]
    return _table_of_last(
        imported,
        "imported-response-times",
        "Imported response times",
        lambda step: step.latency,
        [Column(name, name, "ms") for name in names],
        lambda seconds: Cell(seconds * 1e3, numbers.milliseconds(seconds)),
        "As the program reports them; of repeats those of the last.",
    )


def _figures_table(imported: ImportedResults) -> Table | None:
    names = dict.fromkeys(n for steps in imported.steps.values() for step in steps for n in step.figures)
    return _table_of_last(
        imported,
        "imported-figures",
        "Further imported figures",
        lambda step: step.figures,
        [Column(name, name) for name in names],
        lambda value: Cell(value, f"{value:.6g}"),
        "Under the names of the files; of repeats those of the last.",
    )


def _table_of_last(
    imported: ImportedResults,
    name: str,
    title: str,
    figures_of: Callable[[ImportedStep], Mapping[str, float]],
    columns: Sequence[Column],
    cell: Callable[[float], Cell],
    how: str,
) -> Table | None:
    """Returns figures of the last repeat of each step and variant, in these columns; None without any."""
    rows = []
    for (variant, key, _), steps in imported.steps.items():
        if figures := figures_of(steps[-1]):
            values = [figures.get(column.key) for column in columns]
            cells = [missing("not in the file") if value is None else cell(value) for value in values]
            rows.append(Row([words(label_of(key)), words(variant), *cells]))
    if not rows:
        return None
    return Table(
        name=name,
        title=f"{title}: {imported.workload}",
        columns=[
            Column("step", "Step", align="left"),
            Column("variant", "Variant", align="left"),
            *columns,
        ],
        rows=rows,
        how=how,
        keys=(("workload", imported.workload),),
        lead=2,
    )


def _trend_charts(imported: ImportedResults) -> Iterator[Chart]:
    """Yields rates along the variants, relative to the first, where there are three or more."""
    kinds = [
        kind
        for kind in imported.kinds
        if sum((v, *kind) in imported.steps for v in imported.variants) >= FEWEST_VARIANTS
    ]
    for begin in range(0, min(len(kinds), STEPS_PER_CHART * MOST_CHARTS), STEPS_PER_CHART):
        data = []
        for place, (key, unit) in enumerate(kinds[begin : begin + STEPS_PER_CHART]):
            first = imported.rate(imported.first(key, unit), key, unit)
            rates = [imported.rate(v, key, unit) for v in imported.variants]
            relative = [r / first if r is not None and first else None for r in rates]
            data.append(_line(label_of(key), place, [label(v) for v in imported.variants], rounded(relative)))
        yield _chart(
            anchor("imported", "trend", imported.workload, str(begin)),
            f"Imported rates of {imported.workload}, variant by variant — higher is faster",
            data,
            axis(type="category"),
            axis("rate relative to\nthe first variant"),
        )


def _client_charts(imported: ImportedResults) -> Iterator[Chart]:
    """Yields the rate against the number of clients, a line for each variant."""
    names: dict[tuple[str, str], set[int]] = {}
    for (name, number), unit in imported.kinds:
        if number is not None:
            names.setdefault((name, unit), set()).add(number)
    several = [(name, sorted(clients)) for name, clients in names.items() if len(clients) > 1]
    for (name, unit), clients in several[:MOST_CHARTS]:
        rates = {v: [imported.rate(v, (name, count), unit) for count in clients] for v in imported.variants}
        data = [
            _line(variant, place, list(clients), rounded(rates_by_clients))
            for place, (variant, rates_by_clients) in enumerate(rates.items())
            if any(rates_by_clients)
        ]
        yield _chart(
            anchor("imported", "clients", imported.workload, name),
            f"Imported rate of {name} against clients — higher is faster",
            data,
            axis("clients"),
            axis(unit, rangemode="tozero"),
        )


def _interval_charts(imported: ImportedResults) -> Iterator[Chart]:
    """Yields the rate while a step ran, a line for each variant; of repeats the last."""
    for key, unit in imported.kinds[:MOST_CHARTS]:
        data = []
        for place, variant in enumerate(imported.variants):
            parts = (
                imported.steps[variant, key, unit][-1].intervals
                if (variant, key, unit) in imported.steps
                else ()
            )
            if parts:
                stride = -(-len(parts) // 2000)
                times = rounded(part.second for part in parts[::stride])
                rates = rounded(part.rate for part in parts[::stride])
                data.append(_line(variant, place, times, rates, "lines"))
        if data:
            yield _chart(
                anchor("imported", "seconds", imported.workload, label_of(key)),
                f"Imported rate of {label_of(key)} while it ran — higher is faster",
                data,
                axis("seconds"),
                axis(unit, rangemode="tozero"),
            )


def _line(name: str, place: int, x: list[Any], y: list[Any], mode: str = "lines+markers") -> dict[str, Any]:
    line = {"color": color(place), "dash": dash(place), "width": 1.6}
    return {"type": "scatter", "mode": mode, "name": label(name), "x": x, "y": y, "line": line}


def _chart(
    identifier: str, title: str, data: list[dict[str, Any]], x: dict[str, Any], y: dict[str, Any]
) -> Chart:
    layout: dict[str, Any] = {
        "margin": {"l": 60, "r": 12, "t": 40, "b": 50},
        "showlegend": True,
        "legend": legend_above(1.02),
        "xaxis": x,
        "yaxis": y,
    }
    return Chart(identifier, title, data, layout, 360 if len(data) <= len(PALETTE) else 480)


def _files_table(imported: ImportedResults) -> Table:
    rows = []
    for run in imported.runs:
        record = run.record.imported
        for file in record.files if record else ():
            assert record is not None
            rows.append(
                Row(
                    [
                        words(run.variant),
                        Cell(run.repeat, str(run.repeat)),
                        words(file.name),
                        words(record.format),
                        words(record.tool),
                        Cell(file.sha256, file.sha256[:12]),
                    ]
                )
            )
    return Table(
        name="imported-files",
        title=f"Files that were imported: {imported.workload}",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("repeat", "Repeat"),
            Column("file", "File", align="left"),
            Column("format", "Format", align="left"),
            Column("program", "Program", align="left"),
            Column("sha256", "SHA-256", align="left"),
        ],
        rows=rows,
        how="",
        keys=(("workload", imported.workload),),
        stacked=True,
    )


__all__ = ["NOT_JUDGED", "imported_section", "rate_table"]
