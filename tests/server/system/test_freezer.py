"""Stopping all of a cluster for a while, by each kind of freezer that this machine lets us have."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, LiteralString, get_args

import psycopg
import pytest

from pgstrata.observe.backends import cpu_seconds
from pgstrata.server.cluster.cluster import Cluster, clear_leftovers
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.find.model import Server
from pgstrata.server.system import control_groups
from pgstrata.server.system.freezer import Freezer, FreezerKind
from support.kills import groups_here
from support.program import living_in

KINDS: tuple[FreezerKind, ...] = get_args(FreezerKind)

NAME = f"c{os.getpid()}"
"""Of the folder of a cluster, which names its group: tests run beside each other."""

BUSY = "SELECT sum(i) FROM generate_series(1, 1000000000) AS i"

HOLDER = """
import sys, time
from pathlib import Path
from pgstrata.server.find.acquire import acquire
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.system.freezer import Freezer
server, folder, kind = sys.argv[1:]
cluster = Cluster(acquire(server), Resolved("plain"), Path(folder), freezes=True)
cluster.freezer = Freezer(Path(folder).name, kinds=[kind])
cluster.create()
cluster.start()
with cluster.connect():
    cluster.freezer.freeze()
    print(cluster.freezer.kind, cluster.freezer._guard.pid, *cluster.postmaster.pids(), flush=True)
    time.sleep(600)
"""


def freezing(server: Server, folder: Path, kind: FreezerKind) -> Cluster:
    cluster = Cluster(server, Resolved("plain"), folder, freezes=True)
    cluster.freezer = Freezer(folder.name, kinds=[kind])
    return cluster


@pytest.fixture(autouse=True)
def no_group_stays() -> Iterator[None]:
    before = groups_here()
    yield
    assert not [group for group in groups_here() - before if group.name.startswith(f"pgstrata-{NAME}-turns-")]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_a_frozen_cluster_works(kind: FreezerKind, pg17: Server, place: Path) -> None:
    with freezing(pg17, place / NAME, kind) as cluster:
        cluster.create()
        cluster.start()
        freezer = cluster.freezer
        assert freezer is not None
        if freezer.kind != kind:
            pytest.skip(f"{kind} cannot be had here: {freezer.kind} is taken")
        with cluster.connect() as busy, cluster.connect() as other:
            asked = threading.Thread(target=until_it_is_stopped, args=(busy, BUSY))
            asked.start()
            worker = busy.info.backend_pid
            until = time.monotonic() + 10
            while (cpu_seconds(worker) or 0.0) < 0.05 and time.monotonic() < until:
                time.sleep(0.01)
            freezer.freeze()
            pids = cluster.postmaster.pids()
            assert worker in pids and len(pids) > 5
            before = [cpu_seconds(pid) for pid in pids]
            answered = threading.Event()

            def ask() -> None:
                other.execute("SELECT 1")
                answered.set()

            second = threading.Thread(target=ask)
            second.start()
            assert not answered.wait(0.3)
            assert [cpu_seconds(pid) for pid in pids] == before
            freezer.thaw()
            assert answered.wait(30)
            second.join()
            for _ in range(20):  # again and again, with a process that is new
                freezer.freeze()
                freezer.thaw()
                with cluster.connect() as fresh:
                    assert fresh.execute("SELECT 1").fetchone() == (1,)
            freezer.freeze()
            # Lets it go on, or it could not end.
            cluster.stop("immediate")
            asked.join()
        assert not living_in(place)


def until_it_is_stopped(connection: psycopg.Connection[Any], text: LiteralString) -> None:
    with pytest.raises(psycopg.OperationalError):
        connection.execute(text)


@pytest.mark.parametrize("guarded", [True, False], ids=["guard", "next-start"])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_stays_frozen_after_kill_9(
    kind: FreezerKind, guarded: bool, pg17: Server, place: Path
) -> None:
    """The guard lets it go on, to end; without the guard the next start does."""
    (place / "data").mkdir(mode=0o755)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, pg17.spec, str(place / "data" / NAME), kind],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    kind_there, *numbers = holder.stdout.readline().split()
    guard, *pids = map(int, numbers)
    if not guarded:
        os.kill(guard, signal.SIGKILL)
    holder.kill()
    holder.wait()
    holder.stdout.close()
    if kind_there != kind:
        clear_leftovers(place / "data")
        pytest.skip(f"{kind} cannot be had here: {kind_there} is taken")
    if guarded:
        wait_for_end(pids)
    else:
        assert any(alive(pid) for pid in pids)
    assert len(clear_leftovers(place / "data")) == 1
    assert not any(alive(pid) for pid in pids)
    assert not (place / "data" / NAME).exists()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for_end(pids: list[int]) -> None:
    until = time.monotonic() + 30
    while any(alive(pid) for pid in pids):
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.program
def test_processes_that_are_in_a_group_of_version_2_stay_in_it() -> None:
    """A process can be in one only, and would leave the limit of its memory behind."""
    places = control_groups.version_2()
    group = places[0].parent / f"pgstrata-{NAME}-turns-test" if places else Path("/nowhere/group")
    try:
        group.mkdir()
    except OSError:
        pytest.skip("no group of version 2 can be made here")
    state = group / "cgroup.freeze"
    busy = subprocess.Popen(["sh", "-c", "while :; do :; done"])
    try:
        control_groups.take(group, busy.pid, list)
        freezer = Freezer("c", within=lambda: group)
        freezer.take(busy.pid)
        assert freezer.kind == "cgroup2"
        freezer.freeze()
        before = cpu_seconds(busy.pid)
        time.sleep(0.1)
        assert state.read_text().strip() == "1" and cpu_seconds(busy.pid) == before
        freezer.end()
        assert state.read_text().strip() == "0"
        assert str(busy.pid) in (group / "cgroup.procs").read_text().split()
    finally:
        busy.kill()
        busy.wait()
        control_groups.remove_group(group)
