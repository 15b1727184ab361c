"""Full text search: loading under each kind of index, searching by each, query by query."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pgstrata import numbers
from pgstrata.judge.queries import SUB_MILLISECOND, Timing, common, shift, total
from pgstrata.page.blocks import Block, Cell, Chart, Column, Row, Section, Table, missing, words
from pgstrata.page.charts import SHOWN_AT_FIRST, axis, color, label, legend_above, rounded, trace
from pgstrata.page.loads import phase_table, seconds, sizes, step_named
from pgstrata.page.queries import facts, has, read, relative
from pgstrata.page.results import RunSet, WorkloadResults, anchor

KINDS = {"gin": "GIN", "gist": "GiST"}
MOST_POINTS = 2_500
"""Points of a variant in the scatter; of more queries every n-th is drawn, the table counts all."""

ByVariant = Mapping[str, Mapping[str, Timing]]


def fulltext(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the section about full-text search; None for workloads of another kind."""
    if not has(workload, "fulltext"):
        return None
    blocks: list[Block] = [*_loads(results, workload), _indexes(results, workload)]
    by_step = read(results, workload).by_step
    kinds = [kind for kind in KINDS if f"query.{kind}" in by_step]
    if kinds:
        blocks += [
            _totals_chart(results, workload, {k: by_step[f"query.{k}"] for k in kinds}),
            _totals(results, workload, {k: by_step[f"query.{k}"] for k in kinds}),
        ]
    if results.others:
        for kind in kinds:
            by_variant = by_step[f"query.{kind}"]
            if results.base in by_variant:
                blocks.append(_scatter(results, workload, kind, by_variant))
        if any(results.base in by_step[f"query.{kind}"] for kind in kinds):
            blocks.append(_shifts(results, workload, {k: by_step[f"query.{k}"] for k in kinds}))
    return Section(anchor("fulltext", workload.name), f"Full text search ({workload.name})", blocks)


# --- loads ------------------------------------------------------------------------------------


def _loads(results: RunSet, workload: WorkloadResults) -> list[Block]:
    def took(name: str, variant: str) -> float | None:
        return seconds(step_named(workload, name), variant)

    ways: dict[str, dict[str, float | None]] = {}
    for kind, name in KINDS.items():
        if step_named(workload, f"load.{kind}"):
            ways[f"{name} in place"] = {v: took(f"load.{kind}", v) for v in results.variants}
    for kind, name in KINDS.items():
        if step_named(workload, f"index.{kind}"):
            ways[f"{name} afterwards"] = {
                v: None
                if (rows := took("load.plain", v)) is None or (index := took(f"index.{kind}", v)) is None
                else rows + index
                for v in results.variants
            }
    parts: dict[str, dict[str, float | None]] = {}
    for step, name in {
        "load.gin": "load with GIN",
        "load.gist": "load with GiST",
        "load.plain": "load without",
        "index.gin": "then GIN",
        "index.gist": "then GiST",
    }.items():
        if step_named(workload, step):
            parts[name] = {v: took(step, v) for v in results.variants}
    table = phase_table(
        results,
        workload,
        parts,
        "Load times — less is better",
        "COPY of all messages, each tsvector made by a PL/pgSQL trigger, with the index in place or without "
        "one; and the time to build the index when all rows are there.",
        together=False,
    )
    return [_grouped(results, workload, ways), table] if ways else [table]


def _grouped(
    results: RunSet, workload: WorkloadResults, ways: Mapping[str, Mapping[str, float | None]]
) -> Chart:
    data = [
        trace(
            variant,
            index := results.color(variant),
            shown=index < SHOWN_AT_FIRST,
            type="bar",
            x=list(ways),
            y=rounded([by_variant.get(variant) for by_variant in ways.values()]),
            marker={"color": color(index)},
            hovertemplate="%{y:,.4~g} s",
        )
        for variant in results.variants
    ]
    return Chart(
        anchor("fulltext-load", workload.name),
        "Rows and index loaded — seconds, less is better",
        data,
        _bars("seconds"),
        320,
        "In place: COPY into a table that has the index. Afterwards: COPY without, then CREATE INDEX; both "
        "together.",
    )


def _bars(unit: str) -> dict[str, Any]:
    return {
        "barmode": "group",
        "margin": {"l": 60, "r": 12, "t": 40, "b": 44},
        "hovermode": "x",
        "showlegend": True,
        "legend": legend_above(1.04),
        "xaxis": axis(type="category"),
        "yaxis": axis(unit, rangemode="tozero"),
    }


def _indexes(results: RunSet, workload: WorkloadResults) -> Table:
    rows = []
    for variant in results.variants:
        cells = [words(variant)]
        for step in ("load.gin", "load.gist", "index.gin", "index.gist"):
            byte_counts = sizes(step_named(workload, step), variant)
            cells.append(
                missing() if byte_counts is None else Cell(byte_counts[1], numbers.size(byte_counts[1]))
            )
        pending = facts(workload, variant, "fulltext_pending", "bytes")
        cells.append(missing() if pending is None else Cell(pending, numbers.size(pending)))
        rows.append(Row(cells, "base" if variant == results.base else "", variant))
    return Table(
        "fulltext-indexes",
        "Index sizes — less is better",
        [
            Column("variant", "Variant", align="left"),
            Column("gin_loaded", "GIN in place"),
            Column("gist_loaded", "GiST in place"),
            Column("gin_built", "GIN afterwards", rule=True),
            Column("gist_built", "GiST afterwards"),
            Column("gin_pending", "GIN pending list", rule=True),
        ],
        rows,
        "The pending list holds entries that were not yet merged into the GIN index when its load ended; "
        "searches read it whole, so it is merged before the queries.",
        keys=(("workload", workload.name),),
    )


# --- queries ----------------------------------------------------------------------------------


def _totals_chart(results: RunSet, workload: WorkloadResults, by_kind: Mapping[str, ByVariant]) -> Chart:
    data: list[dict[str, Any]] = []
    for index, (kind, by_variant) in enumerate(by_kind.items()):
        same = common(by_variant)
        data.append(
            {
                "type": "bar",
                "name": KINDS[kind],
                "x": [label(v) for v in results.variants],
                "y": rounded(
                    [total(by_variant[v], same) if v in by_variant else None for v in results.variants]
                ),
                "marker": {"color": color(index)},
                "hovertemplate": "%{y:,.4~g} s",
            }
        )
    return Chart(
        anchor("fulltext-total", workload.name),
        "All queries, GIN against GiST — seconds, less is better",
        data,
        _bars("seconds"),
        320,
        "The sum of the durations of the queries that every variant ran.",
    )


def _totals(results: RunSet, workload: WorkloadResults, by_kind: Mapping[str, ByVariant]) -> Table:
    rows = []
    for kind, by_variant in by_kind.items():
        same = common(by_variant)
        base = by_variant.get(results.base)
        first = True
        for variant in results.variants:
            timings = by_variant.get(variant)
            if timings is None:
                continue
            took = total(timings, same)
            ratio = total(base, same) / took if base and took and variant != results.base else None
            rejected = sum(t.seconds is None for t in timings.values())
            cut = sum(t.timed_out for t in timings.values())
            mean = took / len(same) if same else None
            rows.append(
                Row(
                    [
                        words(KINDS[kind]),
                        words(variant),
                        Cell(took, numbers.significant(took)),
                        Cell(None, numbers.UNKNOWN) if ratio is None else relative(results, ratio),
                        Cell(None if mean is None else mean * 1e3, numbers.milliseconds(mean)),
                        Cell(len(same), numbers.count(len(same))),
                        Cell(cut, numbers.count(cut), "bad" if cut else ""),
                        Cell(rejected, numbers.count(rejected), "bad" if rejected else ""),
                    ],
                    "" if first else "next",
                    variant,
                )
            )
            first = False
    return Table(
        "fulltext-totals",
        "All queries by index",
        [
            Column("index", "Index", align="left"),
            Column("variant", "Variant", align="left"),
            Column("total", "Total", "s"),
            Column("relative", "Relative"),
            Column("mean", "Mean", "ms"),
            Column("queries", "Queries", rule=True),
            Column("timed_out", "Over the limit"),
            Column("rejected", "Rejected"),
        ],
        rows,
        "Over the queries that every variant ran. Relative is the base's total divided by the variant's: "
        "above 1 is faster. Rejected are those whose text is no tsquery.",
        keys=(("workload", workload.name),),
        lead=2,
    )


def _scatter(results: RunSet, workload: WorkloadResults, kind: str, by_variant: ByVariant) -> Chart:
    base = by_variant[results.base]
    data: list[dict[str, Any]] = []
    longest = SUB_MILLISECOND
    for variant in results.others:
        timings = by_variant.get(variant)
        if timings is None:
            continue
        points = _points(base, timings)
        index = results.color(variant)
        longest = max([longest, *(x for _, x, _ in points)])
        data.append(
            trace(
                variant,
                index,
                shown=index < SHOWN_AT_FIRST,
                type="scatter",
                mode="markers",
                x=rounded([x * 1e3 for _, x, _ in points]),
                y=rounded([y for _, _, y in points]),
                text=[label(query) for query, _, _ in points],
                marker={"size": 5, "opacity": 0.55, "color": color(index)},
                hovertemplate="%{text}<br>base %{x:,.3~g} ms, ratio %{y:,.3~g}",
            )
        )
    layout: dict[str, Any] = {
        "margin": {"l": 60, "r": 12, "t": 40, "b": 50},
        "hovermode": "closest",
        "showlegend": True,
        "legend": legend_above(1.04),
        "xaxis": axis(f"duration with {results.base}, ms", type="log", **_ticks(data, "x")),
        "yaxis": axis("duration ÷ base's", type="log", **_ticks(data, "y")),
        "shapes": [
            {"type": "rect", "xref": "x", "yref": "paper", "x0": 1e-3, "x1": 1, "y0": 0, "y1": 1,
             "fillcolor": "#888", "opacity": 0.15, "line": {"width": 0}, "layer": "below"},
            {"type": "line", "xref": "paper", "yref": "y", "x0": 0, "x1": 1, "y0": 1, "y1": 1,
             "line": {"color": "#888", "width": 1, "dash": "dot"}},
        ],
        "annotations": [
            {"xref": "x", "yref": "paper", "x": 0, "y": 0.02, "xanchor": "right", "showarrow": False,
             "text": "below 1 ms", "font": {"size": 10}},
        ],
    }  # fmt: skip
    shortest = min((x for d in data for x in d["x"] if x), default=1.0)
    # Where the grey zone is seen at all it has room for its name.
    left = min(shortest * 0.7, 0.5) if shortest < 1 else shortest * 0.7
    layout["xaxis"]["range"] = [_log10(left), _log10(longest * 1e3 * 1.4)]
    return Chart(
        anchor("fulltext-ratio", workload.name, kind),
        f"{KINDS[kind]}: each query against {results.base} — below 1 is faster",
        data,
        layout,
        420,
        "A point is a query: how long the base took, and how many times that the variant took. In the grey "
        "zone a query takes less than a millisecond, and its ratio says little.",
    )


def _ticks(data: Sequence[Mapping[str, Any]], of: str) -> dict[str, Any]:
    """Marks of a logarithmic axis: decades, and 2 and 5 between them if there are few."""
    values = [v for d in data for v in d[of] if v] or [1.0]
    low, high = math.floor(_log10(min(values))), math.ceil(_log10(max(values)))
    marks = [m * 10.0**k for k in range(low, high + 1) for m in ((1, 2, 5) if high - low < 4 else (1,))]
    return {"tickmode": "array", "tickvals": marks, "ticktext": [f"{m:,g}" for m in marks]}


def _log10(value: float) -> float:
    return math.log10(max(value, 1e-6))


def _points(base: Mapping[str, Timing], timings: Mapping[str, Timing]) -> list[tuple[str, float, float]]:
    """Returns query, seconds of the base and ratio of each query that both have, thinned evenly by
    duration."""
    points = [
        (query, before, after / before)
        for query in common({"base": base, "own": timings})
        if (before := base[query].seconds) and (after := timings[query].seconds)
    ]
    points.sort(key=lambda p: p[1])
    stride = -(-len(points) // MOST_POINTS)
    return points[:: max(1, stride)]


def _shifts(results: RunSet, workload: WorkloadResults, by_kind: Mapping[str, ByVariant]) -> Table:
    rows: list[Row] = []
    for kind, by_variant in by_kind.items():
        base = by_variant.get(results.base)
        for index, variant in enumerate(results.others):
            timings = by_variant.get(variant)
            change = shift(base, timings, results.thresholds) if base and timings else None
            if change is None:
                continue
            shares: Sequence[float] = (change.slower, change.faster, change.even, change.unsure)
            rows.append(
                Row(
                    [
                        words(KINDS[kind]),
                        words(variant),
                        Cell(change.queries, numbers.count(change.queries)),
                        *(Cell(share, numbers.significant(share * 100)) for share in shares),
                    ],
                    "next" if index else "",
                    variant,
                )
            )
    worse, better = results.thresholds
    return Table(
        "fulltext-shifts",
        f"Share of queries slower and faster than with {results.base}",
        [
            Column("index", "Index", align="left"),
            Column("variant", "Variant", align="left"),
            Column("queries", "Queries"),
            Column("slower", "Slower", "%", rule=True),
            Column("faster", "Faster", "%"),
            Column("even", "Even", "%"),
            Column("unsure", "Below 1 ms", "%"),
        ],
        rows,
        f"Slower: the base's duration divided by the variant's is at most {worse:g}; faster: at least "
        f"{better:g}. Queries that take the base less than a millisecond are counted apart.",
        keys=(("workload", workload.name),),
        lead=2,
    )
