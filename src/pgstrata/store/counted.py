"""Runs that counted instructions: another measurement than the timed runs beside them."""

from __future__ import annotations

from collections.abc import Iterable

from pgstrata.store.read import Run

COUNTED = ".counted"
"""Ends the workload of a run that counted: a measurement beside the timed runs of the same workload."""


def counted_runs(runs: Iterable[Run]) -> list[Run]:
    """Returns the counted runs; of one variant and workload only the newest, a failed one only if there is no
    other."""
    newest: dict[tuple[str, str], Run] = {}
    for run in sorted(runs, key=lambda r: (r.done, r.record.started)):
        if run.record.counted is not None:
            newest[run.variant, run.workload] = run
    return list(newest.values())


def plain_workload(run: Run) -> str:
    """Returns the workload of a counted run as the campaign calls it."""
    return run.workload.removesuffix(COUNTED)


__all__ = ["COUNTED", "counted_runs", "plain_workload"]
