"""What a planner has decided: the nodes of a plan with the conditions, keys and workers that cost time.

`judge.plan_shape` compares nodes and indexes only. Two plans of one shape may still differ: a condition is
checked in the index or after it, a sort has a presorted key, a query has workers or is compiled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Plan = Mapping[str, Any]

_WORDS = ("Join Type", "Strategy", "Partial Mode", "Scan Direction", "Command", "Operation")
_USUAL = {"Forward", "NoMovement", "Simple", "Plain", "Inner", "Select"}
_CONDITIONS = ("Index Cond", "Hash Cond", "Merge Cond", "Order By", "Run Condition", "One-Time Filter")
_KEYS = ("Sort Key", "Presorted Key", "Group Key", "Cache Key")
_COMPILED = ("Inlining", "Optimization")

# How versions write what is the same: a value of another plan node, and names made unique.
_ELSEWHERE = re.compile(
    r"\$\d+|\((?:hashed )?(?:InitPlan|SubPlan) \d+\)(?:\.\w+)?|(?:hashed )?(?:InitPlan|SubPlan) \d+"
)
_NUMBERED = re.compile(r"\b(\w+?)_\d+\.")
_AND = re.compile(r"\) AND \(")


@dataclass(frozen=True)
class Node:
    """A node of a plan. path: numbers of the children from the root; parallel: it is below a Gather."""

    depth: int
    plan: Plan
    path: tuple[int, ...]
    parallel: bool = False


def root_of(plan: Any) -> Plan | None:
    """Returns the root node of what EXPLAIN (FORMAT JSON) gives, whole or a node; None for neither."""
    top = top_of(plan)
    root = top.get("Plan", top) if top is not None else None
    return root if isinstance(root, Mapping) and "Node Type" in root else None


def top_of(plan: Any) -> Plan | None:
    """Returns the object that holds the plan and what is said of the whole query (JIT, times)."""
    if isinstance(plan, Sequence) and not isinstance(plan, str) and plan:
        plan = plan[0]
    return plan if isinstance(plan, Mapping) else None


def nodes_of(plan: Any) -> list[Node]:
    """Returns the nodes of a plan, each before its children; empty for what is no plan."""
    root = root_of(plan)
    return [] if root is None else list(_walk(root, 0, (), False))


def _walk(plan: Plan, depth: int, path: tuple[int, ...], parallel: bool) -> Iterator[Node]:
    yield Node(depth, plan, path, parallel)
    parallel = parallel or str(plan.get("Node Type", "")).startswith("Gather")
    for number, child in enumerate(children_of(plan)):
        yield from _walk(child, depth + 1, (*path, number), parallel)


def children_of(plan: Plan) -> list[Plan]:
    """Returns the plans below a node."""
    children = plan.get("Plans")
    return [child for child in children if isinstance(child, Mapping)] if isinstance(children, list) else []


def title_of(plan: Plan) -> str:
    """Returns a node in a few words: `Index Scan by orders_pkey on orders`."""
    words = ["Parallel"] if plan.get("Parallel Aware") else []
    words.append(str(plan.get("Node Type", "?")))
    words += [str(plan[key]) for key in _WORDS if plan.get(key) and plan[key] not in _USUAL]
    if index := plan.get("Index Name"):
        words.append(f"by {index}")
    relation, alias = plan.get("Relation Name") or plan.get("CTE Name"), plan.get("Alias")
    if relation:
        words.append(f"on {relation}")
        if alias and not re.fullmatch(rf"{re.escape(str(relation))}(_\d+)?", str(alias)):
            words.append(str(alias))
    return " ".join(words)


def detail(plan: Any) -> tuple[str, ...]:
    """Returns all decisions of the planner that cost time, a line for each node, children indented, and one
    for compilation (JIT). Equal for two servers that execute the query in the same way.

    Left out are costs, row counts, filters and outputs. Conditions are written alike: their order, names made
    unique, values from other nodes, and parts that a column is not null do not count.
    """
    lines = ["  " * node.depth + _line(node.plan) for node in nodes_of(plan)]
    top = top_of(plan)
    jit = top.get("JIT") if top is not None else None
    if isinstance(jit, Mapping):
        options = jit.get("Options")
        on = [key for key in _COMPILED if isinstance(options, Mapping) and options.get(key)]
        lines.append(" ".join(["JIT", *on]))
    return tuple(lines)


def _line(plan: Plan) -> str:
    parts = [title_of(plan)]
    conditions = {key: _condition(str(plan[key])) for key in _CONDITIONS if plan.get(key)}
    if "Index Cond" in conditions:
        conditions["Index Cond"] = _without_not_null(conditions["Index Cond"])
    parts += [f"{key}: {condition}" for key, condition in conditions.items() if condition]
    for key in _KEYS:
        if value := plan.get(key):
            items = value if isinstance(value, list) else [value]
            parts.append(f"{key}: {', '.join(_alike(str(item)) for item in items)}")
    if workers := plan.get("Workers Planned"):
        parts.append(f"Workers: {workers}")
    return "; ".join(parts)


def _condition(text: str) -> str:
    text = _alike(text)
    return f"(({') AND ('.join(sorted(parts))}))" if (parts := _parts(text)) else text


def _parts(text: str) -> list[str]:
    """Returns what stands between the ANDs of a condition, without its parentheses; empty if it has none."""
    return _AND.split(text[2:-2]) if text.startswith("((") and text.endswith("))") else []


def _without_not_null(text: str) -> str:
    """Returns the condition of an index without its parts that a column is not null: from 17 on planners
    leave them off columns that cannot be, and an index always has them else."""
    parts = _parts(text) or [text[1:-1]]
    left = [part for part in parts if not part.endswith(" IS NOT NULL")]
    if len(left) == len(parts):
        return text
    return f"(({') AND ('.join(left)}))" if len(left) > 1 else "".join(f"({part})" for part in left)


def _alike(text: str) -> str:
    return _NUMBERED.sub(r"\1.", _ELSEWHERE.sub("?", text))


def distance(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Returns how many lines of two details differ; 0 only for equal ones."""
    if tuple(ours) == tuple(theirs):
        return 0
    left, right = Counter(map(str.strip, ours)), Counter(map(str.strip, theirs))
    lines = sum((left - right).values()) + sum((right - left).values())
    return max(1, lines)


def differences(base: Sequence[str], other: Sequence[str]) -> list[tuple[str, str]]:
    """Returns the lines that only one of two details has, in their order: of the base, of the other."""
    ours, theirs = list(map(str.strip, base)), list(map(str.strip, other))
    only_base, only_other = _only(ours, theirs), _only(theirs, ours)
    count = max(len(only_base), len(only_other))
    pad = [""] * count
    return list(zip((only_base + pad)[:count], (only_other + pad)[:count], strict=True))


def _only(lines: Sequence[str], without: Sequence[str]) -> list[str]:
    left = Counter(without)
    remaining = []
    for line in lines:
        if left[line]:
            left[line] -= 1
        else:
            remaining.append(line)
    return remaining


__all__ = [
    "Node",
    "children_of",
    "detail",
    "differences",
    "distance",
    "nodes_of",
    "root_of",
    "title_of",
    "top_of",
]
