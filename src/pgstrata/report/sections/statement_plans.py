"""The plan of each statement per version, with a mark where its shape differs from the base's."""

from __future__ import annotations

from typing import Any

from pgstrata.analyze.plan_text import outline, side_by_side
from pgstrata.analyze.plans import shape
from pgstrata.report.blocks import Block, Cell, Column, Listing, Prose, Row, Table, words
from pgstrata.report.study import Place, StepOf, Study, WorkloadOf

SAME = "as the base"
DIFFERS = "differs"
MOST_LISTINGS = 60
_SHOWN = 160


def plan_blocks(study: Study, workload: WorkloadOf) -> list[Block]:
    """A table of shapes; where one differs, both plans side by side. Empty where no plan was kept."""
    rows: list[Row] = []
    listings: list[Block] = []
    statements = changed = 0
    for step in workload.compared:
        for name, by_variant in _plans(study, step).items():
            statements += 1
            shapes = {variant: shape(plan) for variant, (_, plan) in by_variant.items()}
            reference = study.base if study.base in shapes else next(iter(shapes))
            differing = [v for v in shapes if shapes[v] != shapes[reference]]
            changed += bool(differing)
            alike = [v for v in shapes if v not in differing]
            who = "all" if len(alike) == len(shapes) > 1 else ", ".join(alike)
            rows.append(_row(step.name, name, who, shapes[reference], "", reference))
            for variant in differing:
                rows.append(_row("", "", variant, shapes[variant], DIFFERS, variant))
                titles = (reference, variant)
                both = (outline(by_variant[reference][1]), outline(by_variant[variant][1]))
                text = f"{by_variant[variant][0]}\n\n{side_by_side(*both, titles)}"
                listings.append(Listing(f"{step.name}, {_cut(name)}: {reference} and {variant}", text))
    if not rows:
        return []
    verdict = (
        f"{changed} of {statements} statements have a plan of another shape under some variant."
        if changed
        else f"All {statements} statements have a plan of the same shape under every variant."
    )
    table = Table(
        name="plans",
        title=f"Plan of each statement: {workload.name}",
        columns=[
            Column("step", "Step", align="left"),
            Column("statement", "Statement", align="left"),
            Column("variant", "Variants", align="left"),
            Column("mark", "Shape", align="left"),
            Column("plan", "Plan", align="left"),
        ],
        rows=rows,
        how="Asked with EXPLAIN after each step, with values from the middle of each range. The shape is the "
        "nodes, joins, indexes and tables of a plan without costs and row counts. Where it differs from the "
        "base's both plans stand side by side below, with a mark on the lines that differ.",
        keys=(("workload", workload.name),),
        lead=2,
    )
    blocks: list[Block] = [Prose(verdict, "" if changed else "even"), table, *listings[:MOST_LISTINGS]]
    if len(listings) > MOST_LISTINGS:
        blocks.append(Prose(f"{len(listings) - MOST_LISTINGS} more pairs are not spelled out.", "even"))
    return blocks


def _row(step: str, name: str, who: str, plan: str, mark: str, variant: str) -> Row:
    """A mark is a word and a sign: colour alone tells nothing to many."""
    shown = Cell(DIFFERS, f"◆ {DIFFERS}", "bad") if mark else words("")
    return Row(
        [words(step), words(_cut(name), note=name), words(who), shown, words(plan)],
        "next" if not step else "",
        variant if mark else "",
    )


def _plans(study: Study, step: StepOf) -> dict[str, dict[str, tuple[str, Any]]]:
    """Statement → variant → (text with sample values, plan), of the last repeat that has plans."""
    found: dict[str, dict[str, tuple[str, Any]]] = {}
    for variant in study.variants:
        place = step.places.get(variant)
        for entry in _last(place) if place else ():
            if isinstance(entry, dict) and shape(entry.get("plan")):
                name = str(entry.get("name"))
                found.setdefault(name, {})[variant] = (str(entry.get("statement") or ""), entry["plan"])
    return found


def _last(place: Place) -> list[Any]:
    for measured in reversed(place.repeats):
        if plans := measured.record.get("plans"):
            return list(plans) if isinstance(plans, list) else []
    return []


def _cut(name: str) -> str:
    return name if len(name) <= _SHOWN else name[: _SHOWN - 1] + "…"
