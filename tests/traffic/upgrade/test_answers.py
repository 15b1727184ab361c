"""Answers that an upgrade changes are said first; those that vary by nature are not reported."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from pgstrata.traffic.captured import Header, Statement, Writer
from pgstrata.traffic.upgrade.sections import shortened
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
ANALYZE;
"""

CHANGED = (
    "SELECT id, to_tsquery('simple', name) FROM items WHERE id = $1",  # up to 13 parts of item_7 may be apart
    "SELECT id FROM items WHERE k < $1 ORDER BY place(id), k",  # the same rows in another order
    "SELECT CASE WHEN id > 301 THEN to_tsquery('simple', name) END FROM items WHERE id = $1",  # not at first
)

NEW = """
DROP INDEX items_k;
CREATE OR REPLACE FUNCTION place(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT -$1 / 10';
CREATE TABLE moved AS SELECT * FROM pages ORDER BY n DESC;
TRUNCATE pages;
INSERT INTO pages SELECT * FROM moved;
"""
"""What the new version has otherwise: rows without an order are in another one."""

SAME = (
    "SELECT id, extract(epoch FROM placed) FROM items WHERE id = $1",  # with zeros at its end from 14 on
    "SELECT id, k FROM items WHERE k < $1",  # in another order without the index
    "SELECT sum(id::float / 7) FROM items WHERE k < $1",
    "SELECT n FROM pages WHERE n <> $1 ORDER BY n % 2",  # the order of ties is open
)

VARYING = (
    "SELECT id FROM items WHERE k < $1 LIMIT 5",
    "SELECT n FROM pages WHERE n <> $1 ORDER BY n % 2 LIMIT 7",  # and which of them come
    "SELECT n, about FROM pages WHERE n <> $1 ORDER BY n % 2",  # json has no order: ties are not known
    "SELECT string_agg(id::text, ',') FROM items WHERE k < $1",
    "SELECT $1::int, dice()",
    "SELECT $1::int, random()",
    "SELECT count(*) FROM items WHERE id > $1 AND placed < now()",
)

SETTINGS = ("SET enable_bitmapscan = off", "SET random_page_cost = 1")
"""With these the index decides the order of rows."""

UNANSWERED = ("SELECT $1::int, noted()",)


def captured(path: Path) -> Path:
    """A captured file in which each statement is asked a few times."""
    statements = (*CHANGED, *SAME, *VARYING, *UNANSWERED)
    with Writer(path) as writer:
        session = writer.begin(10**15, writer.database("shop"))
        for text in SETTINGS:
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
    counts = (len(SAME), len(VARYING), len(UNANSWERED))
    assert tuple(to["answers"][key] for key in ("same", "varying", "unanswered")) == counts
    assert to["answer"] != "go" and to["reasons"][0] == "3 statements answer otherwise on the same data"

    lines = pgstrata(*command).stdout.splitlines()
    assert {line.partition(": ")[2] for line in lines[3:6]} == {shortened(text) for text in CHANGED}
    assert all(line.startswith("  answers otherwise on the same data: ") for line in lines[3:6])
    assert (
        "Answers compared: 4 the same, 3 otherwise, 7 not compared, they vary, 1 without an answer" in lines
    )
    named = [name.split(" ", 1)[1] for name in to["answers"]["changed"]]
    page = PageReader(place / answer["page"])
    table = next(
        page_table
        for page_table in page.tables
        if page_table.caption == "Statements that answer otherwise on 17"
    )
    assert [[cell.text for cell in row] for row in table.rows] == [[text] for text in named]
    words = " ".join(page.text)
    assert words.index("answers otherwise on the same data: 3") < words.index("to look at: ")
    report = " ".join(PageReader(place / answer["report"]).text)
    assert f"17 answers {', '.join(named)} differently from 13." in report
    # Digests are kept, no rows.
    kept = "".join(path.read_text() for path in place.glob("upgrade/**/run.json"))
    assert '"digest"' in kept and "item & 300" not in kept
