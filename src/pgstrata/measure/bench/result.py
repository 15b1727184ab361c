"""What a bench gave, as a pgbench user reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TypedDict, cast

from msgspec import structs

from pgstrata.driver.events import RoleDone, RoleSecond, ScriptTotals, StatementTotals
from pgstrata.errors import DriverError
from pgstrata.measure.bench.options import BenchOptions
from pgstrata.workload.core.language import Json, PgbenchScript


class CountsRecord(TypedDict):
    """Transactions as JSON, by what became of them."""

    transactions: int
    failed: int
    retries: int
    serialization_failures: int
    deadlock_failures: int
    retried: int
    skipped: int
    late: int


class LatencyMs(TypedDict):
    """Milliseconds of the transactions of a script as JSON."""

    mean: float | None
    stddev: float | None


class LatenciesMs(LatencyMs):
    """Milliseconds of all transactions as JSON."""

    p50: float | None
    p75: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    max: float | None


class LagMs(TypedDict):
    """How late transactions began, in milliseconds, as JSON."""

    mean: float
    max: float


class BenchedScript(CountsRecord):
    """The transactions of a script as JSON."""

    script: str
    weight: int
    latency_ms: LatencyMs


class BenchedStatement(TypedDict):
    """The executions of a statement as JSON."""

    statement: str
    count: int
    failures: int
    retries: int
    rows: int
    latency_ms: float | None
    max_ms: float


class BenchRecord(CountsRecord):
    """What `pgstrata bench` prints as JSON."""

    tps: float | None
    latency_ms: LatenciesMs
    schedule_lag_ms: LagMs | None
    initial_connection_ms: float | None
    average_connection_ms: float | None
    seconds: float
    driver_cpu_seconds: float
    clients: int
    threads: int
    mode: str
    scale: int
    server: str
    engine: str
    scripts: list[BenchedScript]
    statements: list[BenchedStatement]
    error: str | None


@dataclass(frozen=True)
class Counts:
    """Transactions by what became of them. retried: tried more than once; late: above the latency limit."""

    transactions: int
    failed: int
    retries: int
    serialization_failures: int = 0
    deadlock_failures: int = 0
    retried: int = 0
    skipped: int = 0
    late: int = 0

    @classmethod
    def of(cls, counted: RoleSecond | RoleDone | ScriptTotals) -> Counts:
        """Returns the counts of a role or a script in the driver's `done`, or of a role in its `second`."""
        outcomes = structs.asdict(counted.outcomes)
        return cls(counted.transactions, counted.errors, counted.retries, **outcomes)

    @property
    def all(self) -> int:
        return self.transactions + self.failed + self.skipped


@dataclass(frozen=True)
class ScriptResult:
    """What one of the scripts did. mean, stddev: of its transactions' latencies in seconds;
    statements: its entries of `statements_by_name`."""

    script: PgbenchScript
    counts: Counts
    mean: float
    stddev: float
    statements: Sequence[StatementTotals]


@dataclass(frozen=True)
class BenchResult:
    """`done` of the driver as a pgbench user reads it. Times in milliseconds where the name says so."""

    bench: BenchOptions
    scripts: list[PgbenchScript]
    server: str
    engine: str
    scale: int
    seconds: float
    role: RoleDone
    driver_cpu_seconds: float
    failure: DriverError | None
    connect_seconds: float

    @property
    def counts(self) -> Counts:
        return Counts.of(self.role)

    @property
    def average_connect_seconds(self) -> float | None:
        """Where each transaction has a connection of its own."""
        connects = self.role.connects
        return connects.seconds / connects.count if connects and connects.count else None

    @property
    def sent_nothing(self) -> bool:
        """Whether transactions ended and none of them sent a statement: then there is nothing measured."""
        return self.role.transactions > 0 and not any(s.count for s in self.role.statements_by_name)

    @property
    def has_rate(self) -> bool:
        return self.role.transactions > 0 and not self.sent_nothing and self.seconds > 0

    @property
    def tps(self) -> float | None:
        """Transactions per second, the time of connecting left out unless each has a connection of its own;
        None where nothing was measured."""
        return self.role.transactions / self.seconds if self.has_rate else None

    @property
    def threads(self) -> int:
        """Of the driver: one for each connection where the engine is the blocking one."""
        clients = self.bench.clients
        return clients if self.engine == "blocking" else min(self.bench.threads, clients)

    def by_script(self) -> list[ScriptResult]:
        """Returns the results of the scripts that could be drawn, in their order."""
        drawn = [script for script in self.scripts if script.weight]
        left, latency = self.role.statements_by_name, self.role.latency
        if not self.role.scripts:
            return [ScriptResult(drawn[0], self.counts, latency.mean, latency.stddev, left)]
        results = []
        for script, totals in zip(drawn, self.role.scripts, strict=True):
            statements, left = left[: totals.statements], left[totals.statements :]
            times = totals.latency
            results.append(ScriptResult(script, Counts.of(totals), times.mean, times.stddev, statements))
        return results

    def as_json(self) -> BenchRecord:
        latency, lag, counts = self.role.latency, self.role.lag, self.counts
        average = self.average_connect_seconds
        keys = ("mean", "stddev", "p50", "p75", "p90", "p95", "p99", "max")
        record: Json = {
            **asdict(counts),
            "tps": self.tps,
            "latency_ms": {key: getattr(latency, key) * 1e3 if self.has_rate else None for key in keys},
            "schedule_lag_ms": {"mean": lag.mean * 1e3, "max": lag.max * 1e3} if lag else None,
            "initial_connection_ms": None if self.bench.reconnect else self.connect_seconds * 1e3,
            "average_connection_ms": None if average is None else average * 1e3,
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
                    **asdict(of.counts),
                    "latency_ms": {
                        "mean": of.mean * 1e3 if of.counts.transactions else None,
                        "stddev": of.stddev * 1e3 if of.counts.transactions else None,
                    },
                }
                for of in self.by_script()
            ],
            "statements": [
                {
                    "statement": s.name,
                    "count": s.count,
                    "failures": s.errors - s.retries,
                    "retries": s.retries,
                    "rows": s.rows,
                    "latency_ms": s.seconds_total * 1e3 / s.count if s.count else None,
                    "max_ms": s.seconds_max * 1e3,
                }
                for s in self.role.statements_by_name
            ],
            "error": str(self.failure) if self.failure else None,
        }
        return cast(BenchRecord, record)
