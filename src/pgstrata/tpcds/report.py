"""TPC-DS: load phases, size, totals of the common set, every query against the base, changed plans."""

from __future__ import annotations

from pgstrata import numbers
from pgstrata.page.blocks import Block, Cell, Column, Row, Section, Table, missing, words
from pgstrata.page.loads import phase_table, seconds, sizes, stacked, step_named
from pgstrata.page.queries import facts, has, read
from pgstrata.page.query_tables import Wording, query_blocks
from pgstrata.page.results import RunSet, WorkloadResults, anchor

PHASES = ("copy", "indexes", "vacuum", "analyze")

_WORDING = Wording(
    "tpcds",
    "Answers are compared with DuckDB's on the same data; not run are those that were cancelled or rejected.",
    "Syntax that a version lacks is the usual reason; division by zero comes from groups without sales on "
    "small scale factors.",
)


def tpcds(results: RunSet, workload: WorkloadResults) -> Section | None:
    """None for workloads of another kind."""
    if not has(workload, "tpcds"):
        return None
    phases = {
        name: {v: seconds(step, v) for v in results.variants}
        for name in PHASES
        if (step := step_named(workload, name)) is not None
    }
    blocks: list[Block] = [
        stacked(
            results,
            workload,
            phases,
            "Load by phase — less is better",
            "COPY of all tables, then primary keys and indexes, VACUUM, ANALYZE; tables at the same time on "
            "as many connections as the option load_connections says.",
        ),
        phase_table(
            results,
            workload,
            phases,
            "Load by phase — less is better",
            "Seconds of each phase; with several repeats their median.",
            together=True,
        ),
        _size_table(results, workload),
    ]
    found = read(results, workload)
    run = "power" if "power" in found.by_step else "throughput"
    if by_variant := found.by_step.get(run):
        blocks += query_blocks(results, workload, run, by_variant, found, _WORDING)
    return Section(anchor("tpcds", workload.name), f"TPC-DS ({workload.name})", blocks)


def _size_table(results: RunSet, workload: WorkloadResults) -> Table:
    rows = []
    last = [name for name in PHASES if step_named(workload, name) is not None][-1:]
    for variant in results.variants:
        raw = facts(workload, variant, "tpcds", "raw_bytes")
        found = sizes(step_named(workload, last[0]), variant) if last else None
        if not raw or found is None:
            rows.append(Row([words(variant), *([missing()] * 4)], variant=variant))
            continue
        shares = [found[0] / raw, found[1] / raw, sum(found) / raw]
        cells = [Cell(raw, numbers.size(raw)), *(Cell(s, numbers.significant(s)) for s in shares)]
        rows.append(Row([words(variant), *cells], "base" if variant == results.base else "", variant))
    return Table(
        "tpcds-size",
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
