"""Folders on their way between machines: packed with a digest, unpacked only where it is right."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

from pgstrata.errors import ServerError
from pgstrata.files import digests, disk
from pgstrata.files.unpacking import ArchiveError, opened
from pgstrata.files.unpacking import unpack as unpack_all
from pgstrata.fleet.tasks import Parcel

LEVEL = 1
"""Of compression: most of what travels is compressed already."""

MOST_BYTES = 4 << 30
"""Of everything in one parcel, unpacked."""


def pack(root: Path, names: Iterable[str], shared: Path | None = None) -> Parcel:
    """Packs files and folders below `root`, by their names relative to it.

    shared: a file for the archive that the other side can read. Raises OSError.
    """
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=LEVEL) as archive:
        for name in names:
            archive.add(root / name, name, filter=_without_owner)
    data = content.getvalue()
    digest = digests.of(data)
    if shared is None:
        return Parcel(digest=digest, content=data)
    disk.write(shared, data)
    return Parcel(digest=digest, shared=str(shared))


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(parcel: Parcel, folder: Path, *, private: bool = False) -> None:
    """Writes what is in a parcel below an empty folder. private: for this user alone.

    Raises ServerError where the digest is wrong, a name or link leads out of the folder, or it is larger than
    MOST_BYTES; OSError where it cannot be written.
    """
    data = parcel.content or disk.read_regular(Path(parcel.shared), MOST_BYTES)
    if digests.of(data) != parcel.digest:
        raise ServerError("a parcel was damaged on its way: its digest is another", "it is sent again")
    name = "a parcel"
    try:
        with opened(name, io.BytesIO(data), "r:gz") as archive:
            unpack_all(name, archive, folder, MOST_BYTES, private=private)
    except ArchiveError as error:
        raise ServerError(error.message) from error


__all__ = ["pack", "unpack"]
