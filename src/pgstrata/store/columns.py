"""The columns of the views `runs` and `steps`, and where their values come from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pgstrata.store.read import Run
from pgstrata.store.record import StepRecord


def _waited(step: StepRecord) -> float | None:
    """Returns the share of the time of its slices in which the step's processes waited for a CPU; None where
    no slice tells."""
    known = [(part.waited, part.seconds) for part in step.slices if part.waited is not None]
    seconds = sum(length for _, length in known)
    return sum(share * length for share, length in known) / seconds if seconds else None


# one entry per column: name, SQL type, where its value comes from
RUNS: tuple[tuple[str, str, Callable[[Run], Any]], ...] = (
    ("run_id", "VARCHAR", lambda run: run.run_id),
    ("campaign", "VARCHAR", lambda run: run.campaign),
    ("variant", "VARCHAR", lambda run: run.variant),
    ("server", "VARCHAR", lambda run: run.record.server.spec),
    ("version", "VARCHAR", lambda run: run.record.server.version),
    ("config", "VARCHAR", lambda run: run.record.config.name),
    ("workload", "VARCHAR", lambda run: run.workload),
    ("repeat", "BIGINT", lambda run: run.repeat),
    ("status", "VARCHAR", lambda run: run.record.status),
    ("started", "TIMESTAMP", lambda run: run.record.started),
    ("finished", "TIMESTAMP", lambda run: run.record.finished),
    ("host", "VARCHAR", lambda run: run.record.host.hostname),
    ("error", "VARCHAR", lambda run: run.record.error and run.record.error.message),
    ("path", "VARCHAR", lambda run: str(run.folder)),
)

STEPS: tuple[tuple[str, str, Callable[[Run, StepRecord], Any]], ...] = (
    ("run_id", "VARCHAR", lambda run, _: run.run_id),
    ("campaign", "VARCHAR", lambda run, _: run.campaign),
    ("variant", "VARCHAR", lambda run, _: run.variant),
    ("server", "VARCHAR", lambda run, _: run.record.server.spec),
    ("config", "VARCHAR", lambda run, _: run.record.config.name),
    ("workload", "VARCHAR", lambda run, _: run.workload),
    ("step", "VARCHAR", lambda _, step: step.name),
    ("step_order", "BIGINT", lambda _, step: step.order),
    ("step_group", "VARCHAR", lambda _, step: step.group),
    ("repeat", "BIGINT", lambda run, _: run.repeat),
    ("measured", "BOOLEAN", lambda _, step: step.measured),
    ("rate", "DOUBLE", lambda _, step: step.rate),
    ("rate_unit", "VARCHAR", lambda _, step: step.rate_unit),
    ("role", "VARCHAR", lambda _, step: step.role),
    ("operations", "BIGINT", lambda _, step: step.operations),
    ("rows", "BIGINT", lambda _, step: step.rows),
    ("seconds", "DOUBLE", lambda _, step: step.seconds),
    ("target_rate", "DOUBLE", lambda _, step: step.target_rate),
    ("background_rate", "DOUBLE", lambda _, step: step.background_rate),
    ("sla_met", "BOOLEAN", lambda _, step: step.sla_met),
    ("engine", "VARCHAR", lambda _, step: step.engine),
    ("driver_cpu_seconds", "DOUBLE", lambda _, step: step.driver_cpu_seconds),
    ("server_cpu_seconds", "DOUBLE", lambda _, step: step.server_cpu_seconds),
    ("wal_bytes", "BIGINT", lambda _, step: step.wal_bytes),
    ("database_bytes", "BIGINT", lambda _, step: step.sizes.database_bytes),
    ("max_seconds", "DOUBLE", lambda _, step: step.headline.latency.max),
    ("p50_seconds", "DOUBLE", lambda _, step: step.headline.latency.p50),
    ("p95_seconds", "DOUBLE", lambda _, step: step.headline.latency.p95),
    ("p99_seconds", "DOUBLE", lambda _, step: step.headline.latency.p99),
    ("started", "TIMESTAMP", lambda _, step: step.started),
    ("status", "VARCHAR", lambda run, _: run.record.status),
    ("host_cpu_seconds", "DOUBLE", lambda _, step: step.host_cpu_seconds),
    ("pooler_cpu_seconds", "DOUBLE", lambda _, step: step.pooler_cpu_seconds),
    ("replica_cpu_seconds", "DOUBLE", lambda _, step: step.replica and step.replica.cpu_seconds),
    ("replica_lag_bytes", "BIGINT", lambda _, step: step.replica and step.replica.lag_bytes),
    ("replica_lag_seconds", "DOUBLE", lambda _, step: step.replica and step.replica.lag_seconds),
    ("other_load", "DOUBLE", lambda _, step: step.disturbance and step.disturbance.other_load),
    ("stolen", "DOUBLE", lambda _, step: step.disturbance and step.disturbance.stolen),
    ("pressure", "DOUBLE", lambda _, step: step.disturbance and step.disturbance.pressure),
    ("throttled", "DOUBLE", lambda _, step: step.disturbance and step.disturbance.throttled),
    ("waited", "DOUBLE", lambda _, step: _waited(step)),
    ("cpus", "VARCHAR", lambda _, step: ",".join(map(str, step.cpus)) or None),
)
