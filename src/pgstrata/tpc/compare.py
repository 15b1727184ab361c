"""Is this the same answer? Numbers to a tolerance, order where the query orders, any choice among ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Cells = Sequence[str | None]
Verdict = Literal["same", "different"]

RELATIVE = 1e-6
"""Numbers this close are equal: one engine averages exactly, the other in binary floating point."""

ABSOLUTE = 1e-9


@dataclass(frozen=True)
class RightAnswer:
    """A right answer.

    rows: cells as text, NULL as None, those that tie with the last one of `limit` included. groups: a
    number for each row, equal for rows between which the query leaves the order open, not descending.
    """

    rows: Sequence[Cells]
    groups: Sequence[int]
    limit: int | None = None


def close(a: str | None, b: str | None) -> bool:
    """Returns whether two cells are equal as text, or as numbers to the tolerance."""
    if a == b:
        return True
    if a is None or b is None:
        return False
    try:
        x, y = float(a), float(b)
    except ValueError:
        return False
    if x != x or y != y:
        return x != x and y != y
    return abs(x - y) <= max(ABSOLUTE, RELATIVE * max(abs(x), abs(y)))


def alike(a: Cells, b: Cells) -> bool:
    return len(a) == len(b) and all(map(close, a, b))


def compare(rows: Sequence[Cells], right: RightAnswer) -> Verdict:
    """Returns the verdict whether `rows` are a right answer."""
    due = len(right.rows) if right.limit is None else min(right.limit, len(right.rows))
    if len(rows) != due:
        return "different"
    begin = 0
    while begin < due:
        end = begin
        while end < len(right.rows) and right.groups[end] == right.groups[begin]:
            end += 1
        if not _chosen_from(rows[begin : min(end, due)], right.rows[begin:end]):
            return "different"
        begin = end
    return "same"


def _chosen_from(rows: Sequence[Cells], right: Sequence[Cells]) -> bool:
    """Returns whether each row has a partner of its own among the right ones, in any order."""
    left = sorted(right, key=_sorting)
    for row in sorted(rows, key=_sorting):
        partner = next((i for i, other in enumerate(left) if alike(row, other)), None)
        if partner is None:
            return False
        del left[partner]
    return True


def _sorting(row: Cells) -> list[tuple[int, str]]:
    """Puts likely partners in the same place; what it gets wrong costs time, not correctness."""
    return [(0, "") if cell is None else (1, _rounded(cell)) for cell in row]


def _rounded(cell: str) -> str:
    try:
        return f"{float(cell):.4g}"
    except ValueError:
        return cell
