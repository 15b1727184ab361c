"""Stored runs held against each other as they are asked for, where they can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pgstrata.errors import UsageError
from pgstrata.judge.compare import Comparison, compare_all
from pgstrata.judge.spread import repeats_of
from pgstrata.stats.criterion import Criterion
from pgstrata.store import Results
from pgstrata.store.choose import Side
from pgstrata.suggest import meant


@dataclass(frozen=True)
class Allowed:
    """What may differ all the same. across_hosts: the machine; despite_options: sizes, clients and modes.
    names: what these are called where they are asked for."""

    across_hosts: bool = False
    despite_options: bool = False
    names: tuple[str, str] = ("--across-hosts", "--despite-options")


def compare_sides(
    base: Side,
    others: Sequence[Side],
    results: Results,
    *,
    steps: Sequence[str] = (),
    criterion: Criterion,
    allowed: Allowed,
) -> list[Comparison]:
    """Returns the verdicts on each other side against the base. steps: only these.

    results: whose other runs may say how much runs differ. Raises UsageError where a step is not there, or
    sides differ in what makes their rates hard to compare; StoreError where a run is damaged.
    """
    for other in others:
        if {run.run_id for run in other.runs} == {run.run_id for run in base.runs}:
            raise UsageError(
                f"{base.name} and {other.name} are the same runs",
                "name two variants; pgstrata noise compares a server with itself",
            )
    comparisons = compare_all(
        base,
        others,
        criterion=criterion,
        steps=steps,
        known=lambda: repeats_of(results, {run.workload for run in base.runs}),
    )
    for comparison in comparisons:
        _check_alike(comparison, allowed)
        _check_steps(comparison, steps)
    return comparisons


def _check_alike(comparison: Comparison, allowed: Allowed) -> None:
    for difference in comparison.doubts:
        host = difference.kind == "host" and difference.name == "hostname"
        if (host and not allowed.across_hosts) or (difference.wrong and not allowed.despite_options):
            raise UsageError(
                f"{comparison.base} and {comparison.other} cannot be compared: {difference}",
                f"{allowed.names[0 if host else 1]} compares them all the same",
            )


def _check_steps(comparison: Comparison, steps: Sequence[str]) -> None:
    there = {verdict.step for verdict in (*comparison.steps, *comparison.judged)}
    missing = sorted({step for step in steps if step not in there})
    sides = f"{comparison.base} and {comparison.other}"
    if missing:
        raise UsageError(
            f"{sides} have no step {', '.join(missing)} in common",
            meant(missing[0], comparison.common, "both have") or "they have no step in common",
        )
    if not comparison.steps:
        raise UsageError(f"{sides} have no measured step in common")


__all__ = ["Allowed", "compare_sides"]
