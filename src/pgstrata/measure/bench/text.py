"""What a bench gave, in pgbench's words and order."""

from __future__ import annotations

from pgstrata import __version__
from pgstrata.measure.bench.measured import Measured, OfScript


def text(measured: Measured, per_statement: bool) -> list[str]:
    bench, role, latency = measured.bench, measured.role, measured.role["latency"]
    one = len(measured.scripts) == 1
    lines = [
        f"pgstrata {__version__} (server {measured.server})",
        f"transaction type: {measured.scripts[0].name if one else 'multiple scripts'}",
        f"scaling factor: {measured.scale}",
        f"query mode: {bench.mode}",
        f"number of clients: {bench.clients}",
        f"number of threads: {measured.threads}",
        f"engine: {measured.engine}",
        f"maximum number of tries: {bench.max_tries or 'unlimited'}",
    ]
    if bench.seconds is not None:
        lines.append(f"duration: {bench.seconds:g} s")
    else:
        lines.append(f"number of transactions per client: {bench.transactions}")
    of = f"/{bench.transactions * bench.clients}" if bench.transactions else ""
    lines += [
        f"number of transactions actually processed: {role['transactions']}{of}",
        _failed(role["errors"], role["transactions"]),
    ]
    if bench.max_tries != 1:
        lines.append(f"total number of retries: {role['retries']}")
    if measured.sent_nothing:
        lines.append("no statement was sent, so there is neither latency nor tps")
    if measured.tps is not None:
        percentiles = (f"{key} = {latency[key] * 1e3:.3f} ms" for key in ("p50", "p95", "p99", "max"))
        cost = measured.driver_cpu_seconds * 1e6 / role["transactions"]
        lines += [
            f"latency average = {latency['mean'] * 1e3:.3f} ms",
            f"latency stddev = {latency['stddev'] * 1e3:.3f} ms",
            f"latency {', '.join(percentiles)}",
            *([_lag(role["lag"])] if "lag" in role else []),
            f"driver CPU = {cost:.2f} µs per transaction",
            f"tps = {measured.tps:.6f} (without initial connection time)",
        ]
    scripts = measured.by_script()
    weights = sum(of.script.weight for of in scripts)
    for number, of_script in enumerate(scripts, 1):
        lines += [] if one else _of_script(number, of_script, weights, measured)
        lines += _statements(of_script, "" if one else " - ") if per_statement else []
    return lines


def _of_script(number: int, of: OfScript, weights: int, measured: Measured) -> list[str]:
    n, weight = of.transactions, of.script.weight
    tps = n / measured.seconds if measured.seconds > 0 else 0.0
    share = 100 * n / max(measured.role["transactions"], 1)
    lines = [
        f"SQL script {number}: {of.script.name}",
        f" - weight: {weight} (targets {100 * weight / weights:.1f}% of total)",
        f" - {n} transactions ({share:.1f}% of total, tps = {tps:.6f})",
        f" - {_failed(of.errors, n)}",
    ]
    if n:
        lines += [
            f" - latency average = {of.mean * 1e3:.3f} ms",
            f" - latency stddev = {of.stddev * 1e3:.3f} ms",
        ]
    return lines


def _statements(of: OfScript, mark: str) -> list[str]:
    lines = [f"{mark}statement latencies in milliseconds and failures:"]
    for s in of.statements:
        mean = s["seconds_total"] * 1e3 / s["count"] if s["count"] else 0.0
        lines.append(f"  {mean:12.3f} {s['errors']:10d}  {s['name']}")
    return lines


def _failed(errors: int, transactions: int) -> str:
    share = 100 * errors / max(errors + transactions, 1)
    return f"number of failed transactions: {errors} ({share:.3f}%)"


def _lag(lag: dict[str, float]) -> str:
    return f"rate limit schedule lag: avg {lag['mean'] * 1e3:.3f} (max {lag['max'] * 1e3:.3f}) ms"
