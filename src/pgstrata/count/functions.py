"""Which functions account for a difference of counted instructions, as runs have them and in words."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from pgstrata.count.verdicts import CountVerdict
from pgstrata.judge.functions import NAMED, Cost, FunctionChange, function_changes, line_of
from pgstrata.store.choose import Side
from pgstrata.store.counted import counted_runs, plain_workload
from pgstrata.store.read import Run, read_run
from pgstrata.store.rows import Rows

_MORE = 1.01
"""Parts that are more than the whole by less are so by rounding."""
_AGAINST = 0.05
"""Part of the whole difference from which a change against it is named."""
MOST = 2
"""Functions named in a sentence, of those that need more and of those that need fewer."""


def costs_by_step(functions: Rows, calls: Rows, files: Rows | None = None) -> dict[tuple[str, str], Cost]:
    """Returns the cost of each step and role of a run, from its tables of these names."""
    of: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    callers: dict[tuple[str, str], dict[str, dict[str, float]]] = defaultdict(dict)
    for step, role, path, function, instructions in _columns(functions, _OF):
        costs, name = of[step, role], line_of(path, function)
        costs[name] = costs.get(name, 0.0) + instructions
    for step, role, *names, instructions in _columns(calls, _CALLS):
        caller, callee = line_of(names[0], names[1]), line_of(names[2], names[3])
        if caller != callee:
            spent = callers[step, role].setdefault(callee, {})
            spent[caller] = spent.get(caller, 0.0) + instructions
    by_file: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for step, role, path, file, instructions in _columns(files, _FILES) if files is not None else ():
        costs, name = by_file[step, role], file or line_of(path, "???")
        costs[name] = costs.get(name, 0.0) + instructions
    return {key: Cost(of[key], callers[key], by_file[key]) for key in list(of)}


_OF = ("step", "role", "object", "function", "instructions")
_FILES = ("step", "role", "object", "file", "instructions")
_CALLS = ("step", "role", "caller_object", "caller", "callee_object", "callee", "instructions")


def _columns(table: Rows, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return map(itemgetter(*map(table.names.index, names)), table.values)


def changes_of(base: Side, other: Side, workload: str, step: str, role: str) -> list[FunctionChange]:
    """Returns the functions behind a verdict; empty if a side has none. Raises StoreError for a damaged
    table."""
    return function_changes(*costs_of(base, other, workload, step, role))


def costs_of(base: Side, other: Side, workload: str, step: str, role: str) -> tuple[Cost, Cost]:
    """Returns the instructions of a step by function, of both sides; nothing in either if a side has none.
    Raises StoreError for a damaged table."""
    before, after = (_cost(side, workload, step, role) for side in (base, other))
    return (before, after) if before.of and after.of else (Cost({}), Cost({}))


def _cost(side: Side, workload: str, step: str, role: str) -> Cost:
    run = next((r for r in counted_runs(side.runs) if plain_workload(r) == workload), None)
    return cost_of(run, step, role) if run is not None else Cost({})


def cost_of(run: Run, step: str, role: str) -> Cost:
    """Returns the instructions of a step by function that a run counted; nothing where it counted none.
    Raises StoreError for a damaged table."""
    return _of_run(run.folder, run.run_id).get((step, role), Cost({}))


@lru_cache(maxsize=16)
def _of_run(folder: Path, run_id: str) -> dict[tuple[str, str], Cost]:
    """Returns all that was counted in a run, kept for its other steps: reading takes a tenth of a second."""
    run = read_run(folder)
    if not isinstance(run, Run):
        return {}
    return costs_by_step(run.table("functions"), run.table("calls"), run.table("files"))


def sentence(verdict: CountVerdict, changes: Sequence[FunctionChange]) -> str:
    """Returns a verdict in words, `3.1 % more instructions, of them 2.2 % in ExecInitExpr`; empty if a side
    was not counted. Where functions that need more and functions that need fewer partly outweigh each other,
    both are named: parts are never more than the whole."""
    if verdict.base is None or verdict.other is None:
        return ""
    sign = verdict.ratio - 1
    text = f"{_percent(abs(sign), is_less=sign < 0)} {'more' if sign > 0 else 'fewer'} instructions"
    along, against = causes(sign, changes)
    if not along:
        return text
    return f"{text}{': ' if against else ', of them '}{named_causes(along, against)}"


def named_causes(along: Sequence[FunctionChange], against: Sequence[FunctionChange]) -> str:
    """Returns the changes to name in words, `2.2 % in ExecInitExpr`, with signs where some go against the
    difference; nothing without any."""
    if not against:
        return " and ".join(f"{_percent(abs(c.share))} in {c.title}" for c in along)
    return ", ".join(
        f"{'+' if c.share > 0 else '−'}{_percent(abs(c.share))} in {c.title}" for c in (*along, *against)
    )


def causes(
    difference: float, changes: Sequence[FunctionChange]
) -> tuple[list[FunctionChange], list[FunctionChange]]:
    """Returns the changes to name for a difference, a share of the base's instructions: those that go along
    with it, and, only where these are more than all of it, those that go against it."""
    large = [c for c in changes if abs(c.share) >= NAMED * abs(difference)]
    along = [c for c in large if c.share * difference > 0][:MOST]
    if sum(abs(c.share) for c in along) <= abs(difference) * _MORE:
        return along, []
    against = [c for c in changes if c.share * difference < 0 and abs(c.share) >= _AGAINST * abs(difference)]
    return along, against[:MOST]


def _percent(share: float, *, is_less: bool = False) -> str:
    """Returns a share in percent with two digits; of nearly all that was there, as many as the rest needs."""
    if is_less and 0.99 <= share < 1:
        digits = -math.floor(math.log10(100 * (1 - share)))
        return f"{share * 100:.{digits}f} %"
    percent = share * 100
    return f"{percent:,.0f} %" if percent >= 99.5 else f"{percent:.2g} %"


__all__ = [
    "causes",
    "changes_of",
    "cost_of",
    "costs_by_step",
    "costs_of",
    "named_causes",
    "sentence",
]
