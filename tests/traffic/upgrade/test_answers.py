"""Answers that an upgrade changes are said first; those that vary by nature are not reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.traffic.captured import Header, Statement, Writer
from pgstrata.traffic.replay.blocks import shortened
from pgstrata.traffic.upgrade.page import MOST_NAMED
from support.page import PageReader
from support.program import Program

Asked = tuple[str, int, tuple[str, ...]]

SCHEMA = """
CREATE TABLE items (id int PRIMARY KEY, k int NOT NULL, name text NOT NULL, placed timestamptz NOT NULL);
INSERT INTO items SELECT g, (g * 7919) % 30011, 'item_' || g, '2020-01-01 0:00:00.5Z'::timestamptz
    FROM generate_series(1, 30000) g;
CREATE INDEX items_k ON items (k);
CREATE TABLE notes (n int);
CREATE FUNCTION dice() RETURNS double precision LANGUAGE sql AS 'SELECT random()';
CREATE TABLE pages (n int, about json);
INSERT INTO pages SELECT g, '{}' FROM generate_series(1, 500) g;
CREATE FUNCTION place(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 / 10';
CREATE FUNCTION noted() RETURNS int LANGUAGE sql AS 'INSERT INTO notes VALUES (1) RETURNING n';
CREATE TABLE entries (id bigserial PRIMARY KEY, name text, at timestamptz DEFAULT now());
CREATE TABLE lines (entry bigint REFERENCES entries ON DELETE CASCADE, number int);
INSERT INTO entries (name) SELECT 'entry_' || g FROM generate_series(1, 400) g;
INSERT INTO lines SELECT id, n FROM entries, generate_series(1, 3) n;
CREATE TABLE history (number int);
CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO history VALUES (NEW.number); RETURN NEW; END';
CREATE TRIGGER kept BEFORE INSERT ON lines FOR EACH ROW EXECUTE FUNCTION kept();
ANALYZE;
"""

CHANGED = (
    "SELECT id, to_tsquery('simple', name) FROM items WHERE id = $1 LIMIT 1",  # parts of item_7 up to 13
    "SELECT id FROM items WHERE k < $1 ORDER BY place(id), k",  # the same rows in another order
    "SELECT CASE WHEN id > 301 THEN to_tsquery('simple', name) END FROM items WHERE id = $1",  # not at first
    "INSERT INTO entries (name) VALUES ('item_' || $1) RETURNING id, to_tsquery('simple', name)",  # id apart
    "WITH m AS (INSERT INTO notes VALUES ($1) RETURNING n) SELECT to_tsquery('simple', 'item_' || n) FROM m",
    "INSERT INTO lines VALUES ($1, 7)",  # whose trigger is lost
    "DELETE FROM items WHERE id BETWEEN $1 AND $1::int + 9",  # 10 rows or 9
)

WRITTEN = {
    CHANGED[5]: "rows inserted into public.history: 4 → 0",
    CHANGED[6]: "rows deleted from public.items: 40 → 36, rows: 40 → 36",
}

NEW = """
DROP INDEX items_k;
CREATE OR REPLACE FUNCTION place(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT -$1 / 10';
CREATE TABLE moved AS SELECT * FROM pages ORDER BY n DESC;
TRUNCATE pages;
INSERT INTO pages SELECT * FROM moved;
SELECT setval('entries_id_seq', 5000);
DROP TRIGGER kept ON lines;
DELETE FROM items WHERE id = 309;
"""
"""What the new version has otherwise: rows without an order are in another one."""

SAME = (
    "SELECT id, extract(epoch FROM placed) FROM items WHERE id = $1",  # with zeros at its end from 14 on
    "SELECT id, k FROM items WHERE k < $1",  # in another order without the index
    "SELECT sum(id::float / 7) FROM items WHERE k < $1",
    "SELECT n FROM pages WHERE n <> $1 ORDER BY n % 2",  # the order of ties is open
    "UPDATE items SET name = 'other' WHERE id = $1::int + 100 RETURNING name, k",
    "DELETE FROM entries WHERE id = $1",  # with its lines
    "SELECT $1::int, noted()",  # a function that writes
    "SELECT k FROM items WHERE id = $1::int + 100 FOR UPDATE",
)

VARYING = (
    "SELECT n FROM pages WHERE n <> $1 LIMIT 3",  # in the order of the table, whatever the plan
    "SELECT id FROM items WHERE k < $1 LIMIT 5",
    "SELECT n FROM pages WHERE n <> $1 ORDER BY n % 2 LIMIT 7",  # and which of them come
    "SELECT n, about FROM pages WHERE n <> $1 ORDER BY n % 2",  # json has no order: ties are not known
    "SELECT string_agg(id::text, ',') FROM items WHERE k < $1",
    "SELECT proname FROM pg_catalog.pg_proc WHERE pronargs < $1::int",  # as pg_dump and psql ask
    "SELECT $1::int, dice()",
    "SELECT $1::int, random()",
    "SELECT count(*) FROM items WHERE id > $1 AND placed < now()",
    "INSERT INTO entries (name) VALUES ($1) RETURNING id",  # of a sequence that is elsewhere
    "UPDATE items SET placed = now() WHERE id = $1::int + 100",
    "UPDATE items SET name = name WHERE id IN (SELECT id FROM items WHERE k < $1 LIMIT 5) RETURNING id",
)

SETTINGS = ("SET enable_bitmapscan = off", "SET random_page_cost = 1")
"""With these the index decides the order of rows."""

FIRST = "INSERT INTO entries (id, name) VALUES (90000, 'first')"

UNANSWERED = ("INSERT INTO lines VALUES (90000 + 0 * $1::int, 1)",)  # needs that before it


def captured(path: Path) -> Path:
    """A captured file in which each statement is asked a few times."""
    statements = (*CHANGED, *SAME, *VARYING, *UNANSWERED)
    with Writer(path) as writer:
        session = writer.begin(10**15, writer.database("shop"))
        for text in (*SETTINGS, FIRST):
            writer.add(session, Statement(10**15, 100, 0, writer.shape(text), text), common=True)
        for turn in range(4):
            for number, text in enumerate(statements):
                start = 10**15 + 1000 * (len(statements) * turn + number)
                values = (str(300 + turn),)
                writer.add(session, Statement(start, 100, 2, writer.shape(text), text, values), common=True)
        writer.end(session)
        writer.finish(Header())
    return path


@pytest.mark.timeout(1200)
def test_a_changed_answer_is_said_first(pg13: Server, pg17: Server, place: Path, pgstrata: Program) -> None:
    captured(place / "shop.traffic")
    (place / "shop.sql").write_text(SCHEMA)
    (place / "new.sql").write_text(NEW)
    command = [
        *("upgrade", "--from", f"path:{pg13.bin_dir}=13", "--to", f"path:{pg17.bin_dir}=17"),
        *("--dump", "shop.sql", "--log", "shop.traffic", "--after-load", "17=new.sql"),
        *("--rounds", "4", "--minutes", "1", "--speed", "0", "--other-load", "100%"),
    ]
    done = pgstrata(*command, "--format", "json")
    assert done.returncode in (0, 1, 3), done.stderr
    answer = json.loads(done.stdout)
    (to,) = answer["to"]
    assert sorted(name.split(" ", 1)[1] for name in to["answers"]["changed"]) == sorted(CHANGED)
    counts = (1 + len(SAME), len(VARYING), len(UNANSWERED))
    assert tuple(to["answers"][key] for key in ("same", "varying", "unanswered")) == counts
    assert (
        to["answer"] != "go"
        and to["reasons"][0] == f"{len(CHANGED)} statements answer otherwise on the same data"
    )
    written = {name.split(" ", 1)[1]: rows for name, rows in to["answers"]["written"].items()}
    assert written == WRITTEN

    assert not any("pg_proc" in rows["statement"] for rows in to["differing_rows"])

    lines = pgstrata(*command).stdout.splitlines()
    first = [
        line.removeprefix("  answers otherwise on the same data: ") for line in lines[3 : 3 + MOST_NAMED]
    ]
    expected = {shortened(text) + (f" ({rows})" if (rows := WRITTEN.get(text)) else "") for text in CHANGED}
    assert set(first) < expected and len(set(first)) == MOST_NAMED
    assert (
        f"Answers compared: {1 + len(SAME)} the same, {len(CHANGED)} otherwise, {len(VARYING)} not compared, "
        "they differ by nature, 1 without an answer"
    ) in lines
    named = [name.split(" ", 1)[1] for name in to["answers"]["changed"]]
    page = PageReader(place / answer["page"])
    table = next(
        page_table
        for page_table in page.tables
        if page_table.caption == "Statements that answer otherwise on 17"
    )
    assert [[cell.text for cell in row] for row in table.rows] == [[n, WRITTEN.get(n, "")] for n in named]
    words = " ".join(page.text)
    listed = [rows["statement"] for rows in to["differing_rows"]]
    alone = [name for name in listed if name not in to["answers"]["changed"]]
    assert (f"another number of rows: {len(alone)}" in words) == bool(alone), listed
    assert words.index(f"answers otherwise on the same data: {len(CHANGED)}") < words.index("to look at: ")
    report = " ".join(PageReader(place / answer["report"]).text)
    assert f"17 answers {', '.join(named)} differently from 13." in report
    # Digests are kept, no rows.
    kept = "".join(path.read_text() for path in place.glob("upgrade/**/run.json"))
    assert '"digest"' in kept and "item & 300" not in kept
