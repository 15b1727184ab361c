"""What the server says of itself, held against what was done to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.observe import old, postgres
from pgstrata.observe.postgres import CLUSTER_VIEWS, DATABASE_VIEWS, Counters
from pgstrata.observe.waits import WaitSampler
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.acquire import acquire
from pgstrata.store.record import TableSizes
from support.steps import running


@pytest.fixture
def session(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    with cluster.connect("pgstrata") as connection:
        connection.execute("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public")
        postgres.prepare(connection)
        connection.execute("RESET search_path")  # the tests make their tables in the same session
        yield connection


def reported(session: psycopg.Connection[Any], ended: int, data_dir: Path) -> None:
    """Waits until the statistics of a closed connection can be seen."""
    while postgres.backends_present(session, [ended]):
        pass
    assert postgres.wait_for_fresh(session, data_dir)


def test_every_numeric_column_of_every_view_there_is(session: psycopg.Connection[Any]) -> None:
    session.execute("CREATE TABLE t (a int PRIMARY KEY); CREATE SCHEMA IF NOT EXISTS other;")
    session.execute("DROP TABLE IF EXISTS other.u; CREATE TABLE other.u (a int)")
    counts = postgres.counters(session, (*CLUSTER_VIEWS, *DATABASE_VIEWS), "pgstrata")
    views = {name for name, _ in counts}
    have = {
        row[0]
        for row in session.execute(
            "SELECT viewname FROM pg_views WHERE viewname LIKE 'pg\\_stat%'"
        ).fetchall()
    }
    assert views == {v.name for v in (*CLUSTER_VIEWS, *DATABASE_VIEWS)} & have
    assert {o for v, o in counts if v == "pg_stat_user_tables"} == {"t", "other.u"}
    assert {o for v, o in counts if v == "pg_stat_user_indexes"} == {"t_pkey"}
    assert {o for v, o in counts if v == "pg_stat_database"} <= {"pgstrata", "(shared)"}
    columns = (
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND atttypid::regtype::text"
        " IN ('bigint', 'integer', 'smallint', 'real', 'double precision', 'numeric')"
    )
    for view in views:
        expected = {row[0] for row in session.execute(columns, (view,)).fetchall()}
        got = {counter for (v, _), values in counts.items() if v == view for counter in values}
        assert got <= expected
        assert got, view
    assert "n_tup_ins" in counts["pg_stat_user_tables", "t"]
    assert not {"relid", "datid", "stats_reset", "last_vacuum"} & {c for v in counts.values() for c in v}


def test_wal_position_grows_by_what_is_written(session: psycopg.Connection[Any]) -> None:
    session.execute("CREATE TABLE t (a text)")
    first = postgres.wal_position(session)
    session.execute("INSERT INTO t SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
    second = postgres.wal_position(session)
    assert first is not None and second is not None
    assert 1_000_000 < second - first < 20_000_000


def test_sizes(session: psycopg.Connection[Any], cluster: Cluster) -> None:
    session.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
    session.execute("INSERT INTO t SELECT i, repeat('x', 100) FROM generate_series(1, 5000) i")
    sizes = postgres.sizes(session, ["t", "absent"], cluster.data_folder.path)
    row = session.execute(
        "SELECT pg_table_size('t'), pg_indexes_size('t'), pg_database_size('pgstrata')"
    ).fetchone()
    assert row is not None
    assert sizes.tables == {"t": TableSizes(table_bytes=row[0], index_bytes=row[1])}
    # What servers before 9.6 are asked says the same.
    assert old.table_sizes(session, ["t", "absent"]) == sizes.tables
    assert sizes.database_bytes == row[2]
    assert sizes.data_dir_bytes > row[2]
    assert postgres.sizes(session, [], None).data_dir_bytes is None


@pytest.mark.parametrize("number", [70400, 990000])
def test_what_is_asked_does_not_follow_the_number(
    session: psycopg.Connection[Any], cluster: Cluster, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", property(lambda info: number))
    session.execute("CREATE TABLE t (a int PRIMARY KEY)")
    with cluster.connect("pgstrata") as other:
        postgres.prepare(other)
        position = postgres.wal_position(other)
        assert position is not None and position > 1_000_000
        assert postgres.wait_for_fresh(other, cluster.data_folder.path)
        assert postgres.knows_states(other) and postgres.others_present(other, []) == 1
        assert postgres.backends_present(session, [other.info.backend_pid]) == 1
        assert set(postgres.sizes(other, ["t"], None).tables) == {"t"}
        described = postgres.describe(other, ["t"], managed=False)["t"]
        assert described.dead_estimate == 0 and set(described.indexes) == {"t_pkey"}
        waits = WaitSampler(other, {}).stop()
        assert waits.failure is None


@pytest.mark.server
def test_servers_of_each_form_are_asked() -> None:
    for version in ("9.6", "10", "14", "15", "18"):
        with running(acquire(f"pg:{version}")) as cluster, cluster.connect() as session:
            postgres.prepare(session)
            session.execute("CREATE TABLE public.t (a text)")
            before = postgres.wal_position(session)
            session.execute("INSERT INTO public.t SELECT repeat('x', 1000) FROM generate_series(1, 1000)")
            after = postgres.wal_position(session)
            assert before is not None and after is not None and 1_000_000 < after - before < 20_000_000
            assert postgres.wait_for_fresh(session, cluster.data_folder.path)
            assert postgres.others_present(session, []) == 0
            assert postgres.sizes(session, ["t"], None).tables["t"].table_bytes > 1_000_000
            if version == "9.6":  # as servers before it are asked, which have no pg_lsn
                assert (old.wal_position(session) or 0) >= after
            assert WaitSampler(session, {}).stop().failure is None


def test_partitions_count_to_the_whole(session: psycopg.Connection[Any], cluster: Cluster) -> None:
    session.execute("""
        CREATE TABLE p (a int, b text) PARTITION BY RANGE (a);
        CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (100);
        CREATE TABLE p2 PARTITION OF p FOR VALUES FROM (100) TO (200) PARTITION BY RANGE (a);
        CREATE TABLE p21 PARTITION OF p2 FOR VALUES FROM (100) TO (200);
        CREATE INDEX p_a ON p (a)
    """)
    with cluster.connect("pgstrata") as other:
        other.execute("INSERT INTO p SELECT i, 'x' FROM generate_series(0, 199) i")
        pid = other.info.backend_pid
    reported(session, pid, cluster.data_folder.path)
    row = session.execute("SELECT sum(pg_table_size(t)) FROM unnest('{p1,p21}'::regclass[]) t").fetchone()
    assert row is not None
    assert postgres.table_sizes(session, ["p"])["p"].table_bytes == row[0]
    described = postgres.describe(session, ["p"])["p"]
    assert described.rows_estimate == 200
    assert described.indexes == {"p_a": "CREATE INDEX p_a ON ONLY public.p USING btree (a)"}


def test_describe(session: psycopg.Connection[Any], cluster: Cluster) -> None:
    session.execute("""
        CREATE TABLE t (id bigserial PRIMARY KEY, v varchar(4000), n numeric(10, 2));
        CREATE INDEX t_v ON t (v, n)
    """)
    with cluster.connect("pgstrata") as other:
        # Fewer than autovacuum's threshold, or it might clear them away.
        other.execute("INSERT INTO t (v) SELECT i FROM generate_series(1, 40) i; DELETE FROM t WHERE id <= 7")
        pid = other.info.backend_pid
    reported(session, pid, cluster.data_folder.path)
    table = postgres.describe(session, ["t", "absent"])
    assert list(table) == ["t"]
    assert (table["t"].rows_estimate, table["t"].dead_estimate) == (33, 7)
    assert table["t"].indexes == {
        "t_pkey": "CREATE UNIQUE INDEX t_pkey ON public.t USING btree (id)",
        "t_v": "CREATE INDEX t_v ON public.t USING btree (v, n)",
    }
    assert table["t"].bloat is None


def test_bloat_reads_small_tables_and_leaves_nothing(session: psycopg.Connection[Any]) -> None:
    there = session.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pgstattuple'").fetchone()
    session.execute("CREATE TABLE t (a int PRIMARY KEY, b tsvector); CREATE INDEX t_b ON t USING gin (b)")
    session.execute(
        "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 1000) i; DELETE FROM t WHERE a <= 250"
    )
    assert postgres.describe(session, ["t"], bloat_bytes=8192)["t"].bloat is None
    bloat = postgres.describe(session, ["t"], bloat_bytes=1 << 30)["t"].bloat
    assert session.execute("SELECT 1 FROM pg_extension WHERE extname = 'pgstattuple'").fetchone() is None
    # Of a server that is not ours the extension is used only if it is there already.
    assert postgres.describe(session, ["t"], 1 << 30, managed=False)["t"].bloat is None
    if there is None:
        assert bloat is None
        return
    assert bloat is not None
    assert (bloat.table["tuple_count"], bloat.table["dead_tuple_count"]) == (750, 250)
    assert list(bloat.indexes) == ["t_pkey"]  # pgstatindex reads btrees only
    assert (bloat.indexes["t_pkey"]["leaf_pages"] or 0) > 0


def test_names_are_data(session: psycopg.Connection[Any]) -> None:
    name = 'we"ird; DROP TABLE t --%s\n'
    quoted = '"' + name.replace('"', '""') + '"'
    session.execute(f"CREATE TABLE {quoted} (a int)".encode())
    assert list(postgres.describe(session, [quoted])) == [quoted]
    counts = postgres.counters(session, DATABASE_VIEWS, "pgstrata")
    assert ("pg_stat_user_tables", name) in counts


def test_folder_counts_blocks_and_survives_what_vanishes(tmp_path: Any) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_bytes(b"x" * 100_000)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "a/dangling").symlink_to(tmp_path / "nothing")
    blocks = (tmp_path / "a/file").stat().st_blocks * 512
    link = (tmp_path / "a/dangling").lstat().st_blocks * 512
    assert postgres.folder_bytes(tmp_path / "a") == blocks + link
    assert postgres.folder_bytes(tmp_path / "missing") == 0
    (tmp_path / "a/pg_wal").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere/wal").write_bytes(os.urandom(50_000))
    assert postgres.folder_bytes(tmp_path / "a") > blocks + link


values = st.dictionaries(st.sampled_from(["x", "y"]), st.floats(0, 1e15), min_size=1)
objects = st.dictionaries(st.tuples(st.sampled_from(["pg_stat_io", "v"]), st.sampled_from("ab")), values)


@given(objects, objects)
def test_differences(before: Counters, after: Counters) -> None:
    rows = postgres.differences(before, after)
    assert len({(r["view"], r["object"], r["counter"]) for r in rows}) == len(rows)
    for row in rows:
        key = row["view"], row["object"]
        assert row["after"] == after[key][row["counter"]]
        assert row["before"] == before.get(key, {}).get(row["counter"], 0.0)
    # What is left out has not moved.
    shown = sum(r["after"] - r["before"] for r in rows)
    assert shown == sum(
        value - before.get(key, {}).get(name, 0.0) for key, cs in after.items() for name, value in cs.items()
    ) or shown == pytest.approx(
        sum(
            value - before.get(key, {}).get(name, 0.0)
            for key, cs in after.items()
            for name, value in cs.items()
        )
    )
