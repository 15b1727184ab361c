"""Relative rates as bars around 1: an axis from 0.80, and bars that are cut with their value on them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from pgstrata import numbers
from pgstrata.page.blocks import Chart
from pgstrata.page.charts import SHOWN_AT_FIRST, axis, color, label, legend_above, trace
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor
from pgstrata.report.sections.summary import relative_cell

# The field's axis: small differences show, and one outlier does not flatten the rest.
FLOOR, CEILING = 0.80, 1.50


def relative_charts(results: RunSet, workload: WorkloadResults) -> list[Chart]:
    """Returns a chart per group of steps if the steps come in groups and are many, else a single chart."""
    if not workload.has_any(results.others):
        return []
    if len(workload.compared) <= 12:
        return [_chart(results, workload, "", workload.compared)]
    grouped: dict[str, list[StepResults]] = {}
    for group, steps in groupby(workload.compared, key=lambda s: s.group):
        grouped.setdefault(group, []).extend(steps)
    return [_chart(results, workload, group, steps) for group, steps in grouped.items()]


def _chart(results: RunSet, workload: WorkloadResults, group: str, steps: Sequence[StepResults]) -> Chart:
    data: list[dict[str, Any]] = []
    for variant in results.others:
        values, texts, notes = [], [], []
        up: list[float] = []
        down: list[float] = []
        for step in steps:
            cell = relative_cell(results, step, variant)
            ratio = float(cell.value) if isinstance(cell.value, int | float) else None
            shown = None if ratio is None else min(max(ratio, FLOOR), CEILING)
            values.append(None if shown is None else round(shown - 1, 4))
            cut = ratio is not None and ratio != shown
            above, below = (0.0, 0.0) if cut else _reach(results, step, variant, shown)
            up.append(above)
            down.append(below)
            texts.append(numbers.ratio(ratio) if cut else "✕" if cell.mark == "missed" else "")
            notes.append(f"{cell.text} {cell.small} {cell.note}".strip())
        if not any(value is not None for value in values):
            continue
        index = results.color(variant)
        data.append(
            trace(
                variant,
                index,
                shown=index < SHOWN_AT_FIRST + 1,
                type="bar",
                x=[label(step.name) for step in steps],
                y=values,
                base=1,
                text=texts,
                # bars are narrow and many: written upright, so that neighbours do not touch
                textposition="inside",
                insidetextanchor="end",
                textangle=-90,
                insidetextfont={"color": "#fff"},
                constraintext="none",
                customdata=[label(note) for note in notes],
                hovertemplate=f"%{{x}}: %{{customdata}}<extra>{label(variant)}</extra>",
                marker={"color": color(index)},
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": up,
                    "arrayminus": down,
                    "thickness": 1.2,
                    "width": 0,  # a cap would show at bars that have no interval
                    "color": "#777",
                },
            )
        )
    what = f"{workload.name}, {group}" if group else workload.name
    margin = results.margin
    low, high = results.thresholds if results.by_thresholds else (1 - margin, 1 / (1 - margin))
    dotted = "the thresholds of the table" if results.by_thresholds else f"the margin, {100 * margin:.3g} %"
    layout = {
        "barmode": "group",
        "bargap": 0.28,
        "showlegend": True,
        "legend": legend_above(1.02),
        "margin": {"l": 50, "r": 12, "t": 40, "b": 40},
        "xaxis": axis(type="category", tickangle="auto", showgrid=False),
        "yaxis": axis(range=[FLOOR - 0.03, CEILING + 0.05], dtick=0.1, tickformat=".2f"),
        "shapes": [
            _line(1.0, 1.4, "solid", 0.9),
            _line(low, 1.0, "dot", 0.6),
            _line(high, 1.0, "dot", 0.6),
        ],
    }
    return Chart(
        id=anchor("relative", workload.name, group),
        title=f"Relative rate by step: {what} — above 1 is faster than {results.base}, below 1 slower",
        data=data,
        layout=layout,
        height=330,
        how=f"Bars start at 1, the rate of {results.base}. The axis goes from 0.80 to 1.50 so that small "
        "differences show; a bar that would go further is cut, and its value is written on it. The "
        f"dotted lines are {dotted}, the thin lines at the ends of the other bars 95 % intervals. ✕ marks "
        "steps in which one of the two missed its SLA.",
    )


def _reach(results: RunSet, step: StepResults, variant: str, shown: float | None) -> tuple[float, float]:
    """Returns how far the interval reaches above and below the end of the bar, within the axis."""
    verdict = results.verdict(step, variant)
    if verdict is None or shown is None or not verdict.verdict.is_bounded:
        return 0.0, 0.0
    low, high = (min(max(v, FLOOR), CEILING) for v in (verdict.verdict.low, verdict.verdict.high))
    return round(max(0.0, high - shown), 4), round(max(0.0, shown - low), 4)


def _line(y: float, width: float, dash: str, opacity: float) -> dict[str, Any]:
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": y, "y1": y, "opacity": opacity,
        "line": {"width": width, "dash": dash, "color": "#888"},
    }  # fmt: skip
