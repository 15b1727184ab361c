"""Functions, operators and views that somebody has put into `public` are not executed by our questions."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import Connection

from pgstrata.measure.run import borrowed
from pgstrata.observe import postgres
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.connect.session import catalogs_only
from pgstrata.traffic.synthetic import statistics

Session = Connection[tuple[object, ...]]

# Each fits what is asked better than the server's own: by the type of an argument that has none yet, or where
# the server would convert it.
PLANTED = [
    "CREATE FUNCTION pg_table_size(oid) RETURNS int8",
    "CREATE FUNCTION pg_indexes_size(oid) RETURNS int8",
    "CREATE FUNCTION pg_total_relation_size(oid) RETURNS int8",
    "CREATE FUNCTION pg_stat_get_live_tuples(regclass) RETURNS int8",
    "CREATE FUNCTION obj_description(oid, text) RETURNS text",
    "CREATE FUNCTION shobj_description(oid, text) RETURNS text",
    "CREATE FUNCTION same(oid, regclass) RETURNS bool",
    "CREATE FUNCTION collect(text, text) RETURNS text",
]
MORE = """
CREATE OPERATOR = (LEFTARG = oid, RIGHTARG = regclass, PROCEDURE = same);
CREATE AGGREGATE array_agg(text) (SFUNC = collect, STYPE = text);
"""


@pytest.fixture
def session(cluster: Cluster) -> Iterator[Session]:
    """A superuser's session in a database where each planted function notes that it was called."""
    with cluster.connect() as admin:
        admin.execute("DROP DATABASE IF EXISTS planted")
        admin.execute("CREATE DATABASE planted")
    with cluster.connect("planted") as connection:
        connection.execute("CREATE TABLE called (name text)")
        connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'x')")
        connection.execute("INSERT INTO t SELECT g FROM generate_series(1, 1000) g")
        connection.execute("CREATE TABLE p (a int) PARTITION BY RANGE (a)")
        connection.execute("CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10)")
        connection.execute("ANALYZE")
        for function in PLANTED:
            name = function.split()[2].partition("(")[0]
            body = f"BEGIN INSERT INTO public.called VALUES ('{name}'); RETURN NULL; END"
            connection.execute(f"{function} LANGUAGE plpgsql AS $${body}$$".encode())
        for statement in MORE.strip().split("\n"):
            connection.execute(statement.encode())
        yield connection


def called(session: Session) -> list[str]:
    return sorted({str(name) for (name,) in session.execute("SELECT name FROM public.called")})


def test_what_is_planted_would_be_called(session: Session) -> None:
    session.execute("SELECT pg_table_size(1259::oid), pg_stat_get_live_tuples('t'::regclass)")
    session.execute("SELECT obj_description(1, 'pg_class'), 1::oid = 't'::regclass, array_agg('x'::text)")
    names = ["collect", "obj_description", "pg_stat_get_live_tuples", "pg_table_size", "same"]
    assert called(session) == names


def test_the_observer_calls_the_servers_own(session: Session) -> None:
    postgres.prepare(session)
    assert postgres.table_sizes(session, ["t", "p", "absent"])["t"].table_bytes > 8192
    described = postgres.describe(session, ["t", "public.p"], bloat_bytes=1 << 30)
    assert described["t"].indexes.keys() == {"t_pkey"} and described["t"].bloat is not None
    assert "public.p" in described
    assert postgres.counters(session, postgres.DATABASE_VIEWS, "planted")
    postgres.wal_position(session)
    postgres.wait_for_fresh(session, None)
    assert session.execute("SHOW search_path").fetchone() == ("pg_catalog",)
    assert called(session) == []


def test_the_statistics_of_a_server_are_read_past_it(session: Session) -> None:
    session.execute("SET search_path = public, pg_catalog")
    columns = {(column.table, column.name): column for column in statistics.columns_of(session)}
    assert columns["t", "a"].visible and columns["t", "a"].keys
    assert called(session) == []


def test_a_borrowed_database_is_prepared_past_it(session: Session) -> None:
    session.execute("CREATE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
    session.execute("CREATE TRIGGER own BEFORE INSERT ON t FOR EACH ROW EXECUTE PROCEDURE own()")
    borrowed._mark(session, ["t"])
    assert borrowed._marked(session) == ["t"]
    borrowed._drop_ours(session)
    assert called(session) == []
    with pytest.raises(psycopg.errors.UndefinedFunction):
        session.execute("SELECT public.own()")


def test_the_search_path_is_as_before_afterwards(session: Session) -> None:
    before = session.execute("SHOW search_path").fetchone()
    with catalogs_only(session):
        assert session.execute("SHOW search_path").fetchone() == ("pg_catalog",)
    assert session.execute("SHOW search_path").fetchone() == before
