"""Many versions in a row: the relative rate of each step along them, and where its level shifted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pgstrata import numbers
from pgstrata.judge.marks import Mark
from pgstrata.page.blocks import SIGNS, Block, Cell, Chart, Column, Row, Section, Table, words
from pgstrata.page.charts import PALETTE, axis, label, legend_above, rounded
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor, natural
from pgstrata.stats.changepoint import Shift, Version, shifts
from pgstrata.stats.verdict import is_bounded

FEWEST_VERSIONS = 3
STEPS_PER_CHART = 8


def trends(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the section about trends along versions; None if fewer than three versions were measured with
    one config."""
    rows = [row for row in _rows(results) if len(row) >= FEWEST_VERSIONS]
    if not rows or not workload.compared:
        return None
    blocks: list[Block] = []
    shifts: list[tuple[StepResults, Shift]] = []
    for row in rows:
        steps = [s for s in workload.compared if sum(v in s.by_variant for v in row) >= FEWEST_VERSIONS]
        for begin in range(0, len(steps), STEPS_PER_CHART):
            part = steps[begin : begin + STEPS_PER_CHART]
            marks = {step.name: _shifts(results, step, row) for step in part}
            shifts += [(step, shift) for step in part for shift in marks[step.name]]
            blocks.append(_chart(results, workload, row, part, marks))
    if shifts:
        blocks.append(_table(workload, shifts))
    title = f"From version to version ({workload.name})"
    return Section(anchor("trend", workload.name), title, blocks)


def _rows(results: RunSet) -> list[list[str]]:
    """Returns the variants that differ in the server's version only, oldest first; one row per config."""
    rows: dict[str, dict[str, int]] = {}
    for run in results.runs:
        rows.setdefault(run.record.config.name, {})[run.variant] = run.record.server.version_num
    return [
        sorted(row, key=lambda v: (row[v], natural(v)))
        for row in rows.values()
        if len(set(row.values())) == len(row)
    ]


def _shifts(results: RunSet, step: StepResults, row: Sequence[str]) -> list[Shift]:
    versions = [Version(v, rates) for v in row if (rates := _repeats(results, step, v))]
    return shifts(versions) if len(versions) >= FEWEST_VERSIONS else []


def _repeats(results: RunSet, step: StepResults, variant: str) -> tuple[float, ...]:
    """Returns the rates of the repeats around the rate that is shown of the variant."""
    repeats, rate = step.by_variant.get(variant), results.rate(step, variant)
    if repeats is None or not repeats.rate or not rate:
        return ()
    return tuple(repeat_rate * rate / repeats.rate for repeat_rate in repeats.rates if repeat_rate > 0)


def _chart(
    results: RunSet,
    workload: WorkloadResults,
    row: Sequence[str],
    steps: Sequence[StepResults],
    marks: dict[str, list[Shift]],
) -> Chart:
    data: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    for index, step in enumerate(steps):
        rates = [results.rate(step, v) for v in row]
        first = next((r for r in rates if r), None)
        relative = [r / first if r is not None and first else None for r in rates]
        colour = PALETTE[index % len(PALETTE)]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": label(step.name),
                "x": [label(v) for v in row],
                "y": rounded(relative),
                "line": {"color": colour, "width": 1.6},
                "hovertemplate": f"%{{x}}: %{{y:.3f}}<extra>{label(step.name)}</extra>",
            }
        )
        for shift in marks[step.name]:
            index = list(row).index(shift.label)
            notes.append(
                {
                    "x": label(shift.label),
                    "y": relative[index],
                    "text": label(f"{SIGNS.get(_mark(shift), '')} {numbers.ratio(shift.ratio)}".strip()),
                    "font": {"color": colour},
                    "showarrow": True,
                    "arrowhead": 2,
                    "ay": 28 if shift.ratio < 1 else -28,
                    "ax": 0,
                }
            )
    layout: dict[str, Any] = {
        "margin": {"l": 60, "r": 12, "t": 40, "b": 50},
        "showlegend": True,
        "legend": legend_above(1.02),
        "xaxis": axis(type="category"),
        "yaxis": axis("rate relative to\nthe first version"),
        "annotations": notes,
    }
    return Chart(
        id=anchor("trend", workload.name, row[0], steps[0].name),
        title=f"Rates of {workload.name} from {row[0]} to {row[-1]} — higher is faster",
        data=data,
        layout=layout,
        height=360,
        how=f"Rates against that of {row[0]}. An arrow stands where the level of a step shifted, "
        "with the level behind it relative to the level before; without one, what moves is taken for noise.",
    )


def _mark(shift: Shift) -> Mark:
    """Returns the mark of a shift: a colour only if its interval leaves out 1."""
    return "bad" if shift.high < 1 else "good" if shift.low > 1 else "even"


def _table(workload: WorkloadResults, shifts: Sequence[tuple[StepResults, Shift]]) -> Table:
    rows = []
    for step, shift in shifts:
        known = is_bounded(shift.low, shift.high)
        interval = f"{numbers.ratio(shift.low)} – {numbers.ratio(shift.high)}" if known else "not known"
        between = shift.first if shift.first == shift.last else f"{shift.first} … {shift.last}"
        rows.append(
            Row(
                [
                    words(step.name),
                    words(shift.label),
                    Cell(shift.ratio, numbers.ratio(shift.ratio), _mark(shift)),
                    words(interval),
                    words(between),
                ]
            )
        )
    return Table(
        name="level-shifts",
        title=f"Where the level shifted: {workload.name}",
        columns=[
            Column("step", "Step", align="left"),
            Column("version", "From version", align="left"),
            Column("ratio", "Level after ÷ before"),
            Column("interval", "95 % interval", align="left"),
            Column("between", "Began with 95 % in", align="left"),
        ],
        rows=rows,
        keys=(("workload", workload.name),),
        how="A row of versions is split where a shift of level explains most of the scatter; that every "
        "place was looked at is counted. A colour means that the interval leaves out 1. One run per version "
        "tells little: repeats make shifts visible.",
    )
