"""What goes through the proxy arrives as it was, and is in the recording, with real servers and clients."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import ConfigFile, resolve
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.traffic.account import CANCELED, PASSWORDS, ROWS_OF_COPY
from pgstrata.traffic.captured import EXTENDED, PREPARED, SIMPLE, Captured
from pgstrata.traffic.mask import Mask
from pgstrata.traffic.record.convert import convert
from pgstrata.traffic.record.segments import Asked, Damage, events
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step
from support.passwords import CANARY, passwords_only
from support.steps import CONF, run_step, running
from support.tls import Authority, speak_tls
from support.wire import recording

pytestmark = pytest.mark.server


def replay_step(file: Path) -> Step:
    workload = catalog.find("replay")
    options = {"file": str(file), "database": "postgres", "speed": 0}
    step = workload.phases(workload.Options.model_validate(options), NEWEST)[-1]
    assert isinstance(step, Step)
    return step


@contextmanager
def tcp(server: Server, place: Path) -> Iterator[Cluster]:
    """A server that listens on 127.0.0.1, made and not started."""
    config = resolve([ConfigFile("test", CONF, None)], server.version_num, 1 << 30)
    with Cluster(server, config, place / "c", tcp=True) as cluster:
        cluster.create()
        yield cluster


def asked(folder: Path) -> list[Asked]:
    return [event for event in events(folder, Damage(), lambda more: None) if isinstance(event, Asked)]


def test_statements_of_every_protocol(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster) as proxy:
        with proxy.connect(options="-c work_mem=5MB -c search_path=public,pg_catalog") as c:
            assert c.execute("SHOW work_mem").fetchone() == ("5MB",)
            c.execute("CREATE TEMP TABLE t (a int PRIMARY KEY, b text)")
            for n in range(3):
                c.execute("INSERT INTO t VALUES (%s, %s)", (n, f"it's ü\n{n}"), prepare=True)
            c.execute("SELECT * FROM t WHERE a = %b", (2,), binary=True)
            c.execute("SELECT b FROM t WHERE b = %s", ("nobody",), prepare=False)
            with pytest.raises(psycopg.errors.UniqueViolation):
                c.execute("INSERT INTO t VALUES (%s, NULL)", (1,))
            with c.pipeline():
                c.execute("UPDATE t SET b = %s", (None,))
                c.execute("SELECT count(*) FROM t")
            with c.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
                copy.write_row((100, "copied"))
            with c.cursor() as cursor, cursor.copy("COPY t TO STDOUT") as copy:
                assert len(list(copy)) == 4
            with c.transaction():
                for row in c.cursor().stream("SELECT generate_series(1, 3)"):
                    assert row
        with psycopg.connect(proxy.url(), client_encoding="latin1") as c:
            c.execute("SELECT 'ä', %s", ("ö",))
        assert proxy.end() == 0
        header, statements = proxy.captured()
    texts = [statement.text for statement in statements]
    assert texts[:2] == [
        "SELECT set_config('work_mem', '5MB', false)",
        "SELECT set_config('search_path', 'public,pg_catalog', false)",
    ]
    inserts = [statement for statement in statements if statement.text == "INSERT INTO t VALUES ($1, $2)"]
    assert [insert.protocol for insert in inserts] == [PREPARED] * 3
    assert [insert.parameters for insert in inserts] == [(str(n), f"it's ü\n{n}") for n in range(3)]
    failed = [statement for statement in statements if statement.sqlstate]
    assert [(statement.sqlstate, statement.parameters) for statement in failed] == [("23505", ("1",))]
    assert ("2",) in [
        statement.parameters for statement in statements if statement.text == "SELECT * FROM t WHERE a = $1"
    ]
    assert any(
        statement.parameters == (None,) for statement in statements if statement.text.startswith("UPDATE")
    )
    assert any(
        statement.text == "SELECT 'ä', $1" and statement.parameters == ("ö",) for statement in statements
    )
    assert any(
        statement.text == "COPY t TO STDOUT" and statement.protocol in (SIMPLE, EXTENDED)
        for statement in statements
    )
    assert [part.count for part in header.left_out if part.why == ROWS_OF_COPY] == [1]
    assert header.sessions == 2 and header.balance is not None and not header.balance.difference
    assert all(statement.duration is not None and statement.duration < 60e6 for statement in statements)


def test_answers_have_a_digest_of_their_rows(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster) as proxy:
        with proxy.connect() as c:
            for last in (3, 3, 4):
                c.execute("SELECT a, a::text FROM generate_series(1, %s) a", (last,))
            c.execute("BEGIN")
        proxy.end()
        first, again, other, begin, _ = asked(proxy.folder)
    assert (first.rows, again.rows, other.rows) == (3, 3, 4)
    assert first.digest == again.digest != other.digest and begin.digest is None


def test_all_of_pgbench_is_recorded(pg17: Server, place: Path) -> None:
    """Every statement that the server has counted is in the captured file."""
    program = shutil.which("pgbench")
    if program is None:
        pytest.skip("there is no pgbench")
    with running(pg17) as cluster, cluster.connect() as admin:
        admin.execute("CREATE DATABASE bench")
        target = ["-h", str(cluster.socket_dir), "-p", str(cluster.port), "-U", "postgres", "bench"]
        subprocess.run([program, "-i", "-q", *target], check=True, capture_output=True)
        admin.execute("CREATE EXTENSION pg_stat_statements")
        admin.execute("SELECT pg_stat_statements_reset()")
        with recording(place, cluster) as proxy:
            through = ["-h", "127.0.0.1", "-p", str(proxy.port), "-U", "postgres", "bench"]
            for mode in ("simple", "extended", "prepared"):
                command = [program, "-n", "-M", mode, "-c", "4", "-t", "25", *through]
                done = subprocess.run(command, capture_output=True, text=True)
                assert done.returncode == 0 and "100/100" in done.stdout, done.stderr
            assert proxy.end() == 0
            header, statements = proxy.captured()
        # A prepared utility statement is counted at its first execution only.
        counted = admin.execute(
            "SELECT sum(calls) FROM pg_stat_statements JOIN pg_database d ON d.oid = dbid "
            "WHERE datname = 'bench' AND query NOT IN ('BEGIN', 'END')"
        ).fetchone()
        queries = [statement for statement in statements if statement.text.strip(";") not in ("BEGIN", "END")]
        assert counted is not None and len(queries) == counted[0]
        assert header.statements == len(statements) == len(queries) + 600
        assert header.errors == 0
        assert {statement.protocol for statement in statements} == {SIMPLE, EXTENDED, PREPARED}


def test_a_replay_does_what_was_recorded(cluster: Cluster, pg17: Server, place: Path) -> None:
    rows = "SELECT a, b FROM kept ORDER BY a"
    with running(pg17) as own_cluster, own_cluster.connect() as admin:
        admin.execute("CREATE TABLE kept (a int PRIMARY KEY, b text)")
        with recording(place, own_cluster) as proxy:
            with proxy.connect() as c:
                for n in range(50):
                    c.execute("INSERT INTO kept VALUES (%b, %s)", (n, f"row {n}"))
                    with c.transaction():
                        c.execute("UPDATE kept SET b = b || %s WHERE a = %s", ("!", n))
            proxy.end()
            proxy.captured()
        left = admin.execute(rows).fetchall()
        assert len(left) == 50
        admin.execute("TRUNCATE kept")
        outcome = run_step(own_cluster, "postgres", replay_step(place / "traffic"))
        assert admin.execute(rows).fetchall() == left
    (role,) = outcome.done["roles"]
    assert role["outcomes"].get("other_failures", 0) == 0


def test_masked(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster) as proxy:
        with proxy.connect() as c:
            c.execute("SELECT 'secret words', %s", ("more of them",))
        proxy.end()
        convert(proxy.folder, place / "masked", mask=Mask())
    with Captured(place / "masked") as captured:
        assert captured.header.masked
        (entry,) = captured.sessions()
        (statement,) = captured.statements(entry)
    assert "secret" not in statement.text and "more" not in str(statement.parameters)


def test_passwords_are_in_no_file(cluster: Cluster, place: Path) -> None:
    with running(cluster.server, "") as own_cluster:
        passwords_only(own_cluster, "scram-sha-256")
        with recording(place, own_cluster) as proxy:
            with own_cluster.connect() as admin:
                admin.execute("SELECT pg_reload_conf()")
            with proxy.connect() as c:
                c.execute(f"ALTER ROLE canary PASSWORD '{CANARY}'".encode())
                c.execute("SELECT 1")
            proxy.end()
            header, _ = proxy.captured()
    assert [part.count for part in header.left_out if part.why == PASSWORDS] == [1]
    for file in proxy.folder.iterdir():
        assert CANARY.encode() not in file.read_bytes()
        assert file.stat().st_mode & 0o777 == 0o600
    assert proxy.folder.stat().st_mode & 0o777 == 0o700


def test_requests_to_cancel_are_passed_on(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster) as proxy, proxy.connect() as c:
        timer = threading.Timer(0.5, c.cancel_safe)
        timer.start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            c.execute("SELECT pg_sleep(60)")
        timer.join()
        c.execute("SELECT 1")
        proxy.end()
        header, (statement,) = proxy.captured()
    (canceled,) = header.left_out
    assert (canceled.why, canceled.count, canceled.example) == (CANCELED, 1, "SELECT pg_sleep(60)")
    assert 0.3 < canceled.seconds < 50 and statement.text == "SELECT 1"


def test_tls_on_both_sides_and_scram(pg17: Server, place: Path, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    of_server = authority.sign("server", "DNS:localhost,IP:127.0.0.1")
    of_proxy = authority.sign("proxy", "DNS:localhost,IP:127.0.0.1", file="proxy")
    for file in (of_proxy.certificate, of_proxy.key):
        shutil.copyfile(file, place / file.name)
    with tcp(pg17, place) as cluster:
        speak_tls(cluster, of_server, authority.certificate, "hostssl all all 127.0.0.1/32 scram-sha-256")
        cluster.start()
        with cluster.connect() as admin:
            admin.execute("SET password_encryption = 'scram-sha-256'")
            admin.execute(f"CREATE ROLE canary LOGIN PASSWORD '{CANARY}'".encode())
        to = f"host=127.0.0.1 port={cluster.port} sslmode=verify-full sslrootcert={authority.certificate}"
        own_tls = ("--certificate", str(place / "proxy.crt"), "--key", str(place / "proxy.key"))
        with recording(place, cluster, *own_tls, to=to) as proxy:
            url = proxy.url(user="canary", password=CANARY, sslrootcert=authority.certificate)
            with psycopg.connect(f"{url} sslmode=verify-full channel_binding=disable") as c:
                assert c.pgconn.ssl_in_use
                row = c.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
                assert row == (True,)
                for size in (1, 20_000_000):
                    answer = c.execute("SELECT repeat('x', %s)", (size,)).fetchone()
                    assert answer is not None and len(answer[0]) == size
                    assert c.execute("SELECT length(%s)", ("y" * size,)).fetchone() == (size,)
            with psycopg.connect(f"{url} sslmode=disable") as c:
                c.execute("SELECT 1")
            # The proxy stands between: a client that binds its password to TLS is right to refuse that.
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(f"{url} sslmode=verify-full channel_binding=require")
            proxy.end()
            header, _ = proxy.captured()
    # Of the first session BEGIN, COMMIT and what came between, but for a long value; of the second three.
    assert header.statements == 6 + 3


def test_a_server_that_refuses_tls(pg17: Server, place: Path) -> None:
    with tcp(pg17, place) as cluster:
        cluster.start()
        to = f"postgresql://127.0.0.1:{cluster.port}/?sslmode=require"
        with recording(place, cluster, to=to) as proxy:
            with pytest.raises(psycopg.OperationalError, match="has no TLS"):
                proxy.connect()
            assert "has no TLS" in proxy.running.printed
        shutil.rmtree(proxy.folder)
        with recording(place, cluster, to=to.replace("require", "prefer")) as proxy, proxy.connect() as c:
            assert c.execute("SELECT 1").fetchone() == (1,)
