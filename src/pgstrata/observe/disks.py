"""Which block devices hold a folder, and what the mount says of it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from pgstrata.store.record import PlaceRecord, StorageRecord

ROOT = Path("/")


@dataclass(frozen=True)
class Mount:
    """The line of /proc/self/mountinfo a path lives on."""

    device: str  # major:minor
    point: str
    fs: str
    source: str
    options: str


def _unescape(text: str) -> str:
    """Returns a field of mountinfo without its escapes: it writes blank, tab, newline and backslash as
    octal."""
    for code, char in ((r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")):
        text = text.replace(code, char)
    return text


def mount_of(path: Path, root: Path = ROOT) -> Mount | None:
    """Returns the mount that holds a path (the longest mount point above it, the last of equal ones); None if
    none can be seen."""
    best: Mount | None = None
    real = str(path.resolve())
    try:
        lines = (root / "proc/self/mountinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, rest = left.split(" "), right.split(" ")
        if len(fields) < 6 or len(rest) < 3:
            continue
        point = _unescape(fields[4])
        inside = point == "/" or real == point or real.startswith(point + "/")
        if inside and (best is None or len(point) >= len(best.point)):
            best = Mount(fields[2], point, rest[0], _unescape(rest[1]), _unescape(rest[2]))
    return best


def _number(device: int) -> str:
    return f"{os.major(device)}:{os.minor(device)}"


def block_device(path: Path, root: Path = ROOT) -> str | None:
    """Returns `major:minor` of the block device that holds a path, None if no device can be seen.

    Tried in this order: the device of the path itself (disks, partitions, device mapper, md, loop);
    the device named as source of the mount (btrfs, which numbers its volumes itself); the upper
    folder of an overlay. tmpfs, network and pooled file systems have none.
    """
    block = root / "sys/dev/block"
    try:
        number = _number(path.stat().st_dev)
    except OSError:
        return None
    if (block / number / "stat").exists():
        return number
    mount = mount_of(path, root)
    if mount is None:
        return None
    if mount.source.startswith("/dev/"):
        with suppress(OSError):
            number = _number(Path(mount.source).stat().st_rdev)
            if (block / number / "stat").exists():
                return number
    if mount.fs == "overlay":
        for option in mount.options.split(","):
            if option.startswith("upperdir="):
                upper = Path(option.removeprefix("upperdir="))
                # Inside a container the upper folder is the host's and cannot be seen from here.
                if upper.exists() and upper.resolve() != path.resolve():
                    return block_device(upper, root)
    return None


def devices_of(data_dir: Path, root: Path = ROOT) -> list[str]:
    """Returns the block devices of a data folder: its own, that of pg_wal, and those of its tablespaces."""
    paths = [data_dir, data_dir / "pg_wal", data_dir / "pg_xlog"]
    with suppress(OSError):
        paths += list((data_dir / "pg_tblspc").iterdir())
    devices: list[str] = []
    for path in paths:
        if path.exists():
            number = block_device(path, root)
            if number is not None and number not in devices:
                devices.append(number)
    return devices


def with_devices(
    storage: StorageRecord | None, data: Path | None, wal: Path | None, root: Path = ROOT
) -> StorageRecord | None:
    """Returns the record with file systems and devices of a cluster's folders."""
    if storage is None:
        return None
    return structs.replace(storage, data=_place(storage.data, data, root), wal=_place(storage.wal, wal, root))


def _place(place: PlaceRecord | None, folder: Path | None, root: Path) -> PlaceRecord | None:
    if place is None or folder is None:
        return place
    mount, device = mount_of(folder, root), block_device(folder, root)
    return structs.replace(
        place,
        fs=mount.fs if mount is not None else None,
        device=device_name(device, root) if device is not None else None,
    )


def device_name(number: str, root: Path = ROOT) -> str:
    """Returns the name of a `major:minor`: `vda`, `nvme0n1p2`, or a device mapper name."""
    folder = root / "sys/dev/block" / number
    with suppress(OSError):
        return (folder / "dm/name").read_text().strip()
    with suppress(OSError):
        for line in (folder / "uevent").read_text().splitlines():
            if line.startswith("DEVNAME="):
                return line.removeprefix("DEVNAME=")
    return number
