"""How a bench goes, as pgbench's -P tells it."""

from __future__ import annotations

import sys

from pgstrata.driver.events import Second
from pgstrata.measure.bench.options import BenchOptions
from pgstrata.measure.bench.result import Counts
from pgstrata.stats.rates import pooled
from pgstrata.store.histogram import decode, merge


class BenchProgress:
    """A line every so many seconds, about those seconds, as pgbench's -P; nothing for what is left over."""

    def __init__(self, every: int | None, bench: BenchOptions) -> None:
        self._every = every
        self._bench = bench
        self._seconds: list[Second] = []

    def __call__(self, event: Second) -> None:
        if not self._every:
            return
        self._seconds.append(event)
        if len(self._seconds) < self._every or event.seconds < 0.5:
            return
        seconds, self._seconds = self._seconds, []
        roles = [second.roles[0] for second in seconds]
        tps = sum(r.transactions for r in roles) / max(sum(s.seconds for s in seconds), 1e-9)
        average, deviation = pooled((r.transactions, r.mean, r.stddev) for r in roles) or (0.0, 0.0)
        parts = [
            f"progress: {event.second + 1:.1f} s",
            f"{tps:.1f} tps",
            f"lat {average * 1e3:.3f} ms stddev {deviation * 1e3:.3f}",
            f"{sum(r.errors for r in roles)} failed",
        ]
        if roles[0].lag is not None:
            lag, _ = pooled((r.transactions, r.lag.mean, 0.0) for r in roles if r.lag) or (0.0, 0.0)
            parts.append(f"lag {lag * 1e3:.3f} ms")
        counts = [Counts.of(role) for role in roles]
        if self._bench.rate is not None and self._bench.latency_limit is not None:
            parts.append(f"{sum(c.skipped for c in counts)} skipped")
        if self._bench.max_tries != 1:
            retried, retries = sum(c.retried for c in counts), sum(c.retries for c in counts)
            parts.append(f"{retried} retried, {retries} retries")
        p99 = merge([decode(r.histogram) for r in roles]).percentile(99) or 0.0
        parts += [f"p99 {p99 * 1e3:.3f} ms", f"max {max(r.max for r in roles) * 1e3:.3f} ms"]
        print(", ".join(parts), file=sys.stderr, flush=True)
