"""Charts of a step second by second, with what the server did beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgstrata.page.blocks import Chart
from pgstrata.page.charts import (
    SHOWN_AT_FIRST,
    axis,
    budget,
    color,
    dash,
    label,
    legend_above,
    rounded,
    thinned,
    trace,
)
from pgstrata.page.frames import Floats, Frames, LagSeconds, RoleRates, RoleResponses
from pgstrata.page.results import RunSet, StepResults
from pgstrata.stats.metrics import MB, counts_rows
from pgstrata.store.record import LogEvent

_ROW_HEIGHT, _GAP, _EDGES = 132, 26, 92
_FEWEST_OPERATIONS = 5
_LINES = 5
"""Of one role and variant: the rate, three percentiles and the longest."""
_MOST_FILLED = 3
"""Variants whose areas can be told from each other."""

# how the log's events are drawn in their lane: thickness, opacity, word
_EVENTS: Mapping[str, tuple[float, float, str]] = {
    "checkpoint": (0.62, 0.9, "checkpoint"),
    "autovacuum": (0.30, 0.55, "autovacuum"),
    "autoanalyze": (0.16, 0.55, "autoanalyze"),
}


def seconds_chart(results: RunSet, step: StepResults, frames: Frames) -> Chart | None:
    """Returns a figure for a step: for each role its rate and its response times, and the server's events.

    All rows share the axis of time, so that a stall stands right above its cause. None where no run has
    a per-second series worth drawing.
    """
    variants = [v for v in results.variants if v in step.by_variant]
    roles = [role for role in step.role_names if any(_rates(results, step, frames, role))]
    if not roles:
        return None
    with_events = [v for v in variants if step.by_variant[v].typical.record.events]
    behind = _lags(step, frames, variants)
    lane = 22.0
    heights = [float(_ROW_HEIGHT)] * (2 * len(roles) + bool(behind))
    if with_events:
        heights.append(max(2.0, float(len(with_events))) * lane)
    domains = _domains(heights)
    most = budget(len(variants) * len(roles) * _LINES)
    filled = len(variants) <= _MOST_FILLED
    data: list[dict[str, Any]] = []
    layout = _layout(domains)
    for row, role in enumerate(roles):
        upper, lower = 2 * row + 1, 2 * row + 2
        by_rows = _by_rows(step, role)
        title = f"{role}\n{'rows/s' if by_rows else 'operations/s'}"
        layout[f"yaxis{upper}"] = axis(title, domain=domains[upper - 1], rangemode="tozero")
        responses: list[RoleResponses] = []
        for variant, line in _rates(results, step, frames, role):
            rates = line.rows if by_rows else line.operations
            data.append(_line(results, variant, upper, *thinned(line.second, rates, most), legend=upper == 1))
            responses.append(frames.responses(step.by_variant[variant], step.name, role, most))
            data += _response_lines(results, variant, lower, responses[-1], filled=filled)
        title = f"{role}\nresponse, ms"
        layout[f"yaxis{lower}"] = axis(title, domain=domains[lower - 1], type="log", dtick=_ticks(responses))
    if behind:
        row = 2 * len(roles) + 1
        layout[f"yaxis{row}"] = axis("replica\nbehind, MB", domain=domains[row - 1], rangemode="tozero")
        for variant, lag in behind:
            data.append(_line(results, variant, row, *thinned(lag.second, lag.bytes / MB, most)))
    if with_events:
        row = len(heights)
        layout[f"yaxis{row}"] = axis(
            domain=domains[row - 1],
            tickvals=list(range(len(with_events))),
            ticktext=[label(v) for v in with_events],
            range=[len(with_events) - 0.4, -0.6],
            showgrid=False,
            fixedrange=True,
        )
        for index, variant in enumerate(with_events):
            data += _events(results, variant, index, row, step.by_variant[variant].typical.record.events)
        if filled:
            layout["shapes"] = _bands(results, step, variants)
    layout["xaxis"]["anchor"] = f"y{len(domains)}"
    height = round(sum(heights) + _GAP * (len(heights) - 1) + _EDGES)
    what = "rates (more is better), response times (less is better)"
    return Chart(
        id=f"{step.anchor}-seconds",
        title=f"{step.name}, second by second: {what}" + (" and what the server did" if with_events else ""),
        data=data,
        layout=layout,
        height=height,
        how=_how(results, events=bool(with_events), filled=filled, replica=bool(behind)),
    )


def _lags(step: StepResults, frames: Frames, variants: Sequence[str]) -> list[tuple[str, LagSeconds]]:
    lags = [(v, frames.lag.get((step.by_variant[v].typical.run.run_id, step.name))) for v in variants]
    return [(variant, lag) for variant, lag in lags if lag is not None]


def _ticks(responses: Sequence[RoleResponses]) -> str | int:
    """Returns the ticks of a logarithmic axis: at 1, 2 and 5 of each power of ten, or at the powers where
    there are many."""
    shortest = min((float(response.p50.min()) for response in responses if response.p50.size), default=1.0)
    longest = max(
        (float(response.longest.max()) for response in responses if response.longest.size), default=1.0
    )
    return "D2" if longest < 100 * max(shortest, 1e-6) else 1


def _how(results: RunSet, *, events: bool, filled: bool, replica: bool) -> str:
    sentences = [
        "Every row has the same time axis, in seconds since the step's clock started. A dip in a rate or a "
        "peak in the response times is a stall that a mean hides.",
        "Response times of each second, below the rate of their role: the thick line is p50, above it p95 "
        "and p99, and dotted the longest" + ("; the band reaches from p50 to p99." if filled else "."),
        "Click a name to hide its lines, drag to zoom, double-click to go back. Rates of long series are "
        "thinned to the smallest and the largest value of each stretch; response times of a stretch are "
        "added up.",
    ]
    if replica:
        sentences.append(
            "A replica's row shows how much write-ahead log it had not replayed yet, asked once a second: a "
            "line that rises is a replica that does not keep up."
        )
    if events:
        sentences.append(
            "The lowest row is from the server's log: thick bars are checkpoints, thinner ones autovacuum, "
            "the thinnest autoanalyze; hover for the log's words."
        )
        if filled:
            sentences.append("Checkpoints are also shaded through all rows.")
    if results.most_repeats > 1:
        sentences.append(
            "Of several repeats the rates and the log are those of the one whose rate is nearest to the "
            "median; the response times of all are added up, second by second."
        )
    return " ".join(sentences)


def _domains(heights: Sequence[float]) -> list[list[float]]:
    """Returns where each row lies in the figure, from the top, as shares of its height."""
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
        "legend": legend_above(1.0),
        "barmode": "overlay",
        "bargap": 0,
        "xaxis": axis("seconds", rangemode="tozero", domain=[0, 1]),
    }


def _by_rows(step: StepResults, role: str) -> bool:
    if counts_rows(step.unit):
        return True
    return any(
        (part := measured.record.roles.get(role)) is not None and part.target_rate
        for repeats in step.by_variant.values()
        for measured in repeats.repeats
    )


def _rates(results: RunSet, step: StepResults, frames: Frames, role: str) -> list[tuple[str, RoleRates]]:
    """Returns the seconds of a role by variant; a role with a handful of operations makes no line."""
    by_variant = []
    for variant in results.variants:
        if variant in step.by_variant:
            run = step.by_variant[variant].typical.run
            rates = frames.rates.get((run.run_id, step.name, role))
            if rates is not None and rates.total_operations >= _FEWEST_OPERATIONS:
                by_variant.append((variant, rates))
    return by_variant


def _line(
    results: RunSet, variant: str, row: int, xs: Floats, ys: Floats, *, legend: bool = False, **more: Any
) -> dict[str, Any]:
    index = results.color(variant)
    usual = {
        "line": {"color": color(index), "width": 1.4, "dash": dash(index)},
        "hovertemplate": "%{y:,.4~g}",
    }
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
        **usual | more,
    )


def _response_lines(
    results: RunSet, variant: str, row: int, responses: RoleResponses, *, filled: bool
) -> list[dict[str, Any]]:
    """Returns lines for p50, p99 and the band between them, p95 within it, and the longest."""
    of_variant = color(results.color(variant))
    band = {"fill": "tonexty", "fillcolor": f"{of_variant}22"} if filled else {}
    lines: tuple[tuple[str, Floats, float, str, dict[str, Any]], ...] = (
        # p99 right behind p50: the band is filled down to the line before it
        ("p50", responses.p50, 1.6, "solid", {}),
        ("p99", responses.p99, 1.0, "solid", band),
        ("p95", responses.p95, 0.7, "solid", {}),
        ("longest", responses.longest, 0.8, "dot", {"opacity": 0.7}),
    )
    return [
        _line(
            results,
            variant,
            row,
            responses.second,
            seconds * 1e3,
            line={"color": of_variant, "width": width, "dash": dashes},
            hovertemplate=f"{name} %{{y:,.4~g}} ms",
            **more,
        )
        for name, seconds, width, dashes, more in lines
    ]


def _events(
    results: RunSet, variant: str, index: int, row: int, events: Sequence[LogEvent]
) -> list[dict[str, Any]]:
    index = results.color(variant)
    bars = []
    for kind, (width, opacity, word) in _EVENTS.items():
        own_events = [e for e in events if e.kind == kind]
        if not own_events:
            continue
        starts = [max(0.0, e.second) for e in own_events]
        ends = [e.until for e in own_events]
        # what took no time at all still gets a mark that can be seen
        spans = [
            max(0.15, (end if end is not None else start) - start)
            for start, end in zip(starts, ends, strict=True)
        ]
        bars.append(
            trace(
                variant,
                index,
                shown=index < SHOWN_AT_FIRST,
                type="bar",
                orientation="h",
                y=[index] * len(own_events),
                base=rounded(starts),
                x=rounded(spans),
                width=width,
                yaxis=f"y{row}",
                showlegend=False,
                opacity=opacity,
                marker={"color": color(index), "line": {"width": 0}},
                text=[label(f"{word}: {e.text[:160]}") for e in own_events],
                textposition="none",
                hovertemplate="%{text}<br>from %{base:.1f} s for %{x:.1f} s",
            )
        )
    return bars


def _bands(results: RunSet, step: StepResults, variants: Sequence[str]) -> list[dict[str, Any]]:
    """Checkpoints as faint bands through all rows."""
    bands = []
    for variant in variants:
        for event in step.by_variant[variant].typical.record.events:
            start, end = event.second, event.until
            if event.kind == "checkpoint" and end is not None:
                bands.append(
                    {
                        "type": "rect", "name": variant, "xref": "x", "yref": "paper", "layer": "below",
                        "x0": max(0.0, start), "x1": max(end, start + 0.15), "y0": 0, "y1": 1,
                        "fillcolor": color(results.color(variant)), "opacity": 0.09, "line": {"width": 0},
                    }
                )  # fmt: skip
    return bands
