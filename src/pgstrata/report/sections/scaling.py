"""Rate and latency against the number of clients, one line per variant, and against the variants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pgstrata.report import numbers
from pgstrata.report.blocks import Block, Cell, Chart, Column, Row, Section, Table, words
from pgstrata.report.charts import SHOWN_AT_FIRST, axis, color, dash, label, rounded, trace
from pgstrata.report.study import Place, StepOf, Study, WorkloadOf, anchor, number, part_of

# Steps that differ in the number of clients only share a group and end like this (workload/pgbench.py).
_CLIENTS = re.compile(r"-c(\d+)$")

_LATENCIES = ("mean", "p95", "p99")
# where each of the four panels lies: across, up
_LEFT, _RIGHT, _UPPER, _LOWER = [0.0, 0.46], [0.54, 1.0], [0.58, 1.0], [0.0, 0.42]
_PANELS = ((_LEFT, _UPPER), (_RIGHT, _UPPER), (_LEFT, _LOWER), (_RIGHT, _LOWER))

Scale = Mapping[int, StepOf]


def scaling(study: Study, workload: WorkloadOf) -> Section | None:
    """None where no two steps of a group differ in their number of clients."""
    found: dict[str, dict[int, StepOf]] = {}
    for step in workload.compared:
        if match := _CLIENTS.search(step.name):
            found.setdefault(step.group or step.name[: match.start()], {})[int(match.group(1))] = step
    scales = {group: dict(sorted(steps.items())) for group, steps in found.items() if len(steps) > 1}
    if not scales:
        return None
    blocks: list[Block] = []
    for group, steps in scales.items():
        blocks.append(_by_clients(study, workload, group, steps))
        if len(study.variants) > 2:
            blocks.append(_by_variant(study, workload, group, steps))
        blocks.append(_table(study, workload, group, steps))

    title = f"Against the number of clients ({workload.name})"
    return Section(anchor("clients", workload.name), title, blocks)


def _latency(place: Place, step: StepOf, name: str) -> float | None:
    """Of the role the headline counts, in ms; the median of the repeats."""
    role = str(place.shown.record.get("role") or "")
    value = place.median(lambda m: number(part_of(m.roles, role, "latency", name)))
    return None if value is None else value * 1e3


def _by_clients(study: Study, workload: WorkloadOf, group: str, steps: Scale) -> Chart:
    unit = next(iter(steps.values())).unit
    ticks = [str(clients) for clients in steps]
    layout: dict[str, Any] = {
        "margin": {"l": 60, "r": 12, "t": 40, "b": 44},
        "hovermode": "x",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom", "xanchor": "left"},
    }
    titles = (unit, *(f"latency {name}, ms" for name in _LATENCIES))
    for panel, (title, (across, up)) in enumerate(zip(titles, _PANELS, strict=True), 1):
        layout[f"xaxis{panel}"] = axis(
            "clients" if panel > 2 else "", type="category", domain=across, anchor=f"y{panel}"
        )
        layout[f"yaxis{panel}"] = axis(title, domain=up, anchor=f"x{panel}", rangemode="tozero")
    data: list[dict[str, Any]] = []
    for variant in study.variants:
        places = [step.places.get(variant) for step in steps.values()]
        for panel, name in enumerate(("", *_LATENCIES), 1):
            values = [
                None if p is None else _latency(p, s, name) if name else p.rate
                for p, s in zip(places, steps.values(), strict=True)
            ]
            index = study.color(variant)
            data.append(
                trace(
                    variant,
                    index,
                    shown=index < SHOWN_AT_FIRST,
                    type="scatter",
                    mode="lines+markers",
                    x=ticks,
                    y=rounded(values),
                    xaxis=f"x{panel}",
                    yaxis=f"y{panel}",
                    showlegend=panel == 1,
                    line={"color": color(index), "width": 1.8, "dash": dash(index)},
                    marker={"size": 6},
                    hovertemplate="%{y:,.4~g}",
                )
            )
    return Chart(
        id=anchor("clients", workload.name, group),
        title=f"{group}: {unit} (more is better) and latency (less is better) by number of clients",
        data=data,
        layout=layout,
        height=520,
        how="Each line is a variant. Where the lines of the rate bend, the server ran out of something: "
        "CPUs, or the freedom of clients to work without waiting for each other. Latency then grows "
        "with the clients.",
    )


def _by_variant(study: Study, workload: WorkloadOf, group: str, steps: Scale) -> Chart:
    unit = next(iter(steps.values())).unit
    data: list[dict[str, Any]] = []
    for index, (clients, step) in enumerate(steps.items()):
        rates = [p.rate if (p := step.places.get(v)) else None for v in study.variants]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"{clients} client{'s' * (clients != 1)}",
                "x": [label(v) for v in study.variants],
                "y": rounded(rates),
                "line": {"color": color(index), "width": 1.8, "dash": dash(index)},
                "marker": {"size": 6},
                "hovertemplate": "%{y:,.4~g}",
            }
        )
    layout = {
        "margin": {"l": 60, "r": 12, "t": 40, "b": 44},
        "hovermode": "x",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.04, "yanchor": "bottom", "xanchor": "left"},
        "xaxis": axis(type="category"),
        "yaxis": axis(unit, rangemode="tozero"),
    }
    return Chart(
        id=anchor("versions", workload.name, group),
        title=f"{group}: {unit} by variant — more is better",
        data=data,
        layout=layout,
        height=320,
        how="Variants from left to right in the order of the campaign, one line for each number of clients.",
    )


def _table(study: Study, workload: WorkloadOf, group: str, steps: Scale) -> Table:
    rows: list[Row] = []
    for clients, step in steps.items():
        present = [v for v in study.variants if v in step.places]
        for place, variant in enumerate(present):
            at = step.places[variant]
            latencies = [_latency(at, step, name) for name in _LATENCIES]
            rows.append(
                Row(
                    [
                        Cell(clients, numbers.count(clients)),
                        words(variant),
                        Cell(at.rate, numbers.rate(at.rate)),
                        *(Cell(value, numbers.significant(value)) for value in latencies),
                    ],
                    "next" if place else "",
                    variant,
                )
            )
    unit = next(iter(steps.values())).unit
    return Table(
        name="clients",
        title=f"{group}: rate and latency by number of clients",
        columns=[
            Column("clients", "Clients"),
            Column("variant", "Variant", align="left"),
            Column("rate", "Rate", unit),
            *(Column(f"latency_{name}", f"Latency {name}", "ms") for name in _LATENCIES),
        ],
        rows=rows,
        how="Latency is that of whole transactions, seen by the client. With several repeats each figure is "
        "their median.",
        keys=(("workload", workload.name), ("group", group)),
    )
