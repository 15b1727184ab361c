"""The checks of the doctor against made-up machines, and against this one."""

from __future__ import annotations

import errno
import re
import socket
from pathlib import Path

import pytest

from pgstrata.observe import doctor, machine
from pgstrata.observe.doctor import Check

CPU = "sys/devices/system/cpu"
CLOCK = "sys/devices/system/clocksource/clocksource0"
DOCS = Path(__file__).parents[2] / "docs/reference/results.md"


def tree(root: Path, **files: str) -> Path:
    """Files below root; `__` in a name stands for `/`."""
    return place(root, {name.replace("__", "/"): text for name, text in files.items()})


def place(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return root


def meminfo(root: Path, **kilobytes: int) -> Path:
    return tree(root, proc__meminfo="\n".join(f"{k}:  {v} kB" for k, v in kilobytes.items()))


def check_tells(check: Check, state: str, *words: str) -> None:
    assert check.state == state, check
    for word in words:
        assert word in check.seen + check.fix
    if state in ("warn", "bad"):
        assert check.fix.endswith(".") and "\n" not in check.fix
    elif state == "ok":
        assert check.fix == ""


def test_governor(tmp_path: Path) -> None:
    check_tells(doctor.governor(tmp_path), "ok", "does not control")
    place(tmp_path, {f"{CPU}/cpu{n}/cpufreq/scaling_governor": "performance" for n in range(3)})
    check_tells(doctor.governor(tmp_path), "ok", "performance")
    place(tmp_path, {f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave"})
    check_tells(doctor.governor(tmp_path), "warn", "performance, powersave", "cpupower")


@pytest.mark.parametrize(
    ("file", "on", "off"), [("intel_pstate/no_turbo", "0", "1"), ("cpufreq/boost", "1", "0")]
)
def test_turbo(tmp_path: Path, file: str, on: str, off: str) -> None:
    check_tells(doctor.turbo(tmp_path), "unknown")
    place(tmp_path, {f"{CPU}/{file}": on})
    check_tells(doctor.turbo(tmp_path), "warn", f"echo {off} > /{CPU}/{file}")
    place(tmp_path, {f"{CPU}/{file}": off})
    check_tells(doctor.turbo(tmp_path), "ok")


def test_huge_pages(tmp_path: Path) -> None:
    file = "sys/kernel/mm/transparent_hugepage/enabled"
    check_tells(doctor.huge_pages(tmp_path), "ok")
    check_tells(doctor.huge_pages(place(tmp_path, {file: "[always] madvise never"})), "warn", "madvise")
    check_tells(doctor.huge_pages(place(tmp_path, {file: "always [madvise] never"})), "ok", "madvise")
    check_tells(doctor.huge_pages(place(tmp_path, {file: "always madvise [never]"})), "ok", "never")


def test_swap(tmp_path: Path) -> None:
    check_tells(doctor.swap(tmp_path), "unknown")
    check_tells(doctor.swap(meminfo(tmp_path, SwapTotal=0, SwapFree=0)), "ok", "none")
    check_tells(
        doctor.swap(meminfo(tmp_path, SwapTotal=2097152, SwapFree=2097152)), "warn", "2 GiB", "swapoff"
    )
    check_tells(doctor.swap(meminfo(tmp_path, SwapTotal=2097152, SwapFree=1048576)), "bad", "1 GiB of 2 GiB")


def test_memory(tmp_path: Path) -> None:
    check_tells(doctor.memory(tmp_path), "unknown")
    gib = 1048576
    check_tells(doctor.memory(meminfo(tmp_path, MemTotal=16 * gib, MemAvailable=15 * gib)), "ok", "15 GiB")
    check_tells(doctor.memory(meminfo(tmp_path, MemTotal=16 * gib, MemAvailable=8 * gib)), "warn")
    check_tells(doctor.memory(meminfo(tmp_path, MemTotal=16 * gib, MemAvailable=gib)), "bad")


def test_disk_space(tmp_path: Path) -> None:
    check_tells(doctor.disk_space(tmp_path / "not/yet/there", 1), "ok", str(tmp_path))
    check_tells(doctor.disk_space(tmp_path, 1 << 62), "bad", "data_dir")


@pytest.mark.parametrize(
    ("fs", "state"),
    [("tmpfs", "warn"), ("nfs4", "bad"), ("fuse.sshfs", "bad"), ("overlay", "warn"), ("zfs", "warn")],
)
def test_file_system(tmp_path: Path, fs: str, state: str) -> None:
    place(tmp_path, {"proc/self/mountinfo": f"1 0 0:9 / / rw - {fs} source rw"})
    check_tells(doctor.file_system(tmp_path / "new", tmp_path), state, fs, "data_dir")


def test_file_system_on_a_disk(tmp_path: Path) -> None:
    check_tells(doctor.file_system(tmp_path, tmp_path), "unknown")
    device = tmp_path.stat().st_dev
    number = f"{device >> 8 & 0xFFF}:{device & 0xFF}"
    place(
        tmp_path,
        {
            "proc/self/mountinfo": f"1 0 {number} / / rw - xfs /dev/sda1 rw",
            f"sys/dev/block/{number}/stat": "0",
            f"sys/dev/block/{number}/uevent": "DEVNAME=sda1",
        },
    )
    check_tells(doctor.file_system(tmp_path, tmp_path), "ok", "xfs on sda1")


def test_steal(tmp_path: Path) -> None:
    check_tells(doctor.steal(tmp_path, 0), "unknown")
    for stolen, state in ((0, "ok"), (20, "warn"), (100, "bad")):
        text = f"cpu  500 0 100 400 0 0 0 {stolen} 0 0\nctxt 1\nbtime 1"
        place(tmp_path, {"proc/stat": text, "proc/meminfo": "MemTotal: 1 kB"})
        check_tells(doctor.steal(tmp_path, 0), state)


def test_load(tmp_path: Path) -> None:
    check_tells(doctor.load(tmp_path), "unknown")
    cpus = machine.cpus()
    for share, state in ((0.0, "ok"), (0.3, "warn"), (2.0, "bad")):
        place(tmp_path, {"proc/loadavg": f"{share * cpus:.2f} 0.10 0.10 1/100 1000"})
        check_tells(doctor.load(tmp_path), state, f"{share * cpus:.2f}")
    check_tells(doctor.load(place(tmp_path, {"proc/loadavg": "rubbish"})), "unknown")


def test_clock_source(tmp_path: Path) -> None:
    check_tells(doctor.clock_source(tmp_path), "unknown")
    place(tmp_path, {f"{CLOCK}/current_clocksource": "tsc"})
    check_tells(doctor.clock_source(tmp_path), "ok", "tsc")
    place(
        tmp_path, {f"{CLOCK}/current_clocksource": "hpet", f"{CLOCK}/available_clocksource": "hpet acpi_pm"}
    )
    check_tells(doctor.clock_source(tmp_path), "warn", "hpet", "Boot")
    place(tmp_path, {f"{CLOCK}/available_clocksource": "tsc hpet acpi_pm"})
    check_tells(doctor.clock_source(tmp_path), "warn", "echo tsc")


def test_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    check_tells(doctor.perf(tmp_path), "warn", "not installed", "linux-perf")
    monkeypatch.setattr("shutil.which", lambda _: "/usr/bin/perf")
    check_tells(doctor.perf(tmp_path), "warn", "CONFIG_PERF_EVENTS")
    place(tmp_path, {"proc/sys/kernel/perf_event_paranoid": "4"})
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    check_tells(doctor.perf(tmp_path), "warn", "perf_event_paranoid = 4", "sysctl")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    check_tells(doctor.perf(tmp_path), "ok", "cpu-clock")
    (tmp_path / "sys/bus/event_source/devices/cpu").mkdir(parents=True)
    check_tells(doctor.perf(tmp_path), "ok", "permitted, hardware counters")
    check_tells(doctor.perf(place(tmp_path, {"proc/sys/kernel/perf_event_paranoid": "x"})), "unknown")


def test_io_uring(tmp_path: Path) -> None:
    check_tells(doctor.io_uring(tmp_path, lambda: 0), "ok")
    check_tells(doctor.io_uring(tmp_path, lambda: errno.ENOSYS), "warn", "Linux 5.6")
    check_tells(doctor.io_uring(tmp_path, lambda: errno.EPERM), "warn", "seccomp")
    place(tmp_path, {"proc/sys/kernel/io_uring_disabled": "2"})
    check_tells(doctor.io_uring(tmp_path, lambda: errno.EPERM), "warn", "io_uring_disabled = 2", "sysctl")


def test_closed_network() -> None:
    check_tells(doctor.closed_network(lambda: "root"), "ok", "closed")
    check_tells(doctor.closed_network(lambda: None), "warn", "open", "CLONE_NEWNET")


def test_the_name_of_loopback() -> None:
    def unknown(host: str, port: None) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    check_tells(doctor.name_of_loopback(), "ok", "known")
    check_tells(doctor.name_of_loopback(unknown), "bad", "without statistics", "127.0.0.1 localhost")


@pytest.mark.parametrize(("mine", "state"), [(1, "bad"), (2, "warn"), (8, "ok")])
def test_cpu_count(monkeypatch: pytest.MonkeyPatch, mine: int, state: str) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(mine)))
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    check_tells(doctor.cpu_count(), state, str(mine))


@pytest.mark.program
def test_this_machine(tmp_path: Path) -> None:
    checks = doctor.examine(tmp_path / "data")
    assert len({c.name for c in checks}) == len(checks) == 16
    for check in checks:
        assert check.seen
        assert bool(check.fix) == (check.state in ("warn", "bad"))
    # An empty root is a machine that shows nothing: no check may fail over that.
    assert len(doctor.examine(tmp_path, tmp_path)) == 16


def test_facts_of_this_machine(tmp_path: Path) -> None:
    facts = machine.facts(tmp_path / "data")
    (documented,) = re.findall(r"^\| `host` \| `\{(.*)\}` \|", DOCS.read_text(), re.MULTILINE)
    assert list(facts.__struct_fields__) == documented.split(", ")
    assert (facts.memory_bytes or 0) > 1 << 26 and (facts.cpus or 0) >= 1
    assert facts.data_dir_fs and facts.cpu_model and facts.kernel


def test_facts_of_a_made_up_machine(tmp_path: Path) -> None:
    place(
        tmp_path,
        {
            "proc/cpuinfo": "processor : 0\nmodel name\t: Very   Fast CPU @ 9GHz\nflags : fpu hypervisor sse",
            "proc/meminfo": "MemTotal:  2048 kB\nSwapTotal: 1024 kB",
            "etc/os-release": 'NAME="X"\nPRETTY_NAME="Some Linux 12"',
            "sys/class/dmi/id/sys_vendor": "QEMU",
            f"{CPU}/cpu0/cpufreq/scaling_governor": "powersave",
            f"{CPU}/intel_pstate/no_turbo": "1",
            "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]",
            "proc/self/mountinfo": "1 0 8:1 / / rw - xfs /dev/sda1 rw",
        },
    )
    facts = machine.facts(tmp_path, tmp_path)
    assert facts.cpu_model == "Very Fast CPU @ 9GHz"
    assert (facts.memory_bytes, facts.swap_bytes) == (2048 * 1024, 1024 * 1024)
    assert (facts.governor, facts.turbo, facts.thp) == ("powersave", False, "never")
    assert (facts.os, facts.virtual, facts.data_dir_fs) == ("Some Linux 12", "QEMU", "xfs")
    assert facts.data_dir_device is None


def test_facts_of_a_machine_that_shows_nothing(tmp_path: Path) -> None:
    facts = machine.facts(None, tmp_path)
    assert facts.memory_bytes is None and facts.data_dir_fs is None and facts.virtual is None
    assert facts.cpu_model
