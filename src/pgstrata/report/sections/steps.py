"""A workload step by step: its rate, its seconds, its response times and what it cost."""

from __future__ import annotations

from msgspec import structs

from pgstrata import numbers
from pgstrata.page.blocks import Bar, Bars, Block, Section
from pgstrata.page.frames import Frames
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor
from pgstrata.report.sections.costs import cpu_table, metric_tables
from pgstrata.report.sections.responses import (
    latency_table,
    response_table,
    slow_seconds_table,
    statement_table,
)
from pgstrata.report.sections.seconds import seconds_chart
from pgstrata.report.sections.summary import MISSED, relative_cell
from pgstrata.store.read import MeasuredStep
from pgstrata.turns.table import kind_of

# More steps than this are folded, so that a page of 42 microbenchmarks can be scrolled.
MOST_OPEN = 12


def steps_section(results: RunSet, workload: WorkloadResults, frames: Frames) -> Section | None:
    """Returns the section about all steps of a workload; None if there are none."""
    if not workload.steps:
        return None
    many = len(workload.steps) > MOST_OPEN
    parts = [_step(results, workload, step, frames, folded=many) for step in workload.steps]
    return Section(anchor("steps", workload.name), f"Steps of {workload.name}", parts=parts)


def _step(
    results: RunSet, workload: WorkloadResults, step: StepResults, frames: Frames, folded: bool
) -> Section:
    keys = (("workload", workload.name), ("step", step.name))
    blocks: list[Block | None] = [
        _bars(results, step),
        seconds_chart(results, step, frames),
        slow_seconds_table(results, step, keys),
        latency_table(results, step, keys),
        response_table(results, step, frames, keys),
        cpu_table(results, step, frames, keys),
        *metric_tables(results, step, keys),
        statement_table(results, step, keys),
    ]
    return Section(
        step.anchor,
        step.name,
        [block for block in blocks if block is not None],
        folded=folded,
        brief=_brief(step),
    )


def _brief(step: StepResults) -> str:
    """Describes a step: how long, by how many connections, at which background rate."""
    measured = next(iter(step.by_variant.values())).repeats[0]
    spans = [m.record.seconds for p in step.by_variant.values() for m in p.repeats]
    low, high = min(spans), max(spans)
    alike = high - low < 0.02 * high + 0.05
    span = numbers.duration(high) if alike else f"{numbers.duration(low)} to {numbers.duration(high)}"
    parts = [f"Measured for {span}", _in_turn(measured), _connections(measured)]
    target = measured.record.target_rate
    if target is not None:
        parts.append(f"{numbers.rate(target)} rows/s asked of each background writer role")
    if not step.measured:
        parts.append("part of the set-up: in no comparison")
    return "; ".join(part for part in parts if part) + "."


def _in_turn(measured: MeasuredStep) -> str:
    """Describes the slices or rounds of a step whose variants were measured in turn; empty for other
    steps."""
    comparison, slices = measured.run.record.comparison, measured.record.slices
    if comparison is None or not slices:
        return ""
    kind = kind_of(measured.record.turns, reads_only=measured.record.reads_only)
    grown = measured.record.slice_seconds
    if grown is None:
        return kind.describe(len(slices), comparison)
    text = kind.describe(len(slices), structs.replace(comparison, slice_seconds=grown))
    return f"{text} or more, each until its transactions have ended"


def _connections(measured: MeasuredStep) -> str:
    if measured.record.engine == "none":
        return ""  # a server was started
    counts = [f"{role.clients} {name}" for name, role in measured.record.roles.items()]
    return f"connections: {', '.join(counts)}" if counts else ""


def _bars(results: RunSet, step: StepResults) -> Bars:
    rates = {v: rate for v in results.variants if (rate := results.rate(step, v)) is not None}
    measured = [rate for repeats in step.by_variant.values() for rate in repeats.rates]
    longest = max((*rates.values(), *measured), default=0.0) or 1.0
    bars = []
    for variant in results.variants:
        repeats = step.by_variant.get(variant)
        if repeats is None or variant not in rates:
            failed = any(run.variant == variant for run in results.failed)
            why = results.cannot(variant, step.workload) or ("failed" if failed else "no data")
            bars.append(Bar(variant, None, why, results.color(variant), "missing"))
            continue
        ratio = relative_cell(results, step, variant)
        small = (
            "" if variant == results.base or ratio.value is None else f"{ratio.sign} ×{ratio.text}".strip()
        )
        low, high = (min(repeats.rates), max(repeats.rates)) if len(repeats.rates) > 1 else (None, None)
        note = (
            f"{numbers.rate(low)} to {numbers.rate(high)} over {len(repeats.rates)} repeats" if high else ""
        )
        bars.append(
            Bar(
                label=variant,
                share=rates[variant] / longest,
                text=numbers.rate(rates[variant]),
                color=results.color(variant),
                mark="" if repeats.sla_met else "missed",
                small=small,
                low=None if low is None else low / longest,
                high=None if high is None else high / longest,
                note="; ".join(part for part in (note, "" if repeats.sla_met else MISSED) if part),
            )
        )
    how = ""
    if results.most_repeats > 1:
        how = "Bars are the geometric mean of the repeats; the thin line spans the smallest and the largest."
    return Bars(f"{step.name}: {step.unit} — more is better", bars, how)
