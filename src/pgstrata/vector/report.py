"""Recall beside every rate, and rate against recall, one line per variant."""

from __future__ import annotations

from typing import Any

from pgstrata import numbers
from pgstrata.judge.recall import Recall, recall_of
from pgstrata.page.blocks import Block, Cell, Chart, Column, Row, Section, Table, missing, words
from pgstrata.page.charts import SHOWN_AT_FIRST, axis, color, dash, legend_above, rounded, trace
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor


def recalls(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the report's section of recalls; None if no run has searched."""
    searched = [step for step in workload.compared if any(_of(step, v) for v in step.by_variant)]
    if not searched:
        return None
    blocks: list[Block] = [_table(results, workload, searched)]
    for kind in dict.fromkeys(step.group for step in searched):
        blocks.append(_chart(results, workload, kind, [step for step in searched if step.group == kind]))
    return Section(anchor("recall", workload.name), f"Recall ({workload.name})", blocks)


def _of(step: StepResults, variant: str) -> Recall | None:
    repeats = step.by_variant.get(variant)
    return None if repeats is None else recall_of(repeats.typical.run, step.name)


def _table(results: RunSet, workload: WorkloadResults, steps: list[StepResults]) -> Table:
    rows = []
    for step in steps:
        for variant in results.variants:
            repeats, recall = step.by_variant.get(variant), _of(step, variant)
            if repeats is None or recall is None:
                continue
            latency = repeats.latencies.get(repeats.typical.record.role)
            p50 = latency.p50 if latency is not None else None
            rate = results.rate(step, variant)
            low = recall.recall < recall.target
            rows.append(
                Row(
                    [
                        words(step.name),
                        words(variant),
                        Cell(recall.target, f"{recall.target:g}"),
                        Cell(
                            recall.recall,
                            f"{recall.recall:.3f}",
                            "bad" if low else "",
                            "the target was not reached" if low else "",
                        ),
                        words(recall.setting),
                        Cell(recall.value, numbers.count(recall.value)),
                        missing("no rate") if rate is None else Cell(rate, numbers.rate(rate)),
                        missing("no response") if p50 is None else Cell(p50 * 1e3, numbers.milliseconds(p50)),
                    ],
                    variant=variant,
                )
            )
    return Table(
        name="recall",
        title=f"Recall and rate: {workload.name}",
        columns=[
            Column("step", "Step", align="left"),
            Column("variant", "Variant", align="left"),
            Column("target", "Recall asked for"),
            Column("recall", "Recall"),
            Column("setting", "Setting", align="left", rule=True),
            Column("value", "Value"),
            Column("rate", "Rate", "queries/s", rule=True),
            Column("p50", "p50", "ms"),
        ],
        rows=rows,
        keys=(("workload", workload.name),),
        how="Recall is the share of the true nearest neighbours that the index found, over all queries. For "
        "each recall that was asked for, the smallest value of the setting that reaches it was found on each "
        "variant before the step. Rates are compared only where recalls differ by at most one hundredth.",
    )


def _chart(results: RunSet, workload: WorkloadResults, kind: str, steps: list[StepResults]) -> Chart:
    data: list[dict[str, Any]] = []
    for variant in results.variants:
        points = []
        for step in steps:
            repeats, recall = step.by_variant.get(variant), _of(step, variant)
            rate = results.rate(step, variant)
            if repeats is not None and recall is not None and rate is not None:
                points.append((recall.recall, rate))
        points.sort()
        index = results.color(variant)
        if points:
            data.append(
                trace(
                    variant,
                    index,
                    shown=index < SHOWN_AT_FIRST,
                    type="scatter",
                    mode="lines+markers",
                    x=rounded([x for x, _ in points]),
                    y=rounded([y for _, y in points]),
                    line={"color": color(index), "width": 1.6, "dash": dash(index)},
                    hovertemplate="recall %{x:.3f}: %{y:,.4~g} queries/s",
                )
            )
    return Chart(
        id=f"{anchor('recall', workload.name)}-{kind}",
        title=f"Rate against recall: {kind} — more to the right and above is better",
        data=data,
        layout={
            "margin": {"l": 70, "r": 12, "t": 34, "b": 44},
            "hovermode": "closest",
            "showlegend": True,
            "legend": legend_above(1.0),
            "xaxis": axis("recall"),
            "yaxis": axis("queries/s", rangemode="tozero"),
        },
        height=360,
        how="Each point is a step. Of two lines the upper one is faster at the same recall.",
    )
