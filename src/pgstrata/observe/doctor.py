"""Is this machine fit to measure? Each check is a value: what was seen, and how to mend it.

Every check reads below `root`, so that it can be shown any machine; what has no file (affinity,
free space, permission to use io_uring) is asked of the running system.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgstrata import numbers
from pgstrata.errors import PgstrataError
from pgstrata.observe import disks, host, machine
from pgstrata.server.system.account import server_account
from pgstrata.server.system.network import Way, way_to_close

State = Literal["ok", "warn", "bad", "unknown"]
ROOT = Path("/")
GIB = 1024**3


@dataclass(frozen=True)
class Check:
    """One line of `pgstrata doctor`. `fix` is one sentence, empty where there is nothing to mend."""

    name: str
    state: State
    seen: str
    fix: str = ""


Checks = list[Check]


def governor(root: Path = ROOT) -> Check:
    name = "CPU frequency governor"
    governors = machine.governors(root)
    if not governors:
        return Check(name, "ok", "the kernel does not control frequencies here (usual on virtual machines)")
    if governors == ["performance"]:
        return Check(name, "ok", "performance")
    return Check(
        name,
        "warn",
        f"{', '.join(governors)}: the frequency follows the load",
        "Run `cpupower frequency-set -g performance` as root.",
    )


def turbo(root: Path = ROOT) -> Check:
    name = "turbo"
    on = machine.turbo(root)
    if on is None:
        return Check(name, "unknown", "not visible (usual on virtual machines)")
    if not on:
        return Check(name, "ok", "off")
    pstate = (root / "sys/devices/system/cpu/intel_pstate/no_turbo").exists()
    file = "intel_pstate/no_turbo" if pstate else "cpufreq/boost"
    return Check(
        name,
        "warn",
        "on: the frequency depends on temperature and on the other cores",
        f"Run `echo {int(pstate)} > /sys/devices/system/cpu/{file}` as root for comparable runs.",
    )


def huge_pages(root: Path = ROOT) -> Check:
    name = "transparent huge pages"
    mode = machine.transparent_huge_pages(root)
    if mode is None:
        return Check(name, "ok", "the kernel has none")
    if mode == "always":
        return Check(
            name,
            "warn",
            "always: pages are merged in the background while the server runs",
            "Run `echo madvise > /sys/kernel/mm/transparent_hugepage/enabled` as root.",
        )
    return Check(name, "ok", mode)


def swap(root: Path = ROOT) -> Check:
    name = "swap"
    total, free = machine.meminfo("SwapTotal", root), machine.meminfo("SwapFree", root)
    if total is None or free is None:
        return Check(name, "unknown", "/proc/meminfo does not say")
    if total == 0:
        return Check(name, "ok", "none")
    used = total - free
    if used > total * 0.01:
        return Check(
            name,
            "bad",
            f"{numbers.size(used)} of {numbers.size(total)} in use: "
            "the server's memory may be read back from disk",
            "Free memory, then run `swapoff -a` as root.",
        )
    return Check(
        name,
        "warn",
        f"{numbers.size(total)}, not in use",
        "Run `swapoff -a` as root, or `sysctl vm.swappiness=1`.",
    )


def memory(root: Path = ROOT) -> Check:
    name = "free memory"
    total, available = machine.meminfo("MemTotal", root), machine.meminfo("MemAvailable", root)
    if not total or available is None:
        return Check(name, "unknown", "/proc/meminfo does not say")
    seen = f"{numbers.size(available)} of {numbers.size(total)}"
    if available < 0.25 * total or available < GIB // 2:
        return Check(name, "bad", seen, "Stop what else uses memory, or choose a smaller shared_buffers.")
    if available < 0.7 * total:
        return Check(name, "warn", seen, "Stop what else uses memory: the page cache is part of the result.")
    return Check(name, "ok", seen)


def disk_space(data_dir: Path, needed_bytes: int = 10 * GIB) -> Check:
    """Checks the free space where the data folder will be; `needed_bytes` as the plan of a campaign estimates
    it."""
    name = "free disk space"
    folder = _nearest(data_dir)
    try:
        usage = shutil.disk_usage(folder)
    except OSError as error:
        return Check(name, "unknown", f"{folder}: {error.strerror}")
    seen = f"{numbers.size(usage.free)} of {numbers.size(usage.total)} at {folder}"
    move = "Make room, or name another folder with the option data_dir."
    if usage.free < needed_bytes // 5:
        return Check(name, "bad", seen, move)
    return Check(
        name, "warn" if usage.free < needed_bytes else "ok", seen, "" if usage.free >= needed_bytes else move
    )


def file_system(data_dir: Path, root: Path = ROOT) -> Check:
    name = "file system of the data folder"
    folder = _nearest(data_dir)
    mount = disks.mount_of(folder, root)
    if mount is None:
        return Check(name, "unknown", f"{folder}: no mount found")
    devices = disks.devices_of(folder, root)
    where = ", ".join(disks.device_name(d, root) for d in devices) or "no block device"
    seen = f"{mount.fs} on {where}"
    move = "Name a folder on a local disk (ext4, xfs) with the option data_dir."
    if mount.fs in ("tmpfs", "ramfs"):
        return Check(name, "warn", f"{seen}: in memory, there is no disk to measure", move)
    if mount.fs.startswith(("nfs", "cifs", "smb", "9p", "fuse", "virtiofs", "ceph", "gluster")):
        return Check(name, "bad", f"{seen}: over a network or another process", move)
    if mount.fs == "overlay":
        return Check(name, "warn", f"{seen}: first writes copy whole files", move)
    if not devices:
        return Check(name, "warn", f"{seen}: its disk cannot be observed", move)
    return Check(name, "ok", seen)


def steal(root: Path = ROOT, seconds: float = 0.5) -> Check:
    """Checks the share of CPU time that the hypervisor gave to other machines, over `seconds` from now (and
    since the start)."""
    name = "CPU time stolen by the hypervisor"
    try:
        counters = host.HostCounters(root=root)
    except OSError:
        return Check(name, "unknown", "/proc/stat cannot be read")
    try:
        first = counters.read()
        time.sleep(seconds)
        second = counters.read()
    finally:
        counters.close()
    now = _steal_share(first, second)
    ever = _steal_share(None, second)
    seen = f"{now:.1%} now, {ever:.1%} since the machine started"
    fix = "Use a machine whose CPUs are its own, or repeat runs and compare them interleaved."
    if max(now, ever) >= 0.05:
        return Check(name, "bad", seen, fix)
    return Check(name, "warn", seen, fix) if max(now, ever) >= 0.01 else Check(name, "ok", seen)


def _steal_share(first: host.HostReading | None, second: host.HostReading) -> float:
    names = ("cpu_user", "cpu_system", "cpu_iowait", "cpu_steal", "cpu_idle")
    spent = {n: getattr(second, n) - (getattr(first, n) if first else 0.0) for n in names}
    total = sum(spent.values())
    return spent["cpu_steal"] / total if total > 0 else 0.0


def load(root: Path = ROOT) -> Check:
    """Checks the load of other programs: the load average of the last minute against the CPUs."""
    name = "other load"
    text = machine.read(root / "proc/loadavg")
    try:
        average = float((text or "").split()[0])
    except (IndexError, ValueError):
        return Check(name, "unknown", "/proc/loadavg does not say")
    seen = f"load average {average:.2f} on {machine.cpus()} CPUs"
    fix = "Stop other programs (see `top`), or wait a minute and look again."
    share = average / machine.cpus()
    if share > 0.5:
        return Check(name, "bad", seen, fix)
    return Check(name, "warn", seen, fix) if share > 0.15 else Check(name, "ok", seen)


def cpu_count() -> Check:
    name = "CPUs"
    mine, all_ = machine.cpus(), os.cpu_count() or 1
    seen = f"{mine}" if mine == all_ else f"{mine} of {all_} (affinity)"
    if mine < 2:
        return Check(
            name,
            "bad",
            f"{seen}: server and driver share one CPU",
            "Use a machine with at least 2 CPUs.",
        )
    if mine < 4:
        return Check(
            name,
            "warn",
            f"{seen}: more than one busy connection competes with the driver and the background processes",
            "Keep to 1 client per role, or use a machine with 4 CPUs or more.",
        )
    return Check(name, "ok", seen)


def clock_source(root: Path = ROOT) -> Check:
    name = "clock source"
    folder = root / "sys/devices/system/clocksource/clocksource0"
    current = machine.read(folder / "current_clocksource")
    if current is None:
        return Check(name, "unknown", "not visible")
    if current in ("tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page", "timebase", "tod"):
        return Check(name, "ok", current)
    available = (machine.read(folder / "available_clocksource") or "").split()
    better = "tsc" if "tsc" in available else "kvm-clock" if "kvm-clock" in available else ""
    return Check(
        name,
        "warn",
        f"{current}: every reading of the clock is a system call",
        f"Run `echo {better} > /sys/devices/system/clocksource/clocksource0/current_clocksource` as root."
        if better
        else "Boot with a clock source that is read without a system call (tsc).",
    )


def counting() -> Check:
    """Checks whether instructions can be counted by valgrind, which any machine can have."""
    name = "counting (valgrind)"
    if shutil.which("valgrind") is None:
        return Check(
            name,
            "warn",
            "valgrind is not installed: pgstrata count needs it where the hardware does not count",
            "Install valgrind (Debian, Ubuntu: apt install valgrind; Fedora: dnf install valgrind).",
        )
    return Check(name, "ok", "valgrind is installed: pgstrata count")


def perf(root: Path = ROOT) -> Check:
    name = "profiles (perf)"
    if shutil.which("perf") is None:
        package = "linux-perf (Debian) or linux-tools (Ubuntu)"
        return Check(name, "warn", "perf is not installed: no flame graphs", f"Install {package}.")
    level = machine.read(root / "proc/sys/kernel/perf_event_paranoid")
    if level is None:
        return Check(
            name, "warn", "the kernel has no performance events", "Use a kernel with CONFIG_PERF_EVENTS."
        )
    counters = "hardware counters" if _hardware_counters(root) else "no hardware counters: cpu-clock is used"
    try:
        strict = int(level) > 1 and os.geteuid() != 0
    except ValueError:
        return Check(name, "unknown", f"perf_event_paranoid is {level!r}")
    if strict:
        return Check(
            name,
            "warn",
            f"perf_event_paranoid = {level}: kernel frames, or all of it, not permitted",
            "Run `sysctl kernel.perf_event_paranoid=1 kernel.kptr_restrict=0` as root.",
        )
    return Check(name, "ok", f"permitted, {counters}")


def _hardware_counters(root: Path) -> bool:
    devices = root / "sys/bus/event_source/devices"
    return any((devices / name).exists() for name in ("cpu", "cpu_core")) or any(devices.glob("armv8*"))


# io_uring_setup(2); system calls from 424 on have one number on all architectures but Alpha.
_IO_URING_SETUP = 425


def io_uring(root: Path = ROOT, probe: Callable[[], int] | None = None) -> Check:
    """Checks whether the driver may use io_uring. `probe` returns an errno: 0, or why a ring cannot be
    made."""
    name = "io_uring"
    code = (probe or _probe_io_uring)()
    if code == 0:
        return Check(name, "ok", "permitted")
    slower = "the driver uses blocking sockets and costs more CPU per query"
    if code == errno.ENOSYS:
        return Check(name, "warn", f"the kernel has none: {slower}", "Use Linux 5.6 or newer.")
    disabled = machine.read(root / "proc/sys/kernel/io_uring_disabled")
    if disabled in ("1", "2"):
        return Check(
            name,
            "warn",
            f"kernel.io_uring_disabled = {disabled}: {slower}",
            "Run `sysctl kernel.io_uring_disabled=0` as root.",
        )
    return Check(
        name,
        "warn",
        f"{os.strerror(code)}: {slower}",
        "Allow the system calls io_uring_* in the container's seccomp profile.",
    )


def _probe_io_uring() -> int:
    """Makes a ring of one entry and closes it; its errno."""
    if platform.system() != "Linux":
        return errno.ENOSYS
    parameters = ctypes.create_string_buffer(120)  # struct io_uring_params
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(_IO_URING_SETUP, 1, parameters)
    if fd < 0:
        return ctypes.get_errno()
    os.close(fd)
    return 0


def closed_network(probe: Callable[[], Way | None] | None = None) -> Check:
    """Checks whether servers under test can be kept off the network. `probe` returns how, None if not at
    all."""
    name = "network of servers"
    try:
        way = (probe or (lambda: way_to_close(server_account())))()
    except PgstrataError as error:
        return Check(name, "unknown", error.message)
    if way is not None:
        return Check(name, "ok", "closed: servers under test are reached by their sockets, and reach nothing")
    return Check(
        name,
        "warn",
        "open: the kernel makes no network namespace here, so extensions and settings of a server under test "
        "can reach other machines",
        "Allow unshare(CLONE_NEWNET): run as root with CAP_SYS_ADMIN, or let ordinary users make user "
        "namespaces (`sysctl user.max_user_namespaces`, the container's seccomp profile).",
    )


def name_of_loopback(resolve: Callable[[str, None], object] = socket.getaddrinfo) -> Check:
    """Checks whether this machine knows the name `localhost`, which servers before 15 need."""
    name = "name localhost"
    try:
        resolve("localhost", None)
    except OSError:
        return Check(
            name,
            "bad",
            "not known: servers before 15 start without statistics and without autovacuum",
            "Add the line `127.0.0.1 localhost` to /etc/hosts.",
        )
    return Check(name, "ok", "known")


def examine(data_dir: Path, root: Path = ROOT, needed_bytes: int = 10 * GIB) -> list[Check]:
    """Returns the results of all checks, for a data folder that need not exist yet. Takes half a second."""
    return [
        cpu_count(),
        load(root),
        steal(root),
        governor(root),
        turbo(root),
        clock_source(root),
        memory(root),
        swap(root),
        huge_pages(root),
        disk_space(data_dir, needed_bytes),
        file_system(data_dir, root),
        perf(root),
        counting(),
        io_uring(root),
        closed_network(),
        name_of_loopback(),
    ]


def _nearest(folder: Path) -> Path:
    """Returns the folder, or its nearest parent that exists."""
    folder = folder.absolute()
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return folder
