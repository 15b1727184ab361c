"""Why a rate changed: a sentence per changed cell, plans, wait events, profiles."""

from __future__ import annotations

from collections.abc import Sequence

from pgstrata.judge.explain import Explanation, explain
from pgstrata.judge.marks import relative_mark
from pgstrata.page.blocks import Block, Cell, Column, Prose, Row, Section, Table, words
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor
from pgstrata.report.flames import Flames
from pgstrata.report.operation_times import difference_text, operation_table
from pgstrata.report.parts import report_parts
from pgstrata.report.sections.profiles import profile_parts
from pgstrata.report.sections.statement_plans import plan_blocks
from pgstrata.report.sections.summary import relative_cell
from pgstrata.report.sections.waits import wait_tables


def why(results: RunSet, workload: WorkloadResults, flames: Flames, trouble: str = "") -> Section | None:
    """Returns the section with everything that can explain why a rate of this workload moved; None if nothing
    was looked at."""
    parts = [
        _times(results, workload),
        _part(workload, "Plans of the statements", plan_blocks(results, workload)),
        _part(workload, "Wait events", wait_tables(results, workload), folded=True),
        _profiles(results, workload, flames, trouble),
    ]
    blocks = _sentences(results, workload)
    known_parts = [part for part in parts if part is not None]
    if not blocks and not known_parts:
        return None
    return Section(
        anchor("why", workload.name),
        f"Why: what moved with the rate ({workload.name})",
        blocks,
        parts=known_parts,
    )


def _part(
    workload: WorkloadResults, title: str, blocks: Sequence[Block], *, folded: bool = False
) -> Section | None:
    return Section(anchor(title, workload.name), title, blocks, folded=folded) if blocks else None


def _times(results: RunSet, workload: WorkloadResults) -> Section | None:
    """Returns a folded part for each proven difference: where the time of an operation went."""
    parts = []
    for step in workload.compared:
        for variant in results.others:
            if step.by_variant.get(variant) is None or results.word(step, variant) not in (
                "slower",
                "faster",
            ):
                continue
            explanation, _ = explained(results, step, variant)
            if explanation is None:
                continue
            of_time = explanation.parts
            on = f" on {variant}" if len(results.others) > 1 else ""
            keys = (("workload", workload.name), ("step", step.name), ("variant", variant))
            blocks = [] if of_time.reason else [operation_table(of_time, results.base, variant, keys)]
            title = f"{step.name}{on}: {difference_text(of_time)}"
            parts.append(
                Section(anchor("time", workload.name, variant, step.name), title, blocks, folded=bool(blocks))
            )
    if not parts:
        return None
    return Section(anchor("times", workload.name), "Where the time went", parts=parts, quiet=True)


def _profiles(results: RunSet, workload: WorkloadResults, flames: Flames, trouble: str) -> Section | None:
    steps = profile_parts(results, workload, flames)
    if not steps:
        return None
    blocks = [Prose(trouble, "bad")] if trouble else []
    return Section(anchor("profiles", workload.name), "Profiles", blocks, parts=steps)


def _changed(results: RunSet, cell: Cell) -> bool:
    """Returns whether a change is proven, or so far from 1 that a reader will ask, proven or not: the cell
    says which."""
    if cell.mark == "missed" or not isinstance(cell.value, int | float):
        return False
    return cell.mark in ("good", "bad") or relative_mark(cell.value, results.thresholds) in ("good", "bad")


def explained(results: RunSet, step: StepResults, variant: str) -> tuple[Explanation | None, list[str]]:
    """Returns what moved with the rate of a variant that was measured beside the base, and what capabilities
    know of it."""
    base, other = (
        [measured.record for measured in step.by_variant[name].repeats] for name in (results.base, variant)
    )
    more = (part.explanation(results, step.workload, step, variant) for part in report_parts())
    return explain(base, other, results.shown_ratio(step, variant)), list(filter(None, more))


def _sentences(results: RunSet, workload: WorkloadResults) -> list[Block]:
    if not results.others:
        return []
    rows: list[Row] = []
    cells = 0
    for step in workload.compared:
        base = step.by_variant.get(results.base)
        for variant in results.others:
            repeats = step.by_variant.get(variant)
            cell = relative_cell(results, step, variant)
            if base is None or repeats is None or cell.value is None:
                continue
            cells += 1
            if not _changed(results, cell):
                continue
            explanation, others = explained(results, step, variant)
            if explanation is not None or others:
                where = f"on {base.typical.run.machine}: " if len(workload.machines) > 1 else ""
                sentence = f"{where}{explanation.sentence}" if explanation is not None else ""
                text = "; ".join(filter(None, (sentence, *others)))
                rows.append(Row([words(step.name), words(variant), cell, words(text)], variant=variant))
    if not cells:
        return []
    if not rows:
        return [Prose("No rate moved that far, so there is nothing to explain.", "even")]
    return [
        Table(
            name="why",
            title=f"What moved with each changed rate: {workload.name}, against {results.base}",
            columns=[
                Column("step", "Step", align="left"),
                Column("variant", "Variant", align="left"),
                Column("relative", "Relative rate"),
                Column("sentence", "What moved with it", align="left"),
            ],
            rows=rows,
            how="The time of an operation is clients ÷ rate per second. Named are the parts of it (all of "
            "them: where the time went, below) that moved the same way and make up at least a fifth of the "
            "change; counts per operation (context switches, disk) that moved by at least half "
            "as much; and statements whose plan has another shape. That they moved together does not prove "
            "a cause.",
            keys=(("workload", workload.name),),
        )
    ]
