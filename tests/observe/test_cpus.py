"""Which CPUs are alike."""

from __future__ import annotations

import os
from pathlib import Path

from pgstrata.observe.cpus import fastest_cpus


def machine(place: Path, speeds: dict[int, tuple[str, int]]) -> Path:
    """A tree like /sys/devices/system/cpu. speeds: by CPU, the file that tells its speed, and the speed."""
    for cpu, (name, speed) in speeds.items():
        file = place / f"cpu{cpu}" / name
        file.parent.mkdir(parents=True)
        file.write_text(f"{speed}\n")
    return place


def test_cpus_of_the_fastest_kind_are_taken(tmp_path: Path) -> None:
    capacity = machine(tmp_path / "a", {0: ("cpu_capacity", 446), 1: ("cpu_capacity", 1024)})
    assert fastest_cpus([0, 1], capacity) == [1]
    assert fastest_cpus([0], capacity) == [0], "a cpuset of slow ones is kept to"
    name = "cpufreq/cpuinfo_max_freq"
    speeds = {0: (name, 4_700_000), 1: (name, 4_900_000), 2: (name, 3_600_000), 3: (name, 3_600_000)}
    assert fastest_cpus(range(4), machine(tmp_path / "b", speeds)) == [0, 1]


def test_where_the_kernel_tells_no_speed_all_are_alike(tmp_path: Path) -> None:
    assert fastest_cpus([3, 1, 2], tmp_path) == [1, 2, 3]


def test_an_affinity_of_fewer_cpus_is_kept_to() -> None:
    before = os.sched_getaffinity(0)
    only = min(before)
    os.sched_setaffinity(0, {only})
    try:
        assert fastest_cpus() == [only]
    finally:
        os.sched_setaffinity(0, before)
