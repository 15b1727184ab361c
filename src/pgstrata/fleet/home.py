"""Results come home: whole run folders, checked by digest, put into place as a local run is."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pgstrata.errors import ServerError
from pgstrata.files.disk import storing, sync_folder, sync_tree
from pgstrata.fleet import parcel
from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.tasks import Parcel
from pgstrata.store import Results, Run, comparisons, kept
from pgstrata.store.names import RUN_FOLDER
from pgstrata.store.read import BrokenRun, read_run

ARRIVED = ".fleet"
"""Folder in the results in which parcels are opened; nothing in it is a run."""


def bring_home(results: Results, assignment: Assignment, sent: Parcel) -> list[Run]:
    """Puts the runs of an assignment into the results folder, all of them or none.

    One that is there already counts once. Raises ServerError where what came is not what was asked for or is
    damaged, StoreError where it cannot be written.
    """
    with storing("take in the runs of a machine", results.root):
        place = results.root / ARRIVED / assignment.id
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(mode=0o700, parents=True)
        try:
            parcel.unpack(sent, place, private=True)
            runs = _checked(place, assignment)
            sync_tree(place)
            folders = [_into_place(run, results.root) for run in runs]
            _replace_older(results, runs, folders)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        if sent.shared:
            with contextlib.suppress(OSError):
                Path(sent.shared).unlink()
    return [run for folder in folders if isinstance(run := read_run(folder), Run)]


def _checked(place: Path, assignment: Assignment) -> list[Run]:
    """Returns every run that came home. Raises ServerError unless each is whole, sound and asked for."""
    wanted = {run.key for run in assignment.runs}
    runs = []
    for path in sorted(place.glob("*/*/*/*")):
        run = read_run(path) if RUN_FOLDER.fullmatch(path.name) else BrokenRun(path, "it is no run")
        if isinstance(run, BrokenRun):
            raise ServerError(f"a run came home damaged: {run.reason}")
        if run.key not in wanted or path.parent != run.key.folder(place):
            raise ServerError(f"{run.key.variant}, {run.key.workload}: nobody has asked for this run")
        runs.append(run)
    if missing := wanted - {run.key for run in runs}:
        names = ", ".join(sorted(key.variant for key in missing))
        raise ServerError(f"{assignment} came home without {names}")
    return runs


def _into_place(run: Run, root: Path) -> Path:
    final = run.key.folder(root) / run.folder.name
    if not final.exists():
        final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.rename(run.folder, final)  # noqa: PTH104
        for folder in (final.parent, *final.parent.parents[:3]):
            sync_folder(folder)
    return final


def _replace_older(results: Results, runs: Sequence[Run], folders: Sequence[Path]) -> None:
    """Replaces older runs by those measured anew, as a local campaign does."""
    if runs[0].record.comparison is not None:
        able = [(run, folder) for run, folder in zip(runs, folders, strict=True) if run.comparison]
        failed = [run.key for run, _ in able if not run.done]
        comparisons.replace_older(results, {run.key: folder for run, folder in able}, failed)
    for run, folder in zip(runs, folders, strict=True):
        if run.record.comparison is None:
            for other in folder.parent.glob(f"{run.repeat}-*"):
                if other != folder and other.is_dir():
                    comparisons.hide(other)
        kept.drop(results.root, run.key)


__all__ = ["ARRIVED", "bring_home"]
