"""Which functions account for a difference of what an operation costs, in instructions or in CPU time.

Cost that only moved is no cause. A function that one side lacks was renamed, split off, inlined or merged, or
is new: its cost is added to that of its callers, as if they had inlined it, until a function is reached that
both sides have. What a caller saves and its callee spends, or the other way round, is netted. Only then a
function is named.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePosixPath
from types import MappingProxyType

_LIBRARY = re.compile(r"(lib[^/]*?|ld-linux[^/]*?)\.so[\d.]*")
_COPY = re.compile(r"\.(?:constprop|isra|part|cold|lto_priv|llvm)(?:\.\d+)*")
_UNNAMED = re.compile(r"0x[0-9a-f]+|\?\?\?")

_ROUNDS = 30
"""Calls up which the cost of functions that one side lacks is followed: what circles beyond stays there."""
_LEAST = 0.01
"""Cost of an operation, in instructions or nanoseconds, below which it is followed no further."""
_NETTED = 0.2
"""Part of the larger of two opposite changes, of a function and its caller, up to which they are one."""
NAMED = 0.2
"""Part of a change from which a function that is in it is named beside it, and part of the whole difference
from which a change is named."""

Arcs = Mapping[str, Mapping[str, float]]
"""Of each function its callers, with the cost of their calls, callees included."""


@dataclass(frozen=True)
class Cost:
    """Cost of an operation of a side. of: by function, in itself; callers: who called it; files: by source
    file, where these are known."""

    of: Mapping[str, float]
    callers: Arcs = field(default_factory=dict)
    files: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FunctionChange:
    """Cost of an operation in a function itself, before and after; 0 where it is new or gone.

    share: of the base's cost of an operation. new, gone: functions that only one side has, whose cost is in
    it, the largest first. beside: a caller or callee whose opposite change is in it.
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
        """Returns by how much an operation costs more after than before."""
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


Shares = Mapping[str, Mapping[str, float]]
"""Of each function those in whose changes its cost is, with the share in each; together 1."""


@dataclass(frozen=True)
class Accounted:
    """The changes that account for a difference, the largest first, and where the cost of the functions of
    both sides is in them: what is not among the changes has not changed."""

    changes: tuple[FunctionChange, ...]
    base: Shares
    other: Shares


@lru_cache(maxsize=20_000)
def line_of(path: str, function: str) -> str:
    """Returns the name under which cost is listed: a function of the server or its modules without
    the suffix a compiler appends to copies of it; a library as a whole; code without a name by its file."""
    name = PurePosixPath(path).name
    if match := _LIBRARY.fullmatch(name):
        return f"library {match[1]}"
    if _UNNAMED.fullmatch(function):
        return f"code without a name in {name}"
    return _COPY.sub("", function)


def line_of_frame(frame: str) -> str:
    """Returns the name under which the cost of a frame of a profile is listed, whose file is known only where
    it has no name: `[libc.so.6]`."""
    if frame == "[unknown]":
        return "code without a name"
    if frame.startswith("["):
        return line_of(frame.strip("[]"), "???")
    return line_of("", frame)


def function_changes(base: Cost, other: Cost) -> list[FunctionChange]:
    """Returns the functions that account for the difference, the largest change first; together they make up
    all of it."""
    return list(account_for(base, other).changes)


def account_for(base: Cost, other: Cost, chance: Mapping[str, float] = MappingProxyType({})) -> Accounted:
    """Returns the same, and in which changes the cost of each function is. chance: by function what its cost
    may differ by where it is sampled: such changes are not netted."""
    whole = sum(base.of.values()) or 1.0
    before, gone = _in_callers(base, other.of)
    after, new = _in_callers(other, base.of)
    changes = []
    for name in {**before, **after}:
        old, now = before.get(name, 0.0), after.get(name, 0.0)
        came, went = (_large(name, lacking.get(name, {}), now - old) for lacking in (new, gone))
        changes.append(FunctionChange(name, old, now, (now - old) / whole, came, went))
    netted = _netted([change for change in changes if change.difference], base, other, chance)
    beside = {change.beside: change.function for change in netted if change.beside}
    return Accounted(
        tuple(change for change in netted if change.difference),
        _shares(base, gone, beside),
        _shares(other, new, beside),
    )


def _shares(side: Cost, came: Mapping[str, Mapping[str, float]], beside: Mapping[str, str]) -> Shares:
    """Returns in which changes the cost of each function of a side is. came: how much of each function that
    is not common came to which; beside: the function under which another is netted."""
    shares: dict[str, dict[str, float]] = {}
    for into, parts in came.items():
        for part, cost in parts.items():
            name = beside.get(into, into)
            share = cost / side.of[part] if side.of.get(part) else 0.0
            of_part = shares.setdefault(part, {})
            of_part[name] = of_part.get(name, 0.0) + share
    return {**{name: {beside.get(name, name): 1.0} for name in side.of}, **shares}


def _in_callers(side: Cost, common: Iterable[str]) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """Returns the cost by function, that of functions that are not common in their callers, and how much of
    each such function came to each caller."""
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
                for part, spent_in_part in parts.items():
                    into[part] = into.get(part, 0.0) + spent_in_part * share
    return of, came


def _large(caller: str, came: Mapping[str, float], difference: float) -> tuple[str, ...]:
    """Returns the functions that came to a caller and matter for its change, the largest first."""
    large = [name for name, cost in came.items() if name != caller and cost >= NAMED * abs(difference)]
    return tuple(sorted(large, key=lambda name: -came[name]))


def _netted(
    changes: Sequence[FunctionChange], base: Cost, other: Cost, chance: Mapping[str, float]
) -> list[FunctionChange]:
    """Returns the changes, the largest first; a caller and a callee that outweigh each other are one."""
    left = {c.function: c for c in sorted(changes, key=lambda c: (-abs(c.difference), c.function))}
    beyond = {name for name, change in left.items() if abs(change.difference) > chance.get(name, 0.0)}
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
            for name in near[change.function] & left.keys() & beyond
            if abs(left[name].difference + change.difference) <= _NETTED * abs(change.difference)
        ]
        if opposite and change.function in beyond:
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
    return sorted(netted, key=lambda c: (-abs(c.difference), c.function))


__all__ = [
    "Accounted",
    "Arcs",
    "Cost",
    "FunctionChange",
    "Shares",
    "account_for",
    "function_changes",
    "line_of",
    "line_of_frame",
]
