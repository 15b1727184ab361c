"""Where nobody lets us in: one sentence that names the place and the reason, and the next step."""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.driver.client import Driver
from pgstrata.errors import PgstrataError
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.refused import refused
from pgstrata.server.find.model import Server
from pgstrata.workload.core.language import Headline, Role, Script, Sql, Step
from support.program import Program

CANARY = "c4naryPa55"


@pytest.fixture(scope="module")
def cluster(pg17: Server) -> Iterator[Cluster]:
    """One that lets people in over TCP, also by IPv6, with a password."""
    folder = Path(tempfile.mkdtemp(prefix="pgs", dir="/tmp"))
    folder.chmod(0o755)
    with Cluster(pg17, resolve([], pg17.version_num, 1 << 30), folder / "c", tcp=True) as new_cluster:
        new_cluster.create()
        with (new_cluster.data_folder.path / "postgresql.auto.conf").open("a") as file:
            file.write("listen_addresses = '127.0.0.1,::1'\n")
        new_cluster.start()
        (new_cluster.data_folder.path / "pg_hba.conf").write_text(
            "local all all trust\nhost all mine 127.0.0.1/32 scram-sha-256\nhost all mine ::1/128 md5\n"
        )
        with new_cluster.connect() as session:
            session.execute(f"CREATE ROLE mine SUPERUSER LOGIN PASSWORD '{CANARY}'".encode())
            session.execute("CREATE DATABASE mine")
            session.execute("CREATE DATABASE \"my 'odd' =db/é\"")
            session.execute("SELECT pg_reload_conf()")
        yield new_cluster
    shutil.rmtree(folder, ignore_errors=True)


def unused_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def error_of(dsn: str) -> PgstrataError:
    with pytest.raises(PgstrataError) as caught:
        Conninfo.parse(dsn).connect()
    error = caught.value
    assert "\n" not in error.message and CANARY not in f"{error.message} {error.hint}" and error.hint
    return error


def test_every_place_that_was_tried_is_named_with_its_reason(cluster: Cluster) -> None:
    closed = unused_port()
    both = f"user=mine password={CANARY} dbname=postgres"
    error = error_of(f"host=127.0.0.1,nowhere.invalid,/nowhere port={closed},1,2 {both}")
    assert error.message == (
        "cannot connect to any of the servers: "
        f"127.0.0.1:{closed}: nobody answers there (Connection refused); "
        "/nowhere/.s.PGSQL.2: nobody answers there (No such file or directory); "
        "nowhere.invalid: no address is known of it"
    )
    error = error_of(
        f"host=127.0.0.1,localhost port={closed},{cluster.port} target_session_attrs=standby {both}"
    )
    assert "nobody answers there" in error.message
    assert f"localhost (127.0.0.1:{cluster.port}): target_session_attrs=standby, and server is not in" in (
        error.message
    )
    assert error_of("host=nowhere.invalid").message.endswith(
        "no address is known of the host nowhere.invalid"
    )
    assert error_of(f"host=127.0.0.1 port={closed}").exit_code == 1


def test_passwords_and_their_files(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = f"host=127.0.0.1 port={cluster.port} user=mine dbname=postgres"
    monkeypatch.setenv("HOME", str(tmp_path))
    error = error_of(base)
    assert "it asks for a password of user mine, and none was given" in error.message
    assert ".pgpass" in error.hint
    error = error_of(f"{base} password=another")
    assert "it refuses the password of user mine" in error.message
    passwords = tmp_path / ".pgpass"
    passwords.write_text(f"127.0.0.1:{cluster.port}:*:mine:{CANARY}\n")
    passwords.chmod(0o640)
    error = error_of(base)
    assert error.hint == f"{passwords} is not read, since others may read it, too: chmod 600 {passwords}"
    passwords.chmod(0o600)
    Conninfo.parse(base).connect().close()
    elsewhere = tmp_path / "elsewhere"
    passwords.rename(elsewhere)
    monkeypatch.setenv("PGPASSFILE", str(elsewhere))
    Conninfo.parse(base).connect().close()
    assert Conninfo.parse(base).for_driver().password == CANARY
    error = error_of(f"host=127.0.0.1 port={cluster.port} user=yours dbname=postgres")
    assert "its pg_hba.conf has no entry for" in error.message
    error = error_of(f"{base.replace('dbname=postgres', 'dbname=none')}")
    assert 'database "none" does not exist' in error.message


def test_the_program_says_it_in_one_line_with_the_right_exit_code(pgstrata: Program) -> None:
    port = unused_port()
    for words, code, sentence in (
        (
            ["bench", f"host=127.0.0.1,::1 port={port} sslmode=require"],
            1,
            "cannot connect to any of the servers",
        ),
        (["bench", "service=nowhere"], 2, 'definition of service "nowhere" not found'),
        (["run", "--server", "dsn:service=nowhere", "--workload", "pgbench"], 2, "not found"),
    ):
        done = pgstrata(*words, PGSERVICEFILE="/nowhere/services")
        assert done.returncode == code, done.stderr
        assert sentence in done.stderr or "service file" in done.stderr
        assert "Traceback" not in done.stderr


# --- the same string, the same session -----------------------------------------------------------

WHO = (
    "SELECT concat_ws('|', current_user, current_database(), inet_server_addr(), inet_server_port(), "
    "current_setting('application_name'), current_setting('work_mem'), current_setting('search_path'))"
)


def by_driver(conninfo: Conninfo, folder: Path) -> str:
    role = Role("q", 1, [Script(Sql(WHO, name="who", record=True))], operations=1)
    step = Step("who", [role], Headline("q", "operations", "queries/s"), seconds=None)
    with Driver(driver_spec(step, conninfo.for_driver(), 1, "io_uring", results_dir=str(folder))) as driver:
        driver.ready()
        driver.start()
        list(driver.events())
        driver.close()
    (file,) = folder.iterdir()
    return file.read_text().strip()


@pytest.mark.parametrize(
    ("dsn", "variables"),
    [
        ("postgresql://mine:{secret}@127.0.0.1:{port}/postgres?application_name=a%20b", {}),
        (
            "postgres://mine:{secret}@127.0.0.1:{closed},127.0.0.1:{port}/my%20'odd'%20%3Ddb%2F%C3%A9",
            {},
        ),
        ("postgresql://?host={folder}&port={port}&user=postgres&dbname=postgres", {}),
        ("postgresql://mine:{secret}@[::1]:{port}/postgres", {}),
        (
            "host=nowhere.invalid hostaddr=127.0.0.1 port={port} user=mine password={secret} dbname=postgres",
            {},
        ),
        (
            "dbname=postgres options='-c work_mem=7MB -c search_path=a,b'",
            {"PGHOST": "127.0.0.1", "PGPORT": "{port}", "PGUSER": "mine", "PGPASSWORD": "{secret}"},
        ),
        (
            "host=127.0.0.1 user=mine",
            {"PGPORT": "{port}", "PGDATABASE": "postgres", "PGPASSWORD": "{secret}", "PGAPPNAME": "x"},
        ),
        ("service=one", {"PGSERVICEFILE": "{services}"}),
        ("application_name=mine", {"PGSERVICEFILE": "{services}", "PGSERVICE": "one"}),
        (
            "host=/nowhere,127.0.0.1 port={port} user=mine password={secret} dbname=postgres "
            "target_session_attrs=primary load_balance_hosts=random",
            {},
        ),
    ],
)
def test_the_driver_gets_the_session_that_libpq_gets(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dsn: str, variables: dict[str, str]
) -> None:
    services = tmp_path / "services"
    words = {
        "secret": CANARY,
        "port": cluster.port,
        "closed": unused_port(),
        "folder": cluster.socket_dir,
        "services": services,
    }
    services.write_text(
        "[one]\nhost=127.0.0.1\nport={port}\nuser=mine\npassword={secret}\ndbname=postgres\n"
        "options=-c work_mem=9MB\n".format(**words)
    )
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(**words))
    text = dsn.format(**words)
    with psycopg.connect(text, fallback_application_name="pgstrata") as session:
        row = session.execute(WHO.encode()).fetchone()
    folder = tmp_path / "results"
    folder.mkdir()
    assert row and by_driver(Conninfo.parse(text), folder) == row[0]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(user=TEXT, database=TEXT, password=TEXT, application=TEXT, options=TEXT)
def test_a_uri_and_words_say_the_same(
    user: str, database: str, password: str, application: str, options: str
) -> None:
    wanted = {
        "user": user,
        "dbname": database,
        "password": password,
        "application_name": application,
        "options": options,
    }
    in_words = " ".join(
        "{} = '{}'".format(name, re.sub(r"([\\'])", r"\\\1", text)) for name, text in wanted.items()
    )
    in_uri = "postgresql://h/?" + "&".join(f"{name}={quote(text, safe='')}" for name, text in wanted.items())
    parsed = Conninfo.parse(f"host=h {in_words}")
    assert dict(parsed.given) == {"host": "h", **wanted}
    assert {k: v for k, v in Conninfo.parse(in_uri).given.items() if v} == {
        k: v for k, v in parsed.given.items() if v
    }


@given(st.text(max_size=300), st.lists(st.text(max_size=20), max_size=3))
def test_no_message_of_libpqs_is_too_odd_for_a_sentence(text: str, hosts: list[str]) -> None:
    for message in (
        text,
        f'connection to server at "h", port 1 failed: {text}',
        f"All failures were:\n- host: {text}",
    ):
        error = refused(message, {}, hosts)
        assert error.message.startswith("cannot connect to") and "\n" not in error.message
