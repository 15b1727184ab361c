"""Runs that took turns belong together: they count as one comparison, or not at all.

A comparison is complete when every variant of it has finished. Where one failed, what the others measured
beside it can be looked at, but nothing stands for it in a later comparison: the runs of two comparisons
never met.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from pgstrata.store.names import RunKey
from pgstrata.store.read import Run
from pgstrata.store.results_folder import Results


def complete(results: Results, keys: Sequence[RunKey]) -> dict[RunKey, Path] | None:
    """Returns the folders of the newest comparison in which all of these runs finished; None if there is
    none."""
    by_comparison: dict[str, dict[RunKey, Run]] = {}
    for key in keys:
        for run in results.all(key):
            if run.done and (comparison := run.comparison):
                by_comparison.setdefault(comparison, {})[key] = run
    whole = [runs for runs in by_comparison.values() if len(runs) == len(keys)]
    if not whole:
        return None
    newest = max(whole, key=lambda runs: _started(list(runs.values())))
    return {key: run.folder for key, run in newest.items()}


def replace_older(results: Results, folders: dict[RunKey, Path], failed: Iterable[RunKey]) -> None:
    """Hides what a comparison that has just been made replaces. Raises OSError.

    Everything older where all its runs finished, and where nothing older is complete. Else the older one
    stays, and the finished runs of the new one are hidden: those that failed take their siblings with them.
    """
    bad = set(failed)
    whole = complete(results, list(folders))
    keep = whole if bad and whole else folders
    for key in folders:
        for run in results.all(key):
            if run.folder == keep[key] or (run.folder == folders[key] and key in bad):
                continue
            hide(run.folder)


def hide(folder: Path) -> None:
    """Sets a run aside: it stays on disk, and no table counts it. Raises OSError."""
    folder.rename(folder.with_name(f".{folder.name}.superseded"))


class KnownRun(Protocol):
    """A run, or what is known of one without opening it."""

    @property
    def campaign(self) -> str: ...
    @property
    def variant(self) -> str: ...
    @property
    def workload(self) -> str: ...
    @property
    def repeat(self) -> int: ...
    @property
    def done(self) -> bool: ...
    @property
    def started(self) -> str: ...
    @property
    def hostname(self) -> str | None: ...
    @property
    def comparison(self) -> str | None: ...
    @property
    def participants(self) -> tuple[str, ...]: ...


C = TypeVar("C", bound=KnownRun)


def counted(runs: Sequence[C]) -> list[C]:
    """Returns the runs without those of a comparison that another one of the same campaign, workload, repeat
    and machine stands for: the newest complete one, or the newest where none is complete."""
    groups: dict[tuple[object, ...], dict[str, list[C]]] = {}
    for run in runs:
        if run.comparison:
            groups.setdefault(_place(run), {}).setdefault(run.comparison, []).append(run)
    kept = {
        place: max(group.items(), key=lambda item: (_is_complete(item[1]), _started(item[1])))[0]
        for place, group in groups.items()
    }
    return [run for run in runs if run.comparison in (None, kept.get(_place(run)))]


def _place(run: KnownRun) -> tuple[object, ...]:
    return run.campaign, run.workload, run.repeat, run.hostname


def _is_complete(runs: Sequence[KnownRun]) -> bool:
    return set(runs[0].participants) <= {run.variant for run in runs if run.done}


def _started(runs: Sequence[KnownRun]) -> str:
    return max(run.started for run in runs)
