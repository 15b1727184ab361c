"""What a dump and a log would do beyond the servers under test: to another server, and to this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pgstrata.server.find.model import Server
from support.logs import START, Told, log
from support.program import Program
from support.steps import database, running

DUMP = """--
-- PostgreSQL database dump
--

CREATE EXTENSION IF NOT EXISTS postgres_fdw WITH SCHEMA public;
CREATE EXTENSION IF NOT EXISTS dblink WITH SCHEMA public;
CREATE EXTENSION IF NOT EXISTS hstore WITH SCHEMA public;
CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (dbname 'shop', host '{host}', port '{port}');
CREATE USER MAPPING FOR public SERVER far OPTIONS (password 'secret word', "user" '{user}');
CREATE FOREIGN TABLE public.far_orders (id integer, note text) SERVER far OPTIONS (table_name 'orders');
CREATE TABLE public.near_orders (id integer, tags public.hstore);
CREATE FUNCTION public.now_and_then() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN END $$;
CREATE EVENT TRIGGER watch ON ddl_command_start EXECUTE FUNCTION public.now_and_then();
CREATE SUBSCRIPTION feed CONNECTION 'host={host} password=secret' PUBLICATION p WITH (connect = false);
COPY public.near_orders (id, tags) FROM stdin;
1\t"a"=>"b"
\\.
"""

REACHING = (
    "insert into far_orders values (1, 'replayed')",
    "select dblink_exec('host={host} port={port} dbname=shop user={user}', 'delete from orders')",
    "copy (select 1) to program 'cat > {out}/program.txt'",
    "copy (select 2) to '{out}/file.txt'",
    "select lo_export(lo_from_bytea(4711, 'x'), '{out}/large.txt')",
    "select pg_read_file('/etc/passwd')",
    "alter system set work_mem = '77MB'",
)
REFUSED = ("do $$ begin execute $q$copy (select 3) to program 'cat > {out}/hidden.txt'$q$; end $$",)
"""Not told by their text: only the server knows that it refuses them to this role."""

MAINTENANCE = ("checkpoint",)
"""No traffic of an application, and not replayed."""

HARMLESS = "insert into near_orders values (2, 'c=>d')"


@pytest.mark.timeout(1200)
def test_nothing_leaves_the_servers_under_test(pg17: Server, place: Path, pgstrata: Program) -> None:
    out = place / "out"
    out.mkdir()
    out.chmod(0o777)
    with running(pg17) as other, database(other, "shop") as far:
        far.execute("CREATE TABLE orders (id integer, note text)")
        far.execute("INSERT INTO orders VALUES (0, 'there')")
        where = {"host": other.socket_dir, "port": other.port, "user": other.user, "out": out}
        (place / "shop.sql").write_text(DUMP.format(**where))
        statements = [text.format(**where) for text in (*REACHING, *REFUSED, *MAINTENANCE)] + [HARMLESS] * 5
        entries = [
            Told(START + 20_000 * n, f"duration: 1.000 ms  statement: {text}")
            for n, text in enumerate(statements)
        ]
        (place / "shop.csv").write_text(log(entries))
        question = ("upgrade", "--from", "13", "--to", "17", "--dump", "shop.sql", "--log", "shop.csv")
        done = pgstrata(*question, "--rounds", "2", "--speed", "0", "--format", "json")
        assert done.returncode in (0, 1, 3), done.stderr
        assert far.execute("SELECT id, note FROM orders").fetchall() == [(0, "there")]
        assert list(out.iterdir()) == []
    assert "secret" not in done.stdout + done.stderr
    answer = json.loads(done.stdout)
    assert answer["failed"] == {}
    whys = ("left out: reaches outside", "Not replayed: statements that define", "Not replayed: VACUUM")
    gaps = [gap for gap in answer["not_covered"] if gap["what"].startswith(whys)]
    shares = [gap["share"] for gap in gaps if gap["share"] is not None]
    left_out_statements = len(REACHING) + len(REFUSED) + len(MAINTENANCE)
    assert sum(shares) == pytest.approx(left_out_statements / len(statements), abs=1e-4)
    assert sum(gap["count"] for gap in gaps if gap["share"] is not None) == left_out_statements
    (refused,) = [gap for gap in gaps if "refused by a server" in gap["what"]]
    assert refused["count"] == len(REFUSED) and refused["example"].startswith("do ")
    assert answer["to"][0]["new_errors"] == []
    # What the text shows was not sent: only the server's refusals of the others are in the figures.
    sent = " ".join(statement["statement"].lower() for statement in answer["to"][0]["statements"])
    assert "near_orders" in sent
    for words in (
        "checkpoint",
        "dblink",
        "to program",
        "lo_export",
        "pg_read_file",
        "alter system",
        "far_orders",
    ):
        assert words not in sent
    left_out = " ".join(gap["example"] for gap in gaps)
    for words in ("CREATE EXTENSION IF NOT EXISTS dblink", "CREATE SERVER far", "CREATE USER MAPPING"):
        assert words in left_out
    for words in ("CREATE EVENT TRIGGER watch", "CREATE SUBSCRIPTION feed"):
        assert words in left_out
    assert "hstore" not in left_out


@pytest.mark.timeout(1200)
def test_what_reaches_outside_is_executed_where_that_is_allowed(place: Path, pgstrata: Program) -> None:
    """The same statements do reach this machine by a superuser: what keeps them from it is no accident."""
    out = place / "out"
    out.mkdir()
    out.chmod(0o777)
    (place / "shop.sql").write_text(
        "-- PostgreSQL database dump\nCREATE TABLE public.near_orders (id int);\n"
    )
    text = f"duration: 1.000 ms  statement: copy (select 1) to program 'cat > {out}/program.txt'"
    (place / "shop.csv").write_text(log([Told(START, text), Told(START + 20_000, text)]))
    question = ("upgrade", "--from", "13", "--to", "17", "--dump", "shop.sql", "--log", "shop.csv")
    done = pgstrata(*question, "--rounds", "1", "--speed", "0", "--format", "json", "--allow-outside")
    assert done.returncode in (0, 1, 3), done.stderr
    assert [file.name for file in out.iterdir()] == ["program.txt"]
    assert not [gap for gap in json.loads(done.stdout)["not_covered"] if "reaches outside" in gap["what"]]


def test_the_plan_says_what_is_left_out(place: Path, pgstrata: Program) -> None:
    (place / "shop.sql").write_text(DUMP.format(host="/far", port=1, user="me"))
    (place / "shop.csv").write_text(log([Told(START, f"duration: 1.000 ms  statement: {HARMLESS}")]))
    what = ("--from", "13", "--to", "17", "--dump", "shop.sql", "--log", "shop.csv", "--dry-run")
    done = pgstrata("upgrade", *what)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("left out: CREATE USER MAPPING FOR public SERVER far") == 1
    assert "secret" not in done.stdout
    assert "left out" not in pgstrata("upgrade", *what, "--allow-outside").stdout
