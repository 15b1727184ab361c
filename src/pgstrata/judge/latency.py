"""Response times added up: of parts of a step, of repeats, of machines. Percentiles are never averaged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pgstrata.stats.rates import pooled
from pgstrata.store import Run
from pgstrata.store.histogram import Histogram, total
from pgstrata.store.record import LatencyRecord, StepRecord


def added_up(histogram: Histogram, parts: Iterable[tuple[int, LatencyRecord]]) -> LatencyRecord:
    """Returns the response times of all parts together. parts: the number of responses of each part, and
    their times.

    Percentiles are those of the merged histogram, exact to its three digits; mean, deviation and the longest
    are made from the parts' own, which are exact.
    """
    known = [(n, latency) for n, latency in parts if latency.mean is not None]
    mean, stddev = pooled((n, latency.mean or 0.0, latency.stddev or 0.0) for n, latency in known) or (
        None,
        None,
    )
    p50, p75, p90, p95, p99 = histogram.percentiles((50, 75, 90, 95, 99))
    longest = [latency.max for _, latency in known if latency.max is not None]
    return LatencyRecord(
        mean=mean, stddev=stddev, p50=p50, p75=p75, p90=p90, p95=p95, p99=p99, max=max(longest, default=None)
    )


def over_repeats(repeats: Sequence[tuple[Run, StepRecord]], role: str) -> LatencyRecord | None:
    """Returns the response times of a role over the repeats of a step; None if no repeat has the role.

    Raises StoreError where a stored histogram is damaged.
    """
    run_steps = [(run, step) for run, step in repeats if role in step.roles]
    if len(run_steps) < 2:
        return run_steps[0][1].roles[role].latency if run_steps else None
    texts = [text for run, step in run_steps if (text := run.histograms.get(step.name, {}).get(role))]
    return added_up(total(texts), [(s.roles[role].operations, s.roles[role].latency) for _, s in run_steps])
