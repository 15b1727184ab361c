"""The workloads pgstrata knows: its own, what installed packages offer, and files of a user.

A new one of its own is a package beside this and a line in `_WORKLOADS`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pgstrata.errors import UsageError
from pgstrata.suggest import nearest
from pgstrata.workload import plugin
from pgstrata.workload.core.options import RunCost, Workload, WorkloadOptions
from pgstrata.workload.custom import Custom
from pgstrata.workload.fulltext import Fulltext
from pgstrata.workload.insert.steps import InsertBenchmark
from pgstrata.workload.pgbench.steps import Pgbench
from pgstrata.workload.replay import Replay
from pgstrata.workload.sysbench.steps import Sysbench
from pgstrata.workload.tpcds import Tpcds
from pgstrata.workload.vector import Vector

__all__ = ["RunCost", "Workload", "WorkloadOptions", "find", "is_known", "names", "own_names", "scale"]

_WORKLOADS: dict[str, Workload] = {
    w.name: w
    for w in (InsertBenchmark(), Sysbench(), Pgbench(), Tpcds(), Fulltext(), Custom(), Vector(), Replay())
}


def own_names() -> list[str]:
    """Names of pgstrata's own workloads."""
    return list(_WORKLOADS)


def names() -> list[str]:
    """Names of all workloads, those of installed packages behind pgstrata's own."""
    return [*_WORKLOADS, *(name for name in plugin.offered() if name not in _WORKLOADS)]


def is_known(name: str) -> bool:
    """Whether it is one of `names`, or written as a file with a class in it."""
    return plugin.is_file(name) or name in names()


def find(name: str, folder: Path | None = None) -> Workload:
    """The workload of this name; UsageError lists the names, nearest first.

    folder: where files start that are named relative; None: where pgstrata is started. PluginError says what
    is wrong with a file or a package.
    """
    if name in _WORKLOADS:
        return _WORKLOADS[name]
    if plugin.is_file(name):
        return plugin.from_file(name, folder or Path.cwd())
    if name in plugin.offered():
        return plugin.from_package(name)
    near = nearest(name, names())
    meant = f"Did you mean {near!r}? " if near else ""
    raise UsageError(f"There is no workload {name!r}.", f"{meant}Workloads: {', '.join(names())}.")


def scale(workload: Workload, name: str) -> dict[str, Any]:
    """The options that `--scale name` stands for; UsageError lists the scales of the workload."""
    if name in workload.scales:
        return dict(workload.scales[name])
    raise UsageError(
        f"Workload {workload.name!r} has no scale {name!r}.", f"Scales: {', '.join(workload.scales)}."
    )
