"""CPU by process: exact, nothing lost when processes die, odd names survive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pgstrata.observe.backends import (
    CpuReading,
    ServerCpu,
    children,
    cpu_seconds,
    processes,
    reaped_seconds,
    resident_bytes,
)

TICK = 1 / os.sysconf("SC_CLK_TCK")

# Burns CPU in the parent and in children that end; says what getrusage(2) counted, then waits.
FAMILY = """
import os, resource, sys, time
def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
sys.stdin.readline()
burn(0.05)
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        burn(0.05)
        if os.fork() == 0:
            burn(0.03)
            os._exit(0)
        os.wait()
        os._exit(0)
    os.waitpid(pid, 0)
own, reaped = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
print(own.ru_utime + own.ru_stime, reaped.ru_utime + reaped.ru_stime, flush=True)
sys.stdin.readline()
"""


@pytest.mark.program
def test_dead_children_are_counted() -> None:
    with subprocess.Popen([sys.executable, "-c", FAMILY], stdin=-1, stdout=-1, text=True) as family:
        assert family.stdin and family.stdout
        cpu = ServerCpu(family.pid, {})
        begin = cpu.read()
        family.stdin.write("go\n")
        family.stdin.flush()
        own_seconds, reaped = map(float, family.stdout.readline().split())
        end = cpu.read()
        assert reaped > 0.3
        assert reaped_seconds(family.pid) == pytest.approx(reaped, abs=3 * TICK)
        used = cpu.used(begin, end).total
        started = begin.total or 0.0  # the interpreter had started meanwhile
        assert used == pytest.approx(own_seconds + reaped - started, abs=6 * TICK)
        family.stdin.write("end\n")
    assert cpu.read().total is None
    assert cpu_seconds(family.pid) is None


@pytest.mark.program
def test_clock_agrees_with_stat() -> None:
    with subprocess.Popen(
        ["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; read x"], stdin=-1
    ) as p:
        assert p.stdin
        while Path(f"/proc/{p.pid}/stat").read_text().split()[2] == "R":
            pass
        fields = Path(f"/proc/{p.pid}/stat").read_text().rpartition(")")[2].split()
        assert cpu_seconds(p.pid) == pytest.approx((int(fields[11]) + int(fields[12])) * TICK, abs=2.5 * TICK)
        assert cpu_seconds(p.pid) == pytest.approx(
            int(Path(f"/proc/{p.pid}/schedstat").read_text().split()[0]) / 1e9, abs=TICK
        )
        p.stdin.close()


def made_up(proc: Path, pid: int, parent: int, ticks: tuple[int, int, int, int], statm: str = "") -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_text(
        f"{pid} (postgres: (a) b) S {parent} 1 1 0 -1 0 0 0 0 0 {' '.join(map(str, ticks))} 20 0 1 0 5\n"
    )
    if statm:
        (folder / "statm").write_text(statm)


def test_without_clocks_and_children_files(tmp_path: Path) -> None:
    made_up(tmp_path, 10, 1, (100, 50, 7, 3))
    made_up(tmp_path, 11, 10, (200, 0, 0, 0))
    made_up(tmp_path, 12, 10, (0, 25, 1, 0))
    made_up(tmp_path, 13, 12, (4, 0, 0, 0))
    made_up(tmp_path, 99, 1, (9999, 0, 0, 0))
    (tmp_path / "self").mkdir()
    assert sorted(children(10, tmp_path)) == [11, 12]
    assert sorted(processes(10, proc=tmp_path)) == [10, 11, 12, 13]
    assert cpu_seconds(10, tmp_path) == pytest.approx(150 * TICK)
    cpu = ServerCpu(10, {"query": [11]}, tmp_path)
    reading = cpu.read()
    assert reading.backends == {11: pytest.approx(200 * TICK)}
    assert reading.total == pytest.approx((150 + 10 + 200 + 25 + 1 + 4) * TICK)


def test_roles_and_the_rest_add_up() -> None:
    cpu = ServerCpu(1, {"insert": [11, 12], "query": [13]})
    begin = CpuReading({11: 1.0, 12: 2.0, 13: 3.0}, 10.0)
    used = cpu.used(begin, CpuReading({11: 1.5, 12: 2.25, 13: 3.0}, 11.0))
    assert used.by_role == {"insert": 0.75, "query": 0.0, "server": 0.25}
    assert used.total == 1.0
    assert [(r["role"], r["client"], r["pid"], r["cpu_seconds"]) for r in used.rows] == [
        ("insert", 1, 11, 0.5),
        ("insert", 2, 12, 0.25),
        ("query", 1, 13, 0.0),
        ("server", None, None, 0.25),
    ]


def test_ticks_never_make_the_rest_negative() -> None:
    cpu = ServerCpu(1, {"query": [11]})
    used = cpu.used(CpuReading({11: 1.0}, 10.0), CpuReading({11: 2.0}, 10.99))
    assert used.total == 1.0
    assert used.by_role["server"] == 0.0


def test_backend_that_ended_keeps_its_last_value(tmp_path: Path) -> None:
    made_up(tmp_path, 10, 1, (0, 0, 0, 0))
    made_up(tmp_path, 11, 10, (100, 0, 0, 0))
    cpu = ServerCpu(10, {"query": [11, 12]}, tmp_path)
    begin = cpu.read()
    (tmp_path / "11/stat").write_text((tmp_path / "11/stat").read_text().replace(" 100 0 ", " 160 0 "))
    cpu.read_backends()
    (tmp_path / "11/stat").unlink()
    (tmp_path / "11").rmdir()
    (tmp_path / "10/stat").write_text(
        (tmp_path / "10/stat").read_text().replace(" 0 0 0 0 20", " 0 0 170 0 20")
    )
    used = cpu.used(begin, cpu.read())
    assert used.rows[0]["cpu_seconds"] == pytest.approx(60 * TICK)
    assert used.rows[1]["cpu_seconds"] is None
    assert used.by_role["server"] == pytest.approx(10 * TICK)


def test_resident_counts_shared_memory_once(tmp_path: Path) -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    made_up(tmp_path, 10, 1, (0, 0, 0, 0), "5000 1100 1000 1 0 1 0\n")
    made_up(tmp_path, 11, 10, (0, 0, 0, 0), "5000 1250 1200 1 0 1 0\n")
    assert resident_bytes([10, 11, 12], tmp_path) == (100 + 50 + 1200) * page
    assert resident_bytes([12], tmp_path) is None
