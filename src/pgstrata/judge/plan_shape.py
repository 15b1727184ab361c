"""The shape of a query plan: what has to be equal for two plans to be called the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgstrata.store.record import QueryPlan

Plan = Mapping[str, Any]

# names that differ in every run and say nothing about the plan
_SHAPING = ("Join Type", "Strategy", "Partial Mode", "Parent Relationship", "Scan Direction", "Command")


def shape(plan: Any) -> str:
    """Returns the nodes of a plan with the tables or indexes they read, as a single line: `Limit(Index Scan
    pi1_pdc on pi1)`.

    plan: what EXPLAIN (FORMAT JSON) gives, whole or its root node. Costs, row counts, buffers and
    conditions are left out: they change with statistics while the executor does the same.
    """
    root = _root(plan)
    return _node(root) if root else ""


def _root(plan: Any) -> Plan | None:
    if isinstance(plan, Sequence) and not isinstance(plan, str) and plan:
        plan = plan[0]
    if isinstance(plan, Mapping) and "Plan" in plan:
        plan = plan["Plan"]
    return plan if isinstance(plan, Mapping) else None


def _node(node: Plan) -> str:
    words = [str(node.get("Node Type", "?"))]
    words += [f"[{node[key]}]" for key in _SHAPING if _tells(node, key)]
    if index := node.get("Index Name"):
        words.append(str(index))
    if relation := node.get("Relation Name"):
        words.append(f"on {relation}")
    children = node.get("Plans")
    children = children if isinstance(children, list) else []
    below = [_node(child) for child in children if isinstance(child, Mapping)]
    return " ".join(words) + (f"({', '.join(below)})" if below else "")


def _tells(node: Plan, key: str) -> bool:
    value = node.get(key)
    if key == "Parent Relationship":
        return value in {"InitPlan", "SubPlan"}
    return value not in {None, "", "Forward", "NoMovement", "Simple", "Plain"}


def plan_changes(base: Sequence[QueryPlan], other: Sequence[QueryPlan]) -> tuple[str, ...]:
    """Returns a sentence for each statement whose plan has another shape."""
    changed = changed_plans(base, other)
    return tuple(
        f"the plan of {name} changed: {before} → {after}" for name, (before, after) in changed.items()
    )


def changed_plans(base: Sequence[QueryPlan], other: Sequence[QueryPlan]) -> dict[str, tuple[str, str]]:
    """Returns the statements whose plan has another shape: name → (shape in base, shape in other).

    Both as `plans` of a step record. Statements that only one side has are left out.
    """
    of_base = {entry.name: shape(entry.plan) for entry in base}
    of_other = {entry.name: shape(entry.plan) for entry in other}
    return {
        name: (of_base[name], of_other[name])
        for name in of_base
        if name in of_other and of_base[name] != of_other[name]
    }
