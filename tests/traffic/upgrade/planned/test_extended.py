"""Values of CREATE STATISTICS in a server that has no function that restores them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgstrata.server.cluster.cluster import Cluster, new_database
from pgstrata.server.connect.session import use_catalogs_only
from pgstrata.server.find.model import Server
from pgstrata.traffic.upgrade.planned import extended
from pgstrata.traffic.upgrade.planned.calls import PlannerStatistics, read_statistics
from pgstrata.traffic.upgrade.planned.export import export_statistics
from pgstrata.traffic.upgrade.planned.extended import write_extended
from pgstrata.traffic.upgrade.planned.missing import Missing
from pgstrata.traffic.upgrade.planned.serialized import common_bytes, distinct_bytes
from pgstrata.traffic.upgrade.planned.targets import find_targets
from pgstrata.traffic.upgrade.schema import DATABASE, Schema
from support.planner import dsn_of, statements
from support.steps import running

TYPES = {
    "a_bool": "g % 2 = 0",
    "a_smallint": "(g % 3 - 1)::smallint",
    "an_int": "(g % 5 - 2) * 100000",
    "a_bigint": "(g % 2 - 1) * 10000000000",
    "a_text": "(ARRAY['', 'it''s {a}', 'ünï \"x\"', NULL])[1 + g % 4]",
    "a_varchar": "('v' || g % 3)::varchar(9)",
    "a_char": "('c' || g % 3)::char(6)",
    "a_numeric": "((g % 4 - 1) * 12345.678)::numeric(12, 4)",
    "a_real": "(g % 3) * 1.1",
    "a_double": "(g % 3) / 7.0 - 1",
    "a_date": "date '1999-12-31' + g % 3",
    "a_time": "time '23:59:59.5' - (g % 2) * interval '1 h'",
    "a_timestamp": "timestamp '2024-02-29 12:00' - (g % 2) * interval '100 years'",
    "a_timestamptz": "timestamptz '2024-02-29 12:00+05' + (g % 2) * interval '1 us'",
    "an_interval": "(g % 3 - 1) * interval '1 mon 2 days 03:04:05.6'",
    "a_uuid": "md5((g % 3)::text)::uuid",
    "a_bytea": "decode('00ff' || g % 3 || '0', 'hex')",
    "an_inet": "inet '10.0.0.1' + g % 2",
    "a_cidr": "(ARRAY['10.0.0.0/24', '10.1.0.0/16'])[1 + g % 2]::cidr",
    "a_jsonb": "jsonb_build_object('a', g % 2)",
    "an_oid": "(g % 2)::text::oid",
    "a_mood": "(ARRAY['sad', 'ok'])[1 + g % 2]::mood",
    "a_price": "(1 + g % 2)::price",
}
NAMES = {"a_real": "real", "a_double": "double precision", "a_char": "char(6)", "a_varchar": "varchar(9)"}


def schema_of_types() -> str:
    columns = ", ".join(f"{name} {NAMES.get(name, name.split('_')[1])}" for name in TYPES)
    names = list(TYPES)
    groups = [names[at : at + 4] for at in range(0, len(names), 4)]
    objects = "".join(
        f"CREATE STATISTICS s{number} ON {', '.join(group)} FROM all_types;\n"
        for number, group in enumerate(groups)
    )
    return (
        "CREATE TYPE mood AS ENUM ('sad', 'ok');\nCREATE DOMAIN price AS numeric CHECK (VALUE > 0);\n"
        f"CREATE TABLE all_types (gone int, {columns});\nALTER TABLE all_types DROP COLUMN gone;\n{objects}"
        f"INSERT INTO all_types SELECT {', '.join(TYPES.values())} FROM generate_series(1, 4000) g;\nANALYZE"
    )


@contextmanager
def analyzed(server: Server, text: str) -> Iterator[tuple[Cluster, psycopg.Connection[Any]]]:
    """A server with a database in the place of a schema that was restored."""
    with running(server) as cluster:
        with cluster.connect() as admin:
            admin.execute(new_database(DATABASE).encode())
        with cluster.connect(DATABASE) as session:
            for statement in statements(text):
                session.execute(statement.encode())
            yield cluster, session


def exported(cluster: Cluster, place: Path) -> PlannerStatistics:
    dsn = dsn_of(cluster).replace("dbname=shop", f"dbname={DATABASE}")
    export_statistics(dsn, place / "stats.sql")
    return read_statistics(place / "stats.sql")


def write(cluster: Cluster, statistics: PlannerStatistics) -> tuple[int, Missing]:
    missing = Missing()
    with cluster.connect(DATABASE) as session:
        use_catalogs_only(session)
        targets = find_targets(session, statistics.extended, missing)
        schema = Schema(cluster, False, {}, {})
        written = write_extended(schema, session, targets, missing, lambda: None)
        (casts,) = session.execute(_CASTS).fetchall()
        assert casts == (0,)
    return written, missing


_CASTS = b"SELECT count(*) FROM pg_cast WHERE oid >= 16384"


@pytest.mark.server
@pytest.mark.parametrize(
    ("version", "table", "columns"),
    [
        ("pg10", "pg_statistic_ext", ["stxndistinct", "stxdependencies"]),
        ("pg12", "pg_statistic_ext_data", ["stxdndistinct", "stxddependencies", "stxdmcv"]),
        ("pg18", "pg_statistic_ext_data", ["stxdndistinct", "stxddependencies", "stxdmcv"]),
    ],
)
def test_bytes_are_those_of_the_server(
    version: str, table: str, columns: list[str], place: Path, request: pytest.FixtureRequest
) -> None:
    """What ANALYZE has stored comes back bit by bit from the text that the server shows of it; of degrees of
    dependencies it shows six digits."""
    shown = ", ".join(f"{name}::{'text' if 'dependencies' in name else 'bytea'}" for name in columns)
    question = f"SELECT {shown} FROM {table} ORDER BY 1".encode()
    with analyzed(request.getfixturevalue(version), schema_of_types()) as (cluster, session):
        wanted = session.execute(question).fetchall()
        assert len(wanted) == 6 and all(None not in row for row in wanted)
        statistics = exported(cluster, place)
        emptied = ", ".join(f"{name} = NULL" for name in columns)
        session.execute(f"UPDATE {table} SET {emptied}".encode())
        written, missing = write(cluster, statistics)
        assert (written, missing.listed) == (6, [])
        assert session.execute(question).fetchall() == wanted


EXPRESSIONS = """
CREATE TABLE visits (at timestamp, page text, node int);
CREATE STATISTICS of_days ON date_trunc('day', at) FROM visits;
CREATE STATISTICS of_pages ON node, lower(page), (node % 10) FROM visits
"""
VISITS = """
INSERT INTO visits SELECT '2024-01-01'::timestamp + (g % 7) * interval '1 day' + g * interval '1 s',
    'Page' || g % 30, g % 30 FROM generate_series(1, 6000) g;
ANALYZE
"""
VISITED = (
    "SELECT date_trunc('day', at), count(*) FROM visits GROUP BY 1",
    "SELECT * FROM visits WHERE lower(page) < 'page15'",
    "SELECT * FROM visits WHERE lower(page) = 'page7' AND node % 10 = 7",
    "SELECT node, lower(page), count(*) FROM visits GROUP BY 1, 2",
)


def rows_of(session: psycopg.Connection[Any]) -> list[float]:
    plans = [session.execute(f"EXPLAIN (FORMAT JSON) {query}".encode()).fetchall() for query in VISITED]
    return [plan[0][0][0]["Plan"]["Plan Rows"] for plan in plans]


@pytest.mark.server
def test_expressions(pg17: Server, place: Path) -> None:
    """Statistics of expressions, and values of columns together with expressions."""
    with analyzed(pg17, f"{EXPRESSIONS};\n{VISITS}") as (cluster, session):
        wanted = rows_of(session)
        statistics = exported(cluster, place)
        stored = session.execute(b"SELECT * FROM pg_stats_ext_exprs ORDER BY 3, 5").fetchall()
        session.execute(b"DELETE FROM pg_statistic_ext_data")
        without = rows_of(session)
        written, missing = write(cluster, statistics)
        assert (written, missing.listed) == (2, [])
        assert session.execute(b"SELECT * FROM pg_stats_ext_exprs ORDER BY 3, 5").fetchall() == stored
        assert rows_of(session) == pytest.approx(wanted, rel=0.01)
        assert all(rows != pytest.approx(real, rel=0.3) for rows, real in zip(without, wanted, strict=True))


DEFINED_OTHERWISE = """
CREATE TABLE pairs (a int, b int, c int, d point);
CREATE TABLE parent (a int, b int);
CREATE TABLE child (c int) INHERITS (parent);
CREATE STATISTICS whole ON a, b FROM pairs;
CREATE STATISTICS dependent (dependencies) ON a, b, c FROM pairs;
CREATE STATISTICS of_child ON a, b FROM child;
CREATE STATISTICS silent ON b, c FROM pairs
"""


def call(name: str, more: str, table: str = "pairs") -> str:
    return (
        f"SELECT pg_catalog.pg_restore_extended_stats('schemaname', 'public', 'relname', '{table}', "
        f"'statistics_schemaname', 'public', 'statistics_name', '{name}', 'inherited', 'f', {more});\n"
    )


@pytest.mark.server
def test_values_that_do_not_fit_are_listed(
    pg13: Server, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distinct = """'n_distinct', '[{"attributes": [%s], "ndistinct": %s}]'"""
    common = "'most_common_vals', '{%s}', 'most_common_freqs', '{0.5}', 'most_common_base_freqs', '{0.1}'"
    dependent = """'dependencies', '[{"attributes": [3], "dependency": 9, "degree": 1}]'"""
    base = "SELECT pg_restore_relation_stats('schemaname', 'public', 'relname', 'pairs');\n"
    cases = {
        call("whole", distinct % ("1, 2", "-5")): "no number of distinct values: -5",
        call("whole", distinct % ("1, 2, 3", "5")): "cannot be told",
        call("whole", distinct % ("1, 2, -1", "5")): "more than 0 expressions",
        call("whole", common % "{1}"): "they are of 2 columns here",
        call("whole", common % "{1,x}"): "invalid input syntax",
        call("whole", distinct % ("1, 2", "5"), "parent"): "of another table",
        call("dependent", dependent): "cannot be told",
        call("dependent", distinct % ("1, 2", "5")): "not of this kind",
        call("of_child", distinct % ("1, 2", "5"), "child"): "another order",
        call("gone", distinct % ("1, 2", "5")): "no such extended statistics",
        call("whole", distinct % ("1, 2", "5")).replace("'f'", "'t'"): "a table with its children",
    }
    with analyzed(pg13, DEFINED_OTHERWISE) as (cluster, session):
        for text, why in cases.items():
            (place / "stats.sql").write_text(base + text)
            written, missing = write(cluster, read_statistics(place / "stats.sql"))
            listed = {statistic.what: statistic.why for statistic in missing.listed}
            silent = listed.pop("public.silent")
            assert "the file has no values" in silent
            assert written == 0 and any(why in reason for reason in listed.values()), (text, listed)
        # As if the server had another layout.
        monkeypatch.setattr(extended, "distinct_bytes", lambda given: distinct_bytes([*given, *given]))
        monkeypatch.setattr(
            extended,
            "common_bytes",
            lambda given, dimensions: common_bytes(replace(given, frequencies=(0.6,)), dimensions),
        )
        both = distinct % ("1, 2", "5") + ", " + common % "{1,2}"
        (place / "stats.sql").write_text(base + call("whole", both))
        written, missing = write(cluster, read_statistics(place / "stats.sql"))
        assert written == 0
        assert [statistic.why for statistic in missing.listed if "whole" in statistic.what] == [
            "the server reads other values from the bytes than were meant"
        ] * 2
        stored = session.execute(
            b"SELECT count(*) FROM pg_statistic_ext_data WHERE (stxdndistinct, stxddependencies, stxdmcv)"
            b" IS DISTINCT FROM (NULL, NULL, NULL)"
        ).fetchall()
        assert stored == [(0,)]
