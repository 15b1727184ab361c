"""Control groups of the kernel: where ones for a server can be made, and making and removing them."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PREFIX = "pgstrata-"
EMPTY_SECONDS = 5.0


@dataclass(frozen=True)
class Hierarchy:
    """Where groups can be made: `parent` is a group of version 1 or 2."""

    version: int
    parent: Path


def new_name(name: str) -> str:
    """Returns the name of a group or a device for the server in a folder of this name, made unique because
    several may exist."""
    return f"{PREFIX}{re.sub(r'[^A-Za-z0-9._-]', '_', name)}-{secrets.token_hex(4)}"


def version_2(controller: str = "") -> list[Hierarchy]:
    """Returns the groups of version 2 below which others may be made, for one controller or none; own ones
    first."""
    own_groups = _own_groups()
    hierarchies = []
    for mount in (ROOT, ROOT / "unified"):
        controllers = mount / "cgroup.controllers"
        if controllers.exists() and controller in ("", *words(controllers)):
            group = mount / own_groups.get("", "").lstrip("/")
            places = [group, group.parent, mount] if group != mount else [mount]
            hierarchies += [Hierarchy(2, place) for place in dict.fromkeys(places)]
    return hierarchies


def version_1(controller: str) -> list[Hierarchy]:
    """Returns the groups of version 1 below which others may be made, for one controller; own ones first."""
    mount = ROOT / controller
    if not (mount / "cgroup.procs").exists():
        return []
    group = mount / _own_groups().get(controller, "").lstrip("/")
    return [Hierarchy(1, place) for place in dict.fromkeys([group, mount]) if place.is_dir()]


def take(group: Path, pid: int, children: Callable[[], list[int]]) -> None:
    """Puts a process that has just started, and what it may have started already, into a group.

    Raises OSError.
    """
    procs = group / "cgroup.procs"
    procs.write_text(str(pid))
    for child in children():
        with contextlib.suppress(OSError):  # it has ended since
            procs.write_text(str(child))


def is_own(path: Path) -> bool:
    """Returns whether pgstrata may have made a group: it has such a name and lies below where the kernel
    shows its groups."""
    return path.name.startswith(PREFIX) and ".." not in path.parts and path.is_relative_to(ROOT)


def remove_group(path: Path) -> None:
    """Removes a group of pgstrata's whose processes have ended; the kernel may need a moment to see that."""
    if not is_own(path):
        return
    end = time.monotonic() + EMPTY_SECONDS
    while path.exists():
        with contextlib.suppress(OSError):
            path.rmdir()
            return
        if time.monotonic() > end:
            return
        time.sleep(0.02)


def words(file: Path) -> list[str]:
    """Returns the words in a file of a group; none if it cannot be read."""
    try:
        return file.read_text().split()
    except OSError:
        return []


def _own_groups() -> dict[str, str]:
    """Returns the path of this process by controller of version 1; of version 2 under an empty name."""
    own_groups: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            for controller in controllers.split(",") if number != "0" else [""]:
                own_groups[controller] = path
    return own_groups
