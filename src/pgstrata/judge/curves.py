"""Steps that differ in their number of clients only: the verdict on the curve, and errors of its rates."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TypeVar

from pgstrata.judge.compare import Comparison, StepVerdict
from pgstrata.judge.pairs import Pairs, pairs_of, together
from pgstrata.stats.curve import LEAST_POINTS, curve_sentence
from pgstrata.stats.estimate import estimate
from pgstrata.stats.verdict import interval
from pgstrata.store.read import MeasuredStep

#: The end of the name of a step that is measured with several numbers of clients.
CLIENTS = re.compile(r"-c(\d+)$")

Named = TypeVar("Named")


def curves_of(steps: Iterable[tuple[str, Named]]) -> dict[str, dict[int, Named]]:
    """Returns the steps, each with its name, that were measured at three numbers of clients or more: by their
    common name and the number of clients, which grows."""
    by_name: dict[str, dict[int, Named]] = {}
    for name, step in steps:
        if match := CLIENTS.search(name):
            by_name.setdefault(name[: match.start()], {})[int(match[1])] = step
    return {
        name: dict(sorted(points.items())) for name, points in by_name.items() if len(points) >= LEAST_POINTS
    }


def curve_sentences(comparison: Comparison) -> dict[tuple[str, str], str]:
    """Returns the verdict on each curve of a comparison, by workload and common name of the steps."""
    by_workload: dict[str, list[tuple[str, StepVerdict]]] = {}
    for step in comparison.steps:
        by_workload.setdefault(step.workload, []).append((step.step, step))
    return {
        (workload, name): curve_sentence({clients: step.verdict for clients, step in points.items()})
        for workload, steps in by_workload.items()
        for name, points in curves_of(steps).items()
    }


def log_rate_error(repeats: Sequence[MeasuredStep]) -> tuple[float, float]:
    """Returns the standard error of the log rate of a variant in a step, and half of its 95 % interval, both
    infinite where they are not known: from its slices, else from its repeats."""
    sliced = [pairs_of(m.record, m.record) for m in repeats if m.record.slices]
    rates = together(sliced) if sliced else Pairs([m.rate for m in repeats if m.rate], [])
    if not rates.base:
        return math.inf, math.inf
    # Against a constant of their size: ratios beyond 1000 count as stalls.
    middle = [median(rates.base)] * len(rates.base)
    location = estimate(middle, rates.base, rates.blocks, starts=rates.starts)
    low, high = interval(location)
    return location.error, (high - low) / 2


__all__ = ["CLIENTS", "curve_sentences", "curves_of", "log_rate_error"]
