"""A whole workload of files on real servers: a dump of a real schema, roles, queries and their answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pgstrata.errors import UsageError
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.initdb import USER
from pgstrata.server.features import NEWEST
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Phase
from pgstrata.workload.custom import archive
from pgstrata.workload.custom.archive import PgRestore
from pgstrata.workload.custom.contents import digest_of
from pgstrata.workload.custom.files import read
from pgstrata.workload.custom.source import CopyBlock
from support.parquet_files import write_parquet
from support.program import Program
from support.queries import work
from support.shop import dump, fill_shop, write_files
from support.steps import database, run_phase, running

CUSTOMERS, ORDERS = 200, 1000
FORMATS = {"shop.dump": "-Fc", "shop.tar": "-Ft", "shop.dir": "-Fd", "shop.sql": "-Fp"}


@pytest.fixture(scope="module", autouse=True)
def own_cache(pg12: Server, pg17: Server) -> Iterator[None]:
    """What these tests unpack and keep goes with them; the servers are of the usual cache."""
    folder = Path(tempfile.mkdtemp(prefix="pgs", dir="/tmp"))
    folder.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGSTRATA_CACHE", str(folder))
        yield
    shutil.rmtree(folder, ignore_errors=True)


def path_of(server: Server) -> str:
    assert server.bin_dir is not None
    return f"path:{server.bin_dir.parent}"


@pytest.fixture(scope="module")
def shop(pg12: Server) -> Iterator[Path]:
    """Dumps of the shop in every format, from an old server, beside its scripts and queries."""
    folder = Path(tempfile.mkdtemp(prefix="pgs", dir="/tmp"))
    folder.chmod(0o755)
    write_files(folder)
    with running(pg12) as cluster:
        with cluster.connect() as admin:
            admin.execute("CREATE DATABASE shop")
        with cluster.connect("shop") as connection:
            fill_shop(connection, CUSTOMERS, ORDERS)
        for name, how in FORMATS.items():
            dump(cluster, "shop", folder / name, how)
    # As root, pg_restore runs as the account of servers: a file is handed to it, a folder has to be open.
    for name in FORMATS:
        (folder / name).chmod(0o755 if name == "shop.dir" else 0o600)
    yield folder
    shutil.rmtree(folder)


def phases(**options: Any) -> list[Phase]:
    custom = catalog.find("custom")
    validated = custom.Options.model_validate(options, context={"folder": "/"})
    return custom.phases(validated, NEWEST)


@pytest.mark.parametrize("name", FORMATS)
def test_a_dump_of_any_format_is_restored(cluster: Cluster, shop: Path, name: str) -> None:
    with database(cluster, "pgstrata") as connection:
        for phase in phases(setup=[str(shop / name)], queries=str(shop / "queries"), load_connections=3):
            if getattr(phase, "name", "") == "plans":
                break
            if not hasattr(phase, "do"):
                run_phase(cluster, "pgstrata", phase)
            else:
                work(cluster, "pgstrata", phase)  # type: ignore[arg-type]
        rows = connection.execute(
            "SELECT (SELECT count(*) FROM orders), (SELECT count(*) FROM orders_1), "
            "(SELECT max(email) FROM customers), (SELECT last_value FROM audit.numbers), "
            "(SELECT count(*) FROM turnover), (SELECT sum(count) FROM days), (SELECT lo_get(4242))"
        ).fetchone()
        assert rows is not None and rows[0] == ORDERS and 0 < rows[1] < ORDERS
        assert rows[2:] == ("c9@example\t.com", 3, 100, ORDERS, b"a large object")
        kinds = connection.execute(
            "SELECT contype, count(*) FROM pg_constraint WHERE connamespace = 'public'::regnamespace "
            "AND conparentid = 0 AND contype <> 'n' GROUP BY 1 ORDER BY 1"
        ).fetchall()
        assert kinds == [("c", 1), ("f", 2), ("p", 3), ("u", 1)]
        attached = connection.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = 'orders_pkey'::regclass"
        ).fetchone()
        assert attached == (3,)
        # the trigger works, and its function's body came through whole
        connection.execute("INSERT INTO orders VALUES (-1, 7, 7, 1, 'open', '2024-01-01')")
        assert connection.execute("SELECT orders FROM customers WHERE id = 7").fetchone() == (1,)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up what it may do")
def test_pg_restore_does_not_run_as_root(shop: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tool, *_) = archive.find_pg_restore()
    program = place / "pg_restore"
    program.write_text(f'#!/bin/sh\nid -u >>{place}/who\nexec {tool.program} "$@"\n')
    program.chmod(0o755)
    (place / "who").touch()
    (place / "who").chmod(0o666)
    monkeypatch.setattr(archive, "find_pg_restore", lambda: [PgRestore(program, tool.major, tool.prints)])
    for name in ("shop.dump", "shop.tar"):
        assert any(isinstance(item, CopyBlock) for item in read(shop / name, f"unprivileged-{name}").items)
    accounts = (place / "who").read_text().split()
    assert len(accounts) > 4 and "0" not in accounts
    closed = place / "closed.dir"
    shutil.copytree(shop / "shop.dir", closed)
    closed.chmod(0o700)
    with pytest.raises(UsageError, match="is closed") as error:
        read(closed, "unprivileged-dir")
    assert "chmod -R o+rX" in error.value.hint


def test_rows_of_files_are_loaded_beside_each_other(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "make.sql").write_text(
        "CREATE SCHEMA s;\nCREATE TABLE s.t (a int, b text, c numeric);\nCREATE TABLE u (a int, b text);\n"
        "COPY u FROM stdin;\n0\tzero\n\\.\n"
    )
    (tmp_path / "one.csv").write_text('a;b;c\n1;"x;""y";1.5\n2;-;\n')
    (tmp_path / "u.tsv").write_text("1\tone\n2\t\\N\n")
    write_parquet(
        tmp_path / "two.parquet", "SELECT * FROM (VALUES (0.25, 'p,q', 3), (NULL, NULL, 4)) AS r(c, b, a)"
    )
    files = [str(tmp_path / name) for name in ("make.sql", "one.csv", "u.tsv", "two.parquet")]
    csv = {"table": "s.t", "files": [files[1]], "delimiter": ";"}
    parquet = {"table": "s.t", "files": [files[3]], "columns": ["a", "b", "c"]}
    with database(cluster, "pgstrata") as connection:
        load_phases = phases(setup=[files[0], csv, files[2], parquet], settle="none")
        names = [phase.name for phase in load_phases]  # type: ignore[union-attr]
        assert names == ["confine", "files", "load.make", "load.rows", "confine"]
        for phase in load_phases[:2]:
            work(cluster, "pgstrata", phase)  # type: ignore[arg-type]
        for phase in load_phases[2:]:
            run_phase(cluster, "pgstrata", phase)
        rows = connection.execute("SELECT a, b, c::text FROM s.t ORDER BY a").fetchall()
        assert rows == [(1, 'x;"y', "1.5"), (2, "-", None), (3, "p,q", "0.25"), (4, None, None)]
        rows = connection.execute("SELECT * FROM u ORDER BY a").fetchall()
        assert rows == [(0, "zero"), (1, "one"), (2, None)]


def test_all_formats_hold_the_same_rows(shop: Path) -> None:
    contents = []
    for name in FORMATS:
        source = read(shop / name, digest_of(shop / name))
        source.unpack(lambda text: None, lambda: None)
        blocks = [item for item in source.items if isinstance(item, CopyBlock)]
        contents.append({block.text: block.file.read_bytes() for block in blocks})
    assert contents[0] == contents[1] == contents[2] == contents[3]
    assert sum(rows.count(b"\n") for rows in contents[0].values()) == CUSTOMERS + ORDERS + 100 + 3


def test_a_campaign_of_files_compares_two_servers(
    pg12: Server, pg17: Server, shop: Path, pgstrata: Program, place: Path
) -> None:
    # In the cache of this module lie the rows of the same dump, which this process holds.
    alone = partial(pgstrata, PGSTRATA_CACHE=str(place / "cache"))
    file = shop / "shop.toml"
    file.write_text(
        f"""
servers = ["{path_of(pg12)}", "{path_of(pg17)}"]
keep_loaded = true

[[workloads]]
name = "custom"
label = "shop"
[workloads.options]
setup = ["shop.dump"]
queries = "queries"
streams = 2
define = {{ customers = {CUSTOMERS} }}
seconds = 0.5
warmup = 0

[[workloads.options.steps]]
scripts = ["look.sql"]
reads_only = true

[[workloads.options.steps]]
name = "mixed"
roles = [
    {{ name = "look", scripts = ["look.sql"], mode = "prepared" }},
    {{ name = "buy", scripts = ["buy.sql"], rate = 50 }},
]
"""
    )
    dry = alone("run", file, "--dry-run")
    assert dry.returncode == 0 and "finished steps before mixed are kept" in dry.stdout, dry.stderr
    done = alone("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"rejected: (broken|lacking): .+, and 1 more", done.stderr), done.stderr
    for path in place.glob("results/*/*/*/*/run.json"):
        run = json.loads(path.read_text())
        steps = {step["name"]: step for step in run["steps"]}
        assert list(steps) == [
            *(f"load.shop.{part}" for part in ("schema", "rows", "indexes", "constraints")),
            *("plans", "queries", "streams", "look", "mixed"),
        ]
        assert steps["load.shop.rows"]["roles"]["load"]["rows"] >= CUSTOMERS + ORDERS + 103
        assert steps["mixed"]["roles"]["buy"]["rows"] > 0
        assert set(steps["queries"]["sizes"]["tables"]) == {
            "customers",
            "products",
            "orders",
            "audit.changes",
        }
    rows = alone(
        "query",
        "select query, count(distinct digest), min(error) from queries where step = 'queries' "
        "group by 1 order by 1",
        "--format",
        "csv",
    ).stdout.splitlines()[1:]
    assert [row.partition(",")[0] for row in rows] == ["broken", "lacking", "q1", "q10", "q2"]
    assert "one statement" in rows[0] and "does not exist" in rows[1]
    assert all(re.fullmatch(r"q\d+,1,", row) for row in rows[2:]), rows

    again = alone("run", file, "--name", "again", "--dry-run")
    assert again.stdout.count("to do, data kept") == 2
    listed = alone("data", "list", "--format", "csv").stdout.splitlines()[1:]
    what = [line.split(",")[2] for line in listed]
    assert what[:2] == ["shop", "shop"] and "rows of shop.dump" in what[2:]
    rows_of = next(line.split(",")[0] for line in listed if "rows of shop.dump" in line)
    assert alone("data", "remove", rows_of).stdout == f"removed {rows_of}\n"
    left = alone("data", "list", "--format", "csv").stdout
    assert left.count("shop,") == 2 and "shop.dump" not in left


def test_what_a_server_refuses_and_a_script_that_never_ends_say_why(
    pg12: Server, pgstrata: Program, place: Path
) -> None:
    (place / "new.sql").write_text("CREATE TABLE t (a int, b int, UNIQUE NULLS NOT DISTINCT (a));\n")
    (place / "never.sql").write_text("SELECT pg_sleep(1000);\n")
    head = f'servers = ["{path_of(pg12)}"]\n[[workloads]]\nname = "custom"\n[workloads.options]\n'
    (place / "a.toml").write_text(f'{head}setup = ["new.sql"]\nscripts = "never.sql"\n')
    (place / "b.toml").write_text(f'{head}scripts = "never.sql"\nseconds = 0.3\nwarmup = 0\novertime = 0.5\n')
    first = pgstrata("run", "a.toml", "--no-report")
    assert first.returncode == 1
    assert re.search(
        r'load\.new: .*new\.sql:1: the server rejected .*syntax error at or near "NULLS"', first.stderr
    )
    assert "statement: CREATE TABLE t" in first.stderr
    (place / "write.sql").write_text("CREATE TABLE t (a int);\n")
    (place / "c.toml").write_text(f'{head}scripts = "write.sql"\nreads_only = true\n')
    third = pgstrata("run", "c.toml", "--no-report")
    assert third.returncode == 1 and "in a read-only transaction" in third.stderr
    second = pgstrata("run", "b.toml", "--no-report")
    assert second.returncode == 1 and "the connection" not in second.stderr
    assert "0.5 s after the end of the step there are statements without an answer (query)" in second.stderr
    assert "a script does not come to an end" in second.stderr


@pytest.mark.parametrize("how", ["-Fc", "-Fp"])
def test_a_dump_that_does_not_fit_an_older_server_says_which_statement(
    pg12: Server, pgstrata: Program, place: Path, how: str
) -> None:
    newer = acquire("pg:15")
    with running(newer) as cluster, cluster.connect() as session:
        session.execute("CREATE DATABASE newer")
        with cluster.connect("newer") as connection:
            connection.execute(
                "CREATE TABLE fits (a int); INSERT INTO fits VALUES (1);"
                "CREATE TABLE newer (a int, CONSTRAINT one UNIQUE NULLS NOT DISTINCT (a))"
            )
        dump(cluster, "newer", place / "newer.dump", how)
    (place / "one.sql").write_text("SELECT 1;\n")
    (place / "a.toml").write_text(
        f'servers = ["{path_of(pg12)}", "{path_of(newer)}"]\n[[workloads]]\nname = "custom"\n'
        '[workloads.options]\nsetup = ["newer.dump"]\nscripts = "one.sql"\nseconds = 0.3\nwarmup = 0\n'
    )
    done = pgstrata("run", "a.toml", "--no-report")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r'the server rejected .*syntax error at or near "NULLS"', done.stderr), done.stderr
    assert "ADD CONSTRAINT one UNIQUE NULLS NOT DISTINCT" in done.stderr
    # The server that it came from goes on.
    assert len(list(place.glob("results/*/*/*/*/run.json"))) == 2
    assert done.stderr.count("failed: ") == 1


def test_a_running_server_keeps_what_it_has(
    cluster: Cluster, shop: Path, pgstrata: Program, place: Path
) -> None:
    """Scripts work on what is there; a dump goes into a database that is made for it, or nowhere."""
    where = f"host={cluster.socket_dir}&port={cluster.port}&user={USER}"
    options = f'scripts = "{shop}/look.sql"\nseconds = 0.3\nwarmup = 0\ndefine = {{customers = 9}}\n'
    with database(cluster, "mine") as connection:
        connection.execute("CREATE TABLE orders (customer_id int, amount int)")
        for name, of, setup, code, allowed in (
            ("refused", "mine", "", 1, False),
            ("there", "mine", "", 0, True),
            ("into", "mine", f'setup = ["{shop}/shop.dump"]\n', 1, True),
            ("beside", "", f'setup = ["{shop}/shop.dump"]\n', 0, True),
        ):
            (place / f"{name}.toml").write_text(
                f'servers = ["dsn:postgresql:///{of}?{where}"]\nallow_outside = {str(allowed).lower()}\n'
                f'[[workloads]]\nname = "custom"\n[workloads.options]\n{setup}{options}'
            )
            done = pgstrata("run", f"{name}.toml", "--no-report")
            assert done.returncode == code, done.stdout + done.stderr
            assert ("is a superuser" in done.stderr) is not allowed
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        assert tables == [("orders",)]
        there = connection.execute("SELECT datname FROM pg_database WHERE datname = 'pgstrata'").fetchall()
        assert there == []


GLOBALS = """--
-- PostgreSQL database cluster dump
--

SET default_transaction_read_only = off;
SET client_encoding = 'UTF8';

CREATE ROLE postgres;
ALTER ROLE postgres WITH SUPERUSER LOGIN;
CREATE ROLE {user};
CREATE ROLE shop_reader;
"""

TWICE = """--
-- PostgreSQL database dump
--

SET client_encoding = 'UTF8';

CREATE TABLE public.t (a integer);

COPY public.t (a) FROM stdin;
1
1
\\.

ALTER TABLE ONLY public.t
    ADD CONSTRAINT t_pkey PRIMARY KEY (a);
"""


def custom_campaign(place: Path, server: Server, setup: str, extra: str = "") -> None:
    (place / "one.sql").write_text("SELECT 1;\n")
    (place / "a.toml").write_text(
        f'servers = ["{path_of(server)}"]\n[[workloads]]\nname = "custom"\n[workloads.options]\n'
        f'setup = {setup}\nscripts = "one.sql"\nseconds = 0.3\nwarmup = 0\n{extra}'
    )


def test_an_error_of_a_dump_names_line_statement_and_row(
    pg17: Server, pgstrata: Program, place: Path
) -> None:
    (place / "twice.sql").write_text(TWICE)
    custom_campaign(place, pg17, '["twice.sql"]')
    done = pgstrata("run", "a.toml", "--no-report")
    assert done.returncode == 1
    for part in (
        "load.twice.indexes: twice.sql:",
        f":{TWICE.splitlines().index('ALTER TABLE ONLY public.t') + 1}: the server rejected",
        'could not create unique index "t_pkey"',
        "DETAIL:  Key (a)=(1) is duplicated.",
        "statement: ALTER TABLE ONLY public.t ADD CONSTRAINT t_pkey PRIMARY KEY (a)",
    ):
        assert part in done.stderr, (part, done.stderr)


def test_an_error_of_an_archive_names_the_line_that_pg_restore_prints(
    pg12: Server, pgstrata: Program, place: Path
) -> None:
    with running(pg12) as cluster:
        with cluster.connect() as admin:
            admin.execute("CREATE DATABASE made")
        with cluster.connect("made") as connection:
            connection.execute("CREATE TABLE t (a int, CHECK (a > 0)); INSERT INTO t VALUES (1)")
            connection.execute("CREATE INDEX ON t (a) WHERE a > 1")
        dump(cluster, "made", place / "made.dump", "-Fc")
    (place / "before.sql").write_text("CREATE VIEW public.t AS SELECT 1 AS a;\n")
    custom_campaign(place, pg12, '["before.sql", "made.dump"]')
    done = pgstrata("run", "a.toml", "--no-report")
    assert done.returncode == 1
    match = re.search(r"made\.dump, line (\d+) of pg_restore -f - --section=pre-data: ", done.stderr)
    assert match is not None and int(match[1]) > 1, done.stderr
    assert "statement: CREATE TABLE public.t" in done.stderr


def test_roles_of_pg_dumpall_that_are_there_already_are_no_error(
    pg17: Server, pgstrata: Program, place: Path
) -> None:
    (place / "globals.sql").write_text(GLOBALS.format(user=USER))
    (place / "after.sql").write_text("CREATE TABLE t (a int); GRANT SELECT ON t TO shop_reader, postgres;\n")
    custom_campaign(place, pg17, '["globals.sql", "after.sql"]')
    done = pgstrata("run", "a.toml", "--no-report")
    assert done.returncode == 0, done.stderr


def test_what_a_file_sets_holds_in_the_next_as_in_psql(pg17: Server, pgstrata: Program, place: Path) -> None:
    """One session, as of `psql -f A -f B`: search path and format of dates of the first are the second's."""
    (place / "a.sql").write_text("CREATE SCHEMA app; SET search_path = app; SET datestyle = 'SQL, DMY';\n")
    (place / "b.sql").write_text("CREATE TABLE t AS SELECT date '03/02/2026' AS d;\n")
    (place / "c.sql").write_text(
        "DO $$BEGIN ASSERT (SELECT extract(month FROM d) = 2 FROM app.t); END$$;\n"
        "RESET search_path; CREATE TABLE u (a int);\n"
    )
    (place / "d.sql").write_text("INSERT INTO public.u VALUES (1); INSERT INTO u VALUES (2);\n")
    custom_campaign(place, pg17, '["a.sql", "b.sql", "c.sql", "d.sql"]')
    done = pgstrata("run", "a.toml", "--no-report")
    assert done.returncode == 0, done.stderr


def test_the_empty_search_path_of_a_dump_ends_with_it(pg17: Server, pgstrata: Program, place: Path) -> None:
    path = "SELECT pg_catalog.set_config('search_path', '', false);\n"
    (place / "made.sql").write_text(f"-- PostgreSQL database dump\n{path}CREATE TABLE public.t (a int);\n")
    (place / "after.sql").write_text("INSERT INTO t VALUES (1);\n")
    custom_campaign(place, pg17, '["made.sql", "after.sql"]')
    done = pgstrata("run", "a.toml", "--no-report")
    assert done.returncode == 0, done.stderr


def test_a_table_that_code_makes_is_looked_for_before_its_rows_are_loaded(
    pg17: Server, pgstrata: Program, place: Path
) -> None:
    make = "DO $$BEGIN EXECUTE 'CREATE TABLE t_' || 1 || ' (a int)'; END$$;\n"
    (place / "a.sql").write_text(f"CREATE SCHEMA app; SET search_path = app; {make}")
    for name in ("t_1.csv", "t_2.csv"):
        (place / name).write_text("a\n1\n")
    custom_campaign(place, pg17, '["a.sql", "t_1.csv"]')
    done = pgstrata("run", "a.toml", "--no-report")
    assert done.returncode == 0, done.stderr
    custom_campaign(place, pg17, '["a.sql", "t_1.csv", "t_2.csv"]')
    done = pgstrata("run", "a.toml", "--no-report", "--fresh")
    assert done.returncode == 1
    assert 't_2.csv has no table t_2: relation "t_2" does not exist' in done.stderr
    assert "load.rows" not in done.stderr
