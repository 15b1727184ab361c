"""The response times that have verdicts of their own: both times, change, interval and word of each."""

from __future__ import annotations

from pgstrata.page.blocks import Table
from pgstrata.page.results import RunSet, WorkloadResults
from pgstrata.report.sections.query_verdicts import verdict_table

_HOW = (
    "Response times of the transactions by which each step is judged. p99: 99 % of them took no longer; max: "
    "the longest of each batch, in the geometric mean. Relative: time of the base divided by that of the "
    "other, so above 1 is faster. The {confidence} interval contains what differs between batches, each "
    "with its connections; batches that other programs disturbed are left out. Up to {margin} % is no "
    "difference (times_margin)."
)


def times_table(results: RunSet, workload: WorkloadResults) -> Table | None:
    """Returns the judged response times in the order of the steps; None if there are none."""
    rows = [
        (comparison.other, time.step, time)
        for comparison in results.comparisons
        for step in comparison.steps
        if step.workload == workload.name
        for time in step.times
    ]
    if not rows:
        return None
    return verdict_table(
        results,
        workload,
        rows,
        name="response-times",
        title=f"Response times, judged: {workload.name} against {results.base}",
        first="Time",
        count="Batches",
        how=_HOW,
    )


__all__ = ["times_table"]
