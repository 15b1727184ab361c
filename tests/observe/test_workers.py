"""Parallel workers are seen by the titles of processes."""

from __future__ import annotations

import time

from pgstrata.observe.step_watch import temp_bytes
from pgstrata.observe.workers import WorkerCount
from pgstrata.server.cluster.cluster import Cluster


def test_workers_of_a_query_are_counted(new_cluster: Cluster) -> None:
    with new_cluster.connect() as session:
        session.execute("CREATE TABLE t AS SELECT generate_series(1, 300000) i")
        session.execute("ALTER TABLE t SET (parallel_workers = 3)")
        session.execute("SET max_parallel_workers_per_gather = 3")
        session.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0")
        alone = WorkerCount(new_cluster.postmaster.pid)
        alone.start()
        session.execute("SELECT pg_sleep(0.1)")
        alone.stop()
        assert alone.most == 0
        watched = WorkerCount(new_cluster.postmaster.pid)
        watched.start()
        session.execute("SELECT count(*) FROM t a JOIN t b ON md5(a.i::text) = md5(b.i::text)")
        watched.stop()
        watched.stop()
        assert watched.most == 3
        time.sleep(0.1)
        watched.look()
        assert watched.most == 3


def test_nobody_looks_without_a_server() -> None:
    none = WorkerCount(None)
    none.start()
    none.stop()
    assert none.most is None
    gone = WorkerCount(2**22 + 1)  # more than a pid can be
    gone.look()
    assert gone.most == 0


def test_temporary_bytes_are_those_of_the_database() -> None:
    def row(name: str, counter: str, before: float | None, after: float) -> dict[str, object]:
        return {
            "view": "pg_stat_database",
            "object": name,
            "counter": counter,
            "before": before,
            "after": after,
        }

    rows = [row("other", "temp_bytes", 0, 9), row("own", "temp_files", 0, 1), row("own", "temp_bytes", 5, 8)]
    assert temp_bytes(rows, "own") == 3
    assert temp_bytes(rows[:2], "own") is None
    assert temp_bytes([row("own", "temp_bytes", None, 8)], "own") == 8
