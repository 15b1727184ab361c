"""Charts of a step second by second, with what the server did beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pgstrata.report.blocks import Chart
from pgstrata.report.charts import SHOWN_AT_FIRST, axis, budget, color, dash, label, rounded, thinned, trace
from pgstrata.report.frames import Floats, Frames, Line
from pgstrata.report.study import StepOf, Study, number
from pgstrata.stats.metrics import counts_rows

_ROW_HEIGHT, _GAP, _EDGES = 132, 26, 92
_FEWEST_OPERATIONS = 5

# how the log's events are drawn in their lane: thickness, opacity, word
_EVENTS: Mapping[str, tuple[float, float, str]] = {
    "checkpoint": (0.62, 0.9, "checkpoint"),
    "autovacuum": (0.30, 0.55, "autovacuum"),
    "autoanalyze": (0.16, 0.55, "autoanalyze"),
}


def seconds_chart(study: Study, step: StepOf, frames: Frames) -> Chart | None:
    """One figure per step: a row per role, the longest response of each second, the server's events.

    All rows share the axis of time, so that a stall stands right above its cause. None where no run has
    a per-second series worth drawing.
    """
    variants = [v for v in study.variants if v in step.places]
    roles = [role for role in step.role_names if any(_lines(study, step, frames, role))]
    if not roles:
        return None
    with_events = [v for v in variants if step.places[v].shown.events]
    lane = 22.0
    heights = [float(_ROW_HEIGHT)] * (len(roles) + 1)
    if with_events:
        heights.append(max(2.0, float(len(with_events))) * lane)
    domains = _domains(heights)
    most = budget(len(variants) * (len(roles) + 1))
    data: list[dict[str, Any]] = []
    layout = _layout(domains)
    for row, role in enumerate(roles, 1):
        by_rows = _by_rows(step, role)
        layout[f"yaxis{row}"] = axis(
            f"{role}\n{'rows/s' if by_rows else 'operations/s'}",
            domain=domains[row - 1],
            rangemode="tozero",
        )
        for variant, line in _lines(study, step, frames, role):
            rates = line.rows if by_rows else line.operations
            data.append(_line(study, variant, row, *thinned(line.second, rates, most), legend=row == 1))
    row = len(roles) + 1
    layout[f"yaxis{row}"] = axis("longest\nresponse, ms", domain=domains[row - 1], type="log", nticks=5)
    for variant in variants:
        longest = frames.longest.get((step.places[variant].shown.run.run_id, step.name))
        if longest is not None:
            seconds, responses = longest
            # the axis is logarithmic: a second without a response is a gap, not a zero
            millis = np.where(responses > 0, responses * 1e3, np.nan)
            data.append(_line(study, variant, row, *thinned(seconds, millis, most), legend=False, unit=" ms"))
    if with_events:
        layout[f"yaxis{row + 1}"] = axis(
            domain=domains[row],
            tickvals=list(range(len(with_events))),
            ticktext=[label(v) for v in with_events],
            range=[len(with_events) - 0.4, -0.6],
            showgrid=False,
            fixedrange=True,
        )
        for place, variant in enumerate(with_events):
            data += _events(study, variant, place, row + 1, step.places[variant].shown.events)
        if len(variants) <= 3:
            layout["shapes"] = _bands(study, step, variants)
    layout["xaxis"]["anchor"] = f"y{len(domains)}"
    height = round(sum(heights) + _GAP * (len(heights) - 1) + _EDGES)
    what = "rates (more is better), the longest response (less is better)"
    return Chart(
        id=f"{step.anchor}-seconds",
        title=f"{step.name}, second by second: {what}" + (" and what the server did" if with_events else ""),
        data=data,
        layout=layout,
        height=height,
        how=_how(study, bool(with_events)),
    )


def _how(study: Study, events: bool) -> str:
    text = (
        "Every row has the same time axis, in seconds since the step's clock started. A dip in a rate "
        "or a peak in the response time is a stall that a mean hides. Click a name to hide its lines, "
        "drag to zoom, double-click to go back. Long series are thinned to the smallest and the largest "
        "value of each stretch."
    )
    if events:
        text += (
            "The lowest row is from the server's log: thick bars are checkpoints, thinner ones "
            "autovacuum, the thinnest autoanalyze; hover for the log's words. With up to three variants "
            "checkpoints are also shaded through all rows."
        )
    if study.most_repeats > 1:
        text += " Of several repeats the one is drawn whose rate is nearest to the median."
    return text


def _domains(heights: Sequence[float]) -> list[list[float]]:
    """Where each row lies in the figure, from the top, as shares of its height."""
    total = sum(heights) + _GAP * (len(heights) - 1)
    domains: list[list[float]] = []
    top = 1.0
    for height in heights:
        bottom = max(0.0, top - height / total)
        domains.append([round(bottom, 4), round(top, 4)])
        top = bottom - _GAP / total
    return domains


def _layout(domains: Sequence[Sequence[float]]) -> dict[str, Any]:
    return {
        "margin": {"l": 70, "r": 12, "t": 34, "b": 44},
        "hovermode": "x",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom", "xanchor": "left"},
        "barmode": "overlay",
        "bargap": 0,
        "xaxis": axis("seconds", rangemode="tozero", domain=[0, 1]),
    }


def _by_rows(step: StepOf, role: str) -> bool:
    if counts_rows(step.unit):
        return True
    return any(
        (part := measured.roles.get(role)) is not None and part.get("target_rate")
        for place in step.places.values()
        for measured in place.repeats
    )


def _lines(study: Study, step: StepOf, frames: Frames, role: str) -> list[tuple[str, Line]]:
    """The seconds of a role by variant; one with a handful of operations is no line."""
    found = []
    for variant in study.variants:
        if variant in step.places:
            run = step.places[variant].shown.run
            line = frames.lines.get((run.run_id, step.name, role))
            if line is not None and line.total_operations >= _FEWEST_OPERATIONS:
                found.append((variant, line))
    return found


def _line(
    study: Study,
    variant: str,
    row: int,
    xs: Floats,
    ys: Floats,
    *,
    legend: bool,
    unit: str = "",
) -> dict[str, Any]:
    index = study.color(variant)
    return trace(
        variant,
        index,
        shown=index < SHOWN_AT_FIRST,
        type="scatter",
        mode="lines",
        x=rounded(xs),
        y=rounded(ys),
        yaxis=f"y{row}",
        showlegend=legend,
        line={"color": color(index), "width": 1.4, "dash": dash(index)},
        hovertemplate=f"%{{y:,.4~g}}{unit}",
    )


def _events(
    study: Study, variant: str, place: int, row: int, events: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    index = study.color(variant)
    made = []
    for kind, (width, opacity, word) in _EVENTS.items():
        own = [e for e in events if e.get("kind") == kind and number(e.get("second")) is not None]
        if not own:
            continue
        starts = [max(0.0, number(e.get("second")) or 0.0) for e in own]
        ends = [number(e.get("until")) for e in own]
        # what took no time at all still gets a mark that can be seen
        spans = [
            max(0.15, (end if end is not None else start) - start)
            for start, end in zip(starts, ends, strict=True)
        ]
        made.append(
            trace(
                variant,
                index,
                shown=index < SHOWN_AT_FIRST,
                type="bar",
                orientation="h",
                y=[place] * len(own),
                base=rounded(starts),
                x=rounded(spans),
                width=width,
                yaxis=f"y{row}",
                showlegend=False,
                opacity=opacity,
                marker={"color": color(index), "line": {"width": 0}},
                text=[label(f"{word}: {str(e.get('text') or '')[:160]}") for e in own],
                textposition="none",
                hovertemplate="%{text}<br>from %{base:.1f} s for %{x:.1f} s",
            )
        )
    return made


def _bands(study: Study, step: StepOf, variants: Sequence[str]) -> list[dict[str, Any]]:
    """Checkpoints as faint bands through all rows."""
    bands = []
    for variant in variants:
        for event in step.places[variant].shown.events:
            start, end = number(event.get("second")), number(event.get("until"))
            if event.get("kind") == "checkpoint" and start is not None and end is not None:
                bands.append(
                    {
                        "type": "rect", "name": variant, "xref": "x", "yref": "paper", "layer": "below",
                        "x0": max(0.0, start), "x1": max(end, start + 0.15), "y0": 0, "y1": 1,
                        "fillcolor": color(study.color(variant)), "opacity": 0.09, "line": {"width": 0},
                    }
                )  # fmt: skip
    return bands
