"""What executions of one turn took on average: until they were planned, and of the CPUs."""

from __future__ import annotations

from collections.abc import Sequence

from pgstrata.driver.events import StatementDone
from pgstrata.store.record import ExecutionCpu


def mean_planning(executions: Sequence[StatementDone]) -> float | None:
    """Returns the mean seconds until executions were planned and bound; None where that is not known of all.

    Where the driver met the answer to Bind together with the end of the whole answer, because the execution
    was short or the driver had to wait for a CPU, the two cannot be told apart.
    """
    known = [execution.planning_seconds for execution in executions if _is_planned_apart(execution)]
    return _mean(known) if len(known) == len(executions) else None


def mean_cpu(executions: Sequence[StatementDone]) -> ExecutionCpu | None:
    """Returns what executions took of the CPUs on average; None where that is not known of all."""
    cpu = [execution.cpu for execution in executions if execution.cpu is not None]
    if len(cpu) < len(executions):
        return None
    apart = all(map(_is_planned_apart, executions))
    return ExecutionCpu(
        seconds=_mean([execution_cpu.seconds for execution_cpu in cpu]),
        planning_seconds=_mean([execution_cpu.planning_seconds for execution_cpu in cpu]) if apart else None,
        waited_seconds=_mean([execution_cpu.waited_seconds for execution_cpu in cpu]),
    )


def _is_planned_apart(execution: StatementDone) -> bool:
    return execution.planning_seconds is not None and execution.planning_seconds < execution.seconds


def _mean(seconds: Sequence[float | None]) -> float:
    return round(sum(part or 0.0 for part in seconds) / len(seconds), 9)


__all__ = ["mean_cpu", "mean_planning"]
