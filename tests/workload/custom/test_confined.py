"""The role that executes setups, scripts and logs cannot leave the database; and what is told beforehand."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from pgstrata.server.find.model import Server
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step, Work
from pgstrata.workload.custom.reaches import Reaching
from support.program import Program
from support.queries import work
from support.steps import database, run_step, running

REFUSED = (
    "COPY (SELECT 1) TO PROGRAM 'cat > /tmp/pgstrata-never'",
    "COPY (SELECT 1) TO '/tmp/pgstrata-never'",
    "COPY t FROM '/etc/passwd'",
    "COPY t FROM PROGRAM 'id'",
    "SELECT lo_export(lo_from_bytea(0, 'x'), '/tmp/pgstrata-never')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "ALTER SYSTEM SET work_mem = '77MB'",
    "SELECT pg_reload_conf()",
    "LOAD '/tmp/library.so'",
    "CREATE FUNCTION c() RETURNS int LANGUAGE c AS '/tmp/library.so'",
    "CREATE FUNCTION i() RETURNS int LANGUAGE internal AS 'pg_reload_conf'",
    "CREATE FOREIGN DATA WRAPPER another",
    "CREATE SUBSCRIPTION s CONNECTION 'host=/tmp' PUBLICATION p",
    "CREATE TABLESPACE t LOCATION '/tmp'",
    "CREATE ROLE root SUPERUSER",
    "ALTER ROLE pgstrata_app SUPERUSER",
    "GRANT pg_write_server_files TO pgstrata_app",
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION postgres",
    "UPDATE pg_catalog.pg_authid SET rolsuper = true",
)


@pytest.mark.parametrize("version", ["13", "17"])
def test_the_server_refuses_what_leaves_the_database(
    pg13: Server, pg17: Server, version: str, tmp_path: Path
) -> None:
    file = tmp_path / "make.sql"
    file.write_text(
        "CREATE EXTENSION hstore;\nCREATE ROLE reader SUPERUSER LOGIN;\nCREATE TABLE t (h hstore);\n"
    )
    server = {"13": pg13, "17": pg17}[version]
    workload = catalog.find("custom")
    options = workload.Options.model_validate({"setup": [str(file)]}, context={"folder": "/"})
    begin, *others = workload.phases(options, server.features)
    (step,) = [phase for phase in others if getattr(phase, "name", "") == "load.make"]
    assert isinstance(begin, Work) and isinstance(step, Step) and step.confined
    with running(server) as cluster, database(cluster, "pgstrata"):
        work(cluster, "pgstrata", begin)
        # As the load does it: what needs the superuser stands in functions.
        run_step(cluster, "pgstrata", step, connection=cluster.connection("pgstrata", confined=True))
        with cluster.connect("pgstrata", confined=True) as connection:
            connection.execute("INSERT INTO t VALUES ('a=>1'), (hstore('b', '2'))")
            for statement in REFUSED:
                with pytest.raises(psycopg.Error) as refused:
                    connection.execute(statement.encode())
                assert refused.value.sqlstate == "42501", (statement, refused.value)
        with cluster.connect("pgstrata") as admin:
            rights = admin.execute("SELECT rolsuper, rolcanlogin FROM pg_roles WHERE rolname = 'reader'")
            assert rights.fetchall() == [(False, False)]


def test_an_ordinary_user_of_a_running_server_executes_its_setup(
    pg17: Server, pgstrata: Program, place: Path
) -> None:
    (place / "make.sql").write_text("CREATE EXTENSION hstore;\nCREATE TABLE t (h hstore);\n")
    (place / "look.sql").write_text("SELECT count(*) FROM t;\n")
    with running(pg17) as cluster, cluster.connect() as admin:
        admin.execute("CREATE ROLE me LOGIN CREATEDB")
        admin.execute("GRANT pg_checkpoint TO me")
        admin.execute("CREATE DATABASE me OWNER me")
        where = f"host={cluster.socket_dir}&port={cluster.port}&user=me"
        (place / "own.toml").write_text(
            f'servers = ["dsn:postgresql:///?{where}"]\n[[workloads]]\nname = "custom"\n[workloads.options]\n'
            'setup = ["make.sql"]\nscripts = "look.sql"\nseconds = 0.3\nwarmup = 0\n'
        )
        done = pgstrata("run", "own.toml", "--no-report")
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "statement",
    [
        "copy t to program 'x'",
        "COPY (SELECT a FROM t) TO $1",
        "/* of ours */ copy t from '/etc/passwd'",
        "alter system reset all",
        "select lo_export($1, $2)",
        "SELECT pg_catalog.pg_read_file($1)",
        "select * from dblink('host=x', 'select 1') as t(a int)",
        "select cron.schedule('* * * * *', 'select 1')",
        "insert into far values (1)",
        "update public.far set a = 1",
        "select * from near join far using (a)",
        "create extension plpython3u",
        "create function f() returns int language plperlu as 'x'",
    ],
)
def test_what_reaches_outside_is_told_from_its_text(statement: str) -> None:
    assert _reaching().why(statement)


@pytest.mark.parametrize(
    "statement",
    [
        "copy t to stdout",
        "copy t (a) from stdin with (format csv)",
        "select 'copy t to program'",
        "select far from near -- far",
        "insert into near values ('alter system')",
        "create extension hstore",
        "create function f() returns int language plpgsql as 'x'",
        "select schedule from cron",
        "create table language (name text)",
        "create table public.language (language_id int, name text)",
    ],
)
def test_what_stays_inside_is_not(statement: str) -> None:
    assert not _reaching().why(statement)


def test_a_table_that_is_called_language_is_the_roles_own() -> None:
    treatment = _reaching().treatment("CREATE TABLE public.language (language_id int, name text)")
    assert treatment.text and not treatment.superuser and not treatment.why
    language = _reaching().treatment("CREATE OR REPLACE TRUSTED PROCEDURAL LANGUAGE plpgsql")
    assert language.superuser and not language.why
    for statement in ("CREATE LANGUAGE plpython3u", "CREATE TRUSTED LANGUAGE mine HANDLER h"):
        assert _reaching().treatment(statement).why


def _reaching() -> Reaching:
    reaching = Reaching()
    for statement in ("CREATE FOREIGN TABLE public.far (a int) SERVER s", "CREATE TABLE public.near (a int)"):
        reaching.treatment(statement)
    return reaching
