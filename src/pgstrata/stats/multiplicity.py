"""Many comparisons at once: the share of false ones among those called slower or faster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from pgstrata.stats.criterion import USUAL
from pgstrata.stats.verdict import Verdict

Key = TypeVar("Key")


def adjust(p_values: Sequence[float]) -> list[float]:
    """Returns Benjamini–Hochberg adjusted p-values, in the order given.

    Calling different what has an adjusted p ≤ q makes the expected share of false calls q at most,
    for p-values that are independent or positively dependent (Benjamini and Hochberg 1995;
    Benjamini and Yekutieli 2001).
    """
    p = np.asarray(p_values, dtype=np.float64)
    if len(p) == 0:
        return []
    if not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p-values must lie between 0 and 1")
    # scipy.stats has this and takes longer to load than all the rest of a comparison
    order = np.argsort(p)
    of_rank = p[order] * len(p) / np.arange(1, len(p) + 1)
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum.accumulate(of_rank[::-1])[::-1]
    return [float(value) for value in np.clip(adjusted, 0, 1)]


def holds_among(
    p_value: float, comparisons: float, differing: int, confidence: float = USUAL.confidence
) -> bool:
    """Returns whether a comparison still differs when all p-values are adjusted as `adjust` does, whatever
    becomes of those that are not known.

    comparisons: their number; differing: the number of others that are known to differ, by this rule, and
    whose p-values do not change any more. In whatever order they became known, the k smallest p-values are
    at most k × (1 − confidence) ÷ comparisons.
    """
    return p_value * comparisons <= (1.0 - confidence) * (differing + 1)


def adjust_verdicts(verdicts: Mapping[Key, Verdict]) -> dict[Key, Verdict]:
    """Returns all verdicts of a campaign with `adjusted_p` set; `p_value` stays as it was.

    slower and faster stay only where the adjusted p is at most 1 − confidence, else they become
    unclear. Intervals are not touched: each holds for its own step. Comparisons without an interval
    tell nothing and are not counted.
    """
    bounded = {key: v for key, v in verdicts.items() if v.is_bounded}
    adjusted = dict(zip(bounded, adjust([v.p_value for v in bounded.values()]), strict=True))
    result: dict[Key, Verdict] = {}
    for key, verdict in verdicts.items():
        p = adjusted.get(key)
        v = replace(verdict, adjusted_p=p)
        if v.word in ("slower", "faster") and p is not None and p > 1.0 - v.confidence:
            v = replace(
                v,
                word="unclear",
                reason=f"{v.word} by itself, but among {len(bounded)} comparisons this may be chance"
                f" (adjusted p {p:.3f})",
            )
        result[key] = v
    return result
