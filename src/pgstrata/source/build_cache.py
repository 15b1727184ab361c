"""The cache of built servers: what is there, what failed, and who is building it now.

servers/built-KEY/            a server, with built.json
servers/.failed-KEY.json      a build that failed, why, and the end of its log
building/KEY/                 a build that is being made; whoever makes it holds the lock KEY.lock
configure/, ccache/, repositories/, archives/   what makes the next build quicker
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from pgstrata.errors import BuildError, ServerError
from pgstrata.files import digests, disk, locks
from pgstrata.files.bounded import BoundError, json_any, json_as
from pgstrata.files.building import discard
from pgstrata.files.building import publish as put_in_place
from pgstrata.files.disk import remove_tree
from pgstrata.files.ownership import own_folder, read_small
from pgstrata.server.find.cache import cache_dir
from pgstrata.server.system.account import check_reachable, server_account
from pgstrata.store.record import BuiltRecord

Json = dict[str, Any]
FORMAT = 1
"""Raised when a build of the same inputs would come out differently."""
WAIT_SECONDS = 0.2
ADVICE = "name another place with PGSTRATA_CACHE"


def key_of(inputs: Json) -> str:
    """Returns 24 hexadecimal digits that stand for everything a build depends on."""
    text = json.dumps({"format": FORMAT, **inputs}, sort_keys=True)
    return digests.of(text.encode(errors="surrogateescape"))[:24]


def folder_of(key: str) -> Path:
    """Returns the folder where a server lies, or would."""
    return cache_dir() / "servers" / f"built-{key}"


@dataclass(frozen=True)
class Kept:
    """A server in the cache."""

    record: BuiltRecord
    folder: Path

    @property
    def names(self) -> list[str]:
        """What it can be called on the command line."""
        return _names(self.record.key, self.record.label, self.record.build, self.record.origin)


def find(key: str) -> BuiltRecord | None:
    """Returns the record of a built server; None if it is not there."""
    try:
        return json_as(read_small(folder_of(key) / "built.json").encode(), BuiltRecord)
    except (OSError, BoundError):
        return None


def built() -> list[Kept]:
    """Returns all built servers, oldest version first, by name of the build."""
    folders = (cache_dir() / "servers").glob("built-*")
    builds = [Kept(record, f) for f in folders if (record := find(f.name.removeprefix("built-")))]
    return sorted(builds, key=_version_and_names)


def _version_and_names(kept: Kept) -> tuple[int, str, str, str]:
    record = kept.record
    return record.version_num, record.label, str(record.build.get("name")), record.key


# --- failures ---------------------------------------------------------------------------------


def _failure_file(key: str) -> Path:
    return cache_dir() / "servers" / f".failed-{key}.json"


def remember_failure(key: str, about: Json, error: BuildError) -> None:
    """Keeps why a build failed, so that it is not tried again for nothing."""
    facts = {
        **about,
        "key": key,
        "message": error.message,
        "hint": error.hint,
        "errors": error.errors,
        "log_end": error.log_end,
        "at": time.time(),
    }
    with contextlib.suppress(OSError):
        write_json(_failure_file(key), facts)


def failure(key: str) -> Json | None:
    """Returns the remembered failure of a build; None if there is none."""
    return _read(_failure_file(key))


def forget_failure(key: str) -> None:
    """Lets a build be tried again."""
    _failure_file(key).unlink(missing_ok=True)


def failures() -> list[Json]:
    """Returns all remembered failures, the newest first."""
    records = [f for p in (cache_dir() / "servers").glob(".failed-*.json") if (f := _read(p))]
    return sorted(records, key=lambda f: -float(f["at"]))


# --- building ---------------------------------------------------------------------------------


@contextlib.contextmanager
def workplace(key: str, say: Callable[[str], None], check: Callable[[], None]) -> Iterator[Path]:
    """Yields the folder in which a build is made, empty; no other process has it meanwhile, and it is removed
    afterwards.

    Waits while another pgstrata makes the same build. Raises ServerError where it cannot be written, and
    OwnershipError where it is somebody else's: what is built there is run, so whoever can write to it could
    choose what is measured.
    """
    root = cache_dir() / "building"
    try:
        own_folder(root, "the folder for builds", advice=ADVICE, linked=False)
        check_reachable(root, server_account(), "the folder for builds")
        clear_builds()
        lock = _lock(root / f"{key}.lock", say, check)
        folder = root / key
        try:
            remove_tree(folder)
            folder.mkdir(mode=0o755)
            yield folder
        finally:
            remove_tree(folder)
            (root / f"{key}.lock").unlink(missing_ok=True)
            os.close(lock)
    except PermissionError as error:
        raise ServerError(f"{error.filename} cannot be written: {error.strerror}", ADVICE) from error


def _lock(path: Path, say: Callable[[str], None], check: Callable[[], None]) -> int:
    waits = False
    while (lock := locks.lock_file(path, make=True, mode=0o644)) is None:
        if not waits:
            say("another pgstrata builds the same server: waiting for it")
            waits = True
        check()
        time.sleep(WAIT_SECONDS)
    return lock


def clear_builds() -> list[str]:
    """Removes builds whose owner is gone, as after kill -9; one sentence for each.

    Raises OwnershipError where the folder is somebody else's.
    """
    root, sentences = cache_dir() / "building", []
    if root.is_symlink() or root.exists():
        own_folder(root, "the folder for builds", advice=ADVICE, linked=False)
    for lock_file in root.glob("*.lock"):
        try:
            lock = locks.lock_file(lock_file, make=False)
        except OSError:
            continue
        if lock is None:  # in use
            continue
        try:
            remove_tree(lock_file.with_suffix(""))
            lock_file.unlink(missing_ok=True)
            sentences.append(f"an unfinished build, {lock_file.with_suffix('')}")
        except OSError:
            pass
        finally:
            os.close(lock)
    return sentences


def publish(key: str, installed: Path, record: BuiltRecord) -> Path:
    """Moves an installed server to its place, at once and whole."""
    final = folder_of(key)
    final.parent.mkdir(parents=True, exist_ok=True)
    (installed / "built.json").write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1))
    for path in [installed, *installed.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    if final.exists():  # a record that could not be read
        discard(final)
    put_in_place(installed, final)
    forget_failure(key)
    return final


def remove(name: str) -> list[str]:
    """Deletes built servers and remembered failures, by key, label or label.build. Returns what was deleted.

    Raises ServerError when one is in use; an empty list where nothing is called so.
    """
    from pgstrata.server.find.prebuilt import runs_from

    done = []
    for kept in built():
        if name in kept.names:
            if pid := runs_from(kept.folder):
                raise ServerError(f"{kept.record.label} is in use by process {pid}", "end it first")
            discard(kept.folder)
            done.append(f"{kept.record.label} {kept.record.build.get('name')}")
    for failed in failures():
        if name in names_of(failed):
            forget_failure(str(failed["key"]))
            done.append(f"failed build {failed['label']} {failed['build']['name']}")
    return done


def names_of(failed: Json) -> list[str]:
    """Returns the names of a failed build on the command line."""
    return _names(str(failed["key"]), str(failed["label"]), failed["build"], str(failed["origin"]))


def _names(key: str, label: str, build: Json, origin: str) -> list[str]:
    return [key, key[:8], label, f"{label}.{build.get('name')}", origin]


# --- files ------------------------------------------------------------------------------------


def write_json(path: Path, value: Json) -> None:
    """Writes a file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(value, indent=1) + "\n"
    disk.replace(path, text.encode(), mode=0o644, durable=False)


def _read(path: Path) -> Json | None:
    try:
        record = json_any(read_small(path))
    except (OSError, ValueError):
        return None
    return record if isinstance(record, dict) and "key" in record and "build" in record else None
