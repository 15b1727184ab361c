"""A disk that the kernel makes answer later (`io_delay`): a file as a loop device, the device mapper's target
`delay` on it, and a file system of its own.

All of it lies in the folder of a cluster: the file `disk.img`, and `disk`, on which it is mounted. The name
of the mapped device is in the marker of that folder before there is one, so whatever ends pgstrata, the next
one takes it all down (`remove_disk`).
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import subprocess
import time
from functools import cache
from pathlib import Path

from pgstrata.errors import ServerError, UsageError
from pgstrata.server.system.control_groups import PREFIX

DISK = "disk"
"""Where it is mounted, in the folder of its cluster."""
IMAGE = "disk.img"

FILE_SYSTEM = "ext4"

DEVICES = Path("/proc/misc")
"""Names the device mapper where a kernel has one."""

_PACKAGES = {
    "dmsetup": "dmsetup",
    "losetup": "mount",
    "mount": "mount",
    "umount": "mount",
    f"mkfs.{FILE_SYSTEM}": "e2fsprogs",
}
"""Programs and Debian's packages of them."""
_PATH = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"
"""Users' paths leave out the folders of the administrator's programs."""

_CLOCK_MONOTONIC_COARSE = 6
"""Of Linux; its resolution is the tick of the kernel (clock_getres(2))."""

_COMMAND_SECONDS = 120.0
_BUSY_SECONDS = 10.0
"""How long what has used a disk may take to let go of it."""

_SPARE_BYTES = 64 << 20
"""Of the disk below, that are left to others."""
_LEAST_BYTES = 256 << 20

_NAME = re.compile(re.escape(PREFIX) + r"[\w.-]+", re.ASCII)


def check_kernel(seconds: float) -> None:
    """Raises UsageError where this kernel delays no disk by so much, or lets nobody but others ask it to.

    The sentence is the same on the same machine, so it can be recorded.
    """
    if os.geteuid() != 0:
        raise UsageError("only root may have the kernel delay a disk", "run pgstrata as root")
    if lacking := next((name for name in _PACKAGES if not shutil.which(name, path=_PATH)), None):
        raise UsageError(f"there is no program {lacking} here", f"apt-get install {_PACKAGES[lacking]}")
    if reason := _lacks():
        raise UsageError(reason, "a kernel with the modules dm_delay and loop, outside of containers")
    milliseconds = round(seconds * 1000, 6)
    if milliseconds != int(milliseconds):
        raise UsageError(
            "the kernel's device mapper delays by whole milliseconds",
            f'io_delay = "{math.ceil(milliseconds)}ms"',
        )
    hertz = ticks_per_second()
    if too_coarse(int(milliseconds), hertz):
        raise UsageError(
            f"the kernel's device mapper counts in ticks of {1000 / hertz:g} ms, too coarse for "
            f"{milliseconds:g} ms",
            f'io_delay = "{math.ceil(3000 / hertz)}ms", or a multiple of it',
        )


def ticks_per_second() -> int:
    """CONFIG_HZ of the kernel that runs."""
    return round(1 / time.clock_getres(_CLOCK_MONOTONIC_COARSE))


def too_coarse(milliseconds: int, hertz: int) -> bool:
    """Whether a delay might become half as much again, or two thirds.

    The target rounds up to ticks (`msecs_to_jiffies`) and begins within one; its timer may take one more.
    """
    ticks = -(-milliseconds * hertz // 1000)
    longest, shortest = (ticks + 1) * 1000, (ticks - 1) * 1000
    return 2 * longest > 3 * milliseconds * hertz or 3 * shortest < 2 * milliseconds * hertz


def names_device_mapper(devices: Path = DEVICES) -> bool:
    """Whether a kernel has a device mapper, by its list of devices."""
    try:
        return re.search(r"^\s*\d+ device-mapper$", devices.read_text(), re.MULTILINE) is not None
    except OSError:
        return False


@cache
def _lacks() -> str:
    """What the kernel lacks to delay disks; empty where it lacks nothing."""
    with contextlib.suppress(ServerError):  # they may be built in
        _run("modprobe", "--quiet", "--all", "loop", "dm_delay")
    if not names_device_mapper():
        return "this kernel has no device mapper"
    try:
        targets = _run("dmsetup", "targets")
    except ServerError:
        return "the kernel's device mapper lets nobody in here"
    if not re.search(r"^delay\b", targets, re.MULTILINE):
        return "the kernel's device mapper lacks the target `delay`"
    try:
        _run("losetup", "--find")
    except ServerError:
        return "there is no loop device to be had here"
    return ""


def make_disk(folder: Path, name: str, seconds: float) -> None:
    """A file system in `folder` whose device answers later, as large as the disk below has room.

    name: of the mapped device, as `control_groups.new_name` makes them. Every read and write that reaches the
    device waits; a flush does not once more, so that fsync waits for what it writes. Raises ServerError,
    OSError; `remove_disk` takes down what is there already.
    """
    image, point, wait = folder / IMAGE, folder / DISK, round(seconds * 1000)
    room = shutil.disk_usage(folder).free - _SPARE_BYTES
    if room < _LEAST_BYTES:
        raise ServerError(
            f"no space left for a delayed disk in {folder}",
            "make room, or name another disk: data_dir in the campaign, or --data-dir",
        )
    with image.open("xb") as file:
        file.truncate(room // 4096 * 4096)
    image.chmod(0o600)
    # Its tables are zeros already: of a new file, all of it is a hole.
    lazily = "nodiscard,lazy_itable_init=1,lazy_journal_init=1"
    _run(f"mkfs.{FILE_SYSTEM}", "-q", "-F", "-m", "0", "-E", lazily, str(image))
    try:
        loop = _loop(image)
        each = f"{loop} 0 {wait}"
        table = f"0 {room // 4096 * 8} delay {each} {each} {loop} 0 0"
        _run("dmsetup", "create", name, "--verifyudev", "--table", table)
        point.mkdir(0o755)
        # Else the kernel would write those tables while something is measured.
        options = "nodev,nosuid,noinit_itable"
        _run("mount", "-t", FILE_SYSTEM, "-o", options, f"/dev/mapper/{name}", str(point))
        _run("mount", "--make-private", str(point))
    except ServerError as error:
        raise ServerError(
            f"the kernel makes no delayed disk in {folder}: {error.message}", 'io_delay_by = "library"'
        ) from error


def _loop(image: Path) -> str:
    """A loop device for a file, whose pages are in the cache before the delay already."""
    make = ("losetup", "--find", "--show", str(image))
    try:
        return _run(*make, "--direct-io=on").strip()
    except ServerError:  # a file system may know only the other way, as tmpfs does
        return _run(*make).strip()


def remove_disk(folder: Path, name: str) -> bool:
    """Takes down a disk of `make_disk`, also half a one; False where it is still mounted.

    Nobody uses it any more. Its file stays.
    """
    point, end = folder / DISK, time.monotonic() + _BUSY_SECONDS
    while point.is_mount():
        patient = time.monotonic() < end
        with contextlib.suppress(ServerError):
            # Lazily: whoever still has a file of it open keeps it, and nobody comes to it any more.
            _run("umount", *([] if patient else ["--lazy"]), str(point))
        if not patient:
            break
        time.sleep(0 if not point.is_mount() else 0.1)
    if _NAME.fullmatch(name) and Path("/dev/mapper", name).exists():
        with contextlib.suppress(ServerError):
            _run("dmsetup", "remove", "--retry", name)
    with contextlib.suppress(ServerError):
        loops = _run("losetup", "--associated", str(folder / IMAGE), "--noheadings", "--output", "NAME")
        for loop in loops.split():
            _run("losetup", "--detach", loop)
    return not point.is_mount()


def _run(program: str, *arguments: str) -> str:
    """What a program prints. Raises ServerError with what it complains of."""
    try:
        done = subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_COMMAND_SECONDS,
            env={"PATH": _PATH, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise ServerError(f"{program} does not run: {error}") from error
    if done.returncode:
        said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ServerError(f"{program} says: {said[0]}")
    return done.stdout


__all__ = [
    "DISK",
    "FILE_SYSTEM",
    "IMAGE",
    "check_kernel",
    "make_disk",
    "names_device_mapper",
    "remove_disk",
    "ticks_per_second",
    "too_coarse",
]
