"""The checklist of dumps with much and with little in them, from servers of both versions."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from pgstrata.server.find.acquire import acquire
from pgstrata.traffic.upgrade.checklist.beside import lines_beside
from pgstrata.traffic.upgrade.checklist.model import Material
from pgstrata.traffic.upgrade.checklist.pg_upgrade import has_pg_upgrade, pg_upgrade_check
from pgstrata.traffic.upgrade.checklist.rehearsal import Answers, Rehearsal
from support.logs import START, Told, log
from support.program import Program
from support.shop import SCHEMA, TRIGGER
from support.steps import running

Json = dict[str, Any]

HEAD = "--\n-- PostgreSQL database dump\n--\n\n-- Dumped from database version {version}\n\n"

OLD_DUMP = (
    HEAD.format(version="13.23")
    + r"""
CREATE ROLE shop LOGIN PASSWORD 'md5d41d8cd98f00b204e9800998ecf8427e';
ALTER ROLE shop SET old_snapshot_threshold TO '5min';
CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public;
CREATE TABLE public.t (id int PRIMARY KEY, name text, "system_user" text, tags public.hstore);
ALTER TABLE public.t OWNER TO shop;
COPY public.t (id, name) FROM stdin;
1	one
\.
CREATE INDEX t_name ON public.t (name);
CREATE INDEX t_name_c ON public.t (name COLLATE "C");
ALTER TABLE public.t ENABLE ROW LEVEL SECURITY;
CREATE OPERATOR public.!@! (PROCEDURE = numeric_fac, LEFTARG = bigint);
CREATE FUNCTION public.junk() RETURNS void LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 WHERE 1=1and true; END $$;
CREATE FUNCTION public.watch() RETURNS void LANGUAGE plpgsql
    AS $$ BEGIN PERFORM checkpoints_timed FROM pg_stat_bgwriter; END $$;
CREATE FUNCTION public.fine() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM public.t $$;
GRANT SELECT ON public.t TO shop;
CREATE PUBLICATION feed FOR TABLE public.t;
CREATE VIEW public.lacking AS SELECT 1 FROM public.nowhere;
"""
)

OLD_STATEMENTS = (
    "SELECT extract(epoch FROM now())",
    "SELECT name, 7x FROM t WHERE id = 1",
    "SELECT pg_is_in_backup()",
    "SELECT name FROM t WHERE id = 1 -- pg_start_backup()",
    "SELECT nothing FROM nowhere",
)


def asked(statements: tuple[str, ...]) -> str:
    return log(
        [
            Told(START + 20_000 * n, f"duration: 1.000 ms  statement: {text}")
            for n, text in enumerate(statements)
        ]
    )


@pytest.fixture
def question(place: Path) -> tuple[str, ...]:
    (place / "own.conf").write_text(
        "vacuum_defer_cleanup_age = 5\nwork_mem = 5MB\npassword_encryption = on\n"
    )
    return (
        "upgrade",
        "--from",
        "13",
        "--to",
        "17",
        "--dump",
        "dump.sql",
        "--log",
        "log.csv",
        "--config",
        "own.conf",
    )


def checklist_of(
    place: Path, pgstrata: Program, dump: str, statements: tuple[str, ...], *words: str
) -> tuple[int, Json]:
    (place / "dump.sql").write_text(dump)
    (place / "log.csv").write_text(asked(statements))
    done = pgstrata(*words, "--format", "json")
    assert done.returncode in (0, 1, 3), done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.server
@pytest.mark.timeout(600)
def test_a_dump_that_meets_much(place: Path, pgstrata: Program, question: tuple[str, ...]) -> None:
    code, answer = checklist_of(place, pgstrata, OLD_DUMP, OLD_STATEMENTS, *question, "--checklist")
    assert code == 1 and answer["answer"] == {"17": "do not go yet"}
    (to,) = answer["to"]
    lines = {line["id"]: line for line in to["checklist"]}
    states = [line["state"] for line in to["checklist"]]
    assert states == sorted(states, key=["fails", "before", "after", "look", "unknown", "note", "hand"].index)

    def objects(id: str, state: str) -> list[str]:
        assert lines[id]["state"] == state, lines[id]
        assert lines[id]["count"] == len(lines[id]["objects"]) and lines[id]["act"]
        return list(lines[id]["objects"])

    # What the new server said itself.
    definitions = objects("refused-definitions", "fails")
    assert definitions[0].startswith("CREATE OPERATOR public.!@!")
    assert len(definitions) == 2 and "Postfix operators are not supported" in definitions[0]
    assert "trailing junk" in definitions[1] and "public.junk" in definitions[1]
    statements = objects("refused-statements", "fails")
    assert len(statements) == 2 and "7x" not in " ".join(to["reasons"])
    assert any("pg_is_in_backup() does not exist" in statement for statement in statements)
    assert to["reasons"][0] == "4 things that the old version takes are refused"
    # What catalogs and texts say.
    assert objects("postfix-operators", "before") == ["public.!@!(bigint,NONE)"]
    assert lines["postfix-operators"]["source"] == "release notes of 14, Migration to Version 14"
    assert objects("bgwriter-columns", "before")[0].startswith("in CREATE FUNCTION public.watch()")
    assert objects("extract-numeric", "look") == ["statement SELECT extract(epoch FROM now())"]
    assert objects("settings-16", "before") == ["config vacuum_defer_cleanup_age = 5"]
    assert objects("settings-17", "before") == ["config old_snapshot_threshold = 5min"]
    assert objects("password-encryption-boolean", "before") == ["config password_encryption = on"]
    # Set in the file: its default is nobody's.
    assert "password-encryption" not in lines
    assert objects("hash-mem-multiplier", "note") == ["hash_mem_multiplier: 1 → 2"]
    assert objects("text-indexes", "look") == ["public.t_name (collation default)"]
    assert objects("reserved-words", "look") == ["system_user (column of public.t)"]
    assert objects("row-security", "look") == ["public.t"]
    assert objects("rights", "look") == ["shop"]
    assert objects("logical-replication", "before") == ["CREATE PUBLICATION feed FOR TABLE public.t"]
    assert objects("extensions-update", "after") == ["hstore 1.7 → 1.8"]
    assert lines["extensions-update"]["act"] == 'ALTER EXTENSION "hstore" UPDATE;'
    assert "public.lacking" in objects("refused-by-both", "unknown")[0]
    assert {"clientcert", "postmaster-link"} <= {id for id, line in lines.items() if line["state"] == "hand"}
    # Of 14 and later, but not of versions that this upgrade does not cross.
    assert not {"abstime", "hash-indexes", "checksums", "md5-deprecated"} & lines.keys()
    # In a comment, and what both refuse, is nothing.
    assert not any("nowhere" in statement or "pg_start_backup" in statement for statement in statements)

    # The same command asks no server again, and says the same in the terminal and on the page.
    again = pgstrata(*question, "--checklist")
    assert again.returncode == 1 and "the schema on" not in again.stderr
    output_lines = again.stdout.splitlines()
    assert output_lines[2].startswith("17: Do not go yet: 4 things")
    assert output_lines[3] == "  fails: 4"
    page = Path(place / answer["page"]).read_text()
    assert page.index("Do not go yet") < page.index("Postfix operators are not supported")
    assert "fails: 4" in page
    # No secret of the dump is anywhere.
    kept = "".join(file.read_text(errors="replace") for file in (place / "upgrade").rglob("*.json"))
    assert "d41d8cd98f00b204e9800998ecf8427e" not in again.stdout + page + kept


@pytest.mark.server
@pytest.mark.timeout(600)
def test_a_dump_that_meets_nothing(place: Path, pgstrata: Program, question: tuple[str, ...]) -> None:
    (place / "own.conf").write_text("work_mem = 5MB\n")
    dump = HEAD.format(version="13.23") + SCHEMA + TRIGGER + ";\n"
    code, answer = checklist_of(
        place, pgstrata, dump, ("SELECT name FROM customers WHERE id = 1",), *question, "--checklist"
    )
    (to,) = answer["to"]
    assert code == 3 and to["reasons"] == ["nothing was replayed"]
    states = {line["id"]: line["state"] for line in to["checklist"] if line["state"] not in ("note", "hand")}
    # Its e-mail addresses are unique texts.
    assert states == {"analyze": "after", "text-indexes": "look"}


@pytest.mark.server
@pytest.mark.timeout(600)
def test_a_dump_that_a_new_version_cannot_load_has_a_page(
    place: Path, pgstrata: Program, question: tuple[str, ...]
) -> None:
    """Without the option: the replay could not begin, and an hour of others' time is saved."""
    code, answer = checklist_of(place, pgstrata, OLD_DUMP, OLD_STATEMENTS, *question)
    assert code == 1 and answer["answer"] == {"17": "do not go yet"}
    assert "refuses 2 definitions of the dump" in answer["failed"]["17"]
    assert not (place / "upgrade").rglob("runs/*") or not list((place / "upgrade").glob("*/runs/*/*"))
    assert Path(place / answer["page"]).exists() and answer["report"] is None


@pytest.mark.server
def test_pg_upgrade_is_run_only_where_its_programs_are() -> None:
    old, new = acquire("pg:13"), acquire("pg:17")
    assert not has_pg_upgrade(old, new), "the prebuilt servers have got pg_upgrade: test it with them"


@pytest.mark.server
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("column", "passes"), [("text", True), ("regprocedure", False)])
def test_pg_upgrade_says_what_it_refuses(column: str, passes: bool) -> None:
    """Debian's packages have it; the same version is as good as a newer one for its checks."""
    there = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_upgrade"))
    if not there:
        pytest.skip("no pg_upgrade here: apt-get install postgresql")
    server = acquire(f"path:{there[-1].parent}")
    assert has_pg_upgrade(server, server)
    root = Path(tempfile.mkdtemp(prefix="pgs", dir="/tmp"))
    root.chmod(0o755)
    try:
        with running(server) as old:
            with old.connect() as connection:
                connection.execute(f"CREATE TABLE planted (f {column})".encode())
            old.stop()
            checked = pg_upgrade_check(old, server, old.config, root, lambda: None)
        assert checked.passed == passes, checked.output
        assert ("planted.f" in checked.output) != passes
        assert list(root.iterdir()) == []
    finally:
        shutil.rmtree(root, ignore_errors=True)


def test_statistics_are_kept_between_versions_that_restore_them() -> None:
    """From 18 to 19, too: nothing is crossed there that says so."""

    def answers(version: str, number: int, **catalogs: list[list[str | None]]) -> Answers:
        named = {name.replace("_", " "): rows for name, rows in catalogs.items()}
        return Answers(version, number, {}, {}, {}, [], named, {})

    old = answers("18.1", 180001)
    for new, keeps in (
        (answers("19.0", 190000, restores_statistics=[["pg_restore_attribute_stats"]]), True),
        (answers("17.11", 170011, restores_statistics=[]), False),
    ):
        material = Material(Rehearsal({}, old, {"new": new}, {}, {}), "new", [], [], {}, {}, [])
        (line,) = [line for line in lines_beside(material) if line.id == "analyze"]
        assert ("--missing-stats-only" in line.act) == bool(line.objects) == keeps


@pytest.mark.server
@pytest.mark.timeout(600)
def test_checksums_and_statistics_of_18(place: Path, pgstrata: Program) -> None:
    words = ("upgrade", "--from", "15", "--to", "18", "--dump", "dump.sql", "--log", "log.csv", "--checklist")
    dump = HEAD.format(version="15.3") + "CREATE TABLE public.t (id int PRIMARY KEY, name text);\n"
    dump += "CREATE ROLE shop LOGIN PASSWORD 'md5d41d8cd98f00b204e9800998ecf8427e';\n"
    for name in ("uuidv7()", "array_sort(anyarray)", "own()", "now()"):
        dump += f"CREATE FUNCTION public.{name} RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$;\n"
    code, answer = checklist_of(
        place, pgstrata, dump, ("SELECT wal_write FROM pg_stat_wal WHERE 'mine' <> ''",), *words
    )
    assert code == 1
    lines = {line["id"]: line for line in answer["to"][0]["checklist"]}
    assert lines["checksums"]["state"] == "look" and "--no-data-checksums" in lines["checksums"]["act"]
    assert "--missing-stats-only" in lines["analyze"]["act"]
    assert lines["stat-wal-columns"]["count"] == lines["refused-statements"]["count"] == 1
    assert lines["md5-deprecated"]["objects"] == ["in CREATE ROLE shop LOGIN"]
    # Neither passwords nor values of the log are shown.
    shown = json.dumps(answer) + Path(place / answer["page"]).read_text()
    assert "d41d8cd9" not in shown and "mine" not in shown
    assert lines["io-workers"]["state"] == "note"
    # What 18 has, too, and 15 had not.
    assert lines["shadowed-functions"]["objects"] == ["public.array_sort(anyarray)", "public.uuidv7()"]
    # A dump of a newer version than the old server is no dump of it.
    newer = HEAD.format(version="15.3") + "CREATE TABLE t (id int, b int GENERATED ALWAYS AS (id) VIRTUAL);\n"
    _, answer = checklist_of(place, pgstrata, newer, ("SELECT 1",), *words)
    lines = {line["id"]: line for line in answer["to"][0]["checklist"]}
    assert lines["refused-by-old"]["state"] == "unknown"
    assert "1 line of the checklist has no answer" in answer["to"][0]["said"]
