"""The queries as versions before 8.4 and 8.3 understand them."""

from __future__ import annotations

import re

import duckdb
import pytest

from pgstrata.server.features import Features
from pgstrata.tpc.answering import reckon_as_postgres
from pgstrata.tpc.dialect import understood_by
from pgstrata.tpc.source import load_extension, queries
from pgstrata.tpcds.schema import TPCDS


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
    assert understood_by(text, Features(80300)) == old
    assert understood_by(text, Features(80400)) == text


@pytest.mark.parametrize(
    ("text", "old"),
    [
        (
            "SELECT a FROM t ORDER BY a NULLS FIRST LIMIT 9",
            "SELECT a FROM t ORDER BY (a) IS NULL DESC, a LIMIT 9",
        ),
        ("SELECT a FROM t ORDER BY a DESC NULLS FIRST, b", "SELECT a FROM t ORDER BY a DESC, b"),
        ("SELECT a FROM t ORDER BY a DESC NULLS LAST", "SELECT a FROM t ORDER BY (a) IS NULL, a DESC"),
        (
            "SELECT t.a, max(b) c FROM t GROUP BY t.a ORDER BY 1 NULLS FIRST, c NULLS FIRST",
            "SELECT t.a, max(b) AS c FROM t GROUP BY t.a"
            " ORDER BY (t.a) IS NULL DESC, 1, (max(b)) IS NULL DESC, c",
        ),
        ("SELECT a FROM t ORDER BY a LIMIT 9", "SELECT a FROM t ORDER BY a LIMIT 9"),
    ],
)
def test_rows_without_a_key_stay_where_they_were(text: str, old: str) -> None:
    assert understood_by(text, Features(80200)) == old
    assert "NULLS" in understood_by(text, Features(80300)) or "NULLS" not in text


def test_texts_are_joined_by_an_operator() -> None:
    text = "SELECT concat(concat(a, ', '), lower(b)) c FROM t"
    joined = "SELECT (coalesce((coalesce(a, '') || coalesce(', ', '')), '') || coalesce(lower(b), ''))"
    assert understood_by(text, Features(90000)) == f"{joined} c FROM t"
    assert understood_by(text, Features(80300)) == f"{joined} AS c FROM t"
    assert understood_by(text, Features(90100)) == text


def test_a_standard_deviation_has_its_old_name() -> None:
    text = "SELECT stddev_samp(a) AS b FROM t"
    assert understood_by(text, Features(80100)) == "SELECT stddev(a) AS b FROM t"
    assert understood_by(text, Features(80200)) == text


def test_every_query_means_the_same_to_an_old_version() -> None:
    changed = 0
    with duckdb.connect(":memory:") as connection:
        for number, text in queries(TPCDS).items():
            old, joined = understood_by(text, Features(80300)), understood_by(text, Features(90000))
            changed += old != joined
            assert meaning(connection, old) == meaning(connection, joined), number
    assert changed > 50


@pytest.mark.long
def test_every_query_has_the_same_answer_in_old_words() -> None:
    changed = 0
    with duckdb.connect(":memory:", config={"threads": 2}) as connection:
        load_extension(connection, TPCDS)
        connection.execute("CALL dsdgen(sf = 0.01)")
        reckon_as_postgres(connection)
        for number, text in queries(TPCDS).items():
            old = understood_by(text, Features(70430))
            if old == text or "ROLLUP" in text.upper():
                continue
            changed += 1
            assert connection.execute(old).fetchall() == connection.execute(text).fetchall(), number
    assert changed > 50
