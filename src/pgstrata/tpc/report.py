"""Load phases, size, totals of the common set, every query against the base, changed plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgstrata import numbers
from pgstrata.page.blocks import Block, Cell, Column, Prose, Row, Section, Table, missing, words
from pgstrata.page.loads import phase_table, seconds, sizes, stacked, step_named
from pgstrata.page.queries import facts, has, read
from pgstrata.page.query_tables import Wording, query_blocks
from pgstrata.page.results import RunSet, WorkloadResults, anchor
from pgstrata.tpc.benchmark import Benchmark

ANSWERS = (
    "Answers are compared with DuckDB's on the same data; not run are those that were cancelled or rejected."
)


@dataclass(frozen=True)
class LoadWords:
    """The phases of the load, and what stands below their chart."""

    phases: Sequence[str]
    how: str


def section(
    results: RunSet, workload: WorkloadResults, benchmark: Benchmark, load: LoadWords, wording: Wording
) -> Section | None:
    """Returns the report's section of a TPC workload; None for workloads of another kind."""
    if not has(workload, benchmark.name):
        return None
    phases = {
        name: {v: seconds(step, v) for v in results.variants}
        for name in load.phases
        if (step := step_named(workload, name)) is not None
    }
    blocks: list[Block] = [
        Prose(
            f"These are no {benchmark.title} results in the sense of the TPC, and not comparable with any."
        ),
        stacked(
            results,
            workload,
            phases,
            "Load by phase — less is better",
            f"{load.how}; tables at the same time on as many connections as the option load_connections "
            "says.",
        ),
        phase_table(
            results,
            workload,
            phases,
            "Load by phase — less is better",
            "Seconds of each phase; with several repeats their median.",
            together=True,
        ),
        _size_table(results, workload, benchmark, list(phases)),
    ]
    queries = read(results, workload)
    run = "power" if "power" in queries.by_step else "throughput"
    if by_variant := queries.by_step.get(run):
        blocks += query_blocks(results, workload, run, by_variant, queries, wording)
    return Section(anchor(benchmark.name, workload.name), f"{benchmark.title} ({workload.name})", blocks)


def _size_table(
    results: RunSet, workload: WorkloadResults, benchmark: Benchmark, phases: Sequence[str]
) -> Table:
    rows = []
    for variant in results.variants:
        raw = facts(workload, variant, benchmark.name, "raw_bytes")
        disk_sizes = sizes(step_named(workload, phases[-1]), variant) if phases else None
        if not raw or disk_sizes is None:
            rows.append(Row([words(variant), *([missing()] * 4)], variant=variant))
            continue
        shares = [disk_sizes[0] / raw, disk_sizes[1] / raw, sum(disk_sizes) / raw]
        cells = [Cell(raw, numbers.size(raw)), *(Cell(s, numbers.significant(s)) for s in shares)]
        rows.append(Row([words(variant), *cells], "base" if variant == results.base else "", variant))
    return Table(
        f"{benchmark.name}-size",
        "Database size per GB of raw data — less is better",
        [
            Column("variant", "Variant", align="left"),
            Column("raw_bytes", "Raw data"),
            Column("tables", "Tables", "GB/GB", rule=True),
            Column("indexes", "Indexes", "GB/GB"),
            Column("together", "Together", "GB/GB"),
        ],
        rows,
        "After the load, TOAST with its table; raw data is what COPY read.",
        keys=(("workload", workload.name),),
    )
