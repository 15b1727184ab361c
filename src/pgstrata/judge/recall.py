"""At which recall an index was searched: rates at different recalls are no comparison."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pgstrata.store import Run
from pgstrata.store.read import MeasuredStep

FACT = "recall"
"""Key of a run's facts: by step what was found."""

TOLERANCE = 0.01
"""Recalls that differ by more are different ones."""


@dataclass(frozen=True)
class Recall:
    """Shares of the true neighbours: asked for, and found with `value` of `setting`."""

    target: float
    recall: float
    setting: str
    value: int


def recall_of(run: Run, step: str) -> Recall | None:
    """Returns the recall of a step that searched approximately; None for every other step."""
    facts = run.record.facts.get(FACT)
    fact = facts.get(step) if isinstance(facts, dict) else None
    if not isinstance(fact, dict):
        return None
    try:
        return Recall(float(fact["target"]), float(fact["recall"]), str(fact["setting"]), int(fact["value"]))
    except (KeyError, TypeError, ValueError):
        return None


def unequal(measured: Iterable[MeasuredStep]) -> str:
    """Returns why the rates of these steps cannot be compared; empty if they can."""
    recalls = {m.run.variant: r for m in measured if (r := recall_of(m.run, m.record.name)) is not None}
    if not recalls:
        return ""
    low = min(recalls, key=lambda variant: recalls[variant].recall)
    high = max(recalls, key=lambda variant: recalls[variant].recall)
    if recalls[high].recall - recalls[low].recall > TOLERANCE:
        return (
            f"other recalls: {low} {recalls[low].recall:.3f}, {high} {recalls[high].recall:.3f}; rates are "
            "compared at equal recall only"
        )
    return ""


__all__ = ["FACT", "TOLERANCE", "Recall", "recall_of", "unequal"]
