"""Profiles: flame graphs of each variant, step and role, against the base, and the functions that moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pgstrata import numbers
from pgstrata.judge.stacks import CERTAIN, ShareChange, moved
from pgstrata.page.blocks import Block, Cell, Column, Picture, Prose, Row, Section, Table, words
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor
from pgstrata.report.flames import Flame, Flames
from pgstrata.store.read import MeasuredStep


def profile_parts(results: RunSet, workload: WorkloadResults, flames: Flames) -> list[Section]:
    """Returns a folded part for each profiled step."""
    parts = []
    for step in workload.compared:
        blocks: list[Block] = []
        for role in step.role_names:
            by_variant = flames.get((workload.name, step.name, role), {})
            if by_variant:
                blocks += _role(results, step, role, by_variant, workload)
        if blocks:
            blocks += _cost(step)
        notes = sorted({note for repeats in step.by_variant.values() for note in _notes(repeats.repeats)})
        blocks += [Prose(note, "even") for note in notes]
        if blocks:
            link = anchor("profile", workload.name, step.name)
            parts.append(Section(link, step.name, blocks, folded=True))
    return parts


def _cost(step: StepResults) -> list[Block]:
    """Returns a sentence on how much CPU perf itself used while it recorded, at most."""
    costs = [
        (entry.perf_cpu_seconds / entry.seconds, measured.run.variant, role)
        for repeats in step.by_variant.values()
        for measured in repeats.repeats
        for role, entry in (measured.record.profile or {}).items()
        if entry.perf_cpu_seconds is not None and entry.seconds
    ]
    if not costs:
        return []
    share, variant, role = max(costs)
    text = (
        f"While it recorded, perf itself used at most {share * 100:.2g} % of a CPU ({role} under {variant})."
    )
    return [Prose(text, "even")]


def _notes(repeats: Iterable[MeasuredStep]) -> list[str]:
    """Returns the notes of the runs on missing profiles."""
    return [
        f"{measured.run.variant}, {role}: {entry.note}"
        for measured in repeats
        for role, entry in (measured.record.profile or {}).items()
        if entry.note
    ]


def _role(
    results: RunSet, step: StepResults, role: str, flames: Mapping[str, Flame], workload: WorkloadResults
) -> list[Block]:
    blocks: list[Block] = []
    base = flames.get(results.base)
    for variant, flame in flames.items():
        if base is not None and variant != results.base:
            blocks += _changed(results, step, role, variant, base, flame, workload)
    for variant, flame in flames.items():
        many = f", {flame.repeats} repeats added up" if flame.repeats > 1 else ""
        what = f"{role} under {variant}: {numbers.count(flame.samples)} samples of {flame.event}{many}"
        if flame.difference:
            blocks.append(
                Picture(
                    flame.difference,
                    f"Against {results.base}: {role} under {variant}",
                    "Widths are this variant's shares of time; red frames have a larger share than under the "
                    "base, blue ones a smaller. Opened alone the picture can be searched and zoomed.",
                    variant,
                )
            )
        if flame.graph:
            blocks.append(
                Picture(
                    flame.graph,
                    f"Flame graph: {what}",
                    "Each box is a function, the width its share of the samples, what it called above it. "
                    "Opened alone the picture can be searched and zoomed.",
                    variant,
                )
            )
    return blocks


def _changed(
    results: RunSet,
    step: StepResults,
    role: str,
    variant: str,
    base: Flame,
    flame: Flame,
    workload: WorkloadResults,
) -> list[Block]:
    changes = moved(base.stacks, base.samples, flame.stacks, flame.samples)
    samples = f"{numbers.count(base.samples)} and {numbers.count(flame.samples)} samples"
    if not changes:
        text = (
            f"{role} under {variant}: no function's share differs from {results.base} by more than chance "
            f"({samples})."
        )
        return [Prose(text, "even")]
    costs = [_cpu_per_operation(step, v, role) for v in (results.base, variant)]
    return [
        Table(
            name="functions",
            title=f"Functions whose share changed most: {role}, {variant} against {results.base}",
            columns=[
                Column("function", "Function", align="left"),
                Column("own_base", "Own, base", "%"),
                Column("own", "Own", "%"),
                Column("change", "Change", "points"),
                Column("total_base", "With callees, base", "%", rule=True),
                Column("total", "With callees", "%"),
                Column("cost_base", "CPU, base", "µs/o", rule=True),
                Column("cost", "CPU", "µs/o"),
            ],
            rows=[_row(change, variant, costs) for change in changes],
            how="Own is the share of samples in the function itself, with callees of stacks it is in. "
            "CPU is the own share × the CPU that the role's connections used per operation: a share can rise "
            "because others fell, µs cannot. ± is one standard error; listed are changes beyond "
            f"{CERTAIN:g} of them ({samples}), the largest first.",
            keys=(("workload", workload.name), ("step", step.name), ("role", role), ("variant", variant)),
        )
    ]


def _row(function_change: ShareChange, variant: str, costs: list[float | None]) -> Row:
    sign = "+" if function_change.change > 0 else "−"
    change = Cell(
        function_change.change * 100,
        f"{sign}{numbers.significant(abs(function_change.change) * 100)}",
        "bad" if function_change.change > 0 else "good",
        small=f"± {function_change.error * 100:.2g}",
    )
    shares = [
        function_change.own_base,
        function_change.own_share,
        function_change.total_base,
        function_change.total,
    ]
    cells = [Cell(share * 100, numbers.significant(share * 100)) for share in shares]
    money = [
        Cell(None, numbers.UNKNOWN, "missing")
        if cost is None
        else Cell(share * cost, numbers.significant(share * cost))
        for share, cost in zip((function_change.own_base, function_change.own_share), costs, strict=True)
    ]
    return Row([words(function_change.function), *cells[:2], change, *cells[2:], *money], variant=variant)


def _cpu_per_operation(step: StepResults, variant: str, role: str) -> float | None:
    """Returns the µs of CPU of a role's backends per operation of that role, median of the repeats."""
    repeats = step.by_variant.get(variant)
    if repeats is None:
        return None

    def cost(measured: MeasuredStep) -> float | None:
        role_record = measured.record.roles.get(role)
        if role_record is None or role_record.cpu_seconds is None or not role_record.operations:
            return None
        return role_record.cpu_seconds * 1e6 / role_record.operations

    return repeats.median(cost)
