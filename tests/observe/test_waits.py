"""Wait events: a known wait is found with its share, on every version's columns."""

from __future__ import annotations

import threading
import time

import pytest

from pgstrata.observe import StepWatch
from pgstrata.observe.waits import WaitSampler
from pgstrata.server.cluster.cluster import Cluster


def test_who_waits_for_what(cluster: Cluster) -> None:
    with cluster.connect("pgstrata") as session:
        session.execute("DROP TABLE IF EXISTS waited; CREATE TABLE waited (a int)")
    busy, locked, idle = (cluster.connect("pgstrata") for _ in range(3))
    busy.execute("BEGIN; LOCK waited")
    watch = StepWatch(cluster, [], waits_hertz=50)
    watch.before(
        {name: [c.info.backend_pid] for name, c in locals().items() if name in ("busy", "locked", "idle")}
    )
    blocked = threading.Thread(target=lambda: locked.execute("SELECT count(*) FROM waited"))
    blocked.start()
    watch.begin()
    end = time.monotonic() + 1.0
    while time.monotonic() < end:
        busy.execute("SELECT sum(i) FROM generate_series(1, 100000) i")
    watch.end()
    busy.execute("COMMIT")
    blocked.join()
    for connection in (busy, locked, idle):
        connection.close()
    waits = watch.after().waits
    assert waits is not None and waits.failure is None
    assert 0 < waits.polls <= waits.wanted + 1
    share = {(r["role"], r["wait_event_type"], r["wait_event"]): r["share"] for r in waits.rows}
    assert share["idle", "Client", "ClientRead"] == 1.0
    assert share["locked", "Lock", "relation"] > 0.8
    assert share["busy", "CPU", ""] > 0.2
    by_process: dict[tuple[str, str], list[float]] = {}
    for row in waits.rows:
        by_process.setdefault((row["role"], row["process"]), []).append(row["share"])
    assert all(sum(shares) == pytest.approx(1.0) for shares in by_process.values())
    assert ("server", "checkpointer") in by_process
    # Neither the sampler nor the other connection of the observer is in it.
    assert ("server", "client backend") not in by_process
    assert waits.sampler_cpu_seconds > 0
    assert waits.backend_cpu_seconds is not None and waits.backend_cpu_seconds > 0


def test_parallel_workers_belong_to_the_role_of_their_leader(new_cluster: Cluster) -> None:
    """From 13 on the server tells whose they are."""
    with new_cluster.connect("pgstrata") as session:
        session.execute("CREATE TABLE big AS SELECT i, md5(i::text) AS b FROM generate_series(1, 100000) i")
    leader = new_cluster.connect("pgstrata")
    leader.execute("SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0")
    leader.execute("SET parallel_setup_cost = 0; SET parallel_leader_participation = off")
    sampler = WaitSampler(new_cluster.connect(), {"query": [leader.info.backend_pid]}, 100)
    sampler.start()
    for _ in range(5):
        leader.execute("SELECT count(*) FROM big WHERE md5(md5(md5(b))) <> 'x'")
    waits = sampler.stop()
    leader.close()
    assert sampler.stop() is waits
    # The server names no leader yet of a worker that is just starting.
    workers = [r for r in waits.rows if r["process"] == "parallel worker"]
    of_role = sum(r["samples"] for r in workers if r["role"] == "query")
    assert of_role > 0.8 * sum(r["samples"] for r in workers)
    events = {r["wait_event"].lower() for r in waits.rows if r["role"] == "query"}
    assert "executegather" in events


def test_lost_connection_is_said(new_cluster: Cluster) -> None:
    session = new_cluster.connect()
    sampler = WaitSampler(session, {}, 100)
    sampler.start()
    with new_cluster.connect() as other:
        other.execute("SELECT pg_terminate_backend(%s)", (session.info.backend_pid,))
    time.sleep(0.3)
    # Whether the server's farewell or the end of the connection is seen first is a matter of chance.
    assert (sampler.stop().failure or "").startswith(("AdminShutdown", "OperationalError"))


def test_impossible_rates(cluster: Cluster) -> None:
    with cluster.connect() as session:
        for hertz in (0, -1, 1001, float("nan")):
            with pytest.raises(ValueError, match="Hz"):
                WaitSampler(session, {}, hertz)
