"""A noisy search over a line of commits: what is known of each, and which one to build next.

Positions count from 0, the good end, to n, the bad end; commit i lies between positions i - 1 and i. A
measurement at a position is a log ratio of its rate to that of the good end, with its standard error. The
rate is a step function of the position with few steps; where the steps are is what is looked for.

Between two measured positions all commits explain the measurements equally well, so the evidence is that of
intervals. A level that holds over several positions has a normal prior and is integrated out (Bayesian change
points with a known number of them: Barry and Hartigan 1993; the sums over all places are the forward-backward
recursions of Fearnhead 2006). The next position is the one whose measurement is expected to tell most about
where the change is, per cost (as in probabilistic bisection: Horstein 1963, Waeber, Frazier, Henderson 2013).
Commits may have a prior (`prior`), of which a part is the same for all, so that measurements overrule it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LEVEL_SPREAD = 0.1
"""Standard deviation of a level's prior, as a log ratio: changes of the field are rarely beyond 10 %."""

CHANGES_PRIOR = (0.90, 0.09, 0.01)
"""How likely one, two, three changes are, once both ends are known to differ."""

SURE = 0.9
"""Probability of several changes from which on those in neighbouring intervals are told apart."""

MEASURING_COST = 0.25
"""Of measuring a commit that is built already; building and measuring another one costs 1."""

BROKEN_REACH = 6.0
"""Commits around one that does not build over which others are likely not to, either (exponential decay)."""

MOST_AGAIN = 8
"""How often a position is measured to tell apart where one of several changes is."""

LEAST_GAIN = 1e-4
"""Bits for the cost of a build below which a position is not measured for what it tells."""

LEAST_APART = 0.05
"""Probability that has to lie between positions that are measured at the same time."""

LEAST_SHARE = 1e-300
"""Stands for no share at all where its logarithm is taken."""

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


@dataclass(frozen=True)
class Outcome:
    """What was measured at a position: log ratio to the good end, and its standard error (both natural logs).

    The error holds what stays with one start of a server, too: other starts of the same build differ.
    """

    log_ratio: float
    error: float


NOTHING = Outcome(0.0, math.inf)
"""Stands for a position that was not measured."""


@dataclass(frozen=True)
class Interval:
    """Commits first … last (both included) that no measurement tells apart.

    probability: that a change is among them. alone: the same, were there only one change.
    """

    first: int
    last: int
    probability: float
    alone: float

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class Knowledge:
    """What the measurements say.

    intervals: in order, together all commits. changes: probability of one, two, three changes. effect: log
    ratio of the bad end to the good one, and its standard error. placed: by change, in their order, and by
    interval: the probability that it is there, were there as many as `suspected`.
    """

    intervals: Sequence[Interval]
    changes: Sequence[float]
    effect: tuple[float, float]
    placed: Sequence[Sequence[float]]

    @property
    def several(self) -> float:
        """Probability of more than one change."""
        return sum(self.changes[1:])

    @property
    def suspected(self) -> int:
        """How many changes there are: one, unless several are more likely."""
        return suspected(self.changes)

    def credible(self, level: float = 0.95) -> list[list[Interval]]:
        """Returns, for each suspected change, the fewest commits that hold it with probability `level`.

        Both in their order. Sets that touch are one, unless there are several changes for sure.
        """
        sets: list[list[Interval]] = []
        for held in self.placed:
            new = self._fewest(held, level)
            if sets and self.several <= SURE and new[0].first <= sets[-1][-1].last + 1:
                both = {interval.first: interval for interval in (*sets[-1], *new)}
                sets[-1] = [both[first] for first in sorted(both)]
            else:
                sets.append(new)
        return sets

    def _fewest(self, held: Sequence[float], level: float) -> list[Interval]:
        chosen: list[Interval] = []
        together = 0.0
        densest = sorted(
            zip(held, self.intervals, strict=True), key=lambda pair: pair[0] / pair[1].size, reverse=True
        )
        for probability, interval in densest:
            if together >= level:
                break
            chosen.append(interval)
            together += probability
        return sorted(chosen, key=lambda i: i.first)


def suspected(changes: Sequence[float]) -> int:
    """Returns how many changes are taken to be there, by the probabilities of one, two, three changes."""
    if sum(changes[1:]) <= 0.5:
        return 1
    return 1 + max(range(1, len(changes)), key=lambda k: changes[k])


@dataclass
class Search:
    """The state of a search over commits 1 … n. Positions 0 and n are there from the beginning.

    outcomes: by position, any number of measurements each. broken: positions that do not build, or whose
    server does not start: no evidence, only not to be had. same: by position another one whose server
    executes the same code: no commit between them made a change. prior: how likely each commit 1 … n is, in
    their order; the same for all where it is empty.
    """

    n: int
    outcomes: dict[int, list[Outcome]] = field(default_factory=dict)
    broken: set[int] = field(default_factory=set)
    same: Mapping[int, int] = field(default_factory=dict)
    prior: Sequence[float] = ()

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError("a search needs at least one commit between its ends")
        if self.prior and not (len(self.prior) == self.n and all(0 < p < math.inf for p in self.prior)):
            raise ValueError(f"a prior is a positive number for each of {self.n} commits")
        if not all(0 <= p <= self.n for pair in self.same.items() for p in pair):
            raise ValueError("a position with the same code is outside")

    def add(self, position: int, outcome: Outcome) -> None:
        """Raises ValueError for a position outside, or an outcome that is no number."""
        if not 0 < position <= self.n:
            raise ValueError(f"position {position} is not in 1 … {self.n}")
        if not (math.isfinite(outcome.log_ratio) and math.isfinite(outcome.error) and outcome.error > 0):
            raise ValueError(f"not a measurement: {outcome}")
        self.outcomes.setdefault(position, []).append(outcome)

    def set_aside(self, position: int) -> None:
        """Skips a position that cannot be measured."""
        self.broken.add(position)

    # --- what is known ------------------------------------------------------------------------

    def knowledge(self) -> Knowledge:
        """Needs at least the bad end. Raises ValueError without it."""
        if self.n not in self.outcomes:
            raise ValueError("the bad end was not measured")
        # A position that is only known to be the same as another says nothing of its level.
        measured = sorted({*self.outcomes, *self.same, *self.same.values()} - {0})
        edges = [0, *measured]
        evidence = _Evidence([pooled(self.outcomes[p]) if p in self.outcomes else NOTHING for p in measured])
        most = min(len(CHANGES_PRIOR), len(measured))
        placed: list[Floats] = []
        log_total = np.full(most, -np.inf)
        shares = np.diff(np.cumsum(self._weights())[edges])
        log_share = np.log(np.maximum(shares / max(shares.sum(), LEAST_SHARE), LEAST_SHARE))
        for k in range(1, most + 1):
            log_evidence, where = evidence.changes(k, log_share)
            log_total[k - 1] = log_evidence + math.log(CHANGES_PRIOR[k - 1])
            placed.append(where)
        changes = np.exp(log_total - np.logaddexp.reduce(log_total))
        probability = changes @ np.array([where.sum(axis=0) for where in placed])
        intervals = [
            Interval(edges[j] + 1, edges[j + 1], float(probability[j]), float(placed[0][0, j]))
            for j in range(len(measured))
        ]
        end = pooled(self.outcomes[self.n])
        known = [float(c) for c in changes]
        return Knowledge(intervals, known, (end.log_ratio, end.error), placed[suspected(known) - 1].tolist())

    # --- what to do next ----------------------------------------------------------------------

    def next_position(self, error: float) -> int | None:
        """Returns where to measure next; None if no position is left that could tell anything.

        error: standard error that the measurement is expected to have.
        """
        known = self.knowledge()
        if known.several > 0.5:
            return self._middle_of(known)
        effect = abs(known.effect[0])
        cumulated = self._cumulated(known)
        best: tuple[float, int] | None = None
        for position in self._candidates(known):
            built = position in self.outcomes
            gain = information(float(cumulated[position]), effect / error)
            value = gain / MEASURING_COST if built else gain * self._buildable(position)
            if best is None or value > best[0]:
                best = (value, position)
        if best is not None and best[0] > LEAST_GAIN:
            return best[1]
        return self._beside_the_likeliest(known)

    def apart_from(self, begun: Collection[int]) -> int | None:
        """Returns where to measure beside positions that are measured at the moment: the one that lies
        farthest from all of them by the probability between; None where that is too little to tell."""
        known = self.knowledge()
        if known.several > 0.5:
            return None
        cumulated = self._cumulated(known)
        edges = [0.0, 1.0, *(float(cumulated[position]) for position in begun)]
        best: tuple[float, int] | None = None
        for position in self._candidates(known):
            if position in begun or position in self.outcomes:
                continue
            apart = min(abs(float(cumulated[position]) - edge) for edge in edges) * self._buildable(position)
            if apart > LEAST_APART and (best is None or (apart, -position) > (best[0], -best[1])):
                best = apart, position
        return None if best is None else best[1]

    def _beside_the_likeliest(self, known: Knowledge) -> int | None:
        """Returns the open position nearest to the likeliest commit of a set that is not down to a single
        commit: if that commit cannot be built, or is nearly certain beforehand, no measurement is expected to
        tell much. None if there is no such position."""
        density = self._density(known)
        for credible in known.credible():
            inside = [p for p in range(credible[0].first, credible[-1].last) if self._is_unmeasured(p)]
            if inside:
                first, last = credible[0].first, credible[-1].last
                likeliest = first + int(np.argmax(density[first : last + 1]))
                return min(inside, key=lambda p: abs(p - likeliest + 0.5))
        return None

    def is_found(self, level: float = 0.95) -> bool:
        """Returns whether each change is down to a single commit, or to commits that cannot be told apart
        because only the last of them can be measured."""
        return all(
            all(position in self.broken for position in range(intervals[0].first, intervals[-1].last))
            for intervals in self.knowledge().credible(level)
        )

    def _weights(self) -> Floats:
        """Returns, by position, how likely its commit is to have made a change before anything is
        measured."""
        weights = np.concatenate(([0.0], self.prior if self.prior else np.ones(self.n)))
        for pair in self.same.items():
            weights[min(pair) + 1 : max(pair) + 1] = 0.0
        return weights

    def _density(self, known: Knowledge) -> Floats:
        """Returns, by position, the probability that its commit made the change, were there one change."""
        density = self._weights()
        for interval in known.intervals:
            inside = density[interval.first : interval.last + 1]
            inside *= interval.alone / max(inside.sum(), LEAST_SHARE)
        return density

    def _cumulated(self, known: Knowledge) -> Floats:
        """Returns, by position, the probability that the change is at or before it, were there one change."""
        density = self._density(known)
        cumulated: Floats = np.cumsum(density) / max(density.sum(), 1e-300)
        return cumulated

    def _candidates(self, known: Knowledge) -> Iterable[int]:
        """Yields the measured positions, and some positions of each interval near the middle of its
        probability."""
        yield from (p for p in self.outcomes if p != self.n)
        cumulated = self._cumulated(known)
        half = int(np.searchsorted(cumulated, 0.5))
        wanted = {half, *(int(np.searchsorted(cumulated, q)) for q in np.linspace(0.1, 0.9, 17))}
        wanted |= {position - 1 for position in wanted}  # a likely commit is between two positions
        wanted |= {(interval.first + interval.last) // 2 for interval in known.intervals}
        for position in self.broken:
            wanted |= {position + step for step in (-13, -8, -5, -3, -2, -1, 1, 2, 3, 5, 8, 13)}
        for position in wanted:
            if 0 < position < self.n and self._is_unmeasured(position):
                yield position

    def _middle_of(self, known: Knowledge) -> int | None:
        """Returns, with several changes, the middle of the interval that holds most of the uncertainty, else
        a position that separates the intervals in which a change may be. None if there is neither."""
        open_ = sorted(
            (interval for interval in known.intervals if interval.size > 1),
            key=lambda interval: interval.probability * math.log2(interval.size),
            reverse=True,
        )
        for interval in open_:
            if interval.probability < 0.05:
                break
            inside = [p for p in range(interval.first, interval.last) if self._is_open(p)]
            if inside:
                before = np.cumsum(self._weights()[interval.first : interval.last + 1])
                if not before[-1]:
                    continue
                off = np.abs(before / before[-1] - 0.5)
                return max(inside, key=lambda p: self._buildable(p) * (1 - off[p - interval.first]))
        for credible in known.credible():
            between = [
                interval.last for interval in credible[:-1] if len(self.outcomes[interval.last]) < MOST_AGAIN
            ]
            if between:
                return between[len(between) // 2]
        return None

    def _is_unmeasured(self, position: int) -> bool:
        return position not in self.outcomes and self._is_open(position)

    def _is_open(self, position: int) -> bool:
        """Returns whether a position may be measured, and would tell something of its own."""
        return position not in self.broken and not any(
            min(pair) < position <= max(pair) for pair in self.same.items()
        )

    def _buildable(self, position: int) -> float:
        """Returns a rough probability that a position can be measured: low near positions that cannot."""
        nearest = min((abs(position - b) for b in self.broken), default=None)
        return 1.0 if nearest is None else 1.0 - math.exp(-nearest / BROKEN_REACH)


def information(before: float, separation: float) -> float:
    """Returns the bits that a measurement is expected to tell about whether the change is at or before a
    position.

    before: probability that it is. separation: effect ÷ standard error of the measurement. The mutual
    information of a bit sent through Gaussian noise, by Gauss-Hermite quadrature.
    """
    if not 0.0 < before < 1.0 or separation <= 0:
        return 0.0
    # y = noise + separation × bit, noise standard normal
    nats = 0.0
    for bit, probability in ((1.0, before), (0.0, 1.0 - before)):
        y = _NODES + separation * bit
        log_ratio = separation * y - 0.5 * separation**2  # log p(y|1) / p(y|0)
        odds = np.logaddexp(math.log(before) + log_ratio, math.log1p(-before))
        nats += probability * float(_WEIGHTS @ (bit * log_ratio - odds))
    return max(0.0, nats / math.log(2))


def pooled(outcomes: Sequence[Outcome]) -> Outcome:
    """Returns several measurements of the same difference as a single one, weighted by their precision; where
    they scatter more than their errors explain, these are widened by Birge's ratio (Birge 1932)."""
    precision = sum(o.error**-2 for o in outcomes)
    mean = sum(o.log_ratio * o.error**-2 for o in outcomes) / precision
    chi2 = sum(((o.log_ratio - mean) / o.error) ** 2 for o in outcomes)
    scale = max(1.0, math.sqrt(chi2 / (len(outcomes) - 1))) if len(outcomes) > 1 else 1.0
    return Outcome(mean, scale * precision**-0.5)


class _Evidence:
    """Log evidence of step functions over measured positions, of which the first level is 0."""

    def __init__(self, outcomes: Sequence[Outcome]) -> None:
        y = np.array([o.log_ratio for o in outcomes])
        precision = np.array([o.error**-2.0 for o in outcomes])
        self.n = len(outcomes)
        first = [
            np.concatenate(([0.0], np.cumsum(values)))
            for values in (precision, y * precision, y * y * precision)
        ]
        self._precision, self._weighted, self._squares = first

    def _zero(self, end: int) -> float:
        """Returns the log evidence of the first `end` outcomes, were their level 0."""
        return float(-0.5 * self._squares[end])

    def _level(self, begin: int, end: int) -> float:
        """Returns the log evidence of outcomes begin … end - 1 with one level, integrated over its prior."""
        precision = self._precision[end] - self._precision[begin]
        weighted = self._weighted[end] - self._weighted[begin]
        squares = self._squares[end] - self._squares[begin]
        prior = LEVEL_SPREAD**-2
        return float(
            -0.5 * squares + 0.5 * weighted**2 / (precision + prior) - 0.5 * math.log1p(precision / prior)
        )

    def changes(self, k: int, log_share: Floats) -> tuple[float, Floats]:
        """Returns the log evidence of k changes, and for each of them, in their order, the probability of
        each interval.

        log_share: log of each interval's share of all commits. At most one change is in an interval: two of
        them without a measurement between are one.
        """
        # ahead[c, j]: c changes so far, the last of them in interval j, what comes after j not yet counted.
        ahead = np.full((k + 1, self.n), -np.inf)
        for j in range(self.n):
            ahead[1, j] = self._zero(j) + log_share[j]
            for c in range(2, k + 1):
                before = [ahead[c - 1, i] + self._level(i, j) for i in range(j)]
                if before:
                    ahead[c, j] = np.logaddexp.reduce(before) + log_share[j]
        # behind[c, j]: evidence of everything after a change in interval j, with c more changes to come.
        behind = np.full((k + 1, self.n), -np.inf)
        for j in reversed(range(self.n)):
            behind[0, j] = self._level(j, self.n)
            for c in range(1, k + 1):
                after = [self._level(j, i) + log_share[i] + behind[c - 1, i] for i in range(j + 1, self.n)]
                if after:
                    behind[c, j] = np.logaddexp.reduce(after)
        total = float(np.logaddexp.reduce(ahead[k] + behind[0]))
        if not math.isfinite(total):
            return -math.inf, np.zeros((k, self.n))
        placed = np.exp(np.array([ahead[c] + behind[k - c] for c in range(1, k + 1)]) - total)
        return total + math.lgamma(k + 1), placed


__all__ = ["Interval", "Knowledge", "Outcome", "Search", "information", "pooled"]
