"""What one operation of a stored step cost."""

from __future__ import annotations

from pgstrata.stats.metrics import PerOperation, per_operation
from pgstrata.store.record import StepRecord


def step_cost(step: StepRecord) -> PerOperation:
    """By `stats.metrics.per_operation`, of the headline's operations."""
    metrics = step.metrics
    return per_operation(
        rate=step.pace or 0.0,
        rate_unit=step.rate_unit,
        seconds=step.seconds,
        server_cpu_seconds=step.server_cpu_seconds,
        host_cpu_seconds=step.host_cpu_seconds,
        driver_cpu_seconds=step.driver_cpu_seconds,
        cpups=metrics.cpups,
        csps=metrics.csps,
        rps=metrics.rps,
        rmbps=metrics.rmbps,
        wps=metrics.wps,
        wmbps=metrics.wmbps,
    )
