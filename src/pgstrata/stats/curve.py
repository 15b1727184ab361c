"""Rate against the number of clients: where it stops growing, what verdicts say along it, and which number
of clients would tell more of both.

The rate of a server with few clients grows with them and is level, or falls, once a resource is used up: two
straight lines in log rate over log clients that meet at the knee, the saturation point of asymptotic bounds
(Denning and Buzen 1978). They are fitted by weighted least squares for each place of the knee, and the
interval holds all places whose misfit is not much larger than the least one: a profile likelihood, as
Hinkley (1971) has it for two lines that meet.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, product

import numpy as np

from pgstrata.numbers import counted
from pgstrata.stats.criterion import CONFIDENCE, LEAST_POINTS, check_share
from pgstrata.stats.distributions import student_quantile
from pgstrata.stats.estimate import Array
from pgstrata.stats.multiplicity import adjust_verdicts
from pgstrata.stats.verdict import Verdict, Word

GROWTH = 0.2
"""Slope of log rate over log clients below which a rate no longer grows: twice the clients, 15 % more."""

STEEPEST = 1.0
"""Largest slope: twice the clients do at most twice the work (asymptotic bounds). Without it, one number of
clients left of a knee leaves open where between both the knee is."""

MISFIT = 0.05
"""Standard deviation of a log rate about the two lines, beside its own error: real curves are rounded."""

STEPS = 32
"""Places of the knee that are tried in each doubling of the clients."""

FINE = 1.3
"""Neighbouring numbers of clients whose ratio is not larger get none between them; a knee whose interval is
not wider is known."""

_PARAMETERS = 4
"""Of the model: the knee, the rate there, and two slopes."""

Curve = Mapping[int, tuple[float, float]]
"""By number of clients: the rate (any unit, above 0), and the standard error of its log; not finite where it
is not known."""


@dataclass(frozen=True)
class Knee:
    """The number of clients beyond which a rate no longer grows, with its interval.

    `grows`: the rate grows up to the most clients, so the knee is there or beyond. `high_open`, `low_open`:
    the interval reaches the most or the fewest clients that were measured, and may end outside of them.
    """

    clients: float
    low: float
    high: float
    grows: bool
    low_open: bool
    high_open: bool

    @property
    def text(self) -> str:
        """The knee and its interval in a few words: `8 (6 … 11)`."""
        low, high = round(self.low), round(self.high)
        if self.grows:
            return f"none up to {high}" + (f" ({low} or more)" if low < high else "")
        fewer = " or fewer" if self.low_open and low > 1 else ""
        return f"{round(self.clients)} ({low}{fewer} … {high}{' or more' if self.high_open else ''})"


def knee(curve: Curve, confidence: float = CONFIDENCE) -> Knee:
    """Returns the knee of one curve. Raises ValueError for fewer than three numbers of clients, and for rates
    that are not above 0."""
    check_share("confidence", confidence)
    points = sorted(curve.items())
    if len(points) < LEAST_POINTS:
        raise ValueError(f"{len(points)} numbers of clients; a curve has at least {LEAST_POINTS}")
    rates = np.array([rate for _, (rate, _) in points])
    if points[0][0] < 1 or not (np.isfinite(rates) & (rates > 0)).all():
        raise ValueError("numbers of clients must be at least 1, rates finite and above 0")
    x, y = np.log2([clients for clients, _ in points]), np.log2(rates)
    errors = np.array([error if math.isfinite(error) else 0.0 for _, (_, error) in points])
    weights = math.log(2.0) / np.hypot(errors, MISFIT)
    places = np.unique(np.append(np.linspace(x[0], x[-1], round(STEPS * (x[-1] - x[0])) + 1), x))
    misfits = np.array([_misfit(x - place, y, weights) for place in places])
    least = float(misfits.min())
    freedom = len(points) - _PARAMETERS
    most = student_quantile(math.inf, 0.5 + confidence / 2) ** 2
    if freedom > 0:
        most = max(most, student_quantile(freedom, 0.5 + confidence / 2) ** 2 * least / freedom)
    best = float(np.median(places[misfits <= least + 1e-9]))
    inside = places[misfits <= least + most]
    low, high = float(inside[0]), float(inside[-1])
    first, last = float(x[0]), float(x[-1])
    return Knee(2**best, 2**low, 2**high, best == last, low == first, high == last)


def _misfit(x: Array, y: Array, weights: Array) -> float:
    """Returns the weighted sum of squares about the best two lines that meet at x = 0: the first grows, the
    second does not. Its minimum has each slope free, or at a bound."""
    ones, before, after = np.ones_like(x), np.minimum(x, 0.0), np.maximum(x, 0.0)
    least = math.inf
    for before_slope, after_slope in product((None, GROWTH, STEEPEST), (None, GROWTH)):
        fixed = before * (before_slope or 0.0) + after * (after_slope or 0.0)
        free = [ones, *([before] if before_slope is None else []), *([after] if after_slope is None else [])]
        design = np.column_stack(free) * weights[:, None]
        target = (y - fixed) * weights
        solved = np.linalg.lstsq(design, target, rcond=None)[0]
        slopes = list(solved[1:])
        first = slopes.pop(0) if before_slope is None else before_slope
        second = slopes.pop(0) if after_slope is None else after_slope
        if (GROWTH <= first <= STEEPEST or not before.any()) and second <= GROWTH:
            least = min(least, float(((design @ solved - target) ** 2).sum()))
            if before_slope is None and after_slope is None:
                break
    return least


def curve_words(points: Mapping[int, Verdict]) -> dict[int, Word]:
    """Returns the words of the verdicts on the points of a curve, by number of clients, which grows.

    Slower and faster are said of points whose p-value, adjusted for the number of points, is small enough.
    """
    adjusted = adjust_verdicts(points)
    return {clients: adjusted[clients].word for clients in sorted(points)}


def curve_sentence(words: Mapping[int, Word], cause: str = "") -> str:
    """Returns the verdict on a curve, `the same up to 8 clients, slower beyond, LWLock BufferMapping`, from
    the words of its points in the order of their numbers of clients.

    cause: what the slower points have in common; empty where it is not clear. Raises ValueError for fewer
    than three points.
    """
    if len(words) < LEAST_POINTS:
        raise ValueError(f"{len(words)} numbers of clients; a curve has at least {LEAST_POINTS}")
    runs = [
        (word, [clients for clients, _ in run])
        for word, run in groupby(words.items(), key=lambda point: point[1])
    ]
    parts = []
    for number, (word, clients) in enumerate(runs):
        named = "the same" if word == "same" else word
        because = f", {cause}" if cause and word == "slower" else ""
        parts.append(f"{named} {_where(clients, number, len(runs))}{because}")
    return ", ".join(parts)


def _where(clients: Sequence[int], number: int, runs: int) -> str:
    if runs == 1:
        return f"from {clients[0]} to {counted(clients[-1], 'client')}"
    if number == 0:
        return f"{'at' if len(clients) == 1 else 'up to'} {counted(clients[-1], 'client')}"
    return "beyond" if number == runs - 1 else _span(clients)


def _span(clients: Sequence[int]) -> str:
    return f"at {clients[0]}" if len(clients) == 1 else f"from {clients[0]} to {clients[-1]}"


def next_clients(words: Sequence[Mapping[int, Word]], curves: Sequence[Curve]) -> int | None:
    """Returns the number of clients that tells most of where verdicts change and where knees are; None where
    both are known.

    words: of each variant against the base, by the numbers of clients that were measured; curves: of each
    variant. It halves, by its logarithm, the widest gap in which a verdict changes or a knee may be; of
    equally wide ones that of a verdict.
    """
    measured = sorted({clients for points in (*words, *curves) for clients in points})
    gaps = [(low, high) for low, high in pairwise(measured) if high - low > 1 and high > FINE * low]
    changes = [change for points in words for change in _changes(points)]
    knees = [(place.low, place.high) for place in map(_open_knee, curves) if place is not None]
    open_gaps = [
        *(gap for gap in gaps if any(low <= gap[0] and gap[1] <= high for low, high in changes)),
        *(gap for gap in gaps if any(low < gap[1] and gap[0] < high for low, high in knees)),
    ]
    if not open_gaps:
        return None
    low, high = max(open_gaps, key=lambda gap: gap[1] / gap[0])
    return round(math.sqrt(low * high))


def _changes(words: Mapping[int, Word]) -> list[tuple[int, int]]:
    """Returns the numbers of clients between which the verdict changes; those that are unclear between them
    do not tell where."""
    decided = [(clients, word) for clients, word in sorted(words.items()) if word != "unclear"]
    return [(low, high) for (low, before), (high, after) in pairwise(decided) if before != after]


def _open_knee(curve: Curve) -> Knee | None:
    """Returns the knee of a curve whose interval could be narrower."""
    if len(curve) < LEAST_POINTS:
        return None
    place = knee(curve)
    return None if place.grows or place.high <= FINE * place.low else place


__all__ = ["Curve", "Knee", "curve_sentence", "curve_words", "knee", "next_clients"]
