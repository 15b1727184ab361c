"""What a file of `setup` comes to: statements, and blocks of rows that lie in files.

Blocks within SQL files and dumps are written into files of the cache before the load, once for each content.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pgstrata import numbers
from pgstrata.errors import ServerError, is_disk_full
from pgstrata.server.cache import building, cache_folder, discard, publish
from pgstrata.workload.custom.sql import Statement

FOLDER = "custom"
"""Of the cache."""

ABOUT = "about.json"

Say = Callable[[str], None]
Check = Callable[[], None]


@dataclass(frozen=True)
class Block:
    """One COPY and the file of its rows. bytes: of the file, as far as they are known before it is there."""

    text: str
    file: Path
    bytes: int
    line: int = 0


@dataclass(frozen=True)
class Source:
    """What a file comes to, in its order. dump: pg_dump made it. bytes: of the rows, about. unpack: makes the
    files of its blocks, unless they are there. dumped_from: version of the server that was dumped, empty
    where that is not known."""

    items: tuple[Statement | Block, ...]
    dump: bool
    bytes: int
    unpack: Callable[[Say, Check], None]
    dumped_from: str = ""


def folder_of(digest: str) -> Path:
    return cache_folder(FOLDER) / digest


def unpacked(
    path: Path,
    folder: Path,
    needed: int | None,
    make: Callable[[Path, Check], None],
    say: Say,
    check: Check,
) -> None:
    """Makes the files of a source in the cache unless they are there. needed: bytes, about; None: there are
    none. Raises ServerError where the disk is too small, and what `make` raises."""
    if needed is None or folder.is_dir():
        return
    cache_folder(FOLDER, make=True)
    try:
        with building(folder) as place:
            free = shutil.disk_usage(place).free
            if free < needed:
                raise ServerError(
                    f"{folder.parent} has {numbers.size(free)} free, the rows of {path.name} need about "
                    f"{numbers.size(needed)}",
                    "make room, or name another folder with PGSTRATA_CACHE",
                )
            say(f"  unpacking the rows of {path.name} (kept in {folder})")
            make(place, check)
            (place / ABOUT).write_text(json.dumps({"file": path.name}) + "\n")
            publish(place, folder)  # where another one was faster, what it made is the same
    except OSError as error:
        if is_disk_full(error):
            raise ServerError(
                f"the disk of {folder.parent} became full while {path.name} was unpacked",
                "its space has been freed; make room, or name another folder with PGSTRATA_CACHE",
            ) from error
        raise ServerError(
            f"the rows of {path.name} cannot be kept in {folder.parent}: {error.strerror}"
        ) from error


@dataclass(frozen=True)
class Unpacked:
    """Rows in the cache. file: the name of the one they are of; made: when, as ISO 8601 in UTC."""

    key: str
    file: str
    made: str
    folder: Path


def there() -> list[Unpacked]:
    """All rows that are unpacked, by key. What cannot be read is left out."""
    found = []
    for folder in sorted(cache_folder(FOLDER).glob("[0-9a-f]*")):
        with contextlib.suppress(OSError, ValueError, KeyError):
            file = str(json.loads((folder / ABOUT).read_text())["file"])
            made = datetime.fromtimestamp(folder.stat().st_mtime, UTC).isoformat(timespec="seconds")
            found.append(Unpacked(folder.name, file, made, folder))
    return found


def remove(name: str | None) -> list[str]:
    """Removes unpacked rows whose key begins so, eight letters at least; all without a name. Returns the
    keys. Raises ServerError where the cache cannot be written."""
    done = []
    for one in there():
        if name is None or (len(name) >= 8 and one.key.startswith(name)):
            try:
                discard(one.folder)
            except OSError as error:
                raise ServerError(f"{one.folder} cannot be removed: {error.strerror}") from error
            done.append(one.key)
    return done


__all__ = ["Block", "Check", "Say", "Source", "Unpacked", "folder_of", "remove", "there", "unpacked"]
