"""A results folder: where runs lie, which are there, and the beginning of new ones."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from pgstrata.files import disk
from pgstrata.store import lock
from pgstrata.store.catalogue import Entry, Survey, survey
from pgstrata.store.listing import listed
from pgstrata.store.names import BUILDING_FOLDER, RUN_FOLDER, RunKey, slug
from pgstrata.store.read import BrokenRun, Run, read_run
from pgstrata.store.write import OWNER, RunBuilder, remove

__all__ = ["Results", "RunKey", "slug"]

# a builder makes its folder and then its mark of ownership; nobody needs this long in between
_UNMARKED_SECONDS = 10.0


class Results:
    """All runs below one folder. The folder need not exist before something is written to it."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)
        self.broken: list[BrokenRun] = []
        self._entries: list[Entry] | None = None

    def lock(self) -> AbstractContextManager[object]:
        """Keeps every other pgstrata from writing here; StoreError names the holder if there is one."""
        return lock.ResultsLock(self.root)

    def clean(self) -> list[Path]:
        """Removes the building folders that no living process owns, and says which they were."""
        removed = []
        for folder in sorted(self.root.glob("*/*/*/.*.building")):
            if folder.is_symlink() or not folder.is_dir() or not BUILDING_FOLDER.fullmatch(folder.name):
                continue
            if _owned(folder):
                continue
            with disk.storing("remove what is left of a run", folder.parent):
                remove(folder)
            removed.append(folder)
        return removed

    def find(self, key: RunKey, done: bool = True) -> Path | None:
        """Returns the folder of a whole run of this key, the newest if there are several; None if there is
        none.

        done=True: failed runs do not count.
        """
        folders = [run.folder for run in self.all(key) if run.done or not done]
        return folders[-1] if folders else None

    def all(self, key: RunKey) -> list[Run]:
        """Returns all whole runs of this key, failed ones included, in the order in which they were begun."""
        runs = []
        for folder in sorted(key.folder(self.root).glob(f"{key.repeat}-*")):
            if not RUN_FOLDER.fullmatch(folder.name):
                continue
            run = read_run(folder)
            if isinstance(run, Run) and run.key == key:
                runs.append(run)
        return runs

    def survey(self, *, rows: bool = False, files: Sequence[str] = ()) -> Survey:
        """Returns what the catalogue and the folders say of every whole run, sorted by folder, without
        opening the runs that are known. Runs that cannot be used are in `broken` afterwards.

        rows: leaves a connection with the rows of the views, which the caller closes. files: those that will
        be read of each run, by name: where one of them has changed, the run is read anew.
        """
        surveyed = survey(self.root, listed(self.root), rows=rows, files=files)
        self.broken = surveyed.broken
        self._entries = surveyed.entries
        return surveyed

    def entries(self) -> list[Entry]:
        """Returns what is known of every whole run without opening it, sorted by folder; looked for only
        once. Runs that cannot be used are in `broken` afterwards."""
        return self._entries if self._entries is not None else self.survey().entries

    def read(self, entries: Iterable[Entry]) -> list[Run]:
        """Returns the runs of these entries. Runs that cannot be used are added to `broken`."""
        runs = []
        for entry in entries:
            run = entry.read(self.root)
            if isinstance(run, Run):
                runs.append(run)
            elif run not in self.broken:
                self.broken.append(run)
        return runs

    def runs(self) -> list[Run]:
        """Returns all whole runs, sorted by folder. Runs that cannot be used are in `broken` afterwards."""
        return self.read(self.survey().entries)

    def begin(self, key: RunKey) -> RunBuilder:
        """Starts a run in a hidden folder owned by this process."""
        return RunBuilder(self.root, key)


def _owned(folder: Path) -> bool:
    try:
        return lock.is_held(folder / OWNER)
    except FileNotFoundError:
        try:
            return time.time() - folder.stat().st_mtime < _UNMARKED_SECONDS
        except FileNotFoundError:
            return True  # finished or removed by its owner while we looked
    except OSError:
        return True  # when in doubt somebody else's
