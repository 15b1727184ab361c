"""Masked statements: they parse and run on the same schema as they did, and only values are other ones."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.sql_tokens import tokens
from pgstrata.traffic.capture import capture
from pgstrata.traffic.captured import Captured
from pgstrata.traffic.literals import Purpose
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.masked import masked
from pgstrata.traffic.shapes import shape
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step
from support.steps import database, run_step, running
from support.traffic import SETTINGS, counted

SCHEMA = """
CREATE TYPE state AS ENUM ('open', 'paid');
CREATE TABLE things (
    id bigint PRIMARY KEY, small smallint, whole int, object oid, price numeric(6, 2), part float8,
    part4 real, done boolean, name varchar(20), letter char(8), note text, at timestamptz,
    plain timestamp, day date,
    hour time, length interval, key uuid, raw bytea, document jsonb, old json, tags text[], numbers int[],
    yes boolean[], host inet, net cidr, card macaddr, span int4range, days daterange, spans int4multirange,
    spot point, bits bit(4), state state, words tsvector, money money, pair text_pair
);
CREATE TABLE scratch (a int, b varchar(5), c numeric(4, 1));
""".replace(
    "CREATE TABLE things", "CREATE TYPE text_pair AS (a int, b text, c boolean);\nCREATE TABLE things", 1
)

VALUES: dict[str, list[str]] = {
    "small": ["32767", "-32768", "20000"],
    "whole": ["2147483647", "-2147483648", "-5", "20240131"],
    "object": ["4294967295", "1259"],
    "price": ["9999.99", "-12.50", "1e3"],
    "part": ["1.5e300", "-0.25", "1e10", "NaN"],
    "part4": ["3.4e38"],
    "done": ["t", "no"],
    "name": ["Frederike Müller", "it's"],
    "letter": ["ABC-1234"],
    "note": ["back\\slash", "", "{not, an array}", "(a, b)", "<b>bold</b> &amp; x", "12:30 or so"],
    "at": [
        "2024-02-29 23:59:59.123456+01",
        "2024-01-31 10:00:00 Europe/Berlin",
        "31 Jan 2024 04:05 PM",
        "now",
    ],
    "plain": ["2024-12-31 00:00", "January 8, 1999", "epoch"],
    "day": ["2024-12-31", "20240131", "12/31/2024", "0044-03-15 BC"],
    "hour": ["12:30", "23:59:59.5", "04:05 AM"],
    "length": ["1 day", "1 year 2 mons 3 days 04:05:06", "P1Y2M", "00:00:01.5"],
    "key": ["2f1a8c9e-0000-4aaa-8bbb-123456789abc"],
    "raw": ["\\xdeadbeef", "\\x0123"],
    "document": [
        '{"a": "Bob", "n": [10, -1.5, 1e3, true, null]}',
        '"Bob\\n"',
        "[10, 2]",
        "12",
        '[{"k": "20240131"}]',
    ],
    "old": ['{"a" : {"b": "x\\u00e4"}}'],
    "tags": ['{a,NULL,"b c","d\\"e"}', "{}"],
    "numbers": ["{1,NULL,2147483647}", "{{1,2},{30,40}}"],
    "yes": ["{t,f}"],
    "host": ["192.168.10.1", "10.0.0.1/8", "fe80::1", "2001:db8::ff00:42:8329/64"],
    "net": ["10.0.0.0/8", "172.16.0.0/12", "192.168.1.0/24"],
    "card": ["08:00:2b:01:02:03"],
    "span": ["[10,90)", "[5,)", "empty"],
    "days": ["[2024-01-31,2024-02-01)", "(,2024-02-01]"],
    "spans": ["{[10,20),[30,40)}"],
    "spot": ["(1.5,-2)"],
    "state": ["open"],
    "words": ["'cat' 'dog':2"],
    "money": ["12.34"],
    "pair": ['(5,"a b",t)', "(7,,)"],
}
"""By column values of its type, in the forms that clients write."""

STATEMENTS = (
    "SELECT state, count(*) FROM things GROUP BY 1 ORDER BY 2 DESC, 1",
    "SELECT whole, small FROM things UNION ALL SELECT 1, 2 ORDER BY 1, 2 LIMIT 10 OFFSET 2",
    "SELECT DISTINCT ON (2, 1) small, whole FROM things ORDER BY 2, 1 FETCH FIRST 5 ROWS ONLY",
    "SELECT small, whole, sum(price) FROM things GROUP BY GROUPING SETS ((1), (2), (1, 2)) ORDER BY 1 DESC",
    "SELECT small, count(*) FROM things GROUP BY ROLLUP (1) HAVING count(*) > 3",
    "SELECT 'abcdef'::varchar(3), CAST('x' AS char(20)), 12.25::numeric(4, 1), varchar(4) 'abcd'",
    "SELECT '2024-01-31 10:00'::timestamp(3), '1 day'::interval, interval '2 hours', interval(0) '9 hours'",
    "SELECT date_trunc('day', at), extract(epoch FROM at), date_part('hour', at) FROM things",
    "SELECT date_trunc('week', timestamp '2024-01-31'), extract('year' FROM date '2024-01-31')",
    "SELECT to_char(at, 'YYYY-MM-DD HH24:MI'), to_date('31.01.2024', 'DD.MM.YYYY') FROM things",
    "SELECT at AT TIME ZONE 'UTC', timestamp with time zone '2024-01-31 10:00+01' FROM things",
    "SELECT document -> 'a', document ->> 'a', document #>> '{n,1}', document ? 'a' FROM things",
    'SELECT document -> 0 FROM things WHERE document @> \'{"a": "Bob"}\'::jsonb',
    "SELECT jsonb_path_query(document, '$.n[*] ? (@ > 5)') FROM things",
    "SELECT numbers[1], numbers[1:2], (ARRAY[10, 20, 30])[2], ARRAY[[1, 2], [3, 4]] FROM things",
    "SELECT id FROM things WHERE name ~ '^[A-Z]\\w+ M.{2,6}$' AND note !~* '\\d{3}-[[:alpha:]]+(?:x|y)'",
    "SELECT id FROM things WHERE note SIMILAR TO '(a|b)%' OR note LIKE 'i\\_s%' OR note LIKE '!%' ESCAPE '!'",
    "SELECT regexp_replace(name, '(\\w+) x{1,2}', '\\1', 'g'), substring(name FROM 'F[a-e]+') FROM things",
    "SELECT E'it\\'s \\x41\\u00e4\\n', U&'d\\0061t\\+000061', U&'d!0061' UESCAPE '!', $$it's$$, $q$a$q$",
    "SELECT E'\\\\xdeadbeef'::bytea, X'1F', B'0101', '0101'::bit(4), 'f'::bool",
    "SELECT to_tsvector('english', 'cats and dogs') @@ to_tsquery('english', 'cat & dog')",
    "SELECT nextval('pg_temp.numbers'), 'things'::regclass, pg_relation_size('things')",
    "SELECT encode('\\xff', 'hex'), decode('ff', 'hex'), md5('secret'), convert_from('a', 'UTF8')",
    "SELECT string_agg(name, ', ' ORDER BY 1), percentile_cont(0.9) WITHIN GROUP (ORDER BY part) FROM things",
    "SELECT format('%s of %I', 'secret', 'a'), repeat('ab', 3), left('secret', -2), generate_series(1, 5)",
    "SELECT ntile(4) OVER (ORDER BY id), lag(small, 2) OVER (ORDER BY id ROWS 5 PRECEDING) FROM things",
    "SELECT id FROM things TABLESAMPLE SYSTEM (100) REPEATABLE (7)",
    'SELECT * FROM json_to_record(\'{"a": 12, "b": "Bob"}\') AS r (a int, b varchar(10))',
    "SELECT count(*) FROM things WHERE small BETWEEN -5 AND +20 AND whole IN (1) AND host << '10.0.0.0/8'",
    "SELECT CASE WHEN state = 'open' THEN 'yes' ELSE '2024-01-31' END, (id % 10) - 5 FROM things",
    "SELECT current_setting('work_mem'), set_config('my.name', 'secret', true), pg_sleep(0.01)",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
    "SET LOCAL work_mem = '8MB'",
    "COPY (SELECT name FROM things WHERE name = 'secret') TO STDOUT (FORMAT csv, DELIMITER ';', NULL 'none')",
    "CREATE TEMP TABLE made (a varchar(20) DEFAULT 'x', b state DEFAULT 'open', c int CHECK (c < 500))",
    "CREATE TEMP TABLE copied AS SELECT name, 'secret'::text AS why FROM things WHERE small > 5",
    "INSERT INTO made VALUES ('Bob', 'paid', 20) RETURNING a",
    "UPDATE scratch SET b = 'abcde', c = 123.4 WHERE a = 99999",
    "PREPARE own (varchar(20), numeric(6, 2)) AS SELECT id FROM things WHERE name = $1 OR price > $2",
    "EXECUTE own ('Bob', 12.50)",
    "EXPLAIN (FORMAT JSON, COSTS off) SELECT id FROM things WHERE name = 'Bob' ORDER BY 1",
    "BEGIN",
    "DECLARE few CURSOR FOR SELECT name FROM things WHERE small < 20 ORDER BY 1",
    "FETCH 5 FROM few",
    "MOVE FORWARD 2 IN few",
    "COMMIT",
    "DO $$ BEGIN PERFORM 'x'::text; RAISE NOTICE 'done %', 1; END $$",
)
"""Literals that are no values, beside those that are."""

PARAMETERS = (
    ("SELECT id FROM things ORDER BY 1 LIMIT %s OFFSET %s", (3, 1)),
    ("SELECT date_trunc(%s::text, at), to_char(at, %s::text) FROM things", ("month", "YYYY")),
    (
        "SELECT now() - %s::interval, %s::varchar(3), document ->> %s::text FROM things",
        ("90 min", "abc", "a"),
    ),
    ("SELECT id FROM things WHERE name ~ %s::text", ("^[F-M]red+\\s",)),
    ("SELECT id FROM things WHERE state = %s::state AND done = %s", ("open", True)),
    ("SELECT name FROM things WHERE at > %s::timestamptz AND key = %s::uuid", ("2024-01-31 10:00", "0" * 32)),
)


@pytest.mark.server
@pytest.mark.parametrize("version", ["13", "17"])
def test_masked_traffic_fails_nowhere(request: pytest.FixtureRequest, tmp_path: Path, version: str) -> None:
    """All types and forms of literals, in statements and as parameters: nothing fails that did not."""
    server: Server = request.getfixturevalue(f"pg{version}")
    old = version == "13"
    schema, values = SCHEMA, dict(VALUES)
    if old:
        schema = schema.replace("spans int4multirange,", "")
        del values["spans"]
    with running(server) as cluster, database(cluster, "shop") as admin:
        admin.execute(schema.encode())
        cluster.stop()
        cluster.start(settings={**SETTINGS, "log_destination": "csvlog"})
        work(cluster.connect("shop"), values)
        shutil.copyfile(cluster.data_folder.path / "log" / "postgresql.csv", tmp_path / "log.csv")
        whole = capture([tmp_path / "log.csv"], tmp_path / "whole.traffic")
        mask = Mask(keep=("open", "paid"))
        header = capture([tmp_path / "log.csv"], tmp_path / "masked.traffic", mask=mask)
        assert [shape.text for shape in header.shapes] == [shape.text for shape in whole.shapes]
        options = {"file": str(tmp_path / "masked.traffic"), "database": "shop", "speed": 0}
        workload = catalog.find("replay")
        step = workload.phases(workload.Options.model_validate(options), NEWEST)[-1]
        assert isinstance(step, Step)
        with cluster.connect("shop") as connection:
            texts = set(counted(connection))
            connection.execute("TRUNCATE things")
            done = run_step(cluster, "shop", step).role("replay")
    failures = [
        (failure["statement"], failure["now"], failure["message"]) for failure in done["replay"]["failures"]
    ]
    assert failures == [] and header.errors == 0
    # What the server has counted as one statement is one here: columns by number and modifiers are no values.
    for part in ("GROUP BY 1 ORDER BY 2 DESC, 1", "$1::varchar(3)", "ORDER BY 1, 2 LIMIT $3 OFFSET $4"):
        assert any(part in text for text in texts) and any(part in shape.text for shape in header.shapes), (
            part
        )
    assert any("kept all constants" in note for note in header.notes)
    with Captured(tmp_path / "masked.traffic") as captured:
        statements = [statement for entry in captured.sessions() for statement in captured.statements(entry)]
    assert "Frederike" not in str(statements) and len(statements) == header.statements > 250


def work(connection: psycopg.Connection[Any], values: dict[str, list[str]]) -> None:
    with connection:
        connection.execute("CREATE TEMP SEQUENCE numbers")
        key = 0
        for column, forms in values.items():
            for form in forms:
                key += 1
                written = form.replace("'", "''")
                connection.execute(f"INSERT INTO things (id, {column}) VALUES ({key}, '{written}')".encode())
                connection.execute(
                    f"INSERT INTO things (id, {column}) VALUES (%s, %s)".encode(), (1000 + key, form)
                )
                escaped = written.replace("\\", "\\\\")
                connection.execute(
                    f"UPDATE things SET {column} = E'{escaped}' WHERE id = {2000 + key}".encode()
                )
        for statement in STATEMENTS:
            if statement.startswith("COPY"):
                with connection.cursor().copy(statement.encode()) as rows:
                    list(rows)
            else:
                connection.execute(statement.encode())
        for statement, given in PARAMETERS:
            connection.execute(statement.encode(), given, prepare=True)


# --- without a server ---------------------------------------------------------------------------

LITERAL = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)


def quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def escaped(value: str) -> str:
    return "E'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def unicode(value: str) -> str:
    return "U&'" + "".join(f"\\+{ord(letter):06x}" for letter in value) + "'"


def dollars(value: str) -> str:
    return f"$q${value}$q$" if "$" not in value else quoted(value)


FORMS = (quoted, escaped, unicode, dollars)


def value_of(text: str) -> str:
    """Of a literal as it is masked: its value, without a server."""
    if text.startswith("$"):
        return text[3:-3]
    inner = text[text.index("'") + 1 : -1].replace("''", "'")
    if text[0] == "E":
        for short, letter in (("\\n", "\n"), ("\\b", "\b"), ("\\f", "\f"), ("\\r", "\r"), ("\\t", "\t")):
            inner = inner.replace("\\\\", "\1").replace(short, letter).replace("\1", "\\\\")
    return inner.replace("\\\\", "\\") if text[0] in "EU" else inner


@given(LITERAL.filter(lambda value: "\1" not in value))
def test_a_value_is_the_same_however_it_is_written(value: str) -> None:
    mask = Mask()
    values = {value_of(masked(f"SELECT {form(value)}", mask).text.removeprefix("SELECT ")) for form in FORMS}
    assert values == {mask(value)}
    assert len(next(iter(values))) == len(value)


@given(st.integers(0, 10**19))
def test_a_number_is_the_same_in_a_statement_and_as_a_parameter(value: int) -> None:
    mask = Mask()
    assert masked(f"SELECT a = -{value}", mask).text == f"SELECT a = {mask(str(-value) if value else '-0')}"
    assert masked(f"SELECT a = {value}", mask).text == f"SELECT a = {mask(str(value))}"


PIECES = st.sampled_from(
    (
        *("ORDER BY 1", "GROUP BY 2, 3", "a = 'Bob'", "b > 48213", "LIMIT 10", "::varchar(20)", "x[3]", "->"),
        *("interval '1 day'", "ARRAY[1, 2]", "(", ")", ",", "date_trunc('day', a)", "'{\"k\": 5}'::jsonb"),
        *(
            "E'it\\'s'",
            "$$x$$",
            "-> 'key'",
            "~ '^a{2}'",
            "SELECT",
            "UNION",
            ";",
            "$3",
            "CAST('a' AS char(3))",
        ),
        *(
            "numeric(10, 2)",
            "FROM t",
            "AND",
            "-",
            "5",
            "CREATE TABLE",
            "SET x = 5",
            "COPY (",
            "TO STDOUT",
            "AS",
        ),
        *("DISTINCT ON (1, 2)", "BY", "1", ",", "::"),
    )
)


@given(st.lists(PIECES, max_size=25).map(" ".join))
def test_what_is_around_the_values_stays(text: str) -> None:
    masked_text = masked(text, Mask()).text
    assert shape(masked_text).text == shape(text).text
    kinds = [
        (token.kind, token.text) for token in tokens(text) if token.kind not in ("string", "dollar", "number")
    ]
    assert kinds == [
        (token.kind, token.text)
        for token in tokens(masked_text)
        if token.kind not in ("string", "dollar", "number")
    ]
    assert len(masked_text) == len(text)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("SELECT a FROM t ORDER BY 1, 2 DESC", "ORDER BY 1, 2 DESC"),
        ("SELECT a, b FROM t GROUP BY 1, lower('Bob') HAVING a > 48213", "GROUP BY 1, lower("),
        ("SELECT DISTINCT ON (1) a FROM t", "(1)"),
        ("SELECT 'abc'::pg_catalog.varchar(20), CAST(4.5 AS numeric(10, 2))", "numeric(10, 2)"),
        ("SELECT * FROM t LIMIT 10 OFFSET 25", "LIMIT 10 OFFSET 25"),
        ("SELECT now() - INTERVAL '1 day', '7 days'::interval", "INTERVAL '1 day', '7 days'::interval"),
        ("SELECT date_trunc('day', a)", "'day'"),
        ("SELECT a AT TIME ZONE 'Europe/Berlin'", "'Europe/Berlin'"),
        ("SELECT document ->> 'email'", "'email'"),
        ("SELECT 'public.t'::regclass, nextval('s')", "'public.t'::regclass, nextval('s')"),
        ("SELECT a[1]", "a[1]"),
        ("SET search_path = 'a'", "'a'"),
        ("CREATE TYPE state AS ENUM ('open', 'paid')", "('open', 'paid')"),
        ("CREATE FUNCTION f() AS $$ SELECT 1 $$", "$$ SELECT 1 $$"),
    ],
)
def test_what_is_no_value_stays(text: str, kept: str) -> None:
    assert kept in masked(text, Mask()).text


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'secret', 48213 /* secret */ FROM t LIMIT 10 -- secret",
        "SELECT a FROM t WHERE b = 'secret' ORDER BY a + 48213, lower('secret')",
        "SELECT ARRAY['secret'], '{secret,48213}'::text[], row('secret', 48213)",
        "CREATE TABLE t AS SELECT * FROM u WHERE a = 'secret' AND b > 48213",
        "COPY (SELECT * FROM t WHERE a = 'secret' OR b = 48213) TO STDOUT (DELIMITER ';')",
        "SELECT E'secret\\n', U&'secret', $$secret$$, $q$secret$q$, N'secret'",
        "SELECT to_date('secret', 'YYYY'), regexp_replace('secret', 'x', 'secret'), md5('secret')",
        "SELECT x ~ 'secret', x LIKE '%secret%', '{\"k\": [\"secret\", 48213]}'::jsonb",
        "COMMENT ON TABLE t IS 'secret'",
        "SELECT timestamp with time zone 'secret', extract(year FROM date 'secret')",
    ],
)
def test_values_do_not_stay(text: str) -> None:
    masked_text = masked(text, Mask()).text
    assert "secret" not in masked_text and "48213" not in masked_text


def test_what_parameters_are_for() -> None:
    parameters = masked(
        "SELECT $1 FROM t WHERE a ~ $2 AND b > now() - $3::interval LIMIT $4", Mask()
    ).parameters
    assert parameters == {2: Purpose.PATTERN, 3: Purpose.SETTING, 4: Purpose.SETTING}
