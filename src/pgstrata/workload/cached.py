"""What the cache holds beside servers so as not to make it again: listed, and removed.

All of it is made again where it is missing.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pgstrata.files.bounded import json_any
from pgstrata.files.disk import folder_bytes
from pgstrata.files.ownership import read_small
from pgstrata.registry import capabilities
from pgstrata.server.cluster import delay, loaded
from pgstrata.server.cluster.loaded import LoadedRecord
from pgstrata.server.find.cache import cache_folder, remove
from pgstrata.workload.custom import contents, source

LETTERS = 8
"""Of a name that is a digest: so many are shown, and at least so many name it."""

_WHAT: Mapping[str, Callable[[Path], str]] = {
    source.FOLDER: lambda folder: f"rows of {json_any(read_small(folder / source.ABOUT))['file']}",
    delay.FOLDER: lambda folder: "library that delays a disk",
}
"""By folder of the cache, what each folder in it is: the core's."""


def _kinds() -> dict[str, Callable[[Path], str]]:
    """Returns the same with what capabilities keep in the cache."""

    def called(what: str) -> Callable[[Path], str]:
        return lambda folder: what

    offered = {kind: called(what) for offer in capabilities() for kind, what in offer.cached.items()}
    return {**_WHAT, **offered}


@dataclass(frozen=True)
class Cached:
    """made: when, as ISO 8601 in UTC. server, seconds: of loaded data, on what and how long it was loaded."""

    key: str
    what: str
    made: str
    folder: Path
    bytes: int
    server: str | None = None
    seconds: float | None = None

    @property
    def name(self) -> str:
        """What calls it on a command line."""
        return self.key[:LETTERS] if set(self.key) <= set(string.hexdigits) else self.key

    def is_called(self, name: str) -> bool:
        """Returns whether a name means this entry: its whole key, its beginning or the label of its
        server."""
        return name in (self.key, self.server) or (len(name) >= LETTERS and self.key.startswith(name))

    def remove(self) -> None:
        """Raises ServerError where it is in use or cannot be removed."""
        remove(self.folder, f"{self.name} ({self.what})")


def cached() -> list[Cached]:
    """Returns all cached data: loaded data, then by kind and name."""
    entries = [_loaded(*entry) for entry in loaded.kept()]
    for kind, what_of in _kinds().items():
        for folder in sorted(cache_folder(kind).glob("[!.]*")):
            try:
                entries.append(_cached(folder, what_of(folder)))
            except FileNotFoundError:  # removed meanwhile, or never whole
                continue
            except (OSError, ValueError, LookupError, TypeError):
                entries.append(_cached(folder, "damaged"))
    digests = cache_folder(contents.FOLDER)
    if digests.is_dir() and any(digests.iterdir()):
        entries.append(_cached(digests, "digests of large files"))
    return entries


def _loaded(key: str, record: LoadedRecord | None, folder: Path) -> Cached:
    if record is None:
        return _cached(folder, "damaged")
    return Cached(key, record.workload, record.made, folder, record.bytes, record.server, record.seconds)


def _cached(folder: Path, what: str) -> Cached:
    made_at = datetime.fromtimestamp(folder.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return Cached(folder.name, what, made_at, folder, folder_bytes(folder))


__all__ = ["Cached", "cached"]
