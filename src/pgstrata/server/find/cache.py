"""The cache: servers, corpora and data that are made or fetched once and then used again and again.

Servers in it are run and data in it is measured, so nobody else may write to it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pgstrata import numbers
from pgstrata.errors import ServerError, is_disk_full
from pgstrata.files.building import UNFINISHED, building, discard, publish
from pgstrata.files.building import clear_unfinished as clear_left
from pgstrata.files.locks import alone_in, lock_folder
from pgstrata.files.ownership import own_folder
from pgstrata.files.user_files import user_path
from pgstrata.server.system.account import blocked_at, server_account

ADVICE = "name another place with PGSTRATA_CACHE"

SHARED = Path("/var/cache/pgstrata")
"""Cache of root where its home is closed to the account of servers, as it usually is."""

_used: dict[Path, int] = {}
"""Locks on what this process uses, shared with others that use it."""


def cache_dir() -> Path:
    """Returns the cache folder: `PGSTRATA_CACHE`, else `$XDG_CACHE_HOME/pgstrata`, else `~/.cache/pgstrata`.

    As root, the last two only where the account of servers can reach them, else /var/cache/pgstrata.
    """
    if named := os.environ.get("PGSTRATA_CACHE"):
        return Path(os.path.abspath(user_path(named)))  # noqa: PTH100
    home = os.environ.get("XDG_CACHE_HOME")
    usual = (Path(home) if home else user_path("~/.cache")) / "pgstrata"
    return SHARED if blocked_at(usual, server_account()) else usual


def cache_folder(*names: str, make: bool = False) -> Path:
    """Returns a folder of the cache; with `make` it is made if need be.

    Raises OwnershipError where one of another user than this one and root could change what is in it, and
    ServerError where it cannot be made.
    """
    folder = cache_dir()
    try:
        for name in ("", *names):
            folder /= name
            if make or folder.exists():
                own_folder(folder, "the cache", advice=ADVICE, mode=0o755, roots=True, way=not name)
    except OSError as error:
        raise ServerError(f"the cache {folder} cannot be used: {error.strerror}", ADVICE) from error
    return cache_dir().joinpath(*names)


@contextlib.contextmanager
def keeping(
    final: Path, what: str, needed: int, smaller: str = "", *, private: bool = False
) -> Iterator[Path]:
    """Yields a new folder for `what`, "the corpus", of about `needed` bytes, which is put in the place
    `final` at the end; a damaged folder that was there is removed. smaller: advice where there is too little
    room, before "or …"; private: no other user may read it.

    Raises ServerError where the disk has no room for it, or becomes full.
    """
    cache_folder(final.parent.name, make=True)
    try:
        with building(final) as place:
            free = shutil.disk_usage(place).free
            if free < needed:
                room, wanted = numbers.size(free), numbers.size(needed)
                raise ServerError(
                    f"{final.parent} has {room} free, {what} needs about {wanted}",
                    f"make room, {smaller}or {ADVICE}",
                )
            damaged = final.exists()
            yield place
            if damaged:
                with contextlib.suppress(BlockingIOError, FileNotFoundError):  # another one was quicker
                    discard(final)
            publish(place, final, mode=0o700 if private else 0o755)
    except OSError as error:
        if is_disk_full(error):
            raise ServerError(
                f"the disk of {final.parent} became full while {what} was made",
                f"its space has been freed; make room, or {ADVICE}",
            ) from error
        raise ServerError(f"{what} cannot be kept in {final.parent}: {error.strerror}") from error


def use(folder: Path) -> None:
    """Locks a folder of the cache against removal while this process lives. Raises ServerError where another
    process is removing it."""
    removed = ServerError(f"{folder} is being removed from the cache", "begin again")
    try:
        lock = lock_folder(folder, shared=True)
    except OSError as error:
        raise removed from error
    if lock is None:
        raise removed
    if (before := _used.pop(folder, None)) is not None:
        os.close(before)
    _used[folder] = lock


def remove(folder: Path, what: str) -> None:
    """Removes a folder of the cache. Raises ServerError where it is in use or cannot be removed."""
    try:
        discard(folder)
    except BlockingIOError as error:
        raise ServerError(f"{what} is in use", "try again later") from error
    except OSError as error:
        raise ServerError(f"{folder} cannot be removed: {error.strerror}") from error


def clear_unfinished() -> list[str]:
    """Removes what killed ones have left unfinished in the cache; one sentence for each."""
    root, folders = cache_dir(), []
    # As deep as anything is made: the answers of TPC-DS lie in a folder of their own beside its data.
    levels = ("*", "*/*", "*/*/*")
    parents = {path.parent for level in levels for path in root.glob(f"{level}/{UNFINISHED}")}
    for parent in sorted(parents):
        cache_folder(*parent.relative_to(root).parts)
        with alone_in(parent) as alone:
            folders += clear_left(parent) if alone else []
    return [f"unfinished, {folder}" for folder in folders]
