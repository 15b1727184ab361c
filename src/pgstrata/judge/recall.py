"""At which recall an index was searched: rates at different recalls are no comparison."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

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


def unequal(base: Iterable[MeasuredStep], other: Iterable[MeasuredStep]) -> str:
    """Returns why the rates of both sides of a step cannot be compared; empty if they can. Of several repeats
    the mean recalls count: the index of each is drawn anew."""
    means = [
        (fmean(recalls), measured[0].run.variant)
        for measured in (list(base), list(other))
        if (recalls := [r.recall for m in measured if (r := recall_of(m.run, m.record.name)) is not None])
    ]
    (low, of_low), (high, of_high) = min(means, default=(0.0, "")), max(means, default=(0.0, ""))
    if high - low > TOLERANCE:
        recalls_text = f"{of_low} {low:.3f}, {of_high} {high:.3f}"
        return f"other recalls: {recalls_text}; rates are compared at equal recall only"
    return ""


__all__ = ["FACT", "TOLERANCE", "Recall", "recall_of", "unequal"]
