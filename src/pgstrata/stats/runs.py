"""One run on each side: what can be said of it, and what cannot.

The seconds of a run know nothing of the next run. So two runs have an interval only where it is known how
much runs of the same kind differ on the same machine, and that variance is part of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance

from pgstrata.stats.criterion import USUAL, Criterion
from pgstrata.stats.estimate import Estimate
from pgstrata.stats.verdict import Verdict, interval, judge, p_value

NOTHING_DONE = "no operation came to its end in one of the runs: its rate is 0"

UNKNOWN = "one run on each side: how much runs differ from one to the next is not known"


@dataclass(frozen=True)
class RunSpread:
    """How much the rates of runs of the same thing differ from one run to the next.

    variance: of the log of the rate; runs: how many it was taken from; freedom: degrees of freedom, those
    runs less one for each group of them.
    """

    variance: float
    runs: int
    freedom: int

    @property
    def deviation(self) -> float:
        """Standard deviation of a run's rate, as a share of it."""
        return math.expm1(math.sqrt(self.variance))


def run_spread(groups: Iterable[Sequence[float]]) -> RunSpread | None:
    """Returns the spread from run to run, from groups of rates (per second) of runs of the same thing each;
    None if no group has two.

    The variances are pooled, which assumes that all groups vary alike.
    """
    squares, runs, freedom = 0.0, 0, 0
    for group in groups:
        logs = [math.log(rate) for rate in group if rate > 0]
        if len(logs) > 1:
            squares += variance(logs) * (len(logs) - 1)
            runs += len(logs)
            freedom += len(logs) - 1
    return RunSpread(squares / freedom, runs, freedom) if freedom else None


def compare_runs(
    base: Sequence[float],
    other: Sequence[float],
    spread: RunSpread | None,
    within: Estimate | None = None,
    *,
    criterion: Criterion = USUAL,
) -> Verdict:
    """Returns the verdict on runs that are no pairs: rates (per second) of one or more on each side.

    Without a spread there is no interval, and nothing is proven. within: what the seconds of the runs say
    (`bootstrap.estimate_series`), where there is one on each side; its variance is added to that from run to
    run, with degrees of freedom after Welch and Satterthwaite.
    """
    if not base or not other or min(*base, *other) <= 0:
        nothing = judge(Estimate(0.0, math.inf, 0.0, 0, "mean"), (-math.inf, math.inf), 1.0, criterion)
        return replace(nothing, reason=NOTHING_DONE) if base and other else nothing
    log = fmean(map(math.log, other)) - fmean(map(math.log, base))
    n = min(len(base), len(other))
    single = len(base) == len(other) == 1
    if spread is None:
        nothing = judge(
            Estimate(log, math.inf, 0.0, n, "mean"),
            (-math.inf, math.inf),
            1.0,
            criterion,
        )
        return replace(nothing, reason=UNKNOWN, single_run=single)
    parts = [(spread.variance * (1 / len(base) + 1 / len(other)), float(spread.freedom))]
    if within is not None and math.isfinite(within.standard_error) and within.freedom > 0:
        parts.append((within.standard_error**2, within.freedom))
    total = sum(v for v, _ in parts)
    freedom = total**2 / sum(v**2 / f for v, f in parts) if total else float(spread.freedom)
    e = Estimate(log, math.sqrt(total), freedom, n, "mean")
    verdict = judge(e, interval(e, criterion.confidence), p_value(e), criterion)
    return replace(
        verdict,
        reason=f"{verdict.reason}; runs differ by {spread.deviation:.1%} from one to the next (known from "
        f"{spread.runs} runs), which is in the interval",
        single_run=single,
        run_spread=spread.deviation,
    )
