"""What counted instructions add to a report (`pgstrata.report.parts.ReportPart`)."""

from __future__ import annotations

import math
from collections import Counter

from pgstrata.count.flames import counted_flames
from pgstrata.count.functions import changes_of, sentence
from pgstrata.count.results import counts_of
from pgstrata.count.section import count_table, counted_section
from pgstrata.numbers import counted
from pgstrata.page.blocks import Section, Table
from pgstrata.page.results import RunSet, StepResults
from pgstrata.report.flames import Flame, Flames, Key

LARGEST = 3
"""Steps of each variant whose difference the summary explains."""


def flames_of(results: RunSet) -> dict[Key, dict[str, Flame]]:
    """Returns flame graphs in instructions of what differs."""
    return counted_flames(results)


def section(results: RunSet, flames: Flames) -> Section | None:
    """Returns the section on counts; None where nothing was counted."""
    return counted_section(results, flames)


def terminal_tables(results: RunSet) -> list[Table]:
    """Returns the table of counts of each workload."""
    return [count_table(results, workload) for workload in results.counted_workloads]


def answers(results: RunSet) -> list[str]:
    """Returns how many steps of each variant need more instructions, and how many fewer; then the steps that
    differ most, with what accounts for it."""
    sentences = []
    for comparison in counts_of(results).comparisons:
        steps = [step for step in comparison.steps if step.headline]
        if not steps:  # of the base nothing was counted
            continue
        words = Counter(step.word for step in steps)
        parts = [f"{word} instructions at {words[word]}" for word in ("more", "fewer") if words[word]]
        parts += ["the same at " + str(words["same"])] if words["same"] else []
        parts += [f"unclear at {words['unclear']}"] if words["unclear"] else []
        of = counted(len(steps), "step")
        sentences.append(f"{comparison.other}: {', '.join(parts)} of {of} against {comparison.base}.")
        sides = counts_of(results).side(comparison.base), counts_of(results).side(comparison.other)
        differing = [step for step in steps if step.word in ("more", "fewer")]
        for step in sorted(differing, key=lambda step: -abs(math.log(step.ratio)))[:LARGEST]:
            changes = changes_of(*sides, step.workload, step.step, step.role)
            sentences.append(f"{comparison.other}, {step.name}: {sentence(step, changes)}.")
    return sentences


def explanation(results: RunSet, workload: str, step: StepResults, variant: str) -> str:
    """Returns what a count of the same step says of the code path; empty where there is none, or it is the
    same."""
    counts = counts_of(results)
    verdict = counts.verdict(workload, variant, step.name, step.role_names[0])
    if verdict is None or verdict.word not in ("more", "fewer"):
        return ""
    changes = changes_of(counts.side(results.base), counts.side(variant), workload, step.name, verdict.role)
    return f"counted: {sentence(verdict, changes)}"
