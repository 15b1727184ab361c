"""A limit for all memory of a server, page cache included: a control group of the kernel.

Version 2 where the memory controller is there, version 1 where that is what the host has. Pages belong to
the group whose process touched them first, so a server is put into its group before it has any.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable
from pathlib import Path

from pgstrata.errors import ServerError
from pgstrata.server.system import control_groups
from pgstrata.server.system.control_groups import Hierarchy, words


class MemoryGroup:
    """One group, made when the server starts and removed when it has stopped (`remove_group`)."""

    def __init__(self, name: str, limit: int) -> None:
        self.limit = limit
        self._name = control_groups.new_name(name)
        self.path: Path | None = None

    def candidates(self) -> list[Path]:
        """Returns the places where `make` tries to make the group, so that they can be written down before it
        exists."""
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
        try:
            control_groups.take(self.path, pid, children)
        except OSError as error:
            raise ServerError(
                f"the server cannot be put under its memory limit: {self.path}: {error.strerror}",
                "run as root, or leave `memory` out",
            ) from error

    def kills(self) -> int:
        """Returns how many processes the kernel has killed because the group had no memory left."""
        if self.path is None:
            return 0
        # Both versions have a line `oom_kill N`.
        events = words(self.path / "memory.events") or words(self.path / "memory.oom_control")
        numbers = dict(zip(events[::2], events[1::2], strict=False))
        return int(numbers.get("oom_kill", "0"))


def hierarchies() -> list[Hierarchy]:
    """Returns the groups below which one for memory may be made, own ones first."""
    return control_groups.version_2("memory") + control_groups.version_1("memory")


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


def _limit(path: Path, version: int, limit: int) -> None:
    if version == 2:
        if "memory" not in words(path / "cgroup.controllers"):
            # Fails where the parent itself holds processes: then a group above may do.
            (path.parent / "cgroup.subtree_control").write_text("+memory")
        (path / "memory.max").write_text(str(limit))
        with contextlib.suppress(OSError):  # no swap here, so nothing to forbid
            (path / "memory.swap.max").write_text("0")
        return
    (path / "memory.limit_in_bytes").write_text(str(limit))
    with contextlib.suppress(OSError):  # kernels without swap accounting
        (path / "memory.memsw.limit_in_bytes").write_text(str(limit))
