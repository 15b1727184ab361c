"""Limits of memory: refused where they make no sense, enforced by the kernel where they can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.errors import ServerError
from pgstrata.server.cluster.cluster import Cluster, clear_leftovers
from pgstrata.server.config.resolve import find_config_file, resolve
from pgstrata.server.find.model import Server
from pgstrata.server.system import control_groups
from pgstrata.server.system.memory import MemoryGroup
from support.program import Program

LIMIT = 256 << 20


def cluster(server: Server, folder: Path) -> Cluster:
    config = resolve([find_config_file("default", None)], server.version_num, LIMIT)
    return Cluster(server, config, folder, memory=LIMIT)


def groups_of(limited: Cluster) -> list[Path]:
    assert limited._group is not None
    return [path for path in limited._group.candidates() if path.is_dir()]


def can_limit() -> bool:
    group = MemoryGroup("probe", LIMIT)
    try:
        control_groups.remove_group(group.make())
    except ServerError:
        return False
    return True


def test_every_process_of_the_server_is_limited(place_on_disk: Path, pg17: Server) -> None:
    if not can_limit():
        with cluster(pg17, place_on_disk / "c") as limited:
            limited.create()
            with pytest.raises(ServerError, match="memory cannot be limited here"):
                limited.start()
        return
    with cluster(pg17, place_on_disk / "c") as limited:
        limited.create()
        limited.start()
        paths = groups_of(limited)
        assert len(paths) == 1
        with limited.connect() as connection:
            inside = {int(p) for p in (paths[0] / "cgroup.procs").read_text().split()}
            assert set(limited.postmaster.pids()) <= inside
            assert connection.info.backend_pid in inside
            # More page cache than the limit: the kernel takes pages back instead of growing.
            connection.execute(
                "CREATE UNLOGGED TABLE t AS SELECT repeat('x', 1000) FROM generate_series(1, 400000)"
            )
            connection.execute("SELECT count(*) FROM t")
        for name in ("memory.max_usage_in_bytes", "memory.peak"):
            if (paths[0] / name).exists():
                # version 2 counts some pages for each CPU beforehand
                assert 64 << 20 < int((paths[0] / name).read_text()) <= LIMIT + (1 << 20)
        limited.stop()
        assert not paths[0].exists()


NEEDS_600_MB = "SELECT length(string_agg(repeat('x', 1000000), '')) FROM generate_series(1, 600);\n"


def test_a_server_that_needs_more_is_killed_and_the_limit_named(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    if not can_limit():
        pytest.skip("memory cannot be limited here")
    (place / "big.sql").write_text(NEEDS_600_MB)
    (place / "big.toml").write_text(
        'data_dir = "data"\n[[variants]]\nserver = "pg:17"\nmemory = "256MB"\n'
        '[[workloads]]\nname = "custom"\n'
        'options = { scripts = ["big.sql"], clients = [1], seconds = 2, warmup = 0 }\n'
    )
    done = pgstrata("run", "big.toml", "--no-report")
    assert done.returncode == 1
    assert "the kernel killed a process of the server, which needed more than its memory = 256 MiB" in (
        done.stdout + done.stderr
    )
    assert list((place / "data").iterdir()) == []


def test_a_limited_server_starts_with_nothing_cached(place_on_disk: Path, pg17: Server) -> None:
    """Pages that an earlier start, or a copy, left in memory would cost the new group nothing."""
    if not can_limit():
        pytest.skip("no group for memory can be made here")
    with cluster(pg17, place_on_disk / "c") as limited:
        limited.create()
        limited.start()
        with limited.connect() as connection:
            connection.execute("CREATE TABLE t AS SELECT generate_series(1, 1500000) AS x")
        limited.stop()
        limited.start()
        (group,) = groups_of(limited)
        used = next(f for n in ("memory.usage_in_bytes", "memory.current") if (f := group / n).exists())
        before = int(used.read_text())
        with limited.connect() as connection:
            connection.execute("SELECT count(*) FROM t")
        assert int(used.read_text()) - before > 40 << 20, "50 MB are read into the group"


def test_a_limit_below_shared_buffers_is_refused(place: Path, pgstrata: Program, pg17: Server) -> None:
    (place / "big.conf").write_text("shared_buffers = 2GB\n")
    file = place / "c.toml"
    for limit, message in (("1GB", "leaves no room beside shared_buffers = 2GB"), ("much", "is not a size")):
        file.write_text(
            f'[[variants]]\nserver = "{pg17.spec}"\nconfig = "./big.conf"\nmemory = "{limit}"\n'
            '[[workloads]]\nname = "pgbench"\n'
        )
        done = pgstrata("run", file, "--dry-run")
        assert done.returncode == 2
        assert message in done.stderr


def test_where_no_group_can_be_made_it_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(control_groups, "ROOT", tmp_path)
    with pytest.raises(ServerError, match="no memory controller") as refused:
        MemoryGroup("x", LIMIT).make()
    assert "leave `memory` out" in refused.value.hint


def test_a_group_that_is_not_ours_is_never_removed(tmp_path: Path) -> None:
    control_groups.remove_group(tmp_path)
    assert tmp_path.is_dir()
    assert clear_leftovers(tmp_path) == []
