"""Where an executed plan spent its time, what it read, and where the planner's row counts were wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pgstrata.judge.plan_detail import Node, Plan, children_of, nodes_of, title_of, top_of

WRONG = 4.0
"""An estimate is wrong where it is off by this factor."""

FEW_ROWS = 50
"""Estimates are not called wrong where both they and the truth are below."""

SHARE = 0.1
"""A node has moved where its own time moved by this share of the change of the whole query."""

MOST_NODES = 5

_BUFFERS = ("Shared Hit Blocks", "Shared Read Blocks")
_TEMPORARY = ("Temp Read Blocks", "Temp Written Blocks")
_FILE_READS = ("Shared Read Blocks", "Local Read Blocks", "Temp Read Blocks")
_FILE_TIMES = (
    "I/O Read Time",
    "Shared I/O Read Time",
    "Local I/O Read Time",
    "Temp I/O Read Time",
    "Temp I/O Write Time",
)
"""Milliseconds: the first up to 16, the next two from 17 on, the last two from 15 on."""


@dataclass(frozen=True)
class NodeTime:
    """What a node did by itself, without its children. milliseconds: by the clock, workers side by side;
    buffers: pages read, cached or not; temporary: pages of temporary files; fact: how it sorted or hashed."""

    title: str
    milliseconds: float
    buffers: int
    temporary: int
    fact: str


def node_times(plan: Any) -> list[NodeTime]:
    """Returns the nodes of an EXPLAIN (ANALYZE, BUFFERS), and planning and compilation where told."""
    processes = _processes(plan)
    times = [
        NodeTime(
            title_of(node.plan),
            max(0.0, _total(node, processes) - sum(_total(child, processes) for child in _below(node))),
            _own(node.plan, _BUFFERS),
            _own(node.plan, _TEMPORARY),
            _fact(node.plan),
        )
        for node in nodes_of(plan)
    ]
    top = top_of(plan) or {}
    jit = top.get("JIT")
    timing = jit.get("Timing") if isinstance(jit, Mapping) else None
    if isinstance(timing, Mapping) and isinstance(timing.get("Total"), int | float):
        times.append(NodeTime("JIT compilation", float(timing["Total"]), 0, 0, ""))
    if isinstance(top.get("Planning Time"), int | float):
        times.append(NodeTime("Planning", float(top["Planning Time"]), 0, 0, ""))
    return times


def all_nodes(plan: Any) -> NodeTime:
    """Returns all that `node_times` has of a plan together."""
    nodes = node_times(plan)
    return NodeTime(
        "all nodes",
        sum(node.milliseconds for node in nodes),
        sum(node.buffers for node in nodes),
        sum(node.temporary for node in nodes),
        "",
    )


def file_access(plan: Any) -> tuple[int, float | None]:
    """Returns the pages that an EXPLAIN (ANALYZE, BUFFERS, VERBOSE) read from files, and the seconds in which
    its backend read them and wrote temporary files; None where the server has track_io_timing off."""
    nodes = nodes_of(plan)
    if not nodes:
        return 0, None
    top = nodes[0].plan
    times = [float(top[key]) for key in _FILE_TIMES if isinstance(top.get(key), int | float)]
    if not times:
        return _sum(top, _FILE_READS), None
    of_workers = sum(
        float(worker[key])
        for node in nodes
        if str(node.plan.get("Node Type", "")).startswith("Gather")
        for child in children_of(node.plan)
        for worker in child.get("Workers") or ()
        for key in _FILE_TIMES
        if isinstance(worker, Mapping) and isinstance(worker.get(key), int | float)
    )
    return _sum(top, _FILE_READS), max(0.0, sum(times) - of_workers) / 1e3


def is_executed(plan: Any) -> bool:
    """Returns whether a plan has actual times."""
    return any("Actual Total Time" in node.plan for node in nodes_of(plan)[:1])


def _processes(plan: Any) -> float:
    """Returns how many processes work below a Gather, the leader included."""
    launched = [node.plan.get("Workers Launched") for node in nodes_of(plan)]
    return 1.0 + max((float(n) for n in launched if isinstance(n, int)), default=0.0)


def _below(node: Node) -> list[Node]:
    parallel = node.parallel or str(node.plan.get("Node Type", "")).startswith("Gather")
    return [Node(node.depth + 1, child, (), parallel) for child in children_of(node.plan)]


def _total(node: Node, processes: float) -> float:
    """Returns the milliseconds of a node with its children. EXPLAIN gives the mean over all loops, and of a
    parallel node each process is a loop."""
    time, loops = node.plan.get("Actual Total Time"), node.plan.get("Actual Loops")
    if not isinstance(time, int | float) or not isinstance(loops, int | float):
        return 0.0
    together = min(processes, float(loops)) if node.parallel and loops else 1.0
    return float(time) * float(loops) / max(1.0, together)


def _own(plan: Plan, keys: Sequence[str]) -> int:
    """Returns the pages of a node without those of its children, which EXPLAIN counts with it."""
    return max(0, _sum(plan, keys) - sum(_sum(child, keys) for child in children_of(plan)))


def _sum(plan: Plan, keys: Sequence[str]) -> int:
    return sum(value for key in keys if isinstance(value := plan.get(key), int))


def _fact(plan: Plan) -> str:
    if method := plan.get("Sort Method"):
        return f"{method}, {plan.get('Sort Space Used', '?')} kB"
    if (batches := plan.get("Hash Batches") or plan.get("HashAgg Batches")) and batches != 1:
        return f"{batches} batches"
    if "Workers Launched" in plan:
        return f"{plan['Workers Launched']} of {plan.get('Workers Planned', '?')} workers"
    if fetches := plan.get("Heap Fetches"):
        return f"{fetches} heap fetches"
    return ""


def moved(base: Any, other: Any) -> list[tuple[NodeTime | None, NodeTime | None]]:
    """Returns the nodes whose time or pages moved most between two executions, on both sides; those with the
    largest change of time first.

    Nodes are paired by their words and their order. One that the other side lacks stands alone.
    """
    left, right = node_times(base), node_times(other)
    pairs: list[tuple[NodeTime | None, NodeTime | None]] = []
    rest = list(right)
    for ours in left:
        theirs = next((node for node in rest if node.title == ours.title), None)
        if theirs is not None:
            rest.remove(theirs)
        pairs.append((ours, theirs))
    pairs += [(None, node) for node in rest]
    whole = abs(sum(n.milliseconds for n in right) - sum(n.milliseconds for n in left))
    changed = [pair for pair in pairs if _change(pair) >= max(1e-9, SHARE * whole) or _pages(pair)]
    return sorted(changed, key=lambda pair: -_change(pair))[:MOST_NODES]


def _change(pair: tuple[NodeTime | None, NodeTime | None]) -> float:
    ours, theirs = (0.0 if node is None else node.milliseconds for node in pair)
    return abs(theirs - ours)


def _pages(pair: tuple[NodeTime | None, NodeTime | None]) -> bool:
    """Returns whether the pages of a node moved by a fifth, and not only a few."""
    ours, theirs = (0 if node is None else node.buffers + node.temporary for node in pair)
    return abs(theirs - ours) > max(100, 0.2 * max(ours, theirs))


# --- estimates --------------------------------------------------------------------------------


@dataclass(frozen=True)
class RowEstimate:
    """Rows of a node per loop, as estimated and as they came. kind: its node type; relation: schema and name
    of the table that it reads, None where it reads none itself; columns: of its conditions and keys, as
    `alias.column`."""

    kind: str
    title: str
    estimated: float
    actual: float
    relation: tuple[str, str] | None
    columns: tuple[str, ...]

    @property
    def factor(self) -> float:
        """By which the estimate is off, at least 1; both counts are taken as at least one row (q-error)."""
        estimated, actual = max(1.0, self.estimated), max(1.0, self.actual)
        return max(estimated / actual, actual / estimated)


_COLUMN = re.compile(r"(?<![\w\"'.])(\w+|\"[^\"]+\")\.(\w+|\"[^\"]+\")(?!\s*\()")
_STRING = re.compile(r"'(?:[^']|'')*'")
_SOURCES = ("Index Cond", "Recheck Cond", "Filter", "Group Key")


def executed_estimates(plan: Any) -> Iterator[RowEstimate]:
    """Yields the estimates of the nodes of an EXPLAIN (ANALYZE). Nodes that were not executed, or that the
    node above ended early, say nothing and are left out."""
    ended = _ended_early(plan)
    for node in nodes_of(plan):
        estimated, actual, loops = (
            node.plan.get(key) for key in ("Plan Rows", "Actual Rows", "Actual Loops")
        )
        if node.path in ended or not loops:
            continue
        if not isinstance(estimated, int | float) or not isinstance(actual, int | float):
            continue
        if not math.isfinite(estimated) or not math.isfinite(actual):
            continue
        relation = node.plan.get("Relation Name")
        yield RowEstimate(
            str(node.plan.get("Node Type", "")),
            title_of(node.plan),
            float(estimated),
            float(actual),
            (str(node.plan.get("Schema", "")), str(relation)) if relation else None,
            columns_of(node.plan),
        )


def wrong_estimates(plan: Any) -> list[RowEstimate]:
    """Returns the nodes of an EXPLAIN (ANALYZE, VERBOSE) whose row counts were wrong, the worst first.

    A node above a wrong one is wrong because of it, but nodes that group or read a table are wrong
    themselves.
    """
    wrong = [
        estimate
        for estimate in executed_estimates(plan)
        if max(estimate.estimated, estimate.actual) >= FEW_ROWS and estimate.factor >= WRONG
    ]
    return sorted(wrong, key=lambda estimate: -estimate.factor)


def columns_of(plan: Plan) -> tuple[str, ...]:
    """Returns the columns in the conditions and keys of a node, as `alias.column`."""
    texts: list[str] = []
    for key in _SOURCES:
        value = plan.get(key)
        texts += [str(item) for item in value] if isinstance(value, list) else [str(value)] if value else []
    columns = (f"{a}.{c}" for text in texts for a, c in _COLUMN.findall(_STRING.sub("''", text)))
    return tuple(dict.fromkeys(columns))


def _ended_early(plan: Any) -> set[tuple[int, ...]]:
    """Returns the paths of the nodes whose row counts an early end spoils: below a Limit, on the inner side
    of a nested loop that stops at the first match, beside an empty hash table, and both inputs of a merge
    join, which stops at the end of either and reads some rows twice. Below a node that reads its input to the
    end (sort, hash) counts are right."""
    paths: set[tuple[int, ...]] = set()
    whole: set[tuple[int, ...]] = set()
    for node in nodes_of(plan):
        above, kind = node.path[:-1], node.plan.get("Node Type")
        if node.path and above in paths and above not in whole:
            paths.add(node.path)
        if kind in ("Sort", "Hash") or (
            kind == "Aggregate" and node.plan.get("Strategy") in ("Plain", "Hashed")
        ):
            whole.add(node.path)
        if kind == "Limit":
            paths.add((*node.path, 0))
        below = children_of(node.plan)
        if kind == "Hash Join" and len(below) > 1 and below[1].get("Actual Rows") == 0:
            paths.add((*node.path, 0))
        if kind == "Merge Join":
            paths |= {(*node.path, 0), (*node.path, 1)}
        stops = node.plan.get("Join Type") in ("Semi", "Anti") or node.plan.get("Inner Unique")
        if stops and kind == "Nested Loop":
            paths.add((*node.path, 1))
    return paths


def relations_of(plan: Any) -> list[tuple[str, str]]:
    """Returns schema and name of the tables that a plan reads, in their order."""
    return list(
        dict.fromkeys(
            (str(node.plan["Schema"]), str(node.plan["Relation Name"]))
            for node in nodes_of(plan)
            if node.plan.get("Relation Name") and node.plan.get("Schema")
        )
    )


def indexes_of(plan: Any) -> list[str]:
    """Returns the names of the indexes that a plan reads, in their order."""
    return list(dict.fromkeys(str(n.plan["Index Name"]) for n in nodes_of(plan) if n.plan.get("Index Name")))


def planning_share(plan: Any) -> float:
    """Returns the share of the time to plan an executed query in its whole time; 0 where it is not known."""
    top = top_of(plan) or {}
    times = [top.get(key) for key in ("Planning Time", "Execution Time")]
    planning, execution = (float(time) if isinstance(time, int | float) else 0.0 for time in times)
    return planning / (planning + execution) if planning and execution else 0.0


def with_queries_of(plan: Any) -> list[str]:
    """Returns the names of the WITH queries that a plan executes on their own, in their order."""
    return list(dict.fromkeys(str(n.plan["CTE Name"]) for n in nodes_of(plan) if n.plan.get("CTE Name")))


def aliases_of(plan: Any) -> dict[str, tuple[str, str]]:
    """Returns schema and name of the table behind each alias of a plan."""
    return {
        str(node.plan["Alias"]): (str(node.plan["Schema"]), str(node.plan["Relation Name"]))
        for node in nodes_of(plan)
        if node.plan.get("Alias") and node.plan.get("Relation Name") and node.plan.get("Schema")
    }


def spilled_kilobytes(plan: Any) -> float:
    """Returns about how much memory the sorts and hashes of an executed plan lacked; 0 where nothing went to
    temporary files."""
    most = 0.0
    for node in nodes_of(plan):
        if node.plan.get("Sort Space Type") == "Disk":
            most = max(most, 3.0 * float(node.plan.get("Sort Space Used") or 0))
        batches = node.plan.get("Hash Batches") or node.plan.get("HashAgg Batches")
        if isinstance(batches, int) and batches > 1:
            most = max(most, 2.0 * batches * float(node.plan.get("Peak Memory Usage") or 0))
    return most


__all__ = [
    "NodeTime",
    "RowEstimate",
    "aliases_of",
    "all_nodes",
    "columns_of",
    "executed_estimates",
    "file_access",
    "indexes_of",
    "is_executed",
    "moved",
    "node_times",
    "planning_share",
    "relations_of",
    "spilled_kilobytes",
    "with_queries_of",
    "wrong_estimates",
]
