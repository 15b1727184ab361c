"""The response times that have verdicts of their own: both times, change, interval and word of each."""

from __future__ import annotations

from pgstrata import numbers
from pgstrata.judge.compare import StepVerdict
from pgstrata.page.blocks import Cell, Column, Row, Table, missing, words
from pgstrata.page.results import RunSet, WorkloadResults
from pgstrata.report.sections.query_verdicts import change, verdict_cell

_HOW = (
    "Response times of the transactions by which each step is judged. p99: 99 % of them took no longer; max: "
    "the longest of each batch, in the geometric mean. Relative: time of the base divided by that of the "
    "other, so above 1 is faster. The {confidence} interval contains what differs between batches, each "
    "with its connections; batches that other programs disturbed are left out. Up to {margin} % is no "
    "difference (times_margin)."
)


def times_table(results: RunSet, workload: WorkloadResults) -> Table | None:
    """The judged response times in the order of the steps; None where there are none."""
    times = [
        (comparison.other, time)
        for comparison in results.comparisons
        for step in comparison.steps
        if step.workload == workload.name
        for time in step.times
    ]
    if not times:
        return None
    several = len(results.others) > 1
    first = times[0][1].verdict
    confidence = f"{100 * first.confidence:.0f} %"
    return Table(
        "response-times",
        f"Response times, judged: {workload.name} against {results.base}",
        [
            Column("time", "Time", align="left"),
            *([Column("variant", "Variant", align="left")] if several else []),
            Column("base_ms", results.base if not several else "Base", "ms"),
            Column("ms", results.others[0] if not several else "Variant's", "ms"),
            Column("change", "Change", align="left"),
            Column("relative", "Relative"),
            Column("interval", f"{confidence} interval"),
            Column("verdict", "Verdict", align="left", rule=True),
            Column("batches", "Batches"),
        ],
        [
            Row(
                [words(time.step), *([words(variant)] if several else []), *_cells(time)],
                variant=variant,
            )
            for variant, time in times
        ],
        _HOW.format(confidence=confidence, margin=f"{100 * first.margin:.3g}"),
        keys=(("workload", workload.name),),
        lead=2 if several else 1,
        legend=(("bad", "slower"), ("same", "the same"), ("good", "faster")),
    )


def _cells(time: StepVerdict) -> list[Cell]:
    verdict, ratio = time.verdict, time.ratio
    is_bounded = verdict.low > 0 and verdict.high < float("inf")
    reach = f"{numbers.ratio(verdict.low)} – {numbers.ratio(verdict.high)}" if is_bounded else numbers.UNKNOWN
    return [
        _milliseconds(time.base_rate),
        _milliseconds(time.other_rate),
        missing() if ratio is None else words(change(ratio)),
        missing() if ratio is None else Cell(ratio, numbers.ratio(ratio)),
        Cell(None, reach),
        verdict_cell(time),
        Cell(verdict.n, numbers.count(verdict.n)),
    ]


def _milliseconds(rate: float | None) -> Cell:
    return missing() if not rate else Cell(1000 / rate, numbers.significant(1000 / rate))


__all__ = ["times_table"]
