"""Rate and latency against the number of clients, one line per version, and against the versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pgstrata import numbers
from pgstrata.page.blocks import Block, Cell, Chart, Column, Row, Section, Table, words
from pgstrata.page.charts import SHOWN_AT_FIRST, axis, color, dash, label, legend_above, rounded, trace
from pgstrata.page.results import Repeats, RunSet, StepResults, WorkloadResults, anchor, natural
from pgstrata.step_names import CLIENTS

_LATENCIES = ("mean", "p95", "p99")
# where each of the four panels lies: across, up
_LEFT, _RIGHT, _UPPER, _LOWER = [0.0, 0.46], [0.54, 1.0], [0.58, 1.0], [0.0, 0.42]
_PANELS = ((_LEFT, _UPPER), (_RIGHT, _UPPER), (_LEFT, _LOWER), (_RIGHT, _LOWER))

Scale = Mapping[int, StepResults]


@dataclass(frozen=True)
class Facet:
    """Variants that share charts: the versions of one config, oldest first, or all where that is no question.

    config: empty where there is one facet only. ticks: what the variants are called on an axis.
    """

    config: str
    variants: tuple[str, ...]
    ticks: tuple[str, ...]
    by: str = "version"

    @property
    def named(self) -> str:
        return f", {self.config}" if self.config else ""


def _facets(results: RunSet, workload: WorkloadResults) -> list[Facet]:
    """Returns one facet for each config if several versions ran under each, else a single facet with all
    variants; in the order of the campaign."""
    of_run = {
        run.variant: (
            run.record.config.name,
            run.record.server.label,
            run.record.server.version_num,
        )
        for run in workload.runs
    }
    where = {variant: of_run[variant] for variant in results.variants if variant in of_run}
    configs = list(dict.fromkeys(config for config, _, _ in where.values()))
    facets = []
    for config in configs:
        row = sorted((v for v in where if where[v][0] == config), key=lambda v: (where[v][2], natural(v)))
        servers = tuple(where[v][1] for v in row)
        if len(set(servers)) < max(2, len(row)):
            break
        facets.append(Facet(config if len(configs) > 1 else "", tuple(row), servers))
    else:
        return facets
    everything = tuple(where)
    return [Facet("", everything, everything, "variant")]


def scaling(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the report's section on numbers of clients; None if no two steps of a group differ in them."""
    groups: dict[str, dict[int, StepResults]] = {}
    for step in workload.compared:
        if match := CLIENTS.search(step.name):
            groups.setdefault(step.group or step.name[: match.start()], {})[int(match.group(1))] = step
    scales = {group: dict(sorted(steps.items())) for group, steps in groups.items() if len(steps) > 1}
    if not scales:
        return None
    blocks: list[Block] = []
    for group, steps in scales.items():
        for facet in _facets(results, workload):
            blocks.append(_by_clients(results, workload, group, steps, facet))
            if len(facet.variants) > 1:
                blocks.append(_by_version(results, workload, group, steps, facet))
        blocks.append(_table(results, workload, group, steps))

    title = f"Against the number of clients ({workload.name})"
    return Section(anchor("clients", workload.name), title, blocks)


def _latency(repeats: Repeats, name: str) -> float | None:
    """Returns a latency of the role the headline counts, in ms, all repeats added up."""
    latency = repeats.latencies.get(repeats.typical.record.role)
    value: float | None = getattr(latency, name) if latency else None
    return None if value is None else value * 1e3


def _by_clients(results: RunSet, workload: WorkloadResults, group: str, steps: Scale, facet: Facet) -> Chart:
    unit = next(iter(steps.values())).unit
    ticks = [str(clients) for clients in steps]
    layout: dict[str, Any] = {
        "margin": {"l": 60, "r": 12, "t": 40, "b": 44},
        "hovermode": "x",
        "showlegend": True,
        "legend": legend_above(1.04),
    }
    titles = (unit, *(f"latency {name}, ms" for name in _LATENCIES))
    for panel, (title, (across, up)) in enumerate(zip(titles, _PANELS, strict=True), 1):
        layout[f"xaxis{panel}"] = axis(
            "clients" if panel > 2 else "", type="category", domain=across, anchor=f"y{panel}"
        )
        layout[f"yaxis{panel}"] = axis(title, domain=up, anchor=f"x{panel}", rangemode="tozero")
    data: list[dict[str, Any]] = []
    for variant, name in zip(facet.variants, facet.ticks, strict=True):
        repeats = [step.by_variant.get(variant) for step in steps.values()]
        index = results.color(variant)
        for panel, latency in enumerate(("", *_LATENCIES), 1):
            values = (
                [None if p is None else _latency(p, latency) for p in repeats]
                if latency
                else [results.rate(step, variant) for step in steps.values()]
            )
            data.append(
                trace(
                    variant,
                    index,
                    shown=facet.variants.index(variant) < SHOWN_AT_FIRST,
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
                | {"name": label(name)}
            )
    return Chart(
        id=anchor("clients", workload.name, group, facet.config),
        title=f"{group}{facet.named}: {unit} (more is better), latency (less is better) by number of clients",
        data=data,
        layout=layout,
        height=520,
        how=f"Each line is a {facet.by}. Where the lines of the rate bend, the server ran out of something: "
        "CPUs, or the freedom of clients to work without waiting for each other. Latency then grows "
        "with the clients.",
    )


def _by_version(results: RunSet, workload: WorkloadResults, group: str, steps: Scale, facet: Facet) -> Chart:
    unit = next(iter(steps.values())).unit
    ticks = [label(tick) for tick in facet.ticks]
    data: list[dict[str, Any]] = []
    for index, (clients, step) in enumerate(steps.items()):
        repeats = [step.by_variant.get(v) for v in facet.variants]
        panels = (
            [results.rate(step, v) for v in facet.variants],
            [_latency(p, "p95") if p else None for p in repeats],
        )
        for panel, values in enumerate(panels, 1):
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "name": numbers.counted(clients, "client"),
                    "legendgroup": str(clients),
                    "showlegend": panel == 1,
                    "x": ticks,
                    "y": rounded(values),
                    "xaxis": f"x{panel}",
                    "yaxis": f"y{panel}",
                    "line": {"color": color(index), "width": 1.8, "dash": dash(index)},
                    "marker": {"size": 6},
                    "hovertemplate": "%{y:,.4~g}",
                }
            )
    layout: dict[str, Any] = {
        "margin": {"l": 60, "r": 12, "t": 40, "b": 44},
        "hovermode": "x",
        "showlegend": True,
        "legend": legend_above(1.04),
    }
    for panel, (title, across) in enumerate(((unit, _LEFT), ("latency p95, ms", _RIGHT)), 1):
        layout[f"xaxis{panel}"] = axis(type="category", domain=across, anchor=f"y{panel}")
        layout[f"yaxis{panel}"] = axis(title, anchor=f"x{panel}", rangemode="tozero")
    order = "Versions from the oldest to the newest"
    if facet.by != "version":
        order = "Variants in the order of the campaign"
    return Chart(
        id=anchor("versions", workload.name, group, facet.config),
        title=f"{group}{facet.named}: {unit} (more is better), latency (less is better) by {facet.by}",
        data=data,
        layout=layout,
        height=320,
        how=f"{order}, one line for each number of clients.",
    )


def _table(results: RunSet, workload: WorkloadResults, group: str, steps: Scale) -> Table:
    rows: list[Row] = []
    for clients, step in steps.items():
        present = [v for v in results.variants if v in step.by_variant]
        for index, variant in enumerate(present):
            at = step.by_variant[variant]
            latencies = [_latency(at, name) for name in _LATENCIES]
            rate = results.rate(step, variant)
            rows.append(
                Row(
                    [
                        Cell(clients, numbers.count(clients)),
                        words(variant),
                        Cell(rate, numbers.rate(rate)),
                        *(Cell(value, numbers.significant(value)) for value in latencies),
                    ],
                    "next" if index else "",
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
        how="Latency is that of whole transactions, seen by the client. With several repeats the rate is "
        "their geometric mean; their latencies are added up.",
        keys=(("workload", workload.name), ("group", group)),
    )
