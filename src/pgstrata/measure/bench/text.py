"""What a bench gave, in pgbench's words and order."""

from __future__ import annotations

from pgstrata import __version__
from pgstrata.driver.events import Lag
from pgstrata.measure.bench.options import BenchOptions
from pgstrata.measure.bench.result import BenchResult, Counts, ScriptResult


def text(result: BenchResult, per_statement: bool) -> list[str]:
    bench, role, latency = result.bench, result.role, result.role.latency
    is_single = len(result.scripts) == 1
    lines = [
        f"pgstrata {__version__} (server {result.server})",
        f"transaction type: {result.scripts[0].name if is_single else 'multiple scripts'}",
        f"scaling factor: {result.scale}",
        f"query mode: {bench.mode}",
        f"number of clients: {bench.clients}",
        f"number of threads: {result.threads}",
        f"engine: {result.engine}",
        f"maximum number of tries: {bench.max_tries or 'unlimited'}",
    ]
    if bench.seconds is not None:
        lines.append(f"duration: {bench.seconds:g} s")
    else:
        lines.append(f"number of transactions per client: {bench.transactions}")
    of = f"/{bench.transactions * bench.clients}" if bench.transactions else ""
    counts = result.counts
    lines.append(f"number of transactions actually processed: {counts.transactions}{of}")
    lines += _counts(counts, bench)
    if bench.latency_limit is not None:
        share = 100 * counts.late / max(counts.transactions, 1)
        lines.append(
            f"number of transactions above the {bench.latency_limit * 1e3:.1f} ms latency limit: "
            f"{counts.late}/{counts.transactions} ({share:.3f}%)"
        )
    if result.sent_nothing:
        lines.append("no statement was sent, so there is neither latency nor tps")
    if result.tps is not None:
        percentiles = (
            f"{key} = {getattr(latency, key) * 1e3:.3f} ms" for key in ("p50", "p95", "p99", "max")
        )
        cost = result.driver_cpu_seconds * 1e6 / role.transactions
        lines += [
            f"latency average = {latency.mean * 1e3:.3f} ms",
            f"latency stddev = {latency.stddev * 1e3:.3f} ms",
            f"latency {', '.join(percentiles)}",
            *([_lag(role.lag)] if role.lag else []),
            f"driver CPU = {cost:.2f} µs per transaction",
            *_connecting(result),
        ]
        how = "including reconnection times" if bench.reconnect else "without initial connection time"
        lines.append(f"tps = {result.tps:.6f} ({how})")
    scripts = result.by_script()
    weights = sum(of.script.weight for of in scripts)
    for number, of_script in enumerate(scripts, 1):
        lines += [] if is_single else _of_script(number, of_script, weights, result)
        lines += (
            _statements(of_script, "" if is_single else " - ", bench.max_tries != 1) if per_statement else []
        )
    return lines


def _of_script(number: int, of: ScriptResult, weights: int, result: BenchResult) -> list[str]:
    n, weight = of.counts.transactions, of.script.weight
    tps = n / result.seconds if result.seconds > 0 else 0.0
    share = 100 * n / max(result.role.transactions, 1)
    lines = [
        f"SQL script {number}: {of.script.name}",
        f" - weight: {weight} (targets {100 * weight / weights:.1f}% of total)",
        f" - {n} transactions ({share:.1f}% of total, tps = {tps:.6f})",
        *(f" - {line}" for line in _counts(of.counts, result.bench)),
    ]
    if n:
        lines += [
            f" - latency average = {of.mean * 1e3:.3f} ms",
            f" - latency stddev = {of.stddev * 1e3:.3f} ms",
        ]
    return lines


def _statements(of: ScriptResult, mark: str, retrying: bool) -> list[str]:
    columns = ", failures and retries" if retrying else " and failures"
    lines = [f"{mark}statement latencies in milliseconds{columns}:"]
    for s in of.statements:
        mean = s.seconds_total * 1e3 / s.count if s.count else 0.0
        retries = f" {s.retries:10d}" if retrying else ""
        lines.append(f"  {mean:12.3f} {s.errors - s.retries:10d}{retries}  {s.name}")
    return lines


def _counts(counts: Counts, bench: BenchOptions) -> list[str]:
    """Returns lines about transactions that were not simply processed, as far as they were asked for."""

    def share(what: str, n: int) -> str:
        return f"number of {what}: {n} ({100 * n / max(counts.all, 1):.3f}%)"

    lines = [share("failed transactions", counts.failed)]
    if bench.failures_detailed:
        lines.append(share("serialization failures", counts.serialization_failures))
        lines.append(share("deadlock failures", counts.deadlock_failures))
    if bench.max_tries != 1:
        lines.append(share("transactions retried", counts.retried))
        lines.append(f"total number of retries: {counts.retries}")
    if bench.rate is not None and bench.latency_limit is not None:
        lines.append(share("transactions skipped", counts.skipped))
    return lines


def _connecting(result: BenchResult) -> list[str]:
    if not result.bench.reconnect:
        return [f"initial connection time = {result.connect_seconds * 1e3:.3f} ms"]
    average = result.average_connect_seconds
    return [] if average is None else [f"average connection time = {average * 1e3:.3f} ms"]


def _lag(lag: Lag) -> str:
    return f"rate limit schedule lag: avg {lag.mean * 1e3:.3f} (max {lag.max * 1e3:.3f}) ms"
