"""The workloads pgstrata knows. A new one is a package beside this and a line in `_WORKLOADS`."""

from __future__ import annotations

from typing import Any

from pgstrata.errors import UsageError
from pgstrata.suggest import nearest
from pgstrata.workload.core.options import RunCost, Workload, WorkloadOptions
from pgstrata.workload.fulltext import Fulltext
from pgstrata.workload.insert.steps import InsertBenchmark
from pgstrata.workload.pgbench.steps import Pgbench
from pgstrata.workload.sysbench.steps import Sysbench
from pgstrata.workload.tpcds import Tpcds

__all__ = ["RunCost", "Workload", "WorkloadOptions", "find", "names", "scale"]

_WORKLOADS: dict[str, Workload] = {
    w.name: w for w in (InsertBenchmark(), Sysbench(), Pgbench(), Tpcds(), Fulltext())
}


def names() -> list[str]:
    """Names of all workloads."""
    return list(_WORKLOADS)


def find(name: str) -> Workload:
    """The workload of this name; UsageError lists the names, nearest first."""
    if name in _WORKLOADS:
        return _WORKLOADS[name]
    near = nearest(name, _WORKLOADS)
    meant = f"Did you mean {near!r}? " if near else ""
    raise UsageError(f"There is no workload {name!r}.", f"{meant}Workloads: {', '.join(_WORKLOADS)}.")


def scale(workload: Workload, name: str) -> dict[str, Any]:
    """The options that `--scale name` stands for; UsageError lists the scales of the workload."""
    if name in workload.scales:
        return dict(workload.scales[name])
    raise UsageError(
        f"Workload {workload.name!r} has no scale {name!r}.", f"Scales: {', '.join(workload.scales)}."
    )
