"""The table of changes between versions: well-formed, and every entry finds its example on a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time
from typing import Any

import psycopg
import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.acquire import acquire
from pgstrata.traffic.upgrade.checklist.changes import EVERY, Change, Code, beyond_table, changes, crossed
from support.shop import SCHEMA, TRIGGER
from support.steps import running

VERSIONS = ("9.6", "10", "11", "12", "13", "14", "15", "16", "17", "18")
SINCE = (EVERY, *VERSIONS[1:], "19")

APPLICATION = (
    "SELECT id, name FROM customers WHERE email = 'x' ORDER BY name LIMIT 10",
    "INSERT INTO orders (id, customer_id, product_id, amount, day) VALUES (1, 2, 3, 4, '2024-08-01')",
    "UPDATE customers SET name = 'postfix ! operator', orders = orders + 1 WHERE id = 7 -- WITH OIDS",
    "SELECT date_trunc('month', day), sum(amount) FROM orders WHERE day > now() - interval '3 days'",
    "SELECT p.name, count(*) FROM products p JOIN orders o ON o.product_id = p.id GROUP BY p.name",
    "DELETE FROM orders WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = customer_id)",
    "BEGIN",
    "SELECT note FROM orders WHERE note ~ '[a-z0-9-]+' AND state IN ('open', 'paid')",
    "COPY audit.changes TO STDOUT",
)
"""What an application asks that meets none of the changes."""


def entries(since: str) -> list[Change]:
    return [change for change in changes() if change.since == since]


def test_the_table_is_well_formed() -> None:
    assert len({change.id for change in changes()}) == len(changes()) > 150
    numbers = [SINCE.index(change.since) for change in changes()]
    assert numbers == sorted(numbers)
    for change in changes():
        assert re.fullmatch(r"[a-z0-9-]+", change.id), change.id
        assert change.title and change.act and not change.title.endswith("."), change.id
        if change.since != EVERY and not change.section.startswith("pg_upgrade"):
            of_version = f"Migration to Version {change.since}"
            assert change.section == of_version or change.section.startswith("Changes: "), change.id
        assert not change.values or change.settings, change.id
        # What is looked for has an example, or says why it has none.
        looked_for = not change.by_hand and change.effect != "default"
        assert bool(change.plant or change.statement or change.unplanted) == looked_for, change.id
        for setting in change.settings:
            assert re.fullmatch(r"[a-z_]+", setting), change.id


def test_versions_that_an_upgrade_crosses() -> None:
    versions = {change.since for change in crossed(130023, 170011)}
    assert versions == {EVERY, "14", "15", "16", "17"}
    assert {change.since for change in crossed(90624, 100023)} == {EVERY, "10"}
    assert {change.since for change in crossed(180006, 190000)} == {EVERY, "19"}
    assert {change.since for change in crossed(170001, 170011)} == {EVERY}
    # Of a version that is not in it the table says so.
    assert beyond_table(190002) == "" and beyond_table(200000) == "19"


@pytest.mark.parametrize(
    "change",
    [change for change in changes() if change.code and change.statement],
    ids=lambda change: change.id,
)
def test_statements_that_meet_a_change_are_found(change: Change) -> None:
    assert change.meets(Code(change.statement))
    # In a comment, or as the text of a value, it is none; where texts are looked at, a comment still is.
    assert not change.meets(Code(f"SELECT 1 /* {change.statement.replace('*/', '')} */"))
    if not change.strings:
        assert not change.meets(Code(f"SELECT E'{change.statement.replace(chr(39), chr(39) * 2)}'"))


def test_an_application_meets_none() -> None:
    wrong = [
        (change.id, text)
        for change in changes()
        if not change.minor
        for text in APPLICATION
        if change.meets(Code(text))
    ]
    assert wrong == []


def test_bodies_of_functions_are_read() -> None:
    body = "BEGIN RETURN QUERY SELECT extract(epoch FROM now()); END"
    (extract,) = [change for change in changes() if change.id == "extract-numeric"]
    for text in (
        f"CREATE FUNCTION f() RETURNS float8 LANGUAGE plpgsql AS $body$ {body} $body$",
        f"CREATE OR REPLACE FUNCTION f() RETURNS float8 LANGUAGE plpgsql AS '{body}'",
        f"CREATE FUNCTION g() RETURNS void LANGUAGE plpgsql AS $a$ BEGIN EXECUTE $b${body}$b$; END $a$",
    ):
        assert extract.meets(Code(text)), text
    assert not extract.meets(Code(f"SELECT 'CREATE FUNCTION', $a$ -- {body}$a$"))


@pytest.mark.long
def test_patterns_take_a_time_that_grows_with_the_statement() -> None:
    """A function of 100 kB, and words that patterns begin with again and again, were minutes once."""
    words = "copy from where case when coalesce( select generate_series( set ( grant create function with ("
    long = " ".join(f"{words} a{n} ~ '[a]'" for n in range(400))
    small, large = (
        f"CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ {text} $$"
        for text in (long[:9_000], long[:36_000])
    )
    for change in changes():
        begin = process_time()
        change.meets(Code(small))
        middle = process_time()
        change.meets(Code(large))
        # Four times the text: not much more than four times the time; what is quick anyway is not compared.
        spent = process_time() - middle
        assert spent < 0.5 or spent < 9 * (middle - begin), change.id


# --- on servers -------------------------------------------------------------------------------


@contextmanager
def fresh(cluster: Cluster) -> Iterator[psycopg.Connection[Any]]:
    """An empty database, and what was planted beside it is gone afterwards."""
    with cluster.connect() as admin:
        admin.execute("DROP DATABASE IF EXISTS planted_there")
        admin.execute("CREATE DATABASE planted_there TEMPLATE template0")
        try:
            with cluster.connect("planted_there") as connection:
                yield connection
                if connection.execute("SELECT 1 FROM pg_class WHERE relname = 'pg_subscription'").fetchone():
                    for row in connection.execute("SELECT subname FROM pg_subscription").fetchall():
                        connection.execute(f"ALTER SUBSCRIPTION {row[0]} SET (slot_name = NONE)".encode())
                        connection.execute(f"DROP SUBSCRIPTION {row[0]}".encode())
        finally:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'planted_there'"
            )
            for name in ("planted_there", "planted", "planted_mule"):
                admin.execute(f"DROP DATABASE IF EXISTS {name}".encode())
            for role in ("planted", "planted_owner", '"planted\nrole"'):
                admin.execute(f"DROP ROLE IF EXISTS {role}".encode())


def found_in(connection: psycopg.Connection[Any], change: Change) -> list[str]:
    connection.execute("SET search_path = pg_catalog")
    rows = [row[0] for query in change.queries() for row in connection.execute(query.encode()).fetchall()]
    connection.execute("RESET search_path")
    return rows


def executed(connection: psycopg.Connection[Any], change: Change) -> str:
    """What the server says of the example; empty where it takes it."""
    try:
        connection.execute("SET statement_timeout = '20s'")
        for text in (change.plant, change.statement):
            if text and not (text == change.statement and change.unplanted):
                connection.execute(text.encode())
    except psycopg.Error as error:
        return str(error)
    return ""


def before(since: str) -> str:
    return "17" if since == EVERY else "18" if since == "19" else VERSIONS[VERSIONS.index(since) - 1]


MAINTAINED = """
CREATE TABLE names (f text); CREATE TABLE t (f int);
CREATE FUNCTION of_index(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT count(*)::int FROM names';
CREATE FUNCTION of_view(int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT count(*) FROM names); END';
CREATE FUNCTION of_statistics(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT count(*)::int FROM names';
CREATE FUNCTION safe(int) RETURNS int IMMUTABLE LANGUAGE sql SET search_path = public AS 'SELECT 1';
CREATE FUNCTION of_nothing(int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT count(*)::int FROM names';
CREATE INDEX ON t (of_index(f)); CREATE INDEX ON t (safe(f));
CREATE MATERIALIZED VIEW m AS SELECT of_view(f) FROM t; CREATE VIEW v AS SELECT of_nothing(f) FROM t;
CREATE STATISTICS s ON (of_statistics(f)), f FROM t;
"""


@pytest.mark.server
def test_functions_that_maintenance_executes_are_found() -> None:
    (change,) = [change for change in changes() if change.id == "maintenance-search-path"]
    with running(acquire("pg:15")) as cluster, fresh(cluster) as connection:
        connection.execute(MAINTAINED.encode())
        assert sorted(found_in(connection, change)) == [
            "public.of_index(integer)",
            "public.of_statistics(integer)",
            "public.of_view(integer)",
        ]


@pytest.mark.server
@pytest.mark.timeout(900)
@pytest.mark.parametrize("since", SINCE)
def test_every_example_is_found_on_a_server(since: str) -> None:
    wrong: list[str] = []
    planted = [
        change for change in entries(since) if (change.plant or change.statement) and not change.unplanted
    ]
    with running(acquire(f"pg:{before(since)}")) as old:
        with fresh(old) as clean:
            clean.execute(
                SCHEMA.encode() if since not in ("10", "11", "12") else b"CREATE TABLE t (f int PRIMARY KEY)"
            )
            if since not in ("10", "11", "12"):
                clean.execute(TRIGGER.encode())
            for change in entries(since):
                if not change.minor and (rows := found_in(clean, change)):
                    wrong.append(f"{change.id}: found in a clean schema: {rows}")
        for change in planted:
            with fresh(old) as connection:
                if refusal := executed(connection, change):
                    wrong.append(f"{change.id}: {before(since)} refuses the example: {refusal}")
                elif [*change.queries()]:
                    rows = found_in(connection, change)
                    if not any("planted" in row or "!@!" in row for row in rows):
                        wrong.append(f"{change.id}: not found: {rows}")
    if since in VERSIONS:
        with running(acquire(f"pg:{since}")) as new:
            for change in planted:
                if change.effect in ("fails", "refused") and not change.loads:
                    with fresh(new) as connection:
                        if not executed(connection, change):
                            wrong.append(f"{change.id}: {since} takes the example")
    assert not wrong, "\n".join(wrong)
