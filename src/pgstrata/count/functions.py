"""Which functions account for a difference of counted instructions.

Cost that only moved is no cause. A function that one side lacks was renamed, split off, inlined or merged, or
is new: its instructions are added to those of its callers, as if they had inlined it, until a function is
reached that both sides have. What a caller saves and its callee spends, or the other way round, is netted.
Only then a function is named.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import itemgetter
from pathlib import Path, PurePosixPath
from typing import Any

from pgstrata.count.verdicts import CountVerdict
from pgstrata.store.choose import Side
from pgstrata.store.counted import counted_runs, plain_workload
from pgstrata.store.read import Run, read_run
from pgstrata.store.rows import Rows

_LIBRARY = re.compile(r"(lib[^/]*?|ld-linux[^/]*?)\.so[\d.]*")
_COPY = re.compile(r"\.(?:constprop|isra|part|cold|lto_priv|llvm)(?:\.\d+)*")
_UNNAMED = re.compile(r"0x[0-9a-f]+|\?\?\?")

_ROUNDS = 30
"""Calls up which the cost of functions that one side lacks is followed: what circles beyond stays there."""
_LEAST = 0.01
"""Instructions per operation below which cost is followed no further."""
_NETTED = 0.2
"""Part of the larger of two opposite changes, of a function and its caller, up to which they are one."""
_NAMED = 0.2
"""Part of a change from which a function that is in it is named beside it, and part of the whole difference
from which a change is named."""

_MORE = 1.01
"""Parts that are more than the whole by less are so by rounding."""
_AGAINST = 0.05
"""Part of the whole difference from which a change against it is named."""
MOST = 2
"""Functions named in a sentence, of those that need more and of those that need fewer."""

Arcs = Mapping[str, Mapping[str, float]]
"""Of each function its callers, with the instructions of their calls, callees included."""


@dataclass(frozen=True)
class Cost:
    """Instructions per operation of a side. of: by function, in itself; callers: who called it; files: by
    source file, where these are known."""

    of: Mapping[str, float]
    callers: Arcs = field(default_factory=dict)
    files: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FunctionChange:
    """Instructions per operation in a function itself, before and after; 0 where it is new or gone.

    share: of the base's instructions per operation. new, gone: functions that only one side has, whose
    instructions are in it, the largest first. beside: a caller or callee whose opposite change is in it.
    """

    function: str
    before: float
    after: float
    share: float
    new: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    beside: str = ""

    @property
    def difference(self) -> float:
        """Returns the instructions per operation that are more after than before."""
        return self.after - self.before

    @property
    def state(self) -> str:
        """Returns `new` or `gone`, or nothing."""
        return "new" if not self.before else "gone" if not self.after else ""

    @property
    def remark(self) -> str:
        """Returns what moved into it or out of it, in words."""
        parts = [f"with {self.beside}"] if self.beside else []
        if self.new and self.gone:
            parts.append(f"{self.new[0]} in the place of {self.gone[0]}")
        elif self.new:
            parts.append(f"with {self.new[0]}, new")
        elif self.gone:
            parts.append(f"without {self.gone[0]}")
        return "; ".join(parts) or self.state

    @property
    def title(self) -> str:
        """Returns the function with what is in its change."""
        return f"{self.function} ({self.remark})" if self.remark else self.function


@lru_cache(maxsize=20_000)
def line_of(path: str, function: str) -> str:
    """Returns the name under which instructions are listed: a function of the server or its modules without
    the suffix a compiler appends to copies of it; a library as a whole; code without a name by its file."""
    name = PurePosixPath(path).name
    if match := _LIBRARY.fullmatch(name):
        return f"library {match[1]}"
    if _UNNAMED.fullmatch(function):
        return f"code without a name in {name}"
    return _COPY.sub("", function)


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


def function_changes(base: Cost, other: Cost) -> list[FunctionChange]:
    """Returns the functions that account for the difference, the largest change first; together they make up
    all of it."""
    whole = sum(base.of.values()) or 1.0
    before, gone = _in_callers(base, other.of)
    after, new = _in_callers(other, base.of)
    changes = []
    for name in {**before, **after}:
        old, now = before.get(name, 0.0), after.get(name, 0.0)
        came, went = (_large(name, lacking.get(name, {}), now - old) for lacking in (new, gone))
        changes.append(FunctionChange(name, old, now, (now - old) / whole, came, went))
    return _netted([change for change in changes if change.difference], base, other)


def _in_callers(side: Cost, common: Iterable[str]) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Returns the instructions by function, those of functions that are not common in their callers, and how
    many of each such function came to each caller."""
    kept = set(common)
    of = dict(side.of)
    came = {name: {name: cost} for name, cost in of.items() if name not in kept}
    for _ in range(_ROUNDS):
        moving = [
            name
            for name in came
            if name not in kept
            and of.get(name, 0.0) > _LEAST
            and sum(side.callers.get(name, {}).values()) > 0
        ]
        if not moving:
            break
        for name in moving:
            cost, parts = of.pop(name), came.pop(name)
            whole = sum(side.callers[name].values())
            for caller, spent in side.callers[name].items():
                share = spent / whole
                of[caller] = of.get(caller, 0.0) + cost * share
                into = came.setdefault(caller, {})
                for part, instructions in parts.items():
                    into[part] = into.get(part, 0.0) + instructions * share
    return of, came


def _large(caller: str, came: Mapping[str, float], difference: float) -> tuple[str, ...]:
    """Returns the functions that came to a caller and matter for its change, the largest first."""
    large = [name for name, cost in came.items() if name != caller and cost >= _NAMED * abs(difference)]
    return tuple(sorted(large, key=lambda name: -came[name]))


def _netted(changes: Sequence[FunctionChange], base: Cost, other: Cost) -> list[FunctionChange]:
    """Returns the changes, the largest first; a caller and a callee that outweigh each other are one."""
    left = {c.function: c for c in sorted(changes, key=lambda c: (-abs(c.difference), c.function))}
    near: dict[str, set[str]] = defaultdict(set)
    for callers in (base.callers, other.callers):
        for callee, names in callers.items():
            for caller in names:
                near[callee].add(caller)
                near[caller].add(callee)
    netted = []
    while left:
        change = left.pop(next(iter(left)))
        opposite = [
            left[name]
            for name in near[change.function] & left.keys()
            if abs(left[name].difference + change.difference) <= _NETTED * abs(change.difference)
        ]
        if opposite:
            beside = min(opposite, key=lambda c: (abs(c.difference + change.difference), c.function))
            del left[beside.function]
            change = replace(
                change,
                before=change.before + beside.before,
                after=change.after + beside.after,
                share=change.share + beside.share,
                beside=beside.function,
            )
        netted.append(change)
    netted = [change for change in netted if change.difference]
    return sorted(netted, key=lambda c: (-abs(c.difference), c.function))


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
    large = [c for c in changes if abs(c.share) >= _NAMED * abs(difference)]
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
    "Cost",
    "FunctionChange",
    "causes",
    "changes_of",
    "cost_of",
    "costs_by_step",
    "costs_of",
    "function_changes",
    "line_of",
    "named_causes",
    "sentence",
]
