"""Which column each parameter is compared with, in statements as pg_stat_statements has them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pgstrata.traffic.synthetic.names import Tables
from pgstrata.traffic.synthetic.parameters import KnownValues, origins
from pgstrata.traffic.synthetic.statistics import CalledStatement, KnownColumn
from pgstrata.traffic.synthetic.understand import understand
from pgstrata.traffic.synthetic.use import NotUnderstoodError


def table(table: str, /, schema: str = "public", **columns: str) -> list[KnownColumn]:
    """Columns with their types; `*` behind one: unique."""
    return [
        KnownColumn(
            schema,
            table,
            column,
            type_.rstrip("*"),
            rows=1000.0,
            pages=100.0,
            distinct=500.0,
            bounds={"date": ("2024-01-01", "2024-12-31"), "jsonb": ()}.get(type_, ("1", "50", "99")),
            elements=(("1", 0.5),) if type_.endswith("[]") or type_ == "tsvector" else (),
            keys=(f"{table}_{column}",) if type_.endswith("*") else (),
            analyzed=True,
            visible=schema == "public",
        )
        for column, type_ in columns.items()
    ]


TABLES = Tables(
    [
        *table("a", id="integer*", b="integer", name="text", day="date", tags="text[]", words="tsvector"),
        *table("b", id="integer*", a="integer", price="numeric(10,2)", at="timestamp with time zone"),
        *table("b", schema="other", id="integer", apart="integer"),
        *table("Odd", **{"Key": "integer"}),
        *table("d", doc="jsonb", done="boolean", span="tstzrange"),
        replace(
            *table("v", key="integer"), definition="SELECT a.id AS key, count(*) AS n FROM a GROUP BY a.id"
        ),
        *table("v", n="bigint"),
        replace(*table("circle", key="integer"), definition="SELECT key FROM circle"),
        replace(*table("broken", key="integer"), definition="SELECT FROM WHERE"),
    ]
)


def columns_of(text: str, rows: int = 10, calls: int = 10, types: list[str] | None = None) -> dict[int, str]:
    """Where the values of each parameter come from."""
    understood = understand(text, TABLES)
    called = CalledStatement(text, calls, 1.0, rows)
    parameter_origins = origins(understood, called, KnownValues(), types, tables=TABLES)
    for origin in parameter_origins:
        assert len(origin.draw(Random(1), str)) == len(origin.numbers)
    return {number: origin.words for origin in parameter_origins for number in origin.numbers}


COLUMNS = [
    ("SELECT * FROM a WHERE id = $1", ["a.id"]),
    ("SELECT * FROM a WHERE $1 = id", ["a.id"]),
    ("SELECT * FROM a x WHERE x.id = $1 AND b <> $2", ["a.id", "a.b"]),
    ("SELECT * FROM a, b WHERE a.id = b.a AND price = $1", ["b.price"]),
    ("SELECT * FROM a JOIN b ON a.id = b.a AND b.id = $1 WHERE name = $2", ["b.id", "a.name"]),
    ("SELECT * FROM a JOIN b USING (id) WHERE name IN ($1, $2)", ["a.name", "a.name"]),
    ("SELECT * FROM other.b WHERE apart = $1", ["b.apart"]),
    ('SELECT * FROM "Odd" WHERE "Key" = $1', ["Odd.Key"]),
    ("SELECT * FROM a WHERE b = $1::int OR lower(name) = $2", ["a.b", "a.name"]),
    ("SELECT * FROM a WHERE (b, name) = ($1, $2)", ["a.b", "a.name"]),
    ("SELECT * FROM a WHERE (b, name) IN (($1, $2), ($3, $4))", ["a.b", "a.name", "a.b", "a.name"]),
    ("SELECT * FROM (SELECT id AS n, b FROM a) s WHERE s.n = $1 AND b = $2", ["a.id", "a.b"]),
    ("SELECT * FROM (SELECT * FROM a) s WHERE s.name = $1", ["a.name"]),
    ("SELECT * FROM (SELECT id, b FROM a) s (x, y) WHERE y = $1", ["a.b"]),
    ("WITH w AS (SELECT a.id FROM a WHERE b = $1) SELECT * FROM w WHERE id = $2", ["a.b", "a.id"]),
    ("WITH w (k) AS (SELECT id FROM a) SELECT * FROM w JOIN b ON b.a = w.k WHERE k = $1", ["a.id"]),
    ("SELECT * FROM a WHERE id IN (SELECT a FROM b WHERE price = $1)", ["b.price"]),
    ("SELECT * FROM a WHERE EXISTS (SELECT FROM b WHERE b.a = a.id AND a.name = $1)", ["a.name"]),
    ("SELECT (SELECT max(price) FROM b WHERE b.a = a.id) FROM a WHERE a.id = $1", ["a.id"]),
    ("SELECT * FROM a WHERE $1 IN (SELECT a FROM b)", ["b.a"]),
    ("SELECT * FROM a WHERE id = $1 UNION ALL SELECT * FROM a WHERE b = $2", ["a.id", "a.b"]),
    (
        "SELECT * FROM a LEFT JOIN LATERAL (SELECT * FROM b WHERE b.a = a.id AND b.id = $1) s ON true",
        ["b.id"],
    ),
    ("SELECT * FROM a WHERE b IS NOT DISTINCT FROM $1", ["a.b"]),
    ("SELECT * FROM a WHERE coalesce(b, $1) = $2", ["a.b", "a.b"]),
    ("SELECT CASE b WHEN $1 THEN name ELSE $2 END FROM a", ["a.b", "a.name"]),
    ("DELETE FROM a USING b WHERE a.id = b.a AND b.id = $1", ["b.id"]),
    ("UPDATE a SET b = b WHERE id = $1 RETURNING name", ["a.id"]),
    ("SELECT * FROM a WHERE id = $1 FOR UPDATE", ["a.id"]),
    ("SELECT * FROM v WHERE key = $1 AND n = $2", ["a.id", "v.n"]),
    ("SELECT * FROM v JOIN a ON a.id = v.key WHERE v.key = $1", ["a.id"]),
    ("SELECT * FROM circle, broken WHERE circle.key = $1 AND broken.key = $2", ["circle.key", "broken.key"]),
    ("PREPARE x (int) AS SELECT * FROM a WHERE id = $1", ["a.id"]),
    ("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT * FROM a WHERE id = $1", ["a.id"]),
    ("COPY (SELECT * FROM a WHERE id = $1 AND b IN ($2)) TO STDOUT (FORMAT csv)", ["a.id", "a.b"]),
    ("REFRESH MATERIALIZED VIEW CONCURRENTLY v", []),
]


@pytest.mark.parametrize(("text", "columns"), COLUMNS)
def test_the_column_that_a_parameter_is_compared_with(text: str, columns: list[str]) -> None:
    assert columns_of(text) == dict(enumerate(columns, 1))


OTHERS = [
    ("SELECT * FROM a WHERE b > $1", {1: "above it in a.b: 0.1 % of the rows"}),
    ("SELECT * FROM a WHERE $1 >= b", {1: "below it in a.b: 0.1 % of the rows"}),
    ("SELECT * FROM a WHERE b BETWEEN $1 AND $2", dict.fromkeys((1, 2), "a range of a.b: 0.1 % of the rows")),
    ("SELECT * FROM a WHERE b >= $1 AND b < $2", dict.fromkeys((1, 2), "a range of a.b: 0.1 % of the rows")),
    ("SELECT * FROM a WHERE b > $1 AND id IN ($2, $3)",
     {1: "above it in a.b: 25 % of the rows", 2: "a.id", 3: "a.id"}),
    ("SELECT * FROM a WHERE b > $1 AND id NOT IN ($2, $3)",
     {1: "above it in a.b: 0.1 % of the rows", 2: "a.id", 3: "a.id"}),
    ("SELECT count(*) FROM a WHERE b > $1", {1: "above it in a.b"}),
    ("SELECT * FROM a WHERE b > $1 OR id = $2", {1: "above it in a.b", 2: "a.id"}),
    ("SELECT * FROM a WHERE name LIKE $1", {1: "LIKE the beginning of a.name: 0.1 % of the rows"}),
    ("SELECT * FROM a WHERE name ~ $1", {1: "a pattern of the beginning of a.name"}),
    ("SELECT * FROM a WHERE id = ANY ($1)", {1: "1 of a.id"}),
    ("SELECT * FROM a WHERE b = ANY (ARRAY[$1, $2])", {1: "a.b", 2: "a.b"}),
    ("SELECT * FROM a WHERE $1 = ANY (tags)", {1: "elements of a.tags"}),
    ("SELECT * FROM a WHERE words @@ to_tsquery($1)", {1: "elements of a.words"}),
    ("SELECT * FROM a WHERE tags @> $1 AND tags && $2", dict.fromkeys((1, 2), "elements of a.tags")),
    ("SELECT * FROM a WHERE $1 <@ tags AND tags <@ $2", {1: "elements of a.tags", 2: "a.tags"}),
    ("INSERT INTO a (id, name) SELECT * FROM unnest($1::int[], $2::text[])",
     {1: "1 put into a.id", 2: "1 put into a.name"}),
    ("INSERT INTO a (id, b) SELECT i, n FROM unnest($1::int[], $2::int[]) v (i, n) ON CONFLICT DO NOTHING",
     {1: "1 put into a.id", 2: "1 put into a.b"}),
    ("SELECT * FROM unnest($1::int[]) AS v (k) JOIN a ON a.id = v.k", {1: "1 of a.id"}),
    ("SELECT * FROM a WHERE b IN (SELECT unnest($1::int[]))", {1: "5 of a.b"}),
    ("UPDATE a SET name = v.n FROM (SELECT unnest($1::int[]) i, unnest($2::text[]) n) v WHERE a.id = v.i",
     {1: "1 of a.id", 2: "1 put into a.name"}),
    ("SELECT * FROM a LIMIT $1 OFFSET $2", {1: "LIMIT, guessed by its rows: 1", 2: "OFFSET, guessed: 0"}),
    ("SELECT date_trunc($1, at) FROM b", {1: "guessed: day"}),
    ("SELECT $1 FROM a", {1: "guessed: 1"}),
    ("UPDATE a SET b = b + $1, name = $2 WHERE id = $3", {1: "guessed: 1", 2: "put into a.name", 3: "a.id"}),
    ("UPDATE a SET (b, name) = ($1, $2)", {1: "put into a.b", 2: "put into a.name"}),
    ("INSERT INTO a (id, name) VALUES ($1, $2)", {1: "new keys of a.id", 2: "put into a.name"}),
    ("INSERT INTO d VALUES ($1, $2)",
     {1: "of the type of d.doc: its values are not known", 2: "put into d.done"}),
    ("INSERT INTO a (id) SELECT $1 FROM b WHERE b.a = $2", {1: "new keys of a.id", 2: "b.a"}),
    ("INSERT INTO a (id, b) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET b = excluded.b + $3",
     {1: "put into a.id", 2: "put into a.b", 3: "guessed: 1"}),
    ("MERGE INTO a USING b ON a.id = b.a WHEN MATCHED AND b.price > $1 THEN UPDATE SET name = $2 "
     "WHEN NOT MATCHED THEN INSERT (id, b) VALUES (b.id, $3)",
     {1: "above it in b.price", 2: "put into a.name", 3: "put into a.b"}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), OTHERS)
def test_what_else_a_parameter_may_be(text: str, expected: dict[int, str]) -> None:
    assert columns_of(text) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT * FROM a WHERE id = $1 AND (", "cannot be parsed"),
        ("COMMIT", "utility statement: COMMIT"),
        ("SET work_mem = $1", "utility statement: SET"),
        ("COPY a TO STDOUT", "utility statement: COPY"),
        ("CREATE TABLE x AS SELECT 1", "utility statement: CREATE TABLE AS"),
        ("SELECT * INTO x FROM a", "SELECT INTO"),
        ("SELECT doc ->> $1 FROM d", "key of a document"),
        ("SELECT * FROM d WHERE doc @> $1", "which documents d.doc holds"),
        ("SELECT * FROM d WHERE span @> $1::timestamptz", "what \\$1 is to d.span"),
        ("SELECT nextval($1)", "which name nextval"),
        ("SELECT own_function($1)", "what function own_function"),
        ("SELECT * FROM nowhere WHERE x = $1", "what \\$1 is compared with is not known"),
        ("SELECT * FROM a WHERE extract(year FROM day) = $1", "what \\$1 is compared with is not known"),
        ("SELECT * FROM a WHERE nothing = $1::aclitem", "what \\$1 of type aclitem"),
        ("SELECT 1; SELECT 2", "not one statement"),
        ("", "not one statement"),
    ],
)
def test_what_is_not_understood_is_said(text: str, why: str) -> None:
    with pytest.raises(NotUnderstoodError, match=why):
        columns_of(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT substring(name FOR $1) FROM a", {1: "guessed: 10"}),
        ("SELECT ROW() = ROW() FROM a WHERE id = $1", {1: "a.id"}),
        ("INSERT INTO a (id, b) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET (id, b) = ROW (excluded.*)",
         {1: "put into a.id", 2: "put into a.b"}),
        ("UPDATE a SET (b, name) = (SELECT id, $1 FROM b WHERE price = $2)",
         {1: "guessed: 1", 2: "b.price"}),
        ("VALUES ($1, $2), ($3, $4)", None),
        ("SELECT * FROM generate_series($1, $2) g, a WHERE a.id = g.g", None),
        ("SELECT rank() OVER (PARTITION BY b ORDER BY id ROWS $1 PRECEDING) FROM a", None),
        ("SELECT b FROM a GROUP BY GROUPING SETS ((b), ()) HAVING count(*) > $1", {1: "guessed: 1"}),
        ("SELECT DISTINCT ON (a.b) a.* FROM a TABLESAMPLE SYSTEM ($1)", {1: "guessed: 10"}),
        ("DELETE FROM a WHERE CURRENT OF c", {}),
        ("UPDATE a SET b = DEFAULT WHERE tags[$1] = $2", None),
    ],
)  # fmt: skip
def test_odd_statements(text: str, expected: dict[int, str] | None) -> None:
    """None: it is said why it is not understood."""
    if expected is not None:
        assert columns_of(text) == expected
    else:
        with pytest.raises(NotUnderstoodError):
            columns_of(text)


def test_types_that_a_server_has_found_out() -> None:
    """Of what nothing else says anything."""
    text = "SELECT * FROM nowhere WHERE x = $1"
    assert columns_of(text, types=["integer"]) == {1: "guessed, of type integer: 1"}
    assert columns_of(text, types=["point"]) == {1: "guessed, of type point: (0,0)"}
    with pytest.raises(NotUnderstoodError, match="of type aclitem"):
        columns_of(text, types=["aclitem"])
    # Where a column of a type is known, its values are of the type.
    assert columns_of(text, types=["public.tsvector"]) == {1: "a.words"}


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("SELECT * FROM b WHERE at > interval $1 + now()", "SELECT * FROM b WHERE at > $1::interval + now()"),
        ("SELECT timestamptz $1, date $2", "SELECT $1::timestamptz, $2::date"),
        ("SELECT CAST($1 AS date), 'ü'", "SELECT CAST($1 AS date), 'ü'"),
        ("SELECT '?' FROM a WHERE id = ? AND name = $1 AND b > ?",
         "SELECT '?' FROM a WHERE id = $2 AND name = $1 AND b > $3"),
        ("SELECT day + $1 FROM a", "SELECT day + $1::int FROM a"),
        ("SELECT sum(CASE WHEN b = $1 THEN $2 ELSE $3 END) FROM a",
         "SELECT sum(CASE WHEN b = $1 THEN $2::integer ELSE $3::integer END) FROM a"),
    ],
)  # fmt: skip
def test_what_a_server_would_not_prepare_is_written_otherwise(text: str, rewritten: str) -> None:
    assert understand(text, TABLES).text == rewritten


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("SELECT count(*), lower(name) FROM a GROUP BY 2", True),
        ("SELECT pg_catalog.now()", True),
        ("SELECT other.now()", False),
        ("SELECT own()", False),
        ("SELECT * FROM a FOR SHARE", False),
        ("SELECT nextval('x')", False),
        ("WITH w AS (DELETE FROM a RETURNING *) SELECT * FROM w", False),
        ("INSERT INTO a DEFAULT VALUES", False),
        ("MERGE INTO a USING b ON a.id = b.a WHEN MATCHED THEN DELETE", False),
    ],
)
def test_what_is_known_to_change_nothing(text: str, reads: bool) -> None:
    assert understand(text, TABLES).reads is reads


def test_masked_texts_say_nothing_of_values() -> None:
    text = "/* by Ann */ SELECT * FROM a -- for Bob\nWHERE id = $1 ORDER BY 1 LIMIT 10"
    masked_text = understand(text, TABLES, masked=True).text
    assert " ".join(masked_text.split()) == "SELECT * FROM a WHERE id = $1 ORDER BY 1 LIMIT 10"
    with pytest.raises(NotUnderstoodError, match="left values"):
        understand("SELECT * FROM a WHERE name = 'Ann'", TABLES, masked=True)
