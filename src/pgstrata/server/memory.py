"""A limit for all memory of a server, page cache included: a control group of the kernel.

Version 2 where the memory controller is there, version 1 where that is what the host has. Pages belong to
the group whose process touched them first, so a server is put into its group before it has any.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pgstrata.errors import ServerError

ROOT = Path("/sys/fs/cgroup")
PREFIX = "pgstrata-"
EMPTY_SECONDS = 5.0


@dataclass(frozen=True)
class Hierarchy:
    """Where groups for memory can be made: `parent` is a group of version 1 or 2."""

    version: int
    parent: Path


class MemoryGroup:
    """One group, made when the server starts and removed when it has stopped (`remove_group`)."""

    def __init__(self, name: str, limit: int) -> None:
        self.limit = limit
        # Made unique: other servers may live in folders of the same name.
        self._name = f"{PREFIX}{re.sub(r'[^A-Za-z0-9._-]', '_', name)}-{secrets.token_hex(4)}"
        self.path: Path | None = None

    def candidates(self) -> list[Path]:
        """Where `make` tries to make it, so that it can be written down before it is there."""
        return [hierarchy.parent / self._name for hierarchy in hierarchies()]

    def make(self) -> Path:
        """Makes the group and sets its limit. Raises ServerError where no group can be made, and why."""
        tried = []
        for hierarchy in hierarchies():
            path = hierarchy.parent / self._name
            try:
                path.mkdir(exist_ok=True)
                _limit(path, hierarchy.version, self.limit)
            except OSError as error:
                tried.append(f"{path}: {error.strerror}")
                with contextlib.suppress(OSError):
                    path.rmdir()
                continue
            self.path = path
            return path
        raise ServerError(
            "memory cannot be limited here: "
            + ("; ".join(tried) or "the kernel offers no memory controller in /sys/fs/cgroup"),
            "run as root or in a group of your own (systemd-run --user --scope -p Delegate=yes …), "
            "or leave `memory` out",
        )

    def take(self, pid: int, children: Callable[[], list[int]]) -> None:
        """Puts a process that has just started, and what it may have started already, into the group."""
        assert self.path is not None
        procs = self.path / "cgroup.procs"
        try:
            procs.write_text(str(pid))
        except OSError as error:
            raise ServerError(
                f"the server cannot be put under its memory limit: {procs}: {error.strerror}",
                "run as root, or leave `memory` out",
            ) from error
        for child in children():
            with contextlib.suppress(OSError):  # it has ended since
                procs.write_text(str(child))


def hierarchies() -> list[Hierarchy]:
    """Groups below which one for memory may be made, own ones first."""
    own = _own_groups()
    found = []
    for mount in (ROOT, ROOT / "unified"):
        if "memory" in _words(mount / "cgroup.controllers"):
            group = mount / own.get("", "").lstrip("/")
            places = [group, group.parent, mount] if group != mount else [mount]
            found += [Hierarchy(2, place) for place in dict.fromkeys(places)]
    mount = ROOT / "memory"
    if (mount / "memory.limit_in_bytes").exists() or (mount / "cgroup.procs").exists():
        group = mount / own.get("memory", "").lstrip("/")
        found += [Hierarchy(1, place) for place in dict.fromkeys([group, mount]) if place.is_dir()]
    return found


def forget_cached(folder: Path) -> None:
    """Writes back and drops what the kernel caches of the files below a folder.

    Pages stay with the group that read them first: those that a copy or an earlier server of the folder left
    in memory would cost the next one nothing of its limit. Raises ServerError.
    """
    try:
        for path in folder.rglob("*"):
            if stat.S_ISREG(path.lstat().st_mode):
                # The files are another account's when pgstrata runs as root: what has become a link or a pipe
                # since is not opened.
                file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    os.fdatasync(file)  # dirty pages are not dropped
                    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(file)
    except OSError as error:
        raise ServerError(f"{folder} cannot be taken out of memory: {error.strerror}") from error


def remove_group(path: Path) -> None:
    """Removes a group whose processes have ended; the kernel may need a moment to see that they have.

    Only one that pgstrata may have made: of such a name, below where the kernel shows its groups.
    """
    if not path.name.startswith(PREFIX) or ".." in path.parts or not path.is_relative_to(ROOT):
        return
    end = time.monotonic() + EMPTY_SECONDS
    while path.exists():
        with contextlib.suppress(OSError):
            path.rmdir()
            return
        if time.monotonic() > end:
            return
        time.sleep(0.02)


def _limit(path: Path, version: int, limit: int) -> None:
    if version == 2:
        if "memory" not in _words(path / "cgroup.controllers"):
            # Fails where the parent itself holds processes: then a group above may do.
            (path.parent / "cgroup.subtree_control").write_text("+memory")
        (path / "memory.max").write_text(str(limit))
        with contextlib.suppress(OSError):  # no swap here, so nothing to forbid
            (path / "memory.swap.max").write_text("0")
        return
    (path / "memory.limit_in_bytes").write_text(str(limit))
    with contextlib.suppress(OSError):  # kernels without swap accounting
        (path / "memory.memsw.limit_in_bytes").write_text(str(limit))


def _own_groups() -> dict[str, str]:
    """Path of this process by controller of version 1; of version 2 under an empty name."""
    found: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            for controller in controllers.split(",") if number != "0" else [""]:
                found[controller] = path
    return found


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:
        return []
