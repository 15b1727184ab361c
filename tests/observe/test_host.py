"""Host counters and disks, from made-up trees and from this machine."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from pgstrata.observe import disks
from pgstrata.observe.host import RATES, HostCounters, HostReading, Sampler, rates, totals

TICK = 1 / os.sysconf("SC_CLK_TCK")
STAT = """cpu  100 20 30 4000 5 6 7 8 50 60
cpu0 1 1 1 1 1 1 1 1 1 1
intr {interrupts}
ctxt 987654
btime 1700000000
processes 4
"""
MEMINFO = """MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    400 kB
Buffers:          10 kB
Cached:          300 kB
Shmem:           120 kB
HugePages_Total:   0
"""


def tree(root: Path, disk: str = "8 1 16 2 3 4 40 5 0 0 0") -> Path:
    for name, text in {
        "proc/stat": STAT.format(interrupts=" ".join(["12345"] * 20000)),
        "proc/meminfo": MEMINFO,
        "sys/dev/block/8:1/stat": disk,
        "sys/dev/block/8:2/stat": "1 0 2 0 1 0 2 0 0 0 0",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_reading(tmp_path: Path) -> None:
    counters = HostCounters(["8:1", "8:2"], tree(tmp_path))
    reading = counters.read()
    counters.close()
    # Guest time (50, 60) is part of user time: not counted again. Interrupts are the system's.
    cpu = (reading.cpu_user, reading.cpu_system, reading.cpu_iowait, reading.cpu_steal, reading.cpu_idle)
    assert cpu == pytest.approx((120 * TICK, 43 * TICK, 5 * TICK, 8 * TICK, 4000 * TICK))
    assert reading.context_switches == 987654
    assert (reading.disk_reads, reading.disk_read_bytes) == (9, 18 * 512)
    assert (reading.disk_writes, reading.disk_write_bytes) == (4, 42 * 512)
    assert reading.memory_used_bytes == 600 * 1024
    assert reading.page_cache_bytes == 190 * 1024


def test_no_device_no_disk_figures(tmp_path: Path) -> None:
    counters = HostCounters([], tree(tmp_path))
    reading = counters.read()
    counters.close()
    assert reading.disk_reads is None and reading.disk_write_bytes is None
    assert rates(reading, reading)["disk_writes"] is None
    assert totals(reading, reading)["reads"] is None


def test_files_are_closed_when_one_is_missing(tmp_path: Path) -> None:
    tree(tmp_path)
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError):
        HostCounters(["99:99"], tmp_path)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files


def reading(at: float, value: float) -> HostReading:
    n = int(value)
    return HostReading(at, value, value, value, value, value, n, n, n, n, n, 5, 6)


def test_rates_and_totals() -> None:
    first, second = reading(10.0, 100.0), reading(12.0, 140.0)
    assert rates(first, second) == dict.fromkeys(RATES, 20.0)
    assert totals(first, second) == {
        "reads": 40,
        "read_bytes": 40,
        "writes": 40,
        "write_bytes": 40,
        "context_switches": 40,
        "cpu_seconds": 80.0,
    }


def test_sampler_has_one_row_per_second_of_the_step() -> None:
    counters = HostCounters(disks.devices_of(Path.cwd()))
    seen: list[float] = []
    sampler = Sampler(counters, os.getpid(), [], 0.1, lambda: seen.append(time.monotonic()))
    first = counters.read()
    sampler.start(first)
    time.sleep(0.45)
    last = counters.read()
    sampler.stop(last)
    counters.close()
    assert sampler.failure is None
    seconds = [int(row["second"] or 0) for row in sampler.rows]
    # On a busy machine a sample may be missed; the rows keep their order and never double.
    assert seconds[0] == 0 and seconds == sorted(set(seconds))
    assert len(seconds) - len(seen) in (0, 1)  # the last row is the shorter one
    # Rows are anchored to the begin: each sample comes after its deadline, none drifts into the next.
    assert all(0.1 * n <= at - first.time for n, at in enumerate(seen, start=1))
    switches = sum(row["context_switches"] or 0 for row in sampler.rows) * 0.1
    assert switches > 0
    assert all((row["server_rss_bytes"] or 0) > 1 << 20 for row in sampler.rows)
    assert sampler.cpu_seconds > 0
    assert threading.active_count() == 1 or not any(t.name == "pgstrata-host" for t in threading.enumerate())


def test_sampler_says_why_it_ended_early() -> None:
    counters = HostCounters()

    def fail() -> None:
        raise RuntimeError("gone")

    sampler = Sampler(counters, None, [], 0.02, fail)
    sampler.start(counters.read())
    time.sleep(0.1)
    sampler.stop(counters.read())
    counters.close()
    assert sampler.failure == "RuntimeError: gone"


def test_stop_without_start() -> None:
    counters = HostCounters()
    Sampler(counters).stop(counters.read())
    Sampler(counters).stop()
    counters.close()


def test_writes_are_seen_on_the_device(place_on_disk: Path) -> None:
    devices = disks.devices_of(place_on_disk)
    if not devices:
        pytest.skip("the temporary folder is on no block device")
    counters = HostCounters(devices)
    before = counters.read()
    size = 4 << 20
    with (place_on_disk / "file").open("wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
    after = counters.read()
    counters.close()
    assert (totals(before, after)["write_bytes"] or 0) >= size


# --- disks ---


def mounts(root: Path, *lines: str) -> Path:
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/mountinfo").write_text("\n".join(lines) + "\n")
    return root


def test_mount_is_the_longest_and_last(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "c"
    folder.mkdir(parents=True)
    point = str(tmp_path / "a b").replace(" ", r"\040")
    root = mounts(
        tmp_path,
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
        f"2 1 8:2 / {tmp_path} rw shared:1 - xfs /dev/sda2 rw",
        f"3 2 8:3 / {point} rw - ext3 /dev/sda3 rw",
        f"4 2 8:4 / {point} rw shared:9 master:2 - btrfs /dev/sda4 rw,subvol=/x",
        f"5 2 8:5 / {tmp_path}/a rw - vfat /dev/sda5 rw",
        "nonsense",
    )
    mount = disks.mount_of(folder, root)
    assert mount is not None
    assert (mount.fs, mount.source, mount.device) == ("btrfs", "/dev/sda4", "8:4")
    other = disks.mount_of(tmp_path, root)
    assert other is not None and other.fs == "xfs"


def test_no_device_behind_memory_network_and_strange_overlays(tmp_path: Path) -> None:
    for line in (
        "2 1 0:9 / / rw - tmpfs tmpfs rw",
        "2 1 0:9 / / rw - nfs4 host:/share rw",
        "2 1 0:9 / / rw - btrfs /dev/does-not-exist rw",
        "2 1 0:9 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/does/not/exist,workdir=/w",
    ):
        assert disks.block_device(tmp_path, mounts(tmp_path, line)) is None
    assert disks.block_device(tmp_path / "missing") is None


def test_upper_folder_of_an_overlay_names_the_device(tmp_path: Path) -> None:
    # The device of the upper folder is found under another root than that of the merged one.
    (upper := tmp_path / "upper").mkdir()
    (merged := tmp_path / "merged").mkdir()
    root = mounts(
        tmp_path,
        "1 0 8:1 / / rw - ext4 /dev/null rw",
        f"2 1 0:50 / {merged} rw - overlay overlay rw,lowerdir=/l,upperdir={upper},workdir=/w",
    )
    null = Path("/dev/null").stat().st_rdev
    (block := root / f"sys/dev/block/{os.major(null)}:{os.minor(null)}").mkdir(parents=True)
    (block / "stat").write_text("0 0 0 0 0 0 0 0 0 0 0")
    assert disks.block_device(merged, root) == block.name


def test_every_device_of_a_data_folder_once(tmp_path: Path) -> None:
    (tmp_path / "pg_wal").mkdir()
    (tmp_path / "pg_tblspc").mkdir()
    (tmp_path / "pg_tblspc/16384").symlink_to(tmp_path)
    (tmp_path / "pg_tblspc/16385").symlink_to(tmp_path / "nowhere")
    devices = disks.devices_of(tmp_path)
    assert len(devices) <= 1
    assert devices == [d for d in [disks.block_device(tmp_path)] if d]


def test_device_names(tmp_path: Path) -> None:
    block = tmp_path / "sys/dev/block"
    (block / "253:0/dm").mkdir(parents=True)
    (block / "253:0/dm/name").write_text("vg-data\n")
    (block / "259:1").mkdir()
    (block / "259:1/uevent").write_text("MAJOR=259\nDEVNAME=nvme0n1p1\n")
    assert disks.device_name("253:0", tmp_path) == "vg-data"
    assert disks.device_name("259:1", tmp_path) == "nvme0n1p1"
    assert disks.device_name("1:2", tmp_path) == "1:2"
