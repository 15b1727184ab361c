"""One description of a connection: what is understood, what is refused, and that administrator, driver and
bench keep to it."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from pgstrata.driver.client import Driver
from pgstrata.driver.events import StatementDone
from pgstrata.driver.message import document
from pgstrata.driver.spec import Connection
from pgstrata.errors import DriverError, ServerError, UsageError
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.foreign import ForeignCluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.secrets import (
    SECRETS,
    conninfo_without_secrets,
    public,
    spec_without_secrets,
    without_secrets,
    words_without_secrets,
)
from pgstrata.server.find.acquire import acquire, check_spec
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.workload.core.language import Headline, Role, Script, Sql, Step
from support.passwords import CANARY, passwords_only, tcp_url
from support.program import Program, Running, living_in


@pytest.fixture
def cluster(place: Path, pg17: Server) -> Iterator[Cluster]:
    with Cluster(pg17, resolve([], pg17.version_num, 1 << 30), place / "c", tcp=True) as new_cluster:
        new_cluster.create()
        new_cluster.start()
        yield new_cluster


def url_of(cluster: Cluster, *more: str) -> str:
    parameters = [f"host={cluster.socket_dir}", f"port={cluster.port}", "user=postgres", *more]
    return f"postgresql:///postgres?{'&'.join(parameters)}"


def shown_by_driver(connection: Connection, *names: str, folder: Path) -> list[str]:
    """Settings as the driver's session has them."""
    shows = [Sql(f"SHOW {name}", name=name, record=True) for name in names]
    role = Role("q", 1, [Script(*shows)], operations=1)
    step = Step("show", [role], Headline("q", "operations", "queries/s"), seconds=None)
    with Driver(driver_spec(step, connection, 1, "blocking", results_dir=str(folder))) as driver:
        driver.ready()
        driver.start()
        events = [event for event in driver.events() if isinstance(event, StatementDone)]
        driver.close()
    return [(folder / str(event.result)).read_text().strip() for event in events]


# --- what is understood, and what is refused ---------------------------------------------------


@pytest.mark.parametrize(
    ("dsn", "sentence", "hint"),
    [
        ("host=h aplication_name=x", "a connection has no parameter aplication_name", "application_name"),
        ("postgresql://h/d?sslmod=require", "a connection has no parameter sslmod", "sslmode"),
        ("host=h workmem=1", "a connection has no parameter workmem", "those of libpq"),
        ("sslcertmode=require", "and sslcertmode is require", "leave it out"),
        ("sslcrldir=/x", "no folder of revoked certificates", "sslcrl"),
        ("sslcrl=/nowhere", "/nowhere is not there", "leave sslcrl out"),
        ("sslkeylogfile=/x", "leave sslkeylogfile out", ""),
        ("sslkey=pkcs11:x sslmode=require", "the driver reads keys from files only", ""),
        (
            "ssl_min_protocol_version=TLSv1 ssl_max_protocol_version=TLSv1.1",
            "the driver speaks TLSv1.2 and TLSv1.3",
            "",
        ),
        ("sslrootcert=system sslmode=require", "weak sslmode", ""),
        ("gssencmode=require", "the driver speaks no GSSAPI, and gssencmode is require", "tunnel"),
        ("requirepeer=me", "requirepeer", ""),
        ("replication=database", "replication", ""),
        ("client_encoding=LATIN1", "the driver speaks UTF8 only, and client_encoding is LATIN1", ""),
        ("min_protocol_version=3.2", "the driver speaks protocol 3.0", ""),
        ("require_auth=gss,sspi", "require_auth = gss,sspi", "scram-sha-256"),
        ("sslmode=perhaps", "invalid sslmode value", ""),
        ("connect_timeout=soon", "connect_timeout = soon is not a number of seconds", ""),
        ("service=nowhere", 'definition of service "nowhere" not found', ""),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_name(dsn: str, sentence: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_spec(f"dsn:{dsn}")
    assert sentence in caught.value.message
    assert hint in caught.value.hint


def test_a_variable_that_asks_for_too_much_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSSLCERTMODE", "require")
    with pytest.raises(UsageError, match=r"sslcertmode \(PGSSLCERTMODE\) is require"):
        check_spec("dsn:host=h")


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://u:{CANARY}@h/d?nonsense=1",
        f"password=my {CANARY}",
        f"postgresql://u:%zz{CANARY}@h/d",
        f"postgresql://u:a@b?{CANARY}@h/d",
        f"password='{CANARY}",
        f"postgresql://u:{CANARY}%00@h/d",
        f"postgresql://u:{CANARY}@[::1/d",
        f"host=h password={CANARY} sslcertmode=require",
    ],
)
def test_no_complaint_about_a_connection_shows_its_password(dsn: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_spec(f"dsn:{dsn}")
    assert CANARY not in f"{caught.value.message} {caught.value.hint}"
    assert "\n" not in caught.value.message and "  " not in caught.value.message


def test_an_address_without_dsn_in_front_is_refused_without_its_password() -> None:
    with pytest.raises(UsageError) as caught:
        check_spec(f"postgresql://u:{CANARY}@h/d")
    assert CANARY not in caught.value.message
    assert "dsn:" in caught.value.hint


def test_secrets_are_hidden_by_name() -> None:
    for name in SECRETS:
        text = conninfo_without_secrets(f"host=h {name}='my {CANARY}' dbname=d")
        assert CANARY not in text and "host=h" in text and "dbname=d" in text
        assert CANARY not in without_secrets(f"asked for {name}={CANARY}&x=1 and {name} = '{CANARY} y'")
    connection = Connection(host="h", port=1, user="u", database="d", password=CANARY)
    assert CANARY not in f"{connection!r} {document(public(connection))}"
    assert CANARY not in conninfo_without_secrets(f"postgresql://u:{CANARY}@h/d") + conninfo_without_secrets(
        f"nonsense={CANARY}"
    )
    assert spec_without_secrets("pg:17") == "pg:17" and spec_without_secrets("path:/x=y") == "path:/x=y"
    words = [
        "run",
        f"--server=dsn:postgresql://u:{CANARY}@h/d",
        "--server",
        f"dsn:password={CANARY}",
        "a.toml",
    ]
    hidden = words_without_secrets([*words, f"postgresql://u:{CANARY}/@h/d"])
    assert CANARY not in " ".join(hidden)
    assert (hidden[0], hidden[4]) == ("run", "a.toml")


# --- what holds --------------------------------------------------------------------------------


def test_options_hold_in_the_drivers_sessions_as_in_the_administrators(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("work_mem", "application_name", "timezone", "geqo", "datestyle")
    monkeypatch.setenv("PGTZ", "Asia/Tokyo")
    monkeypatch.setenv("PGGEQO", "off")
    url = url_of(cluster, "options=-c%20work_mem%3D6MB", "application_name=mine")
    cases = {"dsn": (url, "6MB", "mine"), "environment": (url_of(cluster), "7MB", "theirs")}
    for number, (dsn, work_mem, application) in enumerate(cases.values()):
        monkeypatch.setenv("PGOPTIONS", "-c work_mem=7MB")
        monkeypatch.setenv("PGAPPNAME", "theirs")
        foreign = ForeignCluster(acquire(f"dsn:{dsn}"))
        with foreign.connect() as session:
            asked = [str(session.execute(f"SHOW {name}".encode()).fetchone()[0]) for name in names]  # type: ignore[index]
        folder = tmp_path / str(number)
        folder.mkdir()
        measured = shown_by_driver(foreign.connection(), *names, folder=folder)
        assert measured == asked
        assert measured[:4] == [work_mem, application, "Asia/Tokyo", "off"]


def test_a_session_of_an_own_server_is_as_the_environment_says_but_never_elsewhere(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "PGHOST": "nowhere.invalid",
        "PGHOSTADDR": "192.0.2.1",
        "PGPORT": "1",
        "PGUSER": "nobody",
        "PGDATABASE": "none",
        "PGSSLMODE": "require",
        "PGREQUIREAUTH": "scram-sha-256",
        "PGCLIENTENCODING": "LATIN1",
        "PGTARGETSESSIONATTRS": "standby",
        "PGOPTIONS": "-c work_mem=7MB",
    }.items():
        monkeypatch.setenv(name, value)
    with cluster.connect() as session:
        row = session.execute(
            "SELECT current_setting('work_mem'), current_user, current_database()"
        ).fetchone()
    assert row == ("7MB", "postgres", "postgres")
    for tcp in (False, True):
        folder = tmp_path / str(tcp)
        folder.mkdir()
        assert shown_by_driver(cluster.connection("postgres", tcp), "work_mem", folder=folder) == ["7MB"]


def test_services_password_files_and_several_hosts_lead_the_driver_where_libpq_went(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services, passwords = tmp_path / "services", tmp_path / "passwords"
    services.write_text(
        f"[mine]\nhost=/nowhere,{cluster.socket_dir}\nport={cluster.port}\nuser=postgres\ndbname=postgres\n"
        "options=-c work_mem=5MB\ntarget_session_attrs=read-write\n"
    )
    passwords.write_text(f"*:*:*:postgres:{CANARY}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    conninfo = Conninfo.parse(f"service=mine passfile={passwords}")
    connection = conninfo.for_driver()
    assert connection.host == str(cluster.socket_dir)
    assert connection.options == "-c work_mem=5MB"
    assert shown_by_driver(connection, "work_mem", folder=tmp_path) == ["5MB"]
    assert CANARY not in repr(conninfo) + str(document(public(connection)))


def test_passwords_go_out_only_in_the_ways_that_are_allowed(cluster: Cluster, tmp_path: Path) -> None:
    ways = {"scram-sha-256": "scram-sha-256", "md5": "md5", "password": "password"}
    for way in ways:
        passwords_only(cluster, way)
        connection = Conninfo.parse(tcp_url(cluster)).for_driver()
        folder = tmp_path / way
        folder.mkdir()
        # The server has no TLS: libpq, too, would have answered in the clear.
        assert shown_by_driver(connection, "work_mem", folder=folder) == ["4MB"]
        connection = structs.replace(connection, auth=None)
        if way == "scram-sha-256":
            assert shown_by_driver(connection, "work_mem", folder=folder)
        else:
            with pytest.raises(DriverError, match="the server asks for the password") as caught:
                shown_by_driver(connection, "work_mem", folder=folder)
            assert CANARY not in f"{caught.value} {caught.value.hint} {caught.value.server_message}"
            with pytest.raises(ServerError):
                Conninfo.parse(tcp_url(cluster, "require_auth=scram-sha-256")).for_driver()
    assert Conninfo.parse(url_of(cluster, "require_auth=none")).for_driver().auth == ["none"]
    assert Conninfo.parse(url_of(cluster, "require_auth=!password")).for_driver().auth == [
        "none",
        "md5",
        "scram-sha-256",
    ]


# --- nobody sees the password -------------------------------------------------------------------


def seen_in_processes(folder: Path) -> list[str]:
    """Command lines with the canary of processes that live in the folder."""
    lines = []
    for process in living_in(folder):
        with contextlib.suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return [line for line in lines if CANARY in line]


def test_no_output_run_report_or_command_line_shows_a_password(
    place: Path, pgstrata: Program, cluster: Cluster
) -> None:
    passwords_only(cluster, "scram-sha-256")
    dsn = f"{tcp_url(cluster)}?sslpassword={CANARY}&application_name=mine"
    file = place / "campaign.toml"
    file.write_text(
        f'servers = ["dsn:{dsn}"]\n[[workloads]]\nname = "pgbench"\n'
        'options = { scale = 1, seconds = 2, clients = 2, builtin = "select-only" }\n'
    )
    running = Running(place, ["run", str(file)])
    lines: list[str] = []
    while running.process.poll() is None:
        lines += seen_in_processes(place)
        time.sleep(0.05)
    assert running.end() == 0, running.printed
    assert not lines
    outputs = [running.printed]
    for command in (
        ["runs"],
        ["show", "1"],
        ["query", "select * from runs"],
        ["query", "select * from steps"],
    ):
        done = pgstrata(*command)
        outputs.append(done.stdout + done.stderr)

    (run,) = Results(place / "results").runs()
    assert run.record.server.spec.startswith("dsn:")
    kept = [path for path in place.rglob("*") if path.is_file() and not path.is_relative_to(place / "c")]
    assert any(path.suffix == ".html" for path in kept)
    for path in kept:
        if path != file:
            assert CANARY.encode() not in path.read_bytes(), path
    assert CANARY not in "".join(outputs)


def test_no_mistake_shows_a_password(place: Path, pgstrata: Program) -> None:
    url = f"postgresql://u:{CANARY}@h/d"
    for arguments in (
        ["bench", f"{url}?aplication_name=x"],
        ["bench", f"{url}?sslcertmode=require"],
        ["bench", "a", url],
        ["bench", f"host=h password={CANARY} x=1"],
        ["bench", f"host=h password=my {CANARY}"],
        ["run", "--server", url],
        ["run", "--server", f"dsn:{url}?aplication_name=x"],
        ["run", "--server", f"dsn:{url}", "--server", f"dsn:{url}?sslcertmode=require"],
        ["servers", "fetch", url],
    ):
        done = pgstrata(*arguments, PGSTRATA_TRACE="1")
        assert done.returncode == 2, done.stderr
        assert CANARY not in done.stdout + done.stderr
    done = pgstrata("run", f"dsn:{url}", PGSTRATA_TRACE="1")
    assert done.returncode == 1, "no server is there"
    assert CANARY not in done.stdout + done.stderr


def test_the_command_to_go_on_with_hides_the_password(place: Path, cluster: Cluster) -> None:
    passwords_only(cluster, "scram-sha-256")
    running = Running(
        place,
        ["run", "--server", f"dsn:{tcp_url(cluster)}", "--workload", "pgbench", "--set", "seconds=60"],
    )
    running.wait_for(lambda: running.child("pgstrata-driver"))
    running.process.send_signal(signal.SIGINT)
    assert running.end() == 130
    assert "by the same command: pgstrata run" in running.printed
    assert CANARY not in running.printed and "password=***" in running.printed


# --- Ctrl-C -------------------------------------------------------------------------------------


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_a_bench_while_a_query_sleeps(
    place: Path, cluster: Cluster, signum: signal.Signals
) -> None:
    (place / "s.sql").write_text("SELECT pg_sleep(3600);\n")
    running = Running(place, ["bench", "-f", "s.sql", "-c", "2", "-T", "1", url_of(cluster)])

    def sleeping() -> int:
        with cluster.connect() as session:
            query = (
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(%'"
            )
            row = session.execute(query + " AND pid <> pg_backend_pid()").fetchone()
            return int(row[0]) if row else 0

    running.wait_for(lambda: sleeping() == 2)
    running.process.send_signal(signum)
    assert running.process.wait(60) == 128 + signum
    assert "number of transactions actually processed: 0" in running.printed
    until = time.monotonic() + 30
    while sleeping():
        assert time.monotonic() < until, "the queries run on in the server"
        time.sleep(0.1)


def test_the_first_signal_ends_a_bench_that_waits_for_the_administrators_session(
    place: Path, cluster: Cluster
) -> None:
    with cluster.connect() as session:
        session.execute("CREATE TABLE pgbench_branches (bid int)")
        with session.transaction():
            session.execute("LOCK TABLE pgbench_branches IN ACCESS EXCLUSIVE MODE")
            running = Running(place, ["bench", "-S", "-T", "1", url_of(cluster, "connect_timeout=600")])

            def waiting() -> bool:
                row = session.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
                return bool(row and row[0])

            running.wait_for(waiting)
            running.process.send_signal(signal.SIGINT)
            assert running.process.wait(60) == 130
            assert "nothing was measured" in running.printed and "Traceback" not in running.printed


@pytest.mark.program
def test_the_first_signal_ends_a_bench_that_connects(place: Path) -> None:
    from support.hostile import START, Hostile

    with Hostile(place, START["silent"]) as server:
        url = server.url.replace("connect_timeout=2", "connect_timeout=600")
        running = Running(place, ["bench", "-S", "-T", "1", url])
        running.wait_for(lambda: psutil.Process(running.process.pid).net_connections())
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 143
        assert "nothing was measured" in running.printed
