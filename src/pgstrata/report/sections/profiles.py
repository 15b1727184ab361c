"""Profiles: what changed against the base, by function, and flame graphs of each variant, step and role."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pgstrata import numbers
from pgstrata.page.blocks import Block, Picture, Prose, Section
from pgstrata.page.results import RunSet, StepResults, WorkloadResults, anchor
from pgstrata.report.flames import Flame, Flames
from pgstrata.report.profile_changes import profile_tables
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
    for variant in flames:
        blocks += _changed(results, step, role, variant, workload.name)
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


def _changed(results: RunSet, step: StepResults, role: str, variant: str, workload: str) -> list[Block]:
    """Returns the tables of what changed against the base; none where that cannot be told."""
    verdict = results.verdict(step, variant)
    keys = (("workload", workload), ("step", step.name), ("role", role), ("variant", variant))
    return [
        table
        for profile in (verdict.profiles if verdict is not None else ())
        if profile.role == role
        for table in profile_tables(profile, results.base, variant, keys)
    ]
