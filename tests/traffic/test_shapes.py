"""Statements without their literals."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.sql_tokens import tokens
from pgstrata.traffic import shapes
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.masked import masked
from pgstrata.traffic.shapes import shape

PIECES = st.sampled_from(
    """SELECT|from|'it''s'|E'a\\'b'|$$ body $$|$f$ $$ $f$|"a b"|/* a /* b */ c */|/*|'|"|$1|$23|12|1.5e-3|.5
    |0xff|-|- 1|(|)|,|;|a.b|x1|::int|::|numeric|distinct|on|by
    |$|ü|\\|B'01'|U&'d\\0061t'|in (1,2, 3)|N'x'| |-- end""".split("|")  # noqa: SIM905
)
STATEMENT = st.lists(PIECES, max_size=25).map("".join) | st.text(max_size=80)


@given(STATEMENT)
def test_pieces_give_the_statement_back(text: str) -> None:
    assert "".join(token.text for token in tokens(text)) == text


@given(st.lists(PIECES.filter(lambda piece: piece not in ("'", '"', "/*")), max_size=25).map(" ".join))
def test_the_shape_of_a_shape_is_itself(text: str) -> None:
    once = shape(text).text
    if len(once) < shapes.LONGEST_SHAPE:
        assert shape(once).text == once


@given(STATEMENT)
def test_a_masked_statement_has_the_same_shape_and_other_values(text: str) -> None:
    if any(token.kind == "other" and token.text[0] in "\"'" for token in tokens(text)):
        return  # something is never closed
    assert shape(masked(text, Mask()).text).text == shape(text).text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT 1", "SELECT $1"),
        ("select  *\n from t -- why\n where a = 'x''y' and b=-5 ;", "select * from t where a = $1 and b=$2"),
        ("SELECT a - 5, a -5, (a)-5, -5, 3 - 2", "SELECT a - $1, a -$2, (a)-$3, $4, $5 - $6"),
        ("SELECT x FROM t WHERE id IN (1, 2,3)", "SELECT x FROM t WHERE id IN ($1 /*, ... */)"),
        ("SELECT x FROM t WHERE id in ($1, $2)", "SELECT x FROM t WHERE id in ($1 /*, ... */)"),
        ("INSERT INTO t VALUES ($2, 'a', $1)", "INSERT INTO t VALUES ($1, $2, $3)"),
        ("/* app:shop */ SELECT E'\\'' || $$a 'b'$$ || $f$x$f$", "SELECT $1 || $2 || $3"),
        ('SELECT "a 1" FROM "T"."b"', 'SELECT "a 1" FROM "T"."b"'),
        ("SELECT t1.a2, 1e5, 0x1F, 1_000", "SELECT t1.a2, $1, $2, $3"),
        ("SELECT x::int/* a /* b */ c */(12)", "SELECT x::int (12)"),
        ("SELECT x::/* a */numeric -- b\n (10,2)", "SELECT x:: numeric (10,2)"),
        ("SELECT numeric/* a */(10,2) '5'", "SELECT numeric (10,2) $1"),
        ('SELECT x::"numeric" (10,2)', 'SELECT x::"numeric" (10,2)'),
        ("SELECT DISTINCT/* a */ON (1) x", "SELECT DISTINCT ON (1) x"),
        ("SELECT 'never closed", "SELECT $1"),
        ("", ""),
    ],
)
def test_shapes(text: str, expected: str) -> None:
    assert shape(text).text == expected


def test_what_there_is_to_know_of_a_statement() -> None:
    assert shape("SELECT $3 + 1").parameters == 3 and shape("SELECT $3 + 1").literals
    assert not shape("BEGIN").literals
    kinds = {
        "COPY t (a, b) FROM STDIN WITH CSV": shapes.COPY_IN,
        "SELECT 1; copy t from stdin": shapes.COPY_IN,
        "COPY t TO STDOUT": "",
        "ALTER USER app WITH PASSWORD 'x'": shapes.PASSWORD,
        "BEGIN; ALTER USER app PASSWORD 'x; y'; COMMIT": shapes.PASSWORD,
        "UPDATE t SET a = 1; create role app password 'x'": shapes.PASSWORD,
        "ALTER ROLE app NOLOGIN; UPDATE t SET password = 'x'": shapes.DDL,
        "CREATE USER MAPPING FOR app SERVER far OPTIONS (user 'app', password 'x')": shapes.PASSWORD,
        "CREATE SUBSCRIPTION s CONNECTION 'host=far password=x' PUBLICATION p": shapes.PASSWORD,
        "CREATE ROLE app LOGIN": shapes.DDL,
        "ALTER ROLE app CONNECTION LIMIT 5": shapes.DDL,
        "alter table t add a int": shapes.DDL,
        "GRANT SELECT ON t TO app": shapes.DDL,
        "Vacuum (analyze) t": shapes.UTILITY,
        "Refresh materialized view v": "",
        "TRUNCATE t": "",
        "DISCARD ALL": "",
        "DEALLOCATE ALL": "",
        "deallocate prepare all": "",
        "DEALLOCATE a": shapes.DEALLOCATE,
        'DEALLOCATE PREPARE "all of it"': shapes.DEALLOCATE,
        "PREPARE a AS SELECT 1": shapes.PREPARE,
        "PREPARE TRANSACTION 'a'": shapes.END,
        "COMMIT PREPARED 'a'": "",
        "ROLLBACK PREPARED 'a'": "",
        "COMMIT AND CHAIN": shapes.END,
        "EXECUTE a(1)": shapes.EXECUTE,
        "begin": shapes.BEGIN,
        "START TRANSACTION ISOLATION LEVEL SERIALIZABLE": shapes.BEGIN,
        "ROLLBACK": shapes.END,
        "ROLLBACK TO SAVEPOINT a": "",
        "ROLLBACK TO a": "",
        "ENDLESS": "",
        "SELECT 1": "",
    }
    assert {text: shape(text).kind for text in kinds} == kinds


def test_what_drops_all_that_was_prepared() -> None:
    for text in ("DISCARD ALL", "deallocate all;", "DEALLOCATE PREPARE ALL", "ROLLBACK; DEALLOCATE ALL"):
        assert shapes.forgets(shape(text).text), text
    for text in ("DISCARD PLANS", "DEALLOCATE a", 'DEALLOCATE "all"', "SELECT 'DISCARD ALL'", "DISCARD TEMP"):
        assert not shapes.forgets(shape(text).text), text


def test_leading_comments() -> None:
    text = "\n -- one; two\n/* three\n*/ EXECUTE p /* four */"
    assert shapes.without_leading_comments(text) == "EXECUTE p /* four */"
    assert shapes.without_leading_comments("/* not closed") == "/* not closed"
    assert shapes.without_leading_comments("-- alone") == ""
