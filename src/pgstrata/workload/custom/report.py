"""What a workload of files has beyond its steps: how its load went, and each of its queries."""

from __future__ import annotations

from pgstrata.judge.queries import against_base
from pgstrata.page.blocks import Block, Column, Row, Section, Table, words
from pgstrata.page.judged_loads import judged_loads
from pgstrata.page.loads import phase_table, seconds, stacked
from pgstrata.page.queries import Queries, read
from pgstrata.page.query_tables import Wording, query_blocks
from pgstrata.page.results import RunSet, WorkloadResults, anchor
from pgstrata.workload.custom.confined import outside_in

_WORDING = Wording(
    "custom",
    "Answers are held against the base's, by digest of their rows; an answer that differs between executions "
    "of the base is different, too. Not run are queries that were cancelled or rejected.",
    "A file that holds no query is told here, too.",
    "step {step}",
)
_HOW = "Steps of the setup that the runs did; with several repeats their median. They are in no comparison."


def custom(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns the report's section of the workload; None if there were neither loads nor queries."""
    blocks: list[Block] = []
    loads = {
        step.name.removeprefix("load."): {v: seconds(step, v) for v in results.variants}
        for step in workload.steps
        if step.name.startswith("load.")
    }
    if (judged := judged_loads(results, workload)) is not None:
        blocks.append(judged)
    elif loads:
        title = "Load by step — less is better"
        blocks.append(stacked(results, workload, loads, title, _HOW))
        blocks.append(phase_table(results, workload, loads, title, _HOW, together=True))
    queries = read(results, workload)
    for step in ("queries", "streams"):
        if step in queries.by_step:
            by_variant = against_base(queries.by_step[step], results.base)
            blocks += query_blocks(results, workload, step, by_variant, queries, _WORDING)
            queries = Queries(queries.by_step, {}, queries.buffers)  # plans are told once
    if (left := _left_out(results, workload)) is not None:
        blocks.append(left)
    if not blocks:
        return None
    return Section(anchor("custom", workload.name), f"Load and queries ({workload.name})", blocks)


def _left_out(results: RunSet, workload: WorkloadResults) -> Table | None:
    """Returns a table of the statements and settings of the setup that were left out, and on which variants.
    None without any."""
    left_out: dict[tuple[str, str], list[str]] = {}
    more: dict[str, int] = {}
    for run in workload.runs:
        outside = outside_in(run.record.facts)
        for omission in (*outside.left_out, *outside.settings) if outside is not None else ():
            variants = left_out.setdefault((omission.what, omission.why), [])
            variants += [run.variant] if run.variant not in variants else []
        if outside is not None and (rest := outside.number - len(outside.left_out)) > 0:
            more[run.variant] = rest
    if not left_out:
        return None
    rows = [
        Row([words(what), words(why), words("all" if len(on) == len(results.variants) else ", ".join(on))])
        for (what, why), on in left_out.items()
    ]
    rows += [Row([words(f"{number} more statements"), words(""), words(on)]) for on, number in more.items()]
    return Table(
        name="custom_left_out",
        title="Left out of the setup",
        columns=[
            Column("what", "What", align="left"),
            Column("why", "Why", align="left"),
            Column("variants", "Variants", align="left"),
        ],
        rows=rows,
        how="What reaches outside the cluster, and settings of a dump that a server lacks.",
        keys=(("workload", workload.name),),
    )
