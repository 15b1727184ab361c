"""What is asked of files before a server runs agrees with what the running server has and understands."""

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from pgstrata.errors import UsageError
from pgstrata.server.capabilities import catalog_of
from pgstrata.server.cluster.extensions import lacking
from pgstrata.server.cluster.wanted_replicas import Replicas, check_replicas
from pgstrata.server.config.known import KnownSettings, known_settings
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.features import Feature, Features, ask_features
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from support.steps import running

NOTHING = Resolved("", (), {}, (), ())

STATEMENTS = {
    Feature.ROLES: "CREATE ROLE pgstrata_test",
    Feature.MULTIROW_VALUES: "VALUES (1), (2)",
    Feature.FILLFACTOR: "CREATE TABLE t (a int) WITH (fillfactor = 90)",
    Feature.STDDEV_SAMP: "SELECT stddev_samp(1)",
    Feature.TEXT_SEARCH: "SELECT to_tsvector('a')",
    Feature.NULLS_ORDER: "SELECT 1 ORDER BY 1 NULLS FIRST",
    Feature.OPTIONAL_AS: "SELECT 1 number",
    Feature.DO_BLOCKS: "DO $$BEGIN NULL; END$$",
    Feature.EXPLAIN_JSON: "EXPLAIN (FORMAT JSON) SELECT 1",
    Feature.PLPGSQL: "DO LANGUAGE plpgsql $$BEGIN NULL; END$$",
    Feature.CONCAT: "SELECT concat('a')",
    Feature.EXTENSIONS: "CREATE EXTENSION IF NOT EXISTS plpgsql",
    Feature.GIN_CLEANING: (
        "CREATE TABLE t (a int[]); CREATE INDEX i ON t USING gin (a); SELECT gin_clean_pending_list('i')"
    ),
    Feature.WAL_NAMES: "SELECT pg_current_wal_lsn()",
    Feature.PARTITIONED_KEYS: "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY RANGE (a)",
    Feature.PARTITIONED_FOREIGN_KEYS: (
        "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY RANGE (a); CREATE TABLE u (a int REFERENCES t)"
    ),
}
"""What only a server with the feature takes."""


def _takes(session: psycopg.Connection[tuple[object, ...]], statements: str) -> bool:
    try:
        with session.transaction(force_rollback=True):
            session.execute(statements.encode(), prepare=False)
    except psycopg.DatabaseError:
        return False
    return True


@pytest.mark.server
@pytest.mark.parametrize("version", ["9.6", "10", "12", "17", "18"])
def test_files_catalogs_and_statements_agree(version: str) -> None:
    server = acquire(f"pg:{version}")
    assert set(STATEMENTS) == set(Feature)
    of_files = {feature for feature in Feature if server.features.has(feature)}
    assert server.programs is not None
    assert all(server.programs.has(feature.question) is not None for feature in Feature)
    with running(server) as cluster, cluster.connect() as session:
        assert ask_features(catalog_of(session)) == of_files
        assert {f for f in Feature if _takes(session, STATEMENTS[f])} == of_files


def test_features_do_not_follow_the_number(pg12: Server) -> None:
    pg96, pg10 = acquire("pg:9.6"), acquire("pg:10")
    early = replace(pg10, version="12devel", version_num=120000, label="12devel")
    assert Features(120000).has(Feature.PARTITIONED_FOREIGN_KEYS), "nothing to ask: the number decides"
    assert not early.features.has(Feature.PARTITIONED_KEYS)
    assert not early.features.has(Feature.PARTITIONED_FOREIGN_KEYS)
    late = replace(pg12, version="9.0devel", version_num=90000, label="9.0devel")
    assert late.features.has(Feature.PARTITIONED_FOREIGN_KEYS) and late.features.has(Feature.EXTENSIONS)
    assert not lacking(late, ["plpgsql"]) and lacking(replace(late, bin_dir=None), ["plpgsql"]) == ["plpgsql"]
    asked = replace(pg12, bin_dir=None, asked=frozenset({Feature.ROLES}))
    assert asked.features.has(Feature.ROLES) and not asked.features.has(Feature.EXTENSIONS)
    assert pg96.features == replace(pg96, label="other").features


def test_the_form_of_settings_does_not_follow_the_number(pg17: Server) -> None:
    late = known_settings(replace(pg17, version="8.0devel", version_num=80000))
    assert late.takes_units and late.logs_milliseconds
    assert not KnownSettings(80000).takes_units and not KnownSettings(80000).logs_milliseconds
    assert late.programs is not None and late.programs.postgres_serves


def test_replicas_need_their_wal_level(pg17: Server) -> None:
    check_replicas(Replicas(), NOTHING, known_settings(replace(pg17, version_num=90500)), "9.6devel")
    with pytest.raises(UsageError, match=r"9\.6"):
        check_replicas(Replicas(), NOTHING, KnownSettings(90500), "9.5")


def test_a_server_starts_whatever_it_calls_itself(pg17: Server) -> None:
    with (
        running(replace(pg17, version="7.4devel", version_num=70400)) as cluster,
        cluster.connect() as session,
    ):
        name = session.execute("SELECT application_name FROM pg_stat_activity WHERE pid = pg_backend_pid()")
        assert name.fetchone() == ("pgstrata",)
        assert session.execute("SHOW server_encoding").fetchone() == ("UTF8",)


def test_a_running_server_is_asked_when_it_is_found(pg12: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(pg12) as cluster:
        monkeypatch.setattr(psycopg.ConnectionInfo, "server_version", property(lambda info: 90000))
        server = acquire(f"dsn:host={cluster.socket_dir} port={cluster.port} user=postgres dbname=postgres")
        assert server.version_num == 90000
        assert server.features.has(Feature.PARTITIONED_FOREIGN_KEYS) and server.programs is None
