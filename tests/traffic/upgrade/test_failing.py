"""Logs whose statements cannot be executed here: an answer that says so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.logs import START, log, plain
from support.program import Program

DUMP = """-- PostgreSQL database dump
CREATE ROLE app;
CREATE SCHEMA shop;
CREATE TABLE shop.items (id int PRIMARY KEY, name text);
INSERT INTO shop.items SELECT g, 'item ' || g FROM generate_series(1, 1000) g;
GRANT SELECT ON shop.items TO app;
"""
QUESTION = ("upgrade", "--from", "15", "--to", "17", "--dump", "shop.sql", "--log", "shop.csv")


def asked(texts: list[str], times: int = 10) -> str:
    """Statements of one session, 10 ms each."""
    return log([plain(START + 20_000 * (n + 1), 10, text) for n, text in enumerate(texts * times)])


@pytest.mark.server
@pytest.mark.timeout(900)
def test_what_fails_on_every_version_is_no_go(place: Path, pgstrata: Program) -> None:
    """The role that the log is of had a search path, which is in no dump."""
    (place / "shop.sql").write_text(DUMP)
    (place / "shop.csv").write_text(asked(["SELECT name FROM items WHERE id = 7", "SELECT 1"]))
    done = pgstrata(*QUESTION, "--rounds", "2", "--speed", "0", "--format", "json")
    assert done.returncode == 3, done.stderr
    answer = json.loads(done.stdout)
    assert answer["answer"] == {"17": "cannot tell"}
    assert "50 % of the log's time was not replayed" in answer["to"][0]["said"]
    (gap,) = [gap for gap in answer["not_covered"] if "fails here everywhere (42P01)" in gap["what"]]
    assert gap["share"] == pytest.approx(0.5) and 'relation "items" does not exist' in gap["example"]
    # With the search path of production in its config it is executed.
    (place / "own.conf").write_text("search_path = 'shop'\n")
    done = pgstrata(*QUESTION, "--config", "own.conf", "--rounds", "2", "--speed", "0", "--format", "json")
    assert not [gap for gap in json.loads(done.stdout)["not_covered"] if "fails here" in gap["what"]]


@pytest.mark.server
@pytest.mark.timeout(900)
def test_transactions_with_roles_cursors_and_what_drivers_prepare(place: Path, pgstrata: Program) -> None:
    (place / "shop.sql").write_text(DUMP)
    texts = [
        "BEGIN",
        "SET LOCAL ROLE app",
        "SELECT name FROM shop.items WHERE id = 7",
        "DEALLOCATE pdo_stmt_00000001",
        "CREATE TEMP TABLE job ON COMMIT DROP AS SELECT 1 AS a",
        "CREATE INDEX ON job (a)",
        "UPDATE shop.items SET name = 'new' WHERE id = 8",
        "COMMIT",
        "BEGIN",
        "UPDATE shop.items SET name = 'new' WHERE id = 9",
        "PREPARE TRANSACTION 'of the application'",
        "COMMIT PREPARED 'of the application'",
    ]
    (place / "shop.csv").write_text(asked(texts))
    done = pgstrata(*QUESTION, "--rounds", "2", "--speed", "0", "--format", "json")
    assert done.returncode in (0, 3), done.stdout
    answer = json.loads(done.stdout)
    gaps = {gap["what"]: gap for gap in answer["not_covered"]}
    assert not [what for what in gaps if "fails here" in what or "refused" in what]
    assert sum("SET ROLE and the like" in what or "DEALLOCATE" in what for what in gaps) == 2
