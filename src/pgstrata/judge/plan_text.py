"""Plans as text that people can hold against each other."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

MARK = "◆"

_CONDITIONS = ("Index Cond", "Recheck Cond", "Hash Cond", "Merge Cond", "Join Filter", "Filter")
_KEYS = ("Sort Key", "Group Key")


def outline(plan: Any, *, conditions: bool = False) -> list[str]:
    """Returns the nodes of a plan, one a line, children indented, with the rows that came out of each.

    plan: what EXPLAIN (FORMAT JSON) gives, whole or its root. Rows are actual ones where it was
    executed, else the estimate with `~`. conditions: below each node its conditions and keys.
    """
    if isinstance(plan, Sequence) and not isinstance(plan, str) and plan:
        plan = plan[0]
    if isinstance(plan, Mapping) and "Plan" in plan:
        plan = plan["Plan"]
    lines: list[str] = []
    if isinstance(plan, Mapping):
        _add(plan, 0, lines, conditions)
    return lines


def _add(node: Mapping[str, Any], depth: int, lines: list[str], conditions: bool) -> None:
    words = [str(node.get("Node Type", "?"))]
    if (join := node.get("Join Type")) and join != "Inner":
        words.append(str(join))
    if (strategy := node.get("Strategy")) and strategy != "Plain":
        words.append(str(strategy))
    if index := node.get("Index Name"):
        words.append(f"by {index}")
    if relation := node.get("Relation Name") or node.get("CTE Name"):
        words.append(f"on {relation}")
    if (name := node.get("Subplan Name")) is not None:
        words.insert(0, f"{name}:")
    lines.append("  " * depth + " ".join(words) + f"  {_rows(node)}")
    if conditions:
        lines += ["  " * (depth + 2) + text for text in _conditions(node)]
    children = node.get("Plans")
    for child in children if isinstance(children, list) else []:
        if isinstance(child, Mapping):
            _add(child, depth + 1, lines, conditions)


def _conditions(node: Mapping[str, Any]) -> Iterator[str]:
    for name in _CONDITIONS:
        if isinstance(text := node.get(name), str):
            removed = node.get(f"Rows Removed by {name}")
            without = f" ({removed:,.0f} rows removed)" if isinstance(removed, int | float) else ""
            yield f"{name}: {text}{without}"
    for name in _KEYS:
        if isinstance(keys := node.get(name), list):
            yield f"{name}: {', '.join(map(str, keys))}"


def _rows(node: Mapping[str, Any]) -> str:
    actual, loops = node.get("Actual Rows"), node.get("Actual Loops")
    if isinstance(actual, int | float):
        if not loops:
            return "never executed"
        times = f" × {loops:,}" if loops > 1 else ""
        return f"{actual:,.0f} rows{times}"
    planned = node.get("Plan Rows")
    return f"~{planned:,.0f} rows" if isinstance(planned, int | float) else ""


def side_by_side(left: Sequence[str], right: Sequence[str], titles: tuple[str, str], most: int = 76) -> str:
    """Returns two plans in columns, equal nodes on the same line; lines that differ have a mark between them.

    most: characters of the left column; what is longer is cut. Rows do not count as a difference.
    """
    left, right = [_cut(line, most) for line in left], [_cut(line, most) for line in right]
    width = max(map(len, [*left, titles[0]]), default=0)
    lines = [
        f"{titles[0]:<{width}}     {titles[1]}",
        f"{'─' * len(titles[0]):<{width}}     {'─' * len(titles[1])}",
    ]
    matcher = difflib.SequenceMatcher(
        None, [_node(x) for x in left], [_node(x) for x in right], autojunk=False
    )
    for kind, a, b, c, d in matcher.get_opcodes():
        for i in range(max(b - a, d - c)):
            left_line = left[a + i] if a + i < b else ""
            other = right[c + i] if c + i < d else ""
            mark = " " if kind == "equal" else MARK
            lines.append(f"{left_line:<{width}}  {mark}  {other}".rstrip())
    return "\n".join(lines)


def _cut(line: str, most: int) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"


def _node(line: str) -> str:
    """Returns a line without its rows, which are two spaces away from the node."""
    indent = len(line) - len(line.lstrip(" "))
    return line[:indent] + line.strip().split("  ")[0]
