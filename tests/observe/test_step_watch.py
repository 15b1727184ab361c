"""The watch over a real step of a real server."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgstrata.errors import ServerError
from pgstrata.observe import StepObserved, StepWatch
from pgstrata.observe.host import RATES
from pgstrata.server.cluster.cluster import Cluster, ForeignCluster

Session = psycopg.Connection[Any]


@pytest.fixture
def table(cluster: Cluster) -> Iterator[str]:
    with cluster.connect("pgstrata") as session:
        session.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public")
        session.execute("CREATE TABLE t (id bigserial PRIMARY KEY, a int, b text); CREATE INDEX t_a ON t (a)")
        session.execute("INSERT INTO t (a, b) SELECT i, 'x' FROM generate_series(1, 1000) i")
    yield "t"


def pid(session: Session) -> int:
    return session.info.backend_pid


def stolen() -> float:
    """Seconds that the hypervisor gave to others, of all CPUs."""
    cpu = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(cpu[8]) / os.sysconf("SC_CLK_TCK")


def counter(seen: StepObserved, view: str, object_: str, name: str) -> float:
    (row,) = [r for r in seen.pgstat if (r["view"], r["object"], r["counter"]) == (view, object_, name)]
    return float(row["after"] - row["before"])


def vacuumed(session: Session) -> bool:
    """Whether an autovacuum of the table is over."""
    asked = "SELECT autovacuum_count > 0 FROM pg_stat_user_tables WHERE relname = 't'"
    return session.execute(asked).fetchone() == (True,)


def test_a_step(cluster: Cluster, table: str) -> None:
    """Two roles work, one idles; rows, WAL, CPU and events are those of the work."""
    insert, query, idle = (cluster.connect("pgstrata") for _ in range(3))
    with cluster.connect("pgstrata") as session:
        position = (
            "pg_current_wal_insert_lsn"
            if session.info.server_version >= 100000
            else "pg_current_xlog_insert_location"
        )
        watch = StepWatch(cluster, [table], interval=0.5)
        watch.before({"insert": [pid(insert)], "query": [pid(query), pid(idle)]})
        first = session.execute(f"SELECT {position}()".encode()).fetchone()
        watch.begin()
        stolen_before = stolen()
        started = time.monotonic()
        for n in range(50):
            insert.execute("INSERT INTO t (a, b) SELECT i, 'x' FROM generate_series(1, 100) i")
            if n % 2:
                query.execute("SELECT sum(a) FROM t WHERE id > 0")
        session.execute("CHECKPOINT")
        # The naptime is a second: an autovacuum of what was inserted comes by itself, on a busy machine late.
        while (took := time.monotonic() - started) < 2.2 or (took < 60 and not vacuumed(session)):
            insert.execute("UPDATE t SET a = a + 1 WHERE id <= 100")
            time.sleep(0.05)
        elapsed = time.monotonic() - started
        watch.end()
        last = session.execute(f"SELECT {position}() - %s::pg_lsn".encode(), first).fetchone()
        for connection in (insert, query, idle):
            connection.close()
        seen = watch.after()

    assert seen.notes == []
    assert counter(seen, "pg_stat_user_tables", "t", "n_tup_ins") == 5000
    assert counter(seen, "pg_stat_user_indexes", "t_a", "idx_scan") >= 0
    assert counter(seen, "pg_stat_database", "pgstrata", "tup_inserted") >= 5000
    assert last is not None and seen.wal_bytes == pytest.approx(float(last[0]), rel=0.2)

    assert [(r["role"], r["client"]) for r in seen.backends] == [
        ("insert", 1),
        ("query", 1),
        ("query", 2),
        ("server", None),
    ]
    cpu = seen.cpu_by_role
    assert sum(r["cpu_seconds"] for r in seen.backends) == pytest.approx(seen.server_cpu_seconds)
    assert sum(cpu.values()) == pytest.approx(seen.server_cpu_seconds)
    assert cpu["insert"] > 0 and cpu["server"] > 0
    assert seen.backends[2]["cpu_seconds"] < seen.backends[1]["cpu_seconds"]
    assert seen.server_cpu_seconds is not None
    assert seen.server_cpu_seconds < elapsed * (os.cpu_count() or 1)

    seconds = [row["second"] for row in seen.host]
    # On a busy machine a sample may be missed; the rows keep their order and never double.
    assert seconds[0] == 0 and seconds == sorted(set(seconds))
    assert 2 <= len(seconds) <= elapsed / 0.5 + 1
    assert set(seen.host[0]) == {
        "second",
        *RATES,
        "memory_used_bytes",
        "page_cache_bytes",
        "server_rss_bytes",
    }
    assert seen.disk is not None and seen.disk["context_switches"] > 0
    # Whatever else runs on the machine: the host worked at least as much as the server did. What another
    # guest of the hypervisor took is in the processes' own time, but not in the host's.
    worked = seen.disk["cpu_seconds"] + stolen() - stolen_before
    assert worked > 0.8 * seen.server_cpu_seconds - 0.1
    assert seen.rss_bytes is not None and seen.rss_bytes > 1 << 20
    assert seen.sampler_cpu_seconds is not None and seen.sampler_cpu_seconds > 0

    checkpoints = [e for e in seen.events if e.kind == "checkpoint"]
    assert len(checkpoints) == 1
    until = checkpoints[0].until
    assert until is not None and 0 <= checkpoints[0].second <= until <= elapsed + 0.1
    vacuums = [e for e in seen.events if e.kind == "autovacuum" and "pgstrata.public.t" in e.text]
    assert vacuums
    assert counter(seen, "pg_stat_user_tables", "t", "autovacuum_count") >= 1
    assert seen.tables["t"].indexes["t_a"].endswith("(a)")
    assert seen.sizes is not None and seen.sizes.tables["t"].index_bytes > 0


def test_parallel_workers_that_die_are_the_servers(cluster: Cluster, table: str) -> None:
    with cluster.connect("pgstrata") as session:
        if session.info.server_version < 100000:
            pytest.skip("parallel query is forced by other settings in 9.6")
        session.execute(
            "INSERT INTO t (a, b) SELECT i, md5(i::text) FROM generate_series(1, 60000) i; ANALYZE t"
        )
    leader = cluster.connect("pgstrata")
    leader.execute("SET max_parallel_workers_per_gather = 2; SET min_parallel_table_scan_size = 0")
    leader.execute("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0")
    if leader.info.server_version >= 110000:
        leader.execute("SET parallel_leader_participation = off")
    watch = StepWatch(cluster, [table])
    watch.before({"query": [pid(leader)]})
    watch.begin()
    for _ in range(5):
        leader.execute("SELECT count(*), max(md5(b || 'x' || a)) FROM t WHERE md5(md5(b)) <> 'x'")
    watch.end()
    leader.close()
    seen = watch.after()
    # The workers did the work and were gone before the end; the leader only waited.
    assert seen.cpu_by_role["server"] > seen.cpu_by_role["query"]


@pytest.fixture
def without_autovacuum(cluster: Cluster) -> Iterator[None]:
    """Its workers commit, too."""

    def switch(how: str) -> None:
        with cluster.connect() as session:
            session.execute(f"ALTER SYSTEM {how}".encode())
            session.execute("SELECT pg_reload_conf()")

    switch("SET autovacuum = off")
    yield
    switch("RESET autovacuum")


@pytest.mark.usefixtures("without_autovacuum")
def test_counters_do_not_hold_what_the_observer_did(cluster: Cluster, table: str) -> None:
    watch = StepWatch(cluster, [table])
    watch.before({})
    watch.begin()
    watch.end()
    seen = watch.after()
    for name in ("n_tup_ins", "n_tup_upd", "seq_scan", "idx_scan"):
        assert counter(seen, "pg_stat_user_tables", "t", name) == 0
    # A worker that runs already may commit; ten queries of the observer would show.
    assert counter(seen, "pg_stat_database", "pgstrata", "xact_commit") < 10


class NoPostgresDatabase(ForeignCluster):
    """A server whose account may connect to nothing but the observed database."""

    def connect(self, database: str | None = None, *, confined: bool = False) -> Session:
        if database == "postgres":
            raise ServerError("permission denied for database postgres")
        return super().connect(database)


@pytest.mark.parametrize("kind", [ForeignCluster, NoPostgresDatabase])
def test_foreign_server(cluster: Cluster, table: str, kind: type[ForeignCluster]) -> None:
    dsn = f"host={cluster.socket_dir} port={cluster.port} user=postgres dbname=pgstrata"
    server = replace(cluster.server, spec=f"dsn:{dsn}", bin_dir=None, dsn=dsn)
    watch = StepWatch(kind(server), [table])
    client = cluster.connect("pgstrata")
    watch.before({"query": [pid(client)]})
    watch.begin()
    client.execute("INSERT INTO t (a) SELECT generate_series(1, 7)")
    watch.end()
    client.close()
    seen = watch.after()
    assert (seen.backends, seen.host, seen.disk, seen.server_cpu_seconds) == ([], [], None, None)
    assert seen.rss_bytes is None and seen.cpu_by_role == {} and seen.events == []
    assert seen.sizes is not None and seen.sizes.data_dir_bytes is None
    assert seen.sizes.database_bytes is not None and seen.sizes.database_bytes > 0
    assert counter(seen, "pg_stat_user_tables", "t", "n_tup_ins") == 7
    assert seen.wal_bytes is not None and seen.wal_bytes > 0
    assert any("foreign" in note for note in seen.notes)


def test_connections_left_open_are_noted(cluster: Cluster, table: str) -> None:
    client = cluster.connect("pgstrata")
    watch = StepWatch(cluster, [table])
    watch.before({"query": [pid(client)]})
    watch.begin()
    watch.end()
    seen = watch.after()
    client.close()
    assert any("still open" in note for note in seen.notes)


def test_server_killed_in_the_step(new_cluster: Cluster) -> None:
    client = new_cluster.connect("pgstrata")
    watch = StepWatch(new_cluster, ["t"], interval=0.05)
    watch.before({"query": [pid(client)]})
    watch.begin()
    client.execute("SELECT count(*) FROM generate_series(1, 1000000)")
    time.sleep(0.2)
    assert new_cluster.postmaster.pid is not None
    os.kill(new_cluster.postmaster.pid, signal.SIGKILL)
    while new_cluster.postmaster.alive():
        time.sleep(0.01)
    watch.end()
    seen = watch.after()
    assert len(seen.host) >= 2
    # What the backend had used when it was last seen is kept.
    assert seen.cpu_by_role["query"] > 0
    assert seen.pgstat == [] and seen.sizes is None and seen.wal_bytes is None
    assert any("pg_stat" in note for note in seen.notes)


def test_given_up_before_its_end(cluster: Cluster, table: str) -> None:
    watch = StepWatch(cluster, [table])
    watch.before({})
    watch.begin()
    watch.close()
    watch.close()
    assert not any(t.name == "pgstrata-host" for t in threading.enumerate())


def test_calls_in_no_order_do_not_raise(cluster: Cluster) -> None:
    watch = StepWatch(cluster, [])
    watch.end()
    seen = watch.after()
    assert seen.pgstat == [] and seen.backends == []
