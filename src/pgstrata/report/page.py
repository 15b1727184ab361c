"""Which sections a report has, in which order: the one list that a new kind of data is added to."""

from __future__ import annotations

from collections.abc import Iterator

from pgstrata.report.blocks import Block, Section, Table
from pgstrata.report.flames import Flames
from pgstrata.report.frames import Frames
from pgstrata.report.numbers import count, moment
from pgstrata.report.sections.compared import compared
from pgstrata.report.sections.failures import failures
from pgstrata.report.sections.findings import findings
from pgstrata.report.sections.fulltext import fulltext
from pgstrata.report.sections.operations import operations
from pgstrata.report.sections.relative import relative_charts
from pgstrata.report.sections.scaling import scaling
from pgstrata.report.sections.steps import steps_section
from pgstrata.report.sections.summary import absolute_table, background_table, relative_table
from pgstrata.report.sections.tpcds import tpcds
from pgstrata.report.sections.trend import trends
from pgstrata.report.sections.tuning import tuning
from pgstrata.report.sections.why import why
from pgstrata.report.study import Study


def sections(study: Study, frames: Frames, flames: Flames | None = None, trouble: str = "") -> list[Section]:
    """The whole report; sections without data are left out. trouble: why flame graphs are missing."""
    made: list[Section | None] = [summary(study)]
    made += [tpcds(study, workload) for workload in study.workloads]
    made += [fulltext(study, workload) for workload in study.workloads]
    made.append(tuning(study))
    made += [trends(study, workload) for workload in study.workloads]
    made += [scaling(study, workload) for workload in study.workloads]
    made += [operations(study, workload) for workload in study.workloads]
    made += [why(study, workload, flames or {}, trouble) for workload in study.workloads]
    made.append(compared(study))
    made += [steps_section(study, workload, frames) for workload in study.workloads]
    made.append(failures(study))
    return [section for section in made if section is not None]


def summary(study: Study) -> Section:
    """The answer first, then the three tables of each workload."""
    blocks: list[Block | None] = [*findings(study)]
    for workload in study.workloads:
        if workload.compared:
            blocks += [
                absolute_table(study, workload),
                relative_table(study, workload),
                *relative_charts(study, workload),
                background_table(study, workload),
            ]
    return Section("summary", "Summary", [block for block in blocks if block is not None])


def lede(study: Study) -> str:
    """What this is, in one or two sentences."""
    variants = f"{len(study.variants)} variants" if len(study.variants) > 1 else study.variants[0]
    workloads = ", ".join(workload.name for workload in study.workloads) or "no finished workload"
    runs = f"{count(len(study.runs))} finished run{'s' * (len(study.runs) != 1)}"
    hosts = sorted({h for r in study.runs if (h := r.record.host.hostname)})
    times = sorted(run.record.started for run in (*study.runs, *study.failed))
    parts = [f"PostgreSQL benchmark comparison: {variants}, {workloads}, {runs}"]
    if hosts:
        parts.append(f"on {', '.join(hosts)}")
    if times:
        first, last = moment(times[0]), moment(times[-1])
        parts.append(first if first == last else f"{first} to {last}")
    base = f" Compared with {study.base}, the base." if study.others else ""
    return ", ".join(parts) + "." + base


def tables(made: list[Section]) -> Iterator[Table]:
    """Every table of these sections, in order."""
    for section in made:
        for block in section.blocks:
            if isinstance(block, Table):
                yield block
        yield from tables(list(section.parts))
