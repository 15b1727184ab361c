"""A database with everything that the planner knows of, on servers of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pgstrata.judge.plan_detail import nodes_of
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.model import Server
from pgstrata.traffic.upgrade.planned.export import export_statistics
from support.shop import dump, pg_dump
from support.steps import database, running
from support.traffic import SETTINGS, take_logs

SCHEMA = r"""
CREATE SCHEMA app;
CREATE TYPE app.mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN app.price AS numeric CHECK (VALUE > 0);
CREATE TABLE app.events (id serial PRIMARY KEY, kind varchar(40) NOT NULL, city text, zip int, mood app.mood,
    tags int[], doc tsvector, span int4range, amount app.price, at timestamptz, flag boolean);
CREATE INDEX events_kind ON app.events (kind);
CREATE INDEX events_lower ON app.events (lower(city));
CREATE INDEX events_words ON app.events USING gin (to_tsvector('simple', kind));
CREATE INDEX events_zips ON app.events USING gin ((ARRAY[zip, zip % 7]));
CREATE INDEX events_clicks ON app.events (at) WHERE kind = 'click';
CREATE TABLE parts (id int, day date, v int) PARTITION BY RANGE (day);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM ('2024-01-01') TO ('2024-07-01');
CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM ('2024-07-01') TO ('2025-01-01');
CREATE MATERIALIZED VIEW app.cities AS SELECT city, count(*) FROM app.events GROUP BY city;
CREATE TABLE app.facts (gone int, model text, maker varchar(20), mood app.mood, is_new boolean,
    size numeric(6, 1));
ALTER TABLE app.facts DROP COLUMN gone;
CREATE STATISTICS app.facts_makers (ndistinct, dependencies) ON model, maker FROM app.facts;
CREATE STATISTICS app.facts_kinds (mcv) ON mood, is_new, size FROM app.facts;
CREATE STATISTICS parts_days (ndistinct) ON day, v FROM parts
"""
ROWS = r"""
INSERT INTO app.events (kind, city, zip, mood, tags, doc, span, amount, at, flag)
SELECT CASE WHEN g % 100 < 90 THEN 'view' WHEN g % 100 < 99 THEN 'click' ELSE E'it''s \\ "x"' END,
    'city' || (g % 200), g % 200, (ARRAY['sad', 'ok', 'ok', 'happy']::app.mood[])[1 + g % 4],
    ARRAY[g % 7, g % 13], to_tsvector('simple', 'word' || (g % 50) || ' common'), int4range(g, g + g % 90),
    g * 1.1, '2024-01-01 00:00+00'::timestamptz + g * interval '1 min', nullif(g % 3, 2) = 1
FROM generate_series(1, 30000) g;
INSERT INTO parts SELECT g, '2024-01-01'::date + g % 366, g % 10 FROM generate_series(1, 30000) g;
INSERT INTO app.facts
SELECT 'model' || (g % 200), 'maker' || (g % 20), (ARRAY['sad', 'ok', 'happy']::app.mood[])[1 + g % 3],
    g % 3 = 0, nullif((g % 3) * 1.5, 3) FROM generate_series(1, 6000) g;
REFRESH MATERIALIZED VIEW app.cities;
VACUUM ANALYZE
"""
CORRELATED = (
    "SELECT * FROM app.facts WHERE model = 'model7' AND maker = 'maker7'",
    "SELECT model, maker, count(*) FROM app.facts GROUP BY model, maker",
    "SELECT * FROM app.facts WHERE mood = 'ok' AND NOT is_new AND size = 1.5",
    "SELECT * FROM app.facts WHERE mood = 'happy' AND size IS NULL",
    "SELECT day, v, count(*) FROM parts GROUP BY day, v",
)
"""Queries whose rows only CREATE STATISTICS tells."""

OF_NOT_NULL = "SELECT max(id) FROM app.events"
"""Up to 16 the index has a condition that the column is not null, which it never is."""

QUERIES = (
    *CORRELATED,
    OF_NOT_NULL,
    "SELECT * FROM app.events WHERE kind = 'view'",
    "SELECT * FROM app.events WHERE kind = 'click'",
    r"""SELECT * FROM app.events WHERE kind = E'it''s \\ "x"'""",
    "SELECT * FROM app.events WHERE kind = 'click' AND city = 'city7' AND zip = 7",
    "SELECT * FROM app.events WHERE lower(city) = 'city9'",
    "SELECT * FROM app.events WHERE lower(city) < 'city5'",
    "SELECT * FROM app.events WHERE to_tsvector('simple', kind) @@ 'click'::tsquery",
    "SELECT * FROM app.events WHERE ARRAY[zip, zip % 7] @> ARRAY[5]",
    "SELECT count(*) FROM app.events WHERE zip IN (1, 2, 3)",
    "SELECT * FROM app.events WHERE tags @> ARRAY[5]",
    "SELECT * FROM app.events WHERE tags && ARRAY[1, 12]",
    "SELECT * FROM app.events WHERE doc @@ 'word7'::tsquery",
    "SELECT * FROM app.events WHERE doc @@ 'common & word9'::tsquery",
    "SELECT * FROM app.events WHERE at > '2024-01-12' AND kind = 'click'",
    "SELECT * FROM app.events WHERE amount > 20000",
    "SELECT * FROM app.events WHERE amount BETWEEN 100 AND 5000 AND mood = 'happy'",
    "SELECT * FROM app.events WHERE mood < 'happy'",
    "SELECT * FROM app.events WHERE flag",
    "SELECT * FROM app.events WHERE flag IS NULL",
    "SELECT * FROM app.events WHERE id = 77",
    "SELECT DISTINCT city FROM app.events",
    "SELECT kind, city, count(*) FROM app.events GROUP BY kind, city",
    "SELECT * FROM app.events WHERE city LIKE 'city1%'",
    "SELECT * FROM parts WHERE day BETWEEN '2024-03-01' AND '2024-03-10'",
    "SELECT * FROM parts WHERE v = 3",
    "SELECT day, count(*) FROM parts GROUP BY day",
    "SELECT * FROM parts_2 WHERE v > 7",
    "SELECT * FROM app.events e JOIN parts p ON p.id = e.id WHERE e.kind <> 'view'",
    "SELECT * FROM app.cities WHERE city = 'city1'",
)
CHANGED = """SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM app.events) s
WHERE place <= 10"""
"""From 15 on the window ends by a condition of its own."""

NOT_FROM_15_ON = "SELECT id, 7x FROM app.events WHERE id = 1"
"""Up to 14 this is a 7 that is called x."""

UTILITY = "CREATE TABLE of_today (a int)"

FAILS = "SELECT never FROM app.events"


@dataclass(frozen=True)
class Original:
    """Files of a database, and how to connect to it, with pg_stat_statements. estimates: of rows, by query;
    sizes: blocks by table or index."""

    schema: Path
    statistics: Path
    log: Path
    estimates: dict[str, list[float]]
    sizes: dict[str, int]
    dsn: str


def statements(text: str) -> list[str]:
    return [part for part in text.split(";\n") if part.strip()]


def estimates_of(connection: psycopg.Connection[Any]) -> dict[str, list[float]]:
    """The rows that EXPLAIN expects of each query, and of each of its scans."""
    estimates = {}
    for query in QUERIES:
        (plan,) = connection.execute(f"EXPLAIN (FORMAT JSON) {query}".encode()).fetchone() or (None,)
        nodes = nodes_of(plan)
        scans = [float(n.plan["Plan Rows"]) for n in nodes if "Relation Name" in n.plan and not n.parallel]
        estimates[query] = [float(nodes[0].plan["Plan Rows"]), *sorted(scans)]
    return estimates


def sizes_of(connection: psycopg.Connection[Any]) -> dict[str, int]:
    rows = connection.execute(
        "SELECT oid::regclass::text, pg_relation_size(oid) / 8192 FROM pg_class "
        "WHERE relkind IN ('r', 'i', 'm') AND relnamespace IN ('app'::regnamespace, 'public'::regnamespace)"
    ).fetchall()
    return {name: int(size) for name, size in rows}


@contextmanager
def original(server: Server, folder: Path, *, dumped: bool) -> Iterator[Original]:
    """dumped: pg_dump has written the schema; there may be none for a newer server."""
    if dumped and pg_dump() is None:
        pytest.skip("no pg_dump here")
    with running(server) as cluster, database(cluster, "shop") as connection:
        connection.execute("DROP EXTENSION pg_stat_statements")
        for statement in (*statements(SCHEMA), *statements(ROWS)):
            connection.execute(statement.encode())
        schema = folder / "schema.sql"
        if dumped:
            dump(cluster, "shop", schema, "--schema-only")
        else:
            schema.write_text(f"{SCHEMA};\n")
        export_statistics(dsn_of(cluster), folder / "stats.sql")
        estimates, sizes = estimates_of(connection), sizes_of(connection)
        cluster.stop()
        cluster.start(settings={**SETTINGS, "log_destination": "csvlog"})
        with cluster.connect("shop") as session:
            for query in (*QUERIES, *[CHANGED] * 5, UTILITY):
                session.execute(query.encode())
            session.execute(b"SELECT * FROM app.events WHERE zip = %s AND flag", (7,), prepare=True)
            for query in (NOT_FROM_15_ON, FAILS):
                with suppress(psycopg.errors.SyntaxError, psycopg.errors.UndefinedColumn):
                    session.execute(query.encode())
        cluster.stop()
        take_logs(cluster, folder)
        cluster.start()
        connection = cluster.connect("shop")
        connection.execute("CREATE EXTENSION pg_stat_statements")
        connection.execute("SELECT pg_stat_statements_reset()")
        connection.execute("DROP TABLE of_today")
        for query in (*QUERIES, CHANGED):
            connection.execute(query.encode())
        log = folder / "postgresql.csv"
        yield Original(schema, folder / "stats.sql", log, estimates, sizes, dsn_of(cluster))
        connection.close()


def dsn_of(cluster: Cluster) -> str:
    return f"host={cluster.socket_dir} port={cluster.port} user={cluster.user} dbname=shop"
