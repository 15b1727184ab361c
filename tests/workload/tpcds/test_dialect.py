"""The queries as versions before 8.4 understand them."""

from __future__ import annotations

import re

import duckdb
import pytest

from pgstrata.workload.tpcds.dialect import for_version
from pgstrata.workload.tpcds.source import queries


def meaning(connection: duckdb.DuckDBPyConnection, text: str) -> str:
    """A query as DuckDB's parser understands it, wherever its words stand."""
    row = connection.execute("SELECT json_serialize_sql(?::varchar)", [text]).fetchone()
    assert row is not None and '"error":false' in row[0]
    return re.sub(r'"query_location":\d+', "", row[0])


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("SELECT a b, sum(c) d FROM t e", "SELECT a AS b, sum(c) AS d FROM t e"),
        ("SELECT a AS b, t.c FROM t", "SELECT a AS b, t.c FROM t"),
        (
            "SELECT CASE WHEN a > 1 THEN b ELSE 'x' END c FROM t",
            "SELECT CASE WHEN a > 1 THEN b ELSE 'x' END AS c FROM t",
        ),
        ("SELECT (SELECT max(a) m FROM u v) w FROM t", "SELECT (SELECT max(a) AS m FROM u v) AS w FROM t"),
        ("SELECT 'it''s' x, 1 y FROM t", "SELECT 'it''s' AS x, 1 AS y FROM t"),
    ],
)
def test_columns_get_their_names_by_as(text: str, old: str) -> None:
    assert for_version(text, 80300) == old
    assert for_version(text, 80400) == text


def test_every_query_means_the_same_to_an_old_version() -> None:
    changed = 0
    with duckdb.connect(":memory:") as connection:
        for number, text in queries().items():
            old = for_version(text, 70430)
            changed += old != text
            assert meaning(connection, old) == meaning(connection, text), number
    assert changed > 50
