"""Rate against clients as a curve of each variant: its band, its knee, and the verdict on the curve."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pgstrata import numbers
from pgstrata.judge.curves import CurveSide, curves_of, log_rate_error, side_knee
from pgstrata.page.blocks import Block, Cell, Chart, Column, Prose, Row, Section, Table, words
from pgstrata.page.charts import SHOWN_AT_FIRST, axis, color, dash, legend_above, rounded, trace
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor
from pgstrata.stats.curve import Knee

_HOW = (
    "Bands are 95 % intervals of each rate, which do not tell whether two variants differ: the verdicts of "
    "pairs do. A diamond is the knee, beyond which the rate no longer grows, with its 95 % interval: where "
    "two straight lines in log rate over log clients meet, the second of which rises by less than 15 % for "
    "twice the clients. A curve without one grows up to the most clients. The sentence names the wait event "
    "that grew where it is slower, if one clearly did and they were sampled (--waits 10)."
)


@dataclass(frozen=True)
class _Curve:
    """The curve of one variant: rates and halves of the intervals of their logs, by number of clients."""

    variant: str
    rates: Mapping[int, float]
    halves: Mapping[int, float]
    knee: Knee


def curves(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the section; None where no step was measured at three numbers of clients."""
    blocks: list[Block] = []
    for name, steps in curves_of((step.name, step) for step in workload.compared).items():
        drawn_curves = [curve for variant in results.variants if (curve := _curve(results, variant, steps))]
        if drawn_curves:
            blocks += [Prose(text) for text in _sentences(results, workload, name)]
            blocks.append(_chart(results, workload, name, next(iter(steps.values())).unit, drawn_curves))
            blocks.append(_table(workload, name, drawn_curves))
    title = f"Curves by number of clients ({workload.name})"
    return Section(anchor("curves", workload.name), title, blocks) if blocks else None


def curve_lines(results: RunSet, workload: WorkloadResults) -> list[str]:
    """Returns the verdicts on all curves of a workload, a sentence each."""
    names = curves_of((step.name, step) for step in workload.compared)
    return [text for name in names for text in _sentences(results, workload, name)]


def _sentences(results: RunSet, workload: WorkloadResults, name: str) -> list[str]:
    return [
        f"{name}, {comparison.title}: {curve.sentence}."
        for comparison in results.comparisons
        for curve in comparison.curves
        if (curve.workload, curve.steps) == (workload.name, name)
    ]


def _curve(results: RunSet, variant: str, steps: Mapping[int, StepResults]) -> _Curve | None:
    """Returns the curve of a variant; None if it was measured at fewer than three numbers of clients."""
    sides = {
        clients: CurveSide(results.rate(step, variant), step.by_variant[variant].repeats)
        for clients, step in steps.items()
        if variant in step.by_variant
    }
    place = side_knee(sides)
    if place is None:
        return None
    rates = {clients: side.rate for clients, side in sides.items() if side.rate}
    halves = {clients: log_rate_error([m.record for m in sides[clients].repeats])[1] for clients in rates}
    return _Curve(variant, rates, halves, place)


def _chart(results: RunSet, workload: WorkloadResults, name: str, unit: str, curves: list[_Curve]) -> Chart:
    data: list[dict[str, Any]] = []
    for place, curve in enumerate(curves):
        index = results.color(curve.variant)
        shown = place < SHOWN_AT_FIRST
        data += [_band(curve, index, shown), _line(curve, index, shown)]
        if not curve.knee.grows:
            data.append(_mark(curve, index, shown))
    ticks = sorted({clients for curve in curves for clients in curve.rates})
    layout: dict[str, Any] = {
        "margin": {"l": 60, "r": 12, "t": 40, "b": 44},
        "hovermode": "closest",
        "showlegend": True,
        "legend": legend_above(1.04),
        "xaxis": axis("clients", type="log", tickvals=ticks, ticktext=list(map(str, ticks))),
        "yaxis": axis(unit, rangemode="tozero"),
    }
    return Chart(
        id=anchor("curve", workload.name, name),
        title=f"{name}: {unit} by number of clients, with knees — more is better",
        data=data,
        layout=layout,
        height=380,
        how=_HOW,
    )


def _band(curve: _Curve, index: int, shown: bool) -> dict[str, Any]:
    known = [clients for clients in curve.rates if math.isfinite(curve.halves[clients])]
    upper = [curve.rates[clients] * math.exp(curve.halves[clients]) for clients in known]
    lower = [curve.rates[clients] * math.exp(-curve.halves[clients]) for clients in known]
    return trace(
        curve.variant,
        index,
        shown=shown,
        type="scatter",
        mode="lines",
        x=known + known[::-1],
        y=rounded(upper + lower[::-1]),
        fill="toself",
        opacity=0.25,
        fillcolor=color(index),
        line={"width": 0},
        hoverinfo="skip",
        showlegend=False,
    )


def _line(curve: _Curve, index: int, shown: bool) -> dict[str, Any]:
    return trace(
        curve.variant,
        index,
        shown=shown,
        type="scatter",
        mode="lines+markers",
        x=list(curve.rates),
        y=rounded(curve.rates.values()),
        line={"color": color(index), "width": 1.8, "dash": dash(index)},
        marker={"size": 6},
        hovertemplate="%{x} clients: %{y:,.4~g}",
    )


def _mark(curve: _Curve, index: int, shown: bool) -> dict[str, Any]:
    knee = curve.knee
    at = np.interp(math.log(knee.clients), np.log(list(curve.rates)), list(curve.rates.values()))
    return trace(
        curve.variant,
        index,
        shown=shown,
        type="scatter",
        mode="markers",
        x=[knee.clients],
        y=rounded([float(at)]),
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [knee.high - knee.clients],
            "arrayminus": [knee.clients - knee.low],
            "color": color(index),
            "thickness": 1.5,
        },
        marker={"color": color(index), "symbol": "diamond", "size": 12},
        hovertemplate=f"knee {knee.text}",
        showlegend=False,
    )


def _table(workload: WorkloadResults, name: str, curves: list[_Curve]) -> Table:
    return Table(
        name="knees",
        title=f"{name}: knees",
        columns=[
            Column("variant", "Variant", align="left"),
            Column("knee", "Knee", "clients"),
            Column("low", "From", "clients"),
            Column("high", "To", "clients"),
            Column("most", "Highest rate", "clients"),
            Column("words", "In words", align="left"),
        ],
        rows=[
            Row(
                [
                    words(curve.variant),
                    Cell(None if curve.knee.grows else curve.knee.clients, _whole(curve)),
                    Cell(curve.knee.low, numbers.count(round(curve.knee.low))),
                    Cell(curve.knee.high, numbers.count(round(curve.knee.high))),
                    Cell(most := max(curve.rates, key=lambda n: curve.rates[n]), numbers.count(most)),
                    words(curve.knee.text),
                ],
                variant=curve.variant,
            )
            for curve in curves
        ],
        how="From and to: the 95 % interval of the knee, within the numbers of clients that were measured.",
        keys=(("workload", workload.name), ("steps", name)),
    )


def _whole(curve: _Curve) -> str:
    return "none" if curve.knee.grows else numbers.count(round(curve.knee.clients))


__all__ = ["curve_lines", "curves"]
