"""Which commit of a line is measured next. No I/O: the same commits lead to the same order."""

from __future__ import annotations

from collections.abc import Sequence, Set


def next_position(
    newest: int,
    measured: Set[int],
    skipped: Set[int],
    known: int,
    widest: int,
    changes: Sequence[tuple[int, int]] = (),
) -> int | None:
    """Returns the position of the commit to measure next; None when nothing is left.

    Positions count from the anchor, 0, which needs no measurement, to `newest`. The newest commit comes
    first, then the middle of stretches in which a change lies, `changes`, then what is newer than `known`,
    the newest one of earlier days, the latest first, then the widest stretch of the past, halved again and
    again until `widest` commits at most lie between two measured ones. skipped: positions that cannot be
    measured, or need not.
    """
    latest = next((place for place in range(newest, 0, -1) if place not in skipped), 0)
    if latest > 0 and latest not in measured:
        return latest
    places = sorted({0, *(p for p in measured if 0 < p <= newest)})
    gaps = [(a, b) for a, b in zip(places, [*places[1:], newest + 1], strict=True) if _inside(a, b, skipped)]
    changed = [gap for gap in gaps if any(first < gap[1] and gap[0] < last for first, last in changes)]
    wide = [gap for gap in gaps if gap[1] - gap[0] > widest]
    recent = changed or [gap for gap in wide if gap[1] > known]
    if not recent and not wide:
        return None
    a, b = max(recent) if recent else max(wide, key=lambda gap: (gap[1] - gap[0], gap[1]))
    return min(_inside(a, b, skipped), key=lambda position: (abs(2 * position - a - b), -position))


def _inside(a: int, b: int, skipped: Set[int]) -> list[int]:
    """Returns the positions between two measured commits that may be measured."""
    return [position for position in range(a + 1, b) if position not in skipped]


__all__ = ["next_position"]
