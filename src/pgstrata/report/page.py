"""Which sections a report has, in which order: the one list that a new kind of data is added to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pgstrata.numbers import counted, moment
from pgstrata.page.blocks import Block, Prose, Section, Table
from pgstrata.page.frames import Frames
from pgstrata.page.results import RunSet, WorkloadResults, anchor
from pgstrata.report.flames import Flames
from pgstrata.report.parts import report_parts
from pgstrata.report.sections.compared import compared
from pgstrata.report.sections.curves import curves
from pgstrata.report.sections.failures import failures
from pgstrata.report.sections.findings import findings
from pgstrata.report.sections.machines import machines
from pgstrata.report.sections.operations import operations
from pgstrata.report.sections.published import published
from pgstrata.report.sections.query_causes import cause_blocks
from pgstrata.report.sections.query_times import time_section
from pgstrata.report.sections.query_verdicts import query_table
from pgstrata.report.sections.relative import relative_charts
from pgstrata.report.sections.step_verdicts import pair_table
from pgstrata.report.sections.steps import steps_section
from pgstrata.report.sections.summary import absolute_table, background_table, relative_table
from pgstrata.report.sections.times import times_table
from pgstrata.report.sections.trend import trends
from pgstrata.report.sections.tuning import tuning
from pgstrata.report.sections.why import why
from pgstrata.workload import catalog
from pgstrata.workload.core.options import OwnReport
from pgstrata.workload.plugin import PluginError


def sections(
    results: RunSet, frames: Frames, flames: Flames | None = None, trouble: str = ""
) -> list[Section]:
    """Returns the sections of the whole report; sections without data are left out. trouble: why flame graphs
    are missing."""
    parts: list[Section | None] = [summary(results)]
    parts.append(published(results))
    parts.append(machines(results))
    parts += [own_section(results, workload) for workload in results.workloads]
    parts += [curves(results, workload) for workload in results.workloads]
    parts.append(tuning(results))
    parts += [trends(results, workload) for workload in results.workloads]
    parts += [operations(results, workload) for workload in results.workloads]
    parts += [why(results, workload, flames or {}, trouble) for workload in results.workloads]
    parts += [part.section(results, flames or {}) for part in report_parts()]
    parts.append(compared(results))
    parts += [steps_section(results, workload, frames) for workload in results.workloads]
    # the reason is the answer where nothing else is known
    parts.insert(len(parts) if results.workloads else 1, failures(results))
    return [section for section in parts if section is not None]


def own_section(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the section that the workload itself makes of its runs; None if it makes none."""
    name = workload.runs[0].record.workload_name if workload.runs else ""
    try:
        # Nothing is loaded from a file that a run names: runs may be somebody else's.
        own_workload = catalog.find(name) if name in catalog.names() else None
        return own_workload.report(results, workload) if isinstance(own_workload, OwnReport) else None
    except PluginError as error:
        title = f"{name} ({workload.name})"
        return Section(anchor("own", workload.name), title, [Prose(f"No section: {error.message}", "bad")])


def summary(results: RunSet) -> Section:
    """Returns the summary, with the answer first; then of each workload the table of verdicts where two
    variants are compared, else rates and relative rates of all."""
    blocks: list[Block | None] = [*findings(results)]
    parts: list[Section] = []
    for workload in results.workloads:
        if workload.compared:
            decided = pair_table(results, workload)
            matrix = [
                absolute_table(results, workload),
                relative_table(results, workload),
                *relative_charts(results, workload),
            ]
            if decided is not None:
                parts.append(_folded(workload, matrix))
                matrix = []
            if (times := time_section(results, workload)) is not None:
                parts.append(times)
            blocks += [
                query_table(results, workload),
                *cause_blocks(results, workload),
                decided,
                *matrix,
                times_table(results, workload),
                background_table(results, workload),
            ]
    return Section("summary", "Summary", _there(blocks), parts)


def _folded(workload: WorkloadResults, matrix: Sequence[Block | None]) -> Section:
    """Returns a folded section with the same figures as studies with many variants show them: a column for
    each step, and bars."""
    title = f"As rates, relative rates and bars ({workload.name})"
    return Section(anchor("matrix", workload.name), title, _there(matrix), folded=True)


def _there(blocks: Sequence[Block | None]) -> list[Block]:
    return [block for block in blocks if block is not None]


def lede(results: RunSet) -> str:
    """Describes the report in one or two sentences."""
    variants = f"{len(results.variants)} variants" if len(results.variants) > 1 else results.variants[0]
    names = [workload.name for workload in results.workloads]
    names += [f"{name} (counted)" for name in results.counted_workloads]
    names += [f"{name} (imported)" for name in dict.fromkeys(run.workload for run in results.imported)]
    workloads = ", ".join(names) or "no finished workload"
    if results.imported and not results.runs and not results.counted:
        return f"PostgreSQL benchmark results of other programs, imported: {variants}, {workloads}."
    if results.counted and not results.runs:
        base = f" Compared with {results.base}, the base." if results.others else ""
        return f"PostgreSQL instructions per operation: {variants}, {workloads}.{base}"
    runs = counted(len(results.runs), "finished run")
    hosts = sorted({name for r in results.runs if (name := r.machine)})
    times = sorted(run.record.started for run in (*results.runs, *results.failed))
    parts = [f"PostgreSQL benchmark comparison: {variants}, {workloads}, {runs}"]
    if hosts:
        parts.append(f"on {', '.join(hosts)}")
    if times:
        first, last = moment(times[0]), moment(times[-1])
        parts.append(first if first == last else f"{first} to {last}")
    base = f" Compared with {results.base}, the base." if results.others else ""
    return ", ".join(parts) + "." + base


def tables(sections: list[Section]) -> Iterator[Table]:
    """Yields every table of these sections, in order."""
    for section in sections:
        for block in section.blocks:
            if isinstance(block, Table):
                yield block
        yield from tables(list(section.parts))
