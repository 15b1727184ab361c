"""Reads a file of `setup` as what it is: SQL, a dump in SQL, or an archive of pg_dump."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import IO

from pgstrata.errors import ServerError, UsageError
from pgstrata.files.unpacking import opened
from pgstrata.files.user_files import shown
from pgstrata.workload.custom.archive import archive
from pgstrata.workload.custom.source import Check, CopyBlock, Source, folder_of, unpacked
from pgstrata.workload.custom.sql import Copy, SqlStatement, items

_CHUNK = 1 << 20
_DUMP = re.compile(rb"^-- PostgreSQL database (?:cluster )?dump\s*$", re.MULTILINE)
_DUMPED_FROM = re.compile(rb"^-- Dumped from database version ([0-9][0-9.a-z]*)", re.MULTILINE)
_HEAD_BYTES = 4096


def read(path: Path, digest: str) -> Source:
    """Raises UsageError for a file that is neither SQL nor a dump, and for SQL that cannot be read."""
    if path.is_dir() or _is_archive(path):
        return archive(path, digest)
    return _sql(path, digest)


def _is_archive(path: Path) -> bool:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    if head.startswith(b"PGDMP"):
        return True
    if head[257:262] == b"ustar":
        with path.open("rb") as file, opened(shown(path), file, "r:") as tar:
            first = tar.next()
        if first is None or first.name != "toc.dat":
            raise UsageError(f"{shown(path)} is an archive, but no dump", "unpack it, and name what is in it")
        return True
    if head[:2] == b"\x1f\x8b" or head[:4] == b"\x28\xb5\x2f\xfd" or head[:2] == b"PK":
        raise UsageError(f"{shown(path)} is compressed", "unpack it first; a dump of pg_dump -Fc is as small")
    return False


@lru_cache(maxsize=1000)
def _sql(path: Path, digest: str) -> Source:
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    dump, match = bool(_DUMP.search(head)), _DUMPED_FROM.search(head)
    folder = folder_of(digest)
    pieces: list[SqlStatement | CopyBlock] = []
    copies: list[Copy] = []
    for item in items(path):
        if isinstance(item, Copy):
            file_of = folder / f"{len(copies)}.rows"
            copies.append(item)
            pieces.append(CopyBlock(item.text, file_of, item.end - item.begin, item.line))
        else:
            pieces.append(item)

    def cut(place: Path, check: Check) -> None:
        with path.open("rb") as whole:
            for number, copy in enumerate(copies):
                with (place / f"{number}.rows").open("wb") as to:
                    whole.seek(copy.begin)
                    _copy(whole, to, copy.end - copy.begin, check)

    size = sum(copy.end - copy.begin for copy in copies)
    needed = size if copies else None
    return Source(
        tuple(pieces),
        dump,
        size,
        lambda say, check: unpacked(path, folder, needed, cut, say, check),
        match[1].decode() if match else "",
    )


def _copy(whole: IO[bytes], to: IO[bytes], size: int, check: Check) -> None:
    while size:
        check()
        chunk = whole.read(min(size, _CHUNK))
        if not chunk:
            raise ServerError("a file of `setup` has become shorter while it was read", "start again")
        to.write(chunk)
        size -= len(chunk)


__all__ = ["read"]
