"""Recorded queries of several variants: totals of those that all ran, and each against the base."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgstrata import numbers
from pgstrata.judge.queries import Timing, common, faster, geometric_mean, total
from pgstrata.page.blocks import Block, Cell, Chart, Column, Row, Table, missing, words
from pgstrata.page.changed_plans import changed_plans
from pgstrata.page.charts import axis, label
from pgstrata.page.estimates import estimate_blocks
from pgstrata.page.queries import Queries, relative, time_mark
from pgstrata.page.results import RunSet, WorkloadResults, anchor

LEAST_FOR_SCALE = 12
"""Queries beside which a scale of colours can be read."""

_MARKED = [[0, "#e0685a"], [0.45, "#f3e9d8"], [0.5, "#f5f2ea"], [0.55, "#e3eede"], [1, "#4fa37c"]]
_PLAIN = [[0, "#c2a878"], [0.5, "#f5f2ea"], [1, "#8fa9bf"]]
"""Without the red and green that elsewhere on the page say what is proven."""

ByVariant = Mapping[str, Mapping[str, Timing]]


@dataclass(frozen=True)
class Wording:
    """What differs between workloads. prefix: of the tables' names; answers: who compared them, with what;
    rejected: the usual reasons; run: what a step is called."""

    prefix: str
    answers: str
    rejected: str
    run: str = "the {step} run"


def query_blocks(
    results: RunSet,
    workload: WorkloadResults,
    step: str,
    by_variant: ByVariant,
    queries: Queries,
    wording: Wording,
) -> list[Block]:
    """Returns the totals of the queries that all ran, each against the base, those rejected, estimates,
    changed plans."""
    same = common(by_variant)
    every = sorted({q for timings in by_variant.values() for q in timings})
    blocks: list[Block] = [_totals(results, workload, step, by_variant, same, len(every), wording)]
    if results.others and results.base in by_variant:
        blocks.append(_heat_map(results, workload, by_variant, every, wording))
    blocks.append(_each(results, workload, step, by_variant, every, queries, wording))
    if rejected := _rejected(results, workload, by_variant, wording):
        blocks.append(rejected)
    blocks += estimate_blocks(results, workload, queries, f"{wording.prefix}-estimates")
    return blocks + changed_plans(results, workload, by_variant, queries, f"{wording.prefix}-plans")


def _totals(
    results: RunSet,
    workload: WorkloadResults,
    step: str,
    by_variant: ByVariant,
    same: Sequence[str],
    every: int,
    wording: Wording,
) -> Table:
    base = by_variant.get(results.base)
    rows = []
    for variant in results.variants:
        timings = by_variant.get(variant)
        if timings is None:
            continue
        seconds_total, mean = total(timings, same), geometric_mean(timings, same)
        base_mean = geometric_mean(base, same) if base else None
        of_mean = base_mean / mean if base_mean and mean else None
        of_total = total(base, same) / seconds_total if base and seconds_total else None
        answers = [t.answer for t in timings.values()]
        wrong = answers.count("different")
        rows.append(
            Row(
                [
                    words(variant),
                    Cell(seconds_total, numbers.significant(seconds_total)),
                    relative(results, of_total),
                    missing("no common query") if mean is None else Cell(mean, numbers.significant(mean)),
                    relative(results, of_mean),
                    Cell(
                        n := sum(t.timed_out for t in timings.values()), numbers.count(n), "bad" if n else ""
                    ),
                    Cell(
                        n := sum(t.seconds is None for t in timings.values()),
                        numbers.count(n),
                        "bad" if n else "",
                    ),
                    Cell(answers.count("same"), numbers.count(answers.count("same"))),
                    Cell(wrong, numbers.count(wrong), "bad" if wrong else ""),
                    Cell(answers.count("not run"), numbers.count(answers.count("not run"))),
                ],
                "base" if variant == results.base else "",
                variant,
            )
        )
    return Table(
        f"{wording.prefix}-totals",
        f"Queries of {wording.run.format(step=step)}: {len(same)} of {every} "
        f"{numbers.agreeing(len(same), 'was', 'were')} run by every variant",
        [
            Column("variant", "Variant", align="left"),
            Column("total", "Total", "s"),
            Column("total_relative", "Relative"),
            Column("geometric_mean", "Geometric mean", "s", rule=True),
            Column("geometric_mean_relative", "Relative"),
            Column("timed_out", "Over limit", rule=True),
            Column("rejected", "Rejected"),
            Column("same", "Answer same", rule=True),
            Column("different", "different"),
            Column("not_run", "not run"),
        ],
        rows,
        f"Total and geometric mean are over the {len(same)} queries that every variant ran; in the mean each "
        "query weighs the same however long it takes. Relative is the base's time divided by the variant's: "
        "above 1 is faster. A query over its limit was cancelled and counts as twice the limit. "
        + wording.answers,
        keys=(("workload", workload.name),),
        notes=() if len(same) == every else (f"In no comparison: {every - len(same)}.",),
    )


def _heat_map(
    results: RunSet, workload: WorkloadResults, by_variant: ByVariant, every: Sequence[str], wording: Wording
) -> Chart:
    base = by_variant[results.base]
    others = [v for v in results.others if v in by_variant]
    colours: list[list[float | None]] = []
    texts: list[list[str]] = []
    for query in every:
        ratios = [faster(base.get(query), by_variant[v].get(query)) for v in others]
        colours.append([None if r is None else max(-2.0, min(2.0, math.log2(r))) for r in ratios])
        texts.append(
            [
                _cell(results, base.get(query), by_variant[v].get(query), r)
                for v, r in zip(others, ratios, strict=True)
            ]
        )
    data: list[dict[str, Any]] = [
        {
            "type": "heatmap",
            "x": [label(v) for v in others],
            "y": list(every),
            "z": [[None if c is None else round(c, 3) for c in row] for row in colours],
            "text": texts,
            "texttemplate": "%{text}",
            "textfont": {"size": 10, "color": "#111"},
            "hovertemplate": "%{y}, %{x}: %{text}<extra></extra>",
            "showscale": len(every) >= LEAST_FOR_SCALE,
            "zmin": -2,
            "zmax": 2,
            "colorscale": _MARKED if results.by_thresholds else _PLAIN,
            "colorbar": {"title": {"text": "× faster"}, "tickvals": [-2, -1, 0, 1, 2],
                         "ticktext": ["¼", "½", "1", "2", "4"], "len": 0.5},
            "xgap": 2,
            "ygap": 1,
        }
    ]  # fmt: skip
    layout = {
        "margin": {"l": 50, "r": 12, "t": 30, "b": 10},
        "xaxis": axis(type="category", side="top"),
        "yaxis": axis(type="category", autorange="reversed", dtick=1, tickfont={"size": 10}),
    }
    return Chart(
        anchor(f"{wording.prefix}-queries", workload.name),
        f"Each query relative to {results.base} — above 1 is faster",
        data,
        layout,
        80 + 15 * len(every),
        "The base's duration divided by the variant's. "
        + (
            "▼ and ▲ mark what lies beyond the thresholds, `limit` "
            if results.by_thresholds
            else "Shades say how much, and prove nothing: verdicts of single queries stand in a table of "
            "their own. `limit` marks "
        )
        + "a query that was cancelled at its limit and counts twice that, with variant, base or both, "
        + "✕ one that the server rejected, ≠ a wrong answer.",
    )


def _cell(results: RunSet, base: Timing | None, timing: Timing | None, ratio: float | None) -> str:
    if timing is None:
        return ""
    if timing.seconds is None:
        return "✕"
    marks = (" limit" if timing.timed_out else "") + ("≠" if timing.answer == "different" else "")
    if base is not None and base.timed_out:
        marks = (" base limit" if not timing.timed_out else " both limit") + marks.removeprefix(" limit")
    if ratio is None:
        return marks.strip() or "no base"
    sign = {"bad": "▼", "good": "▲"}.get(time_mark(results, ratio), "")
    return f"{numbers.ratio(ratio)} {sign}{marks}".strip()


def _each(
    results: RunSet,
    workload: WorkloadResults,
    step: str,
    by_variant: ByVariant,
    every: Sequence[str],
    queries: Queries,
    wording: Wording,
) -> Table:
    base = by_variant.get(results.base, {})
    explained = any(variant_buffers for variant_buffers in queries.buffers.values())
    rows = []
    for query in every:
        first = True
        for variant, timings in by_variant.items():
            timing = timings.get(query)
            if timing is None:
                continue
            ratio = None if variant == results.base else faster(base.get(query), timing)
            buffers = queries.buffers.get(variant, {}).get(query, {})
            temporary = (buffers.get("temp_read_bytes") or 0) + (buffers.get("temp_written_bytes") or 0)
            note = "cancelled at its limit, counted twice" if timing.timed_out else (timing.error or "")
            rows.append(
                Row(
                    [
                        words(query),
                        words(variant),
                        missing(note)
                        if timing.seconds is None
                        else Cell(
                            timing.seconds,
                            numbers.significant(timing.seconds),
                            "missed" if timing.timed_out else "",
                            note,
                        ),
                        Cell(None, numbers.UNKNOWN) if ratio is None else relative(results, ratio),
                        *(
                            [
                                Cell(temporary, numbers.size(temporary))
                                if buffers
                                else missing("not explained")
                            ]
                            if explained
                            else []
                        ),
                        words(
                            timing.answer or "not checked", mark="bad" if timing.answer == "different" else ""
                        ),
                    ],
                    "" if first else "next",
                    variant,
                )
            )
            first = False
    return Table(
        f"{wording.prefix}-queries",
        f"Every query of {wording.run.format(step=step)}",
        [
            Column("query", "Query", align="left"),
            Column("variant", "Variant", align="left"),
            Column("seconds", "Duration", "s"),
            Column("relative", "Relative"),
            *([Column("temporary_bytes", "Temporary I/O")] if explained else []),
            Column("answer", "Answer", align="left"),
        ],
        rows,
        "Durations are those of the verdict on the query, else the median of all executions, as the driver "
        "saw them."
        + (
            " Temporary I/O is what sorts and hashes read and wrote on disk because work_mem was too small, "
            "in the pass that explained the query."
            if explained
            else ""
        ),
        keys=(("workload", workload.name),),
        lead=2,
    )


def _rejected(
    results: RunSet, workload: WorkloadResults, by_variant: ByVariant, wording: Wording
) -> Table | None:
    rows = [
        Row([words(variant), words(query), words(t.sqlstate or ""), words(t.error or "")], variant=variant)
        for variant, timings in by_variant.items()
        for query, t in sorted(timings.items())
        if t.seconds is None
    ]
    if not rows:
        return None
    return Table(
        f"{wording.prefix}-rejected",
        "Queries that were rejected or left out",
        [
            Column("variant", "Variant", align="left"),
            Column("query", "Query", align="left"),
            Column("sqlstate", "SQLSTATE", align="left"),
            Column("message", "Why", align="left"),
        ],
        rows,
        f"A query that one variant cannot run is in no total of any. {wording.rejected}",
        keys=(("workload", workload.name),),
    )
