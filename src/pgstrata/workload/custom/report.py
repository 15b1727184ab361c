"""What a workload of files has beyond its steps: how its load went, and each of its queries."""

from __future__ import annotations

from pgstrata.judge.queries import against_base
from pgstrata.page.blocks import Block, Section
from pgstrata.page.loads import phase_table, seconds, stacked
from pgstrata.page.queries import Queries, read
from pgstrata.page.query_tables import Wording, query_blocks
from pgstrata.page.results import RunSet, WorkloadResults, anchor

_WORDING = Wording(
    "custom",
    "Answers are held against the base's, by digest of their rows; an answer that differs between executions "
    "of the base is different, too. Not run are queries that were cancelled or rejected.",
    "A file that holds no query is told here, too.",
    "step {step}",
)
_HOW = "Steps of the setup that the runs did; with several repeats their median. They are in no comparison."


def custom(results: RunSet, workload: WorkloadResults) -> Section | None:
    """None where there were neither loads nor queries."""
    blocks: list[Block] = []
    loads = {
        step.name.removeprefix("load."): {v: seconds(step, v) for v in results.variants}
        for step in workload.steps
        if step.name.startswith("load.")
    }
    if loads:
        blocks.append(stacked(results, workload, loads, "Load by step — less is better", _HOW))
        blocks.append(
            phase_table(results, workload, loads, "Load by step — less is better", _HOW, together=True)
        )
    found = read(results, workload)
    for step in ("queries", "streams"):
        if step in found.by_step:
            by_variant = against_base(found.by_step[step], results.base)
            blocks += query_blocks(results, workload, step, by_variant, found, _WORDING)
            found = Queries(found.by_step, {}, found.buffers)  # plans are told once
    if not blocks:
        return None
    return Section(anchor("custom", workload.name), f"Load and queries ({workload.name})", blocks)
