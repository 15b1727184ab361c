"""One difference from what several machines say, each of itself: a random-effects model.

Each machine has a true log ratio of its own, drawn from a normal distribution; what is asked for is its mean.
How much machines differ beyond their own errors is estimated (Paule and Mandel 1982), weighs the machines,
and is part of the interval, which is Student's with one degree of freedom less than there are machines
(Hartung and Knapp 2001), never narrower than without that correction (Röver, Knapp and Friede 2015). Two
machines say little of machines: their interval is as wide as it has to be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from pgstrata.errors import UsageError
from pgstrata.stats.estimate import FEW, Estimate

LEAST_VARIANCE = 1e-12
"""Of a machine's log ratio: one that was measured without any noise would have all the weight."""


@dataclass(frozen=True)
class Combined:
    """`estimate`: of the mean over machines, with its error. `between`: the standard deviation of the true
    log ratios from machine to machine; None where machines know too little of their own errors, so that the
    two cannot be told apart."""

    estimate: Estimate
    between: float | None


def combine(machines: Sequence[Estimate]) -> Combined:
    """Returns the mean over two machines or more.

    Where each knows its own error, they are weighed by it. Where one does not (fewer than 8 pairs, or batches
    of pairs, which may lie close together by chance), all count alike, and their spread is the error. Raises
    ValueError for fewer than two machines, UsageError where statsmodels is not installed.
    """
    number = len(machines)
    if number < 2:
        raise ValueError("one machine has nothing to be combined with")
    logs = [machine.log for machine in machines]
    pairs = sum(machine.n for machine in machines)
    if not all((m.blocks or m.n) >= FEW and math.isfinite(m.standard_error) for m in machines):
        error = stdev(logs) / math.sqrt(number)
        return Combined(Estimate(fmean(logs), error, number - 1.0, pairs, "machines"), None)
    try:
        from statsmodels.stats.meta_analysis import combine_effects
    except ImportError as error_:
        raise UsageError(
            "runs of several machines are compared with statsmodels, which is not installed",
            "pip install 'pgstrata[fleet]'",
        ) from error_
    variances = np.array([max(machine.standard_error**2, LEAST_VARIANCE) for machine in machines])
    with np.errstate(divide="ignore", invalid="ignore"):  # machines that agree to the last digit
        combined = combine_effects(np.array(logs), variances, method_re="iterated", use_t=True)
    error = float(combined.sd_eff_w_re) * math.sqrt(max(1.0, float(combined.scale_hksj_re)))
    mean = Estimate(float(combined.mean_effect_re), error, number - 1.0, pairs, "machines")
    return Combined(mean, math.sqrt(max(0.0, float(combined.tau2))))


__all__ = ["Combined", "combine"]
