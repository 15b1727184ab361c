"""TPC-DS on a real server, at the smallest scale: the load, the answers, limits, damage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from pgstrata.judge.common_queries import rate_of_queries
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.features import NEWEST
from pgstrata.tpc import data
from pgstrata.tpc.source import tables
from pgstrata.tpcds import schema
from pgstrata.tpcds.options import TpcdsOptions
from pgstrata.tpcds.schema import TPCDS
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Phase
from support.queries import digested, step_of, until
from support.steps import database

WORKLOAD = catalog.find("tpcds")
QUERIES = "3 7 9 19 42 52 55 98"
SCALE = 0.01


def phases(**options: Any) -> list[Phase]:
    chosen = {"scale": SCALE, "queries": QUERIES, "streams": 2, "time_limit": 60, **options}
    return WORKLOAD.phases(TpcdsOptions.model_validate(chosen), NEWEST)


@pytest.fixture(scope="module")
def loaded(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """The database `tpcds`, loaded by two connections; its data comes from the cache or is made once."""
    with database(cluster, "tpcds") as connection:
        facts = until(cluster, "tpcds", phases(), "plans")
        assert facts["tpcds"]["raw_bytes"] > 100e6
        yield connection


def test_every_row_of_the_generator_is_loaded(loaded: psycopg.Connection[Any]) -> None:
    about = data.about(TPCDS, SCALE)
    assert about is not None
    for table in tables(TPCDS):
        row = loaded.execute(f"SELECT count(*) FROM {table}").fetchone()
        assert row == (about["tables"][table]["rows"],), table


def test_values_are_in_their_columns(loaded: psycopg.Connection[Any]) -> None:
    row = loaded.execute(
        "SELECT count(*), min(d_date)::text, max(d_date)::text, count(d_day_name) FROM date_dim"
    ).fetchone()
    assert row == (73049, "1900-01-02", "2100-01-01", 73049)
    row = loaded.execute(
        "SELECT count(ss_customer_sk) < count(*), bool_and(ss_quantity BETWEEN 1 AND 100) FROM store_sales"
    ).fetchone()
    assert row == (True, True)  # an empty column is NULL


def test_indexes_and_statistics_are_there(loaded: psycopg.Connection[Any]) -> None:
    rows = loaded.execute("SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'public'").fetchall()
    for table in tables(TPCDS):
        definitions = [definition for name, definition in rows if name == table]
        assert len(definitions) == 1 + len(schema.joined_columns(table))
        assert any(
            definition.endswith(f"({', '.join(schema.primary_key(table))})") for definition in definitions
        )
    analyzed = loaded.execute("SELECT count(DISTINCT tablename) FROM pg_stats WHERE schemaname = 'public'")
    assert analyzed.fetchone() == (24,)


def test_answers_are_those_of_duckdb(cluster: Cluster, loaded: psycopg.Connection[Any]) -> None:
    outcome = digested(cluster, "tpcds", step_of(phases(passes=2), "power"))
    assert len(outcome.queries) == 16
    assert {row["answer"] for row in outcome.queries} == {"same"}
    assert {row["execution"] for row in outcome.queries} == {1, 2}
    assert all(row["digest"] and row["seconds"] > 0 for row in outcome.queries)
    assert sum(row["rows"] for row in outcome.queries) > 100
    assert outcome.rate and outcome.rate > 0
    streams = digested(cluster, "tpcds", step_of(phases(), "throughput"))
    assert {row["answer"] for row in streams.queries} == {"same"}
    assert {(row["stream"], row["execution"]) for row in streams.queries} == {(1, 1), (2, 1)}
    orders = [[r["query"] for r in streams.queries if r["stream"] == n] for n in (1, 2)]
    assert sorted(orders[0]) == sorted(orders[1]) and orders[0] != orders[1]
    begins, ends = zip(
        *(
            (min(r["start"] for r in rows), max(r["start"] + r["seconds"] for r in rows))
            for rows in ([r for r in streams.queries if r["stream"] == n] for n in (1, 2))
        ),
        strict=True,
    )
    assert max(begins) < min(ends)  # at the same time
    assert streams.rate == pytest.approx(rate_of_queries(streams.queries))


def test_plans_come_with_their_buffers(cluster: Cluster, loaded: psycopg.Connection[Any]) -> None:
    loaded.execute("ALTER DATABASE tpcds SET work_mem = '64kB'")
    try:
        outcome = digested(cluster, "tpcds", step_of(phases(queries="98"), "plans"))
    finally:
        loaded.execute("ALTER DATABASE tpcds RESET work_mem")
    (plan,) = outcome.plans
    assert plan["name"] == "q98" and "Node Type" in plan["plan"]["Plan"]
    (row,) = outcome.queries
    assert row["shared_hit_bytes"] > 0
    assert row["temp_written_bytes"] > 0
    assert row["answer"] is None
    estimate = digested(cluster, "tpcds", step_of(phases(queries="3 7", plans="estimate"), "plans"))
    assert len(estimate.plans) == 2
    assert all("shared_hit_bytes" not in row for row in estimate.queries)


def test_a_query_over_its_limit_is_cancelled_and_marked(
    cluster: Cluster, loaded: psycopg.Connection[Any]
) -> None:
    outcome = digested(cluster, "tpcds", step_of(phases(time_limit=0.001, queries="9 98"), "power"))
    for row in outcome.queries:
        assert (row["timed_out"], row["sqlstate"], row["answer"]) == (True, "57014", "not run")
        assert row["seconds"] == 0.002
        assert row["rows"] is None and row["digest"] is None
    running = loaded.execute("SELECT count(*) FROM pg_stat_activity WHERE state = 'active'").fetchone()
    assert running == (1,)


def test_a_wrong_answer_is_different_and_a_rejected_query_goes_by(
    cluster: Cluster, loaded: psycopg.Connection[Any]
) -> None:
    """The same server with other rows, and without a table that one query needs."""
    loaded.execute("UPDATE item SET i_brand = 'forged' WHERE i_brand IS NOT NULL")
    loaded.execute("ALTER TABLE promotion RENAME TO promotion_away")
    try:
        outcome = digested(cluster, "tpcds", step_of(phases(queries="7 9 55"), "power"))
    finally:
        loaded.execute("ALTER TABLE promotion_away RENAME TO promotion")
    by_name = {row["query"]: row for row in outcome.queries}
    assert by_name["q55"]["answer"] == "different"
    assert by_name["q09"]["answer"] == "same"
    assert by_name["q07"]["answer"] == "not run"
    assert by_name["q07"]["sqlstate"] == "42P01"
    assert by_name["q07"]["error"] == 'relation "promotion" does not exist'
