"""Which folders of a results folder are runs, and whether they are still what they were."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pgstrata.store.names import RUN_FOLDER

_LEVELS = 3
"""Of folders above a run: campaign, variant, workload."""


class Listed(NamedTuple):
    """A folder that has the place and the name of a run.

    folder: relative to the results. signature: another one when its run.json is another file, or was written
    to, and when files came to the folder or went; "" where there is no such file to look at.
    """

    folder: str
    signature: str


def listed(root: Path) -> list[Listed]:
    """Returns all folders below root that have the place and the name of a run, sorted.

    Also links that lead in a circle, wherever a folder is expected: they are no run, and are to be named.
    """
    return list(_below(str(root), "", _LEVELS))


def _below(root: str, parent: str, levels: int) -> Iterator[Listed]:
    for name, usable in _folders(f"{root}/{parent}"):
        folder = parent + name
        if not usable:
            yield Listed(folder, "")
        elif levels:
            yield from _below(root, f"{folder}/", levels - 1)
        elif RUN_FOLDER.fullmatch(name):
            yield Listed(folder, _signature(f"{root}/{folder}"))


def _signature(folder: str) -> str:
    try:
        of_folder = os.stat(folder)  # noqa: PTH116 - ten times quicker than a Path's, and there are many
        about = os.stat(f"{folder}/run.json")  # noqa: PTH116
    except OSError:
        return ""
    times = f"{about.st_mtime_ns} {about.st_ctime_ns} {of_folder.st_mtime_ns}"
    return f"{about.st_dev} {about.st_ino} {about.st_size} {times}"


def _folders(parent: str) -> list[tuple[str, bool]]:
    """Returns the names of the folders in a folder, sorted, and whether each can be entered: links in a
    circle cannot."""
    try:
        with os.scandir(parent) as entries:
            folders = [(e.name, _is_folder(e)) for e in entries if not e.name.startswith(".")]
    except OSError:
        return []
    return sorted((name, bool(kind)) for name, kind in folders if kind is not False)


def _is_folder(entry: os.DirEntry[str]) -> bool | None:
    """Returns whether an entry is a folder; None for an entry that looks like a folder and cannot be
    entered."""
    try:
        return entry.is_dir()
    except OSError as error:
        return None if error.errno == errno.ELOOP else False
