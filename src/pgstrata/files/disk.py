"""Files that are whole or not there: written, synced and renamed, with errors a user can act on."""

from __future__ import annotations

import errno
import glob
import gzip
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from pgstrata import numbers
from pgstrata.errors import StoreError, is_disk_full
from pgstrata.files.ownership import private_opener

REMOVED_AT_ONCE = 8
"""Files of a folder's tree that are removed at the same time."""


@contextmanager
def storing(deed: str, path: Path) -> Iterator[None]:
    """Turns an OSError into one sentence: what could not be done, where, why, and what to do.

    `deed` reads as what follows "cannot", say `store the server log`.
    """
    try:
        yield
    except OSError as cause:
        if is_disk_full(cause) or cause.errno == errno.EFBIG:
            raise StoreError(
                f"no space left to {deed} in {path}",
                "free some space or choose another folder with --results; the run has to be done again",
            ) from cause
        if cause.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise StoreError(
                f"cannot {deed} in {path}: {cause.strerror}",
                "choose a folder you may write to with --results",
            ) from cause
        raise StoreError(
            f"cannot {deed} in {path}: {cause.strerror or cause}", "choose another folder with --results"
        ) from cause


def write(path: Path, data: bytes) -> None:
    """Writes a new file to the disk, not only to memory. Raises OSError."""
    with open(path, "xb", opener=private_opener) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing(
    path: Path,
    *,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    linked: bool = True,
    durable: bool = True,
) -> Iterator[BinaryIO]:
    """Yields a file that takes the place of `path` at the end: at every moment the old one or the new one is
    there, whole.

    It lies beside under a hidden name, which goes where the block raises; what another account has put there
    under either name, a link say, is not followed. mode, owner (uid and gid): of the new file, whatever the
    umask. linked: the last part of the folder's path may be a symbolic link. durable: the new file survives a
    power cut. Raises OSError.
    """
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if linked else os.O_NOFOLLOW)
    folder = os.open(path.parent, flags)
    beside = f".{path.name}.{secrets.token_hex(4)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(beside, flags, 0o600, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fchmod(descriptor, mode)
                if owner:
                    os.fchown(descriptor, *owner)
                if durable:
                    os.fsync(descriptor)
            os.rename(beside, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            raise
        if durable:
            os.fsync(folder)
    finally:
        os.close(folder)


def replace(
    path: Path,
    *data: bytes | memoryview,
    mode: int = 0o600,
    owner: tuple[int, int] | None = None,
    linked: bool = True,
    durable: bool = True,
) -> None:
    """Writes a file anew from its parts, as `replacing` does. Raises OSError."""
    with replacing(path, mode=mode, owner=owner, linked=linked, durable=durable) as file:
        for part in data:
            file.write(part)


def write_into(
    folder: Path, name: str, text: str, *, mode: int, owner: tuple[int, int] | None = None
) -> None:
    """Writes a file anew into a folder that may belong to another account, whose links are not followed.

    owner: uid and gid it is given to. Raises OSError.
    """
    replace(folder / name, text.encode(), mode=mode, owner=owner, linked=False, durable=False)


def left_beside(path: Path) -> Iterator[Path]:
    """Yields what killed writers of a file left beside it, and what others are writing now."""
    yield from path.parent.glob(f".{glob.escape(path.name)}.????????")


def read_regular(path: Path, most: int) -> bytes:
    """Returns the content of a file of at most `most` bytes. Raises OSError, also for pipes, devices and
    folders."""
    # Not blocking: opening a FIFO would wait for its writer for ever.
    with open(path, "rb", opener=_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if status.st_size > most:
            raise OSError(errno.EFBIG, f"it is larger than {numbers.size(most)}", str(path))
        return file.read(most)


def _at_once(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY)


def compress(source: Path, target: Path) -> None:
    """Writes a gzip of a file that may be larger than memory, and syncs it. Raises OSError."""
    with source.open("rb") as log, open(target, "xb", opener=private_opener) as file:
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6) as packed:
            shutil.copyfileobj(log, packed, 1 << 20)
        file.flush()
        os.fsync(file.fileno())


def sync_tree(folder: Path) -> None:
    """Makes everything below a folder, and the folder, survive a power cut. Raises OSError."""
    for path in folder.rglob("*"):
        if not path.is_symlink() and (path.is_file() or path.is_dir()):
            _sync(path, 0)
    sync_folder(folder)


def remove_tree(folder: Path) -> None:
    """Removes a folder of many files, as well as it can; links are not followed.

    Several at once: each removal waits for the disk's journal, on a disk that others write to for long.
    """
    if folder.is_symlink():
        return
    folders = [path for path, _, _ in os.walk(folder)]
    with ThreadPoolExecutor(REMOVED_AT_ONCE) as threads:
        list(threads.map(_remove_files, folders))
    shutil.rmtree(folder, ignore_errors=True)


def _remove_files(folder: str) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.path)  # noqa: PTH108 - a Path for each of ten thousands takes longer


def folder_bytes(folder: Path) -> int:
    """Returns the bytes of disk that the files below a folder take; files with several names count once."""
    total, seen = 0, set()
    for path in folder.rglob("*"):
        with suppress(OSError):
            about = path.lstat()
            if (about.st_dev, about.st_ino) not in seen:
                seen.add((about.st_dev, about.st_ino))
                total += about.st_blocks * 512
    return total


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder survive a power cut, as fsync of a file does for its content."""
    _sync(folder, os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
