"""What a file of `setup` comes to: statements, and blocks of rows that lie in files.

Blocks within SQL files and dumps are written into files of the cache before the load, once for each content.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgstrata.server.find.cache import cache_folder, keeping, use
from pgstrata.workload.custom.sql import SqlStatement

FOLDER = "custom"
"""Of the cache."""

ABOUT = "about.json"

Say = Callable[[str], None]
Check = Callable[[], None]


@dataclass(frozen=True)
class CopyBlock:
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

    items: tuple[SqlStatement | CopyBlock, ...]
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
    if needed is None:
        return
    if not folder.is_dir():
        with keeping(folder, f"the data of {path.name}", needed, private=True) as place:
            say(f"  unpacking the rows of {path.name} (kept in {folder})")
            make(place, check)
            (place / ABOUT).write_text(json.dumps({"file": path.name}) + "\n")
    use(folder)


__all__ = ["Check", "CopyBlock", "Say", "Source", "folder_of", "unpacked"]
