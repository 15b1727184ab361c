"""Finished parts of runs that are not finished yet: durable at once, so that no end of pgstrata loses them.

A step lies in one file, `.<repeat>.kept/<nn>-<step>.step` beside its run's folders: a line with the SHA-256
of the rest, then all the run folder would have had of it. It is written, synced and renamed, so it is whole
or not there; a damaged one is not used. The next attempt at the run takes it over (`RunBuilder.take`). So lie
the starts of a count (`<nn>.start`).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from pgstrata.files import digests, disk
from pgstrata.files.ownership import believed_file
from pgstrata.store.names import RunKey, slug
from pgstrata.store.record import StepRecord, Time

T = TypeVar("T")

MOST_BYTES = 1 << 30
_END = ".step"
_START = ".start"


class KeptStep(Struct, frozen=True, kw_only=True):
    """What a step is known by.

    made_of: stands for all that decided what was measured; a step of another is not used. comparison: whose
    turns it was measured in, None where there were none. attempt: from 1; attempts: when each began, the one
    that measured the step last.
    """

    path: str
    name: str
    order: int
    made_of: str
    comparison: str | None
    attempt: int
    attempts: tuple[Time, ...]


class KeptData(Struct, frozen=True, kw_only=True):
    """What a run folder has of a step. tables: values of their rows; files: by their names in the run
    folder."""

    record: StepRecord
    histograms: dict[str, str]
    tables: dict[str, list[list[Any]]]
    files: dict[str, bytes]
    plans: list[dict[str, Any]]
    driver_version: str


class _File(Struct, frozen=True, kw_only=True):
    step: KeptStep
    data: KeptData


def folder_of(root: Path, key: RunKey) -> Path:
    """Returns the folder where the finished steps of an unfinished run lie."""
    return key.folder(root) / f".{key.repeat}.kept"


def keep(folder: Path, step: KeptStep, data: KeptData) -> None:
    """Makes a step durable. Raises StoreError."""
    body = msgspec.msgpack.encode(_File(step=step, data=data))
    _write(folder, f"{step.order:02d}-{slug(step.name)}{_END}", body, "keep a finished step")


def _write(folder: Path, name: str, body: bytes, deed: str) -> None:
    with disk.storing(deed, folder):
        folder.mkdir(mode=0o700, exist_ok=True)
        disk.replace(folder / name, digests.of(body).encode() + b"\n" + body)
        disk.sync_folder(folder.parent)


def kept(root: Path, key: RunKey) -> list[KeptStep]:
    """Returns the whole steps that are kept of a run, in their order."""
    paths = sorted(folder_of(root, key).glob(f"*{_END}"))
    files = (_read(path) for path in paths)
    return sorted((file.step for file in files if file is not None), key=lambda step: step.order)


def data_of(step: KeptStep) -> KeptData | None:
    """Returns the data measured in a kept step; None if it has been damaged or removed since."""
    file = _read(Path(step.path))
    return file.data if file is not None else None


class KeptStart(Struct, frozen=True, kw_only=True):
    """A start of a count. made_of: as that of a step; data: what it counted, for the one who counts."""

    number: int
    made_of: str
    data: msgspec.Raw


def keep_start(folder: Path, start: KeptStart) -> None:
    """Makes a start durable. Raises StoreError."""
    body = msgspec.msgpack.encode(start)
    _write(folder, f"{start.number:02d}{_START}", body, "keep a finished start")


def kept_starts(folder: Path, made_of: str) -> list[msgspec.Raw]:
    """Returns the counts of the whole starts that are kept of a count, in their order, from the first on."""
    starts: list[msgspec.Raw] = []
    for path in sorted(folder.glob(f"*{_START}")):
        start = _decoded(path, KeptStart)
        if start is None or start.made_of != made_of or start.number != len(starts) + 1:
            break
        starts.append(start.data)
    return starts


def drop(root: Path, key: RunKey) -> None:
    """Removes what is kept of a run: it is finished, or begins anew. Raises StoreError."""
    folder = folder_of(root, key)
    with disk.storing("remove kept steps", folder):
        if folder.is_dir():
            shutil.rmtree(folder)


def _read(path: Path) -> _File | None:
    file = _decoded(path, _File)
    return structs.replace(file, step=structs.replace(file.step, path=str(path))) if file else None


def _decoded(path: Path, type: type[T]) -> T | None:
    """Returns the content of a file; None if it is damaged, another user's, or gone."""
    try:
        if not believed_file(path.lstat(), MOST_BYTES):
            return None
        digest, _, body = disk.read_regular(path, MOST_BYTES).partition(b"\n")
        if digests.of(body).encode() != digest:
            return None
        return msgspec.msgpack.decode(body, type=type)
    except (OSError, msgspec.DecodeError):
        return None


def digest(of: Mapping[str, Any] | Sequence[Any]) -> str:
    """Returns the SHA-256 digest of a description."""
    return digests.of(msgspec.json.encode(of, order="sorted"))
