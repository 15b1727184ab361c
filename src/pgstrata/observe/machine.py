"""Facts about the host that belong to every result (`host` in run.json)."""

from __future__ import annotations

import os
import platform
import socket
from contextlib import suppress
from pathlib import Path

from pgstrata.errors import BuildError, UsageError
from pgstrata.observe import disks
from pgstrata.server.system.compiler import find_compiler
from pgstrata.store.record import Host

ROOT = Path("/")


def read(path: Path) -> str | None:
    """Returns the stripped text of a small file of /proc or /sys; None if it is not there or not
    permitted."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return None


def field(text: str | None, key: str) -> str | None:
    """Returns the value of the first line `key : value` of a file such as /proc/cpuinfo; None without such a
    line."""
    for line in (text or "").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return None


def meminfo(key: str, root: Path = ROOT) -> int | None:
    """Returns a value of /proc/meminfo in bytes; None if it is not there."""
    value = field(read(root / "proc/meminfo"), key)
    if not value or not value.split()[0].isdigit():
        return None
    return int(value.split()[0]) * 1024


def cpu_model(root: Path = ROOT) -> str:
    text = read(root / "proc/cpuinfo")
    # x86 says `model name`; POWER `cpu`; many ARM kernels nothing but the board.
    for key in ("model name", "cpu", "Model", "Hardware"):
        if value := field(text, key):
            return " ".join(value.split())
    return platform.machine()


def cpus() -> int:
    """Returns the CPUs this process may run on."""
    return len(os.sched_getaffinity(0))


def governors(root: Path = ROOT) -> list[str]:
    """Returns the frequency governors in use, each once; empty where the kernel does not control
    frequencies."""
    folder = root / "sys/devices/system/cpu"
    names = {read(path) for path in folder.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    return sorted(g for g in names if g)


def turbo(root: Path = ROOT) -> bool | None:
    """Returns whether the CPU may exceed its nominal frequency; None if that cannot be seen."""
    folder = root / "sys/devices/system/cpu"
    no_turbo = read(folder / "intel_pstate/no_turbo")
    if no_turbo in ("0", "1"):
        return no_turbo == "0"
    boost = read(folder / "cpufreq/boost")
    return boost == "1" if boost in ("0", "1") else None


def transparent_huge_pages(root: Path = ROOT) -> str | None:
    """Returns the setting of transparent huge pages, the word in brackets: `always`, `madvise` or `never`;
    None if it cannot be seen."""
    text = read(root / "sys/kernel/mm/transparent_hugepage/enabled")
    if text is None or "[" not in text:
        return None
    return text[text.index("[") + 1 :].partition("]")[0]


def virtual(root: Path = ROOT) -> str | None:
    """Returns the hypervisor of this host: the vendor's name where it is known, `yes`, or None on bare
    metal."""
    name = read(root / "sys/class/dmi/id/sys_vendor") or read(root / "sys/hypervisor/type")
    known = ("qemu", "vmware", "xen", "microsoft", "amazon", "google", "innotek", "parallels", "kvm")
    hypervisor = "hypervisor" in (field(read(root / "proc/cpuinfo"), "flags") or "").split()
    if name and any(word in name.lower() for word in known) and hypervisor:
        return name
    return "yes" if hypervisor else None


def os_name(root: Path = ROOT) -> str:
    for line in (read(root / "etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip().strip('"')
    return platform.system()


def libc() -> str:
    """Returns the C library that programs of this machine use: `glibc 2.36`."""
    with suppress(OSError, ValueError):
        if name := os.confstr("CS_GNU_LIBC_VERSION"):
            return name
    return " ".join(platform.libc_ver()).strip() or "unknown C library"


def kind_of_code() -> str:
    """Returns what decides which instructions the same source executes on this machine: CPU model, C library,
    which has other functions for other CPUs, and compiler."""
    try:
        compiler = find_compiler("").version
    except (BuildError, UsageError):
        compiler = "no compiler"
    return f"{cpu_model()}, {libc()}, {compiler}"


def facts(data_dir: Path | None = None, root: Path = ROOT) -> Host:
    """Returns `host` of run.json; sizes are in bytes, None stands for facts that this host does not show.

    governor: one word, or several joined with `,` where CPUs differ. turbo: boolean. data_dir_fs and
    data_dir_device: of the folder that holds the data folder, or of its nearest parent that exists.
    """
    folder = data_dir
    while folder is not None and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    mount = disks.mount_of(folder, root) if folder is not None else None
    devices = disks.devices_of(folder, root) if folder is not None else []
    hostname = None
    with suppress(OSError):
        hostname = socket.gethostname()
    return Host(
        hostname=hostname,
        cpu_model=cpu_model(root),
        cpus=cpus(),
        memory_bytes=meminfo("MemTotal", root),
        kernel=platform.release(),
        os=os_name(root),
        governor=",".join(governors(root)) or None,
        turbo=turbo(root),
        thp=transparent_huge_pages(root),
        swap_bytes=meminfo("SwapTotal", root),
        data_dir_fs=mount.fs if mount else None,
        data_dir_device=",".join(disks.device_name(d, root) for d in devices) or None,
        virtual=virtual(root),
    )
