"""The workloads pgstrata knows: the core's, those of capabilities and of installed packages, a user's files.

A new one of the core is a package beside this and a line in `_CORE`; one of a capability a line in its
`CAPABILITY`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from pgstrata.errors import UsageError
from pgstrata.registry import capabilities, load
from pgstrata.suggest import nearest
from pgstrata.workload import plugin
from pgstrata.workload.core.options import RunCost, WorkloadKind, WorkloadOptions

__all__ = ["RunCost", "WorkloadKind", "WorkloadOptions", "find", "is_known", "names", "own_names", "scale"]

_CORE = {
    "insert": "pgstrata.workload.insert.steps:InsertBenchmark",
    "sysbench": "pgstrata.workload.sysbench.steps:Sysbench",
    "pgbench": "pgstrata.workload.pgbench.steps:Pgbench",
    "custom": "pgstrata.workload.custom.steps:Custom",
}


@cache
def _places() -> dict[str, str]:
    """Returns where pgstrata's own workloads are, by name."""
    return _CORE | {name: place for offer in capabilities() for name, place in offer.workloads.items()}


@cache
def _shipped(name: str) -> WorkloadKind:
    workload: WorkloadKind = load(_places()[name])()
    return workload


def own_names() -> list[str]:
    """Returns the names of pgstrata's own workloads."""
    return list(_places())


def names() -> list[str]:
    """Returns the names of all workloads, those of installed packages behind pgstrata's own."""
    return [*_places(), *(name for name in plugin.offered() if name not in _places())]


def is_known(name: str) -> bool:
    """Returns whether a name is one of `names`, or written as a file with a class in it."""
    return plugin.names_file(name) or name in names()


def find(name: str, folder: Path | None = None) -> WorkloadKind:
    """Returns the workload of this name. Raises UsageError with the names, nearest first.

    folder: where files start that are named relative; None: where pgstrata is started. PluginError says what
    is wrong with a file or a package.
    """
    if name in _places():
        return _shipped(name)
    if plugin.names_file(name):
        return plugin.from_file(name, folder or Path.cwd())
    if name in plugin.offered():
        return plugin.from_package(name)
    near = nearest(name, names())
    meant = f"Did you mean {near!r}? " if near else ""
    raise UsageError(f"There is no workload {name!r}.", f"{meant}Workloads: {', '.join(names())}.")


def scale(workload: WorkloadKind, name: str) -> dict[str, Any]:
    """Returns the options that `--scale name` stands for. Raises UsageError with the scales of the
    workload."""
    if name in workload.scales:
        return dict(workload.scales[name])
    raise UsageError(
        f"Workload {workload.name!r} has no scale {name!r}.", f"Scales: {', '.join(workload.scales)}."
    )
