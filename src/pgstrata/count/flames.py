"""Flame graphs in instructions: a call graph of what was counted, unfolded into stacks.

Callgrind keeps which function called which, not whole stacks. A function with several callers is divided
among them by what each call cost, as readers of call graphs do: exact wherever a function has one caller, an
estimate where it has several that use it differently.
"""

from __future__ import annotations

from collections import Counter

from pgstrata.count.functions import cost_of
from pgstrata.count.results import counts_of
from pgstrata.errors import StoreError
from pgstrata.judge.functions import Cost
from pgstrata.page.results import RunSet
from pgstrata.report.flames import Flame, Key
from pgstrata.store.counted import COUNTED, plain_workload

SMALLEST = 0.001
"""Share of an operation below which a stack is not divided further: nobody would see it."""

DEEPEST = 200
"""Frames of a stack: expressions of a query may call each other in circles."""


def counted_flames(results: RunSet) -> dict[Key, dict[str, Flame]]:
    """Returns the stacks of both variants for each counted step and role that differs from the base."""
    wanted: dict[tuple[str, str, str], set[str]] = {}
    for comparison in counts_of(results).comparisons:
        for s in comparison.steps:
            if s.word in ("more", "fewer"):
                key = (s.workload, s.step, s.role)
                wanted.setdefault(key, {results.base}).add(comparison.other)
    flames: dict[Key, dict[str, Flame]] = {}
    for run in results.counted:
        for workload, step, role in wanted:
            if plain_workload(run) != workload or run.variant not in wanted[workload, step, role]:
                continue
            try:
                stacks = unfolded(cost_of(run, step, role))
            except StoreError:
                continue  # the tables say it
            if stacks:
                whole = round(sum(stacks.values()))
                flame = Flame(stacks, whole, 1, "instructions", counted=True)
                flames.setdefault((f"{workload}{COUNTED}", step, role), {})[run.variant] = flame
    return flames


def unfolded(side: Cost) -> Counter[str]:
    """Returns stacks (`caller;callee`) with the instructions of their last function.

    Their sum is that of all functions, but for rounding.
    """
    arcs: dict[str, dict[str, float]] = {}
    for callee, callers in side.callers.items():
        for caller, spent in callers.items():
            arcs.setdefault(caller, {})[callee] = spent
    came = {callee: sum(callers.values()) for callee, callers in side.callers.items()}
    whole = sum(side.of.values())
    inclusive = {
        name: side.of.get(name, 0.0) + sum(arcs.get(name, {}).values()) for name in {*side.of, *arcs, *came}
    }
    stacks: Counter[str] = Counter()

    def walk(path: tuple[str, ...], cost: float) -> None:
        name = path[-1]
        total = inclusive[name]
        share = min(1.0, cost / total) if total > 0 else 0.0
        left = cost
        for callee, spent in arcs.get(name, {}).items():
            part = spent * share
            if part >= SMALLEST * whole and callee not in path and len(path) < DEEPEST:
                walk((*path, callee), part)
                left -= part
        if left > 0:
            stacks[";".join(name.replace(";", ",") for name in path)] += round(left)

    for name, total in inclusive.items():
        begins = total - came.get(name, 0.0)
        if begins >= SMALLEST * whole:
            walk((name,), begins)
    return Counter({stack: value for stack, value in stacks.items() if value})
