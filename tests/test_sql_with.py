"""WITH queries of a statement, and the same statement with AS MATERIALIZED."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pglast import parse_sql, prettify
from pglast.enums import CTEMaterialize

from pgstrata.sql_with import LONGEST, materialized, on_one_line

READ = {
    "WITH x AS (SELECT 1) SELECT * FROM x": "WITH x AS MATERIALIZED (SELECT 1) SELECT * FROM x",
    "with X(a, b)as(values (1, ')')) table x ;\n": "with X(a, b)as MATERIALIZED(values (1, ')')) table x",
    "-- a\n/* WITH x AS ( */ WITH RECURSIVE x AS (SELECT 1) SELECT * FROM x -- b": (
        "-- a\n/* WITH x AS ( */ WITH RECURSIVE x AS MATERIALIZED (SELECT 1) SELECT * FROM x"
    ),
    "WITH recursive(a) AS (SELECT 1), x AS (SELECT 2) SELECT 'WITH x AS (' FROM x": (
        "WITH recursive(a) AS (SELECT 1), x AS MATERIALIZED (SELECT 2) SELECT 'WITH x AS (' FROM x"
    ),
    "SELECT (WITH x AS (SELECT now()::timestamp WITH time zone) SELECT 1 FROM x)": (
        "SELECT (WITH x AS MATERIALIZED (SELECT now()::timestamp WITH time zone) SELECT 1 FROM x)"
    ),
    'WITH "x" AS (SELECT 1) (SELECT * FROM x)': 'WITH "x" AS MATERIALIZED (SELECT 1) (SELECT * FROM x)',
}


@pytest.mark.parametrize("text", READ)
def test_a_with_query_becomes_one_that_is_not_inlined(text: str) -> None:
    assert materialized(text, ["x"]) == READ[text]


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "SELECT 1",
        "WITH y AS (SELECT 1) SELECT * FROM y",
        "WITH x AS MATERIALIZED (SELECT 1) SELECT * FROM x",
        "WITH x AS NOT MATERIALIZED (SELECT 1) SELECT * FROM x",
        "WITH x AS (SELECT 1) SELECT * FROM x, (WITH x AS (SELECT 2) SELECT * FROM x) y",
        "WITH x AS (SELECT 1) SELECT * FROM x; SELECT 2",
        "WITH RECURSIVE x AS (SELECT 1) SEARCH DEPTH FIRST BY a SET b SELECT * FROM x",
        'WITH U&"x" AS (SELECT 1) SELECT * FROM x',
        'WITH "X" AS (SELECT 1) SELECT * FROM "X"',
        "WITH x AS (SELECT 1 SELECT * FROM x",
        "WITH x AS (SELECT '1) SELECT * FROM x",
        "WITH x AS (SELECT 1)",
        "WITH x AS",
        "WITH x",
        "WITH",
        f"WITH x AS (SELECT 1) SELECT '{LONGEST * 'x'}' FROM x",
        "CREATE TABLE t AS WITH x AS (SELECT 1) SELECT * FROM x",
        "EXPLAIN WITH x AS (SELECT 1) SELECT * FROM x",
    ],
)
def test_what_is_not_certain_stays_as_it_is(text: str) -> None:
    assert materialized(text, ["x"]) is None


def test_all_names_or_none() -> None:
    text = "WITH x AS (SELECT 1), y AS (SELECT * FROM x) SELECT * FROM y"
    both = "WITH x AS MATERIALIZED (SELECT 1), y AS MATERIALIZED (SELECT * FROM x) SELECT * FROM y"
    assert materialized(text, ["y", "x"]) == both
    assert materialized(text, ["x", "z"]) is None
    assert materialized(text, []) is None


def test_a_statement_on_one_line() -> None:
    assert on_one_line("\n SELECT 'a\n  b', -- why\n\t1 /* c */\n") == "SELECT 'a\n  b', 1 /* c */"


NAMES = ("x", "y", "Recursive", '"X y"', "materialized")


@st.composite
def queries(draw: st.DrawFn, depth: int = 0) -> str:
    """A SELECT with WITH queries, some of them in others."""
    space = draw(st.sampled_from([" ", "\n", " /* ) WITH x AS ( */ ", " -- ( ' \"\n"]))
    inner = draw(st.sampled_from(["1", "'(' || ')'", "$$WITH x AS ($$", "(SELECT 2)", "1::numeric(3,1)"]))
    plain = f"SELECT{space}{inner} AS a"
    if depth > 2 or draw(st.booleans()):
        return plain
    parts = []
    for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True)):
        columns = draw(st.sampled_from(["", "(a)", " ( a )"]))
        how = draw(st.sampled_from(["", " MATERIALIZED", " NOT MATERIALIZED"]))
        parts.append(f"{name}{columns}{space}AS{how}{space}({draw(queries(depth + 1))})")
    behind = draw(st.sampled_from([plain, f"({plain})", f"SELECT 1 FROM (\n{draw(queries(depth + 1))}) t"]))
    recursive = draw(st.sampled_from(["", "RECURSIVE "]))
    return f"WITH {recursive}{', '.join(parts)} {behind}"


def with_queries(text: str) -> list[tuple[str, CTEMaterialize]]:
    """What PostgreSQL's own parser reads."""
    queries: list[tuple[str, CTEMaterialize]] = []

    def visit(node: object) -> None:
        if isinstance(node, dict):
            if node.get("@") == "CommonTableExpr":
                queries.append((node["ctename"], CTEMaterialize[node["ctematerialized"]["name"]]))
            for value in node.values():
                visit(value)
        elif isinstance(node, list | tuple):
            for value in node:
                visit(value)

    for statement in parse_sql(text):
        visit(statement(skip_none=True))
    return queries


@given(queries(), st.sampled_from(["x", "y", "recursive", "X y", "materialized"]))
def test_postgres_reads_the_same_statement_but_for_that_query(text: str, name: str) -> None:
    before = with_queries(text)
    plain = (name, CTEMaterialize.CTEMaterializeDefault)
    certain = before.count(plain) == 1 == [each for each, _ in before].count(name)
    written = materialized(text, [name])
    assert (written is not None) == certain
    if written is not None:
        always = (name, CTEMaterialize.CTEMaterializeAlways)
        assert with_queries(written) == [always if each == plain else each for each in before]
        assert prettify(written).replace(" MATERIALIZED", "") == prettify(text).replace(" MATERIALIZED", "")
