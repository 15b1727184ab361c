"""What a bench gave, as a pgbench user reads it."""

from __future__ import annotations

from dataclasses import dataclass

from pgstrata.errors import DriverError
from pgstrata.measure.bench.wanted import Bench
from pgstrata.workload.core.language import Json, PgbenchScript


@dataclass(frozen=True)
class OfScript:
    """What one of the scripts did. mean, stddev: of its transactions' latencies in seconds;
    statements: its entries of `statements_by_name`."""

    script: PgbenchScript
    transactions: int
    errors: int
    mean: float
    stddev: float
    statements: list[Json]


@dataclass(frozen=True)
class Measured:
    """`done` of the driver as a pgbench user reads it. Times in milliseconds where the name says so."""

    bench: Bench
    scripts: list[PgbenchScript]
    server: str
    engine: str
    scale: int
    seconds: float
    role: Json
    driver_cpu_seconds: float
    failure: DriverError | None

    @property
    def sent_nothing(self) -> bool:
        """Whether transactions ended and none of them sent a statement: then there is nothing measured."""
        return self.role["transactions"] > 0 and not any(s["count"] for s in self.role["statements_by_name"])

    @property
    def has_rate(self) -> bool:
        return self.role["transactions"] > 0 and not self.sent_nothing and self.seconds > 0

    @property
    def tps(self) -> float | None:
        """Transactions per second, the time of connecting left out; None where nothing was measured."""
        return self.role["transactions"] / self.seconds if self.has_rate else None

    @property
    def threads(self) -> int:
        """Of the driver: one for each connection where the engine is the blocking one."""
        clients = self.bench.clients
        return clients if self.engine == "blocking" else min(self.bench.threads, clients)

    def by_script(self) -> list[OfScript]:
        """Those that could be drawn, in their order."""
        drawn = [script for script in self.scripts if script.weight]
        left = list(self.role["statements_by_name"])
        whole = {**self.role, **self.role["latency"], "statements": len(left)}
        found = []
        for script, told in zip(drawn, self.role.get("scripts") or [whole], strict=True):
            own, left = left[: told["statements"]], left[told["statements"] :]
            counts = told["transactions"], told["errors"]
            found.append(OfScript(script, *counts, told["mean"], told["stddev"], own))
        return found

    def as_json(self) -> Json:
        latency, lag = self.role["latency"], self.role.get("lag")
        keys = ("mean", "stddev", "p50", "p75", "p90", "p95", "p99", "max")
        return {
            "transactions": self.role["transactions"],
            "failed": self.role["errors"],
            "retries": self.role["retries"],
            "tps": self.tps,
            "latency_ms": {key: latency[key] * 1e3 if self.has_rate else None for key in keys},
            "schedule_lag_ms": {key: lag[key] * 1e3 for key in ("mean", "max")} if lag else None,
            "seconds": self.seconds,
            "driver_cpu_seconds": self.driver_cpu_seconds,
            "clients": self.bench.clients,
            "threads": self.threads,
            "mode": self.bench.mode,
            "scale": self.scale,
            "server": self.server,
            "engine": self.engine,
            "scripts": [
                {
                    "script": of.script.name,
                    "weight": of.script.weight,
                    "transactions": of.transactions,
                    "failed": of.errors,
                    "latency_ms": {
                        "mean": of.mean * 1e3 if of.transactions else None,
                        "stddev": of.stddev * 1e3 if of.transactions else None,
                    },
                }
                for of in self.by_script()
            ],
            "statements": [
                {
                    "statement": s["name"],
                    "count": s["count"],
                    "failures": s["errors"],
                    "rows": s["rows"],
                    "latency_ms": s["seconds_total"] * 1e3 / s["count"] if s["count"] else None,
                    "max_ms": s["seconds_max"] * 1e3,
                }
                for s in self.role["statements_by_name"]
            ],
            "error": str(self.failure) if self.failure else None,
        }
