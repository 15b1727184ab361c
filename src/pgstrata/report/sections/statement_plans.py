"""The plan of each statement per version, with a mark where its shape differs from the base's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap

from pgstrata import numbers
from pgstrata.judge.plan_shape import shape
from pgstrata.judge.plan_text import outline, side_by_side
from pgstrata.page.blocks import Block, Cell, Column, Listing, Prose, Row, Table, words
from pgstrata.page.results import Repeats, RunSet, StepResults, WorkloadResults
from pgstrata.store.record import QueryPlan

DIFFERS = "differs"
KINDS = {"generic": "generic", "custom": "for its values"}
"""How a plan of each kind is called."""
MOST_LISTINGS = 60
_SHOWN = 160


def plan_blocks(results: RunSet, workload: WorkloadResults) -> list[Block]:
    """Returns a table of the shapes of plans; if a shape differs, both plans side by side. Empty if no plan
    was kept."""
    rows: list[Row] = []
    listings: list[Block] = []
    statements = changed = 0
    for step in workload.compared:
        for name, by_variant in _plans(results, step).items():
            statements += 1
            shapes = {v: (shape(entry.plan), KINDS[entry.kind]) for v, entry in by_variant.items()}
            reference = results.base if results.base in shapes else next(iter(shapes))
            changed += any(shapes[v][0] != shapes[reference][0] for v in shapes)
            for alike in _alike(shapes, reference):
                plan, kind = shapes[alike[0]]
                mark = plan != shapes[reference][0]
                who = "all" if len(alike) == len(shapes) > 1 else ", ".join(alike)
                cells = [words(step.name), words(_cut(name), note=name), words(who), words(kind)]
                # neither good nor bad: another plan may be the better one
                shape_cell = Cell(DIFFERS, f"◆ {DIFFERS}", "even") if mark else words("")
                only_variant = alike[0] if mark and len(alike) == 1 else ""
                rows.append(
                    Row([*cells, shape_cell, words(plan)], "" if reference in alike else "next", only_variant)
                )
                if mark:
                    title = f"{step.name}, {_cut(name)}: {reference} and {who}"
                    listings.append(both_plans(title, by_variant, reference, alike[0]))
    if not rows:
        return []
    every, have = numbers.counted(statements, "statement"), numbers.agreeing(changed, "has", "have")
    verdict = (
        f"{changed} of {every} {have} a plan of another shape under some variant."
        if changed
        else f"Of {every} each has a plan of the same shape under every variant."
    )
    table = Table(
        name="plans",
        title=f"Plan of each statement: {workload.name}",
        columns=[
            Column("step", "Step", align="left"),
            Column("statement", "Statement", align="left"),
            Column("variant", "Variants", align="left"),
            Column("kind", "Made", align="left"),
            Column("mark", "Shape", align="left"),
            Column("plan", "Plan", align="left"),
        ],
        rows=rows,
        how="Asked with EXPLAIN after each step, with values from the middle of each range, or of a replay "
        "with those of its log; it is the plan the step executed. Made for its values: what a statement "
        "gets that is sent as text or with new parameters each time. Generic: made once for any values, "
        "what a prepared statement keeps to from its sixth execution on where that is estimated to be no "
        "dearer. The shape is the nodes, joins, indexes and tables of a plan without costs and row "
        "counts. Where it differs from the base's both plans stand side by side below, with a mark on the "
        "lines that differ.",
        keys=(("workload", workload.name),),
        lead=2,
    )
    blocks: list[Block] = [Prose(verdict, "" if changed else "even"), table, *listings[:MOST_LISTINGS]]
    if len(listings) > MOST_LISTINGS:
        blocks.append(
            Prose(f"Not spelled out: {numbers.counted(len(listings) - MOST_LISTINGS, 'more pair')}.", "even")
        )
    return blocks


def both_plans(
    title: str, plans: Mapping[str, QueryPlan], base: str, variant: str, *, open: bool = False
) -> Listing:
    """Returns the statement, and the plans of two variants side by side."""
    text = f"{_wrapped(plans[variant].statement)}\n\n"
    left, right = (outline(plans[name].plan, conditions=True) for name in (base, variant))
    text += side_by_side(left, right, (base, variant))
    return Listing(title, text, open)


def _alike(shapes: dict[str, tuple[str, str]], reference: str) -> list[list[str]]:
    """Groups variants with the same plan of the same kind, those like the reference first."""
    groups: dict[tuple[str, str], list[str]] = {shapes[reference]: []}
    for variant, plan in shapes.items():
        groups.setdefault(plan, []).append(variant)
    return list(groups.values())


def _plans(results: RunSet, step: StepResults) -> dict[str, dict[str, QueryPlan]]:
    """Returns statement → variant → its plan, of the last repeat that has plans."""
    plans: dict[str, dict[str, QueryPlan]] = {}
    for variant in results.variants:
        repeats = step.by_variant.get(variant)
        for entry in _last(repeats) if repeats else ():
            if shape(entry.plan):
                plans.setdefault(entry.name, {})[variant] = entry
    return plans


def _last(repeats: Repeats) -> Sequence[QueryPlan]:
    return next((m.record.plans for m in reversed(repeats.repeats) if m.record.plans), ())


def _wrapped(statement: str) -> str:
    """Wraps a statement to the width of the page, at most four lines: of a list of a thousand keys only the
    first are shown."""
    return "\n".join(wrap(statement, 110, max_lines=4, placeholder=" …"))


def _cut(name: str) -> str:
    return name if len(name) <= _SHOWN else name[: _SHOWN - 1] + "…"
