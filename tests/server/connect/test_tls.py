"""TLS: the driver's sessions are encrypted as libpq's are, on both engines, and a server that libpq would not
believe is not believed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import json, structs

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Done, Failure
from pgstrata.driver.spec import Connection, EngineChoice, TlsMode, TlsSpec
from pgstrata.errors import DriverError, ServerError, UsageError
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.connect.conninfo import Conninfo
from pgstrata.server.connect.secrets import public
from pgstrata.server.find.model import Server
from pgstrata.workload.core.language import Headline, Role, Script, Sql, Step
from support.program import Program
from support.tls import PAST, Authority, Signed, encrypted_key, give_certificate, own_authority, speak_tls

CANARY = "c4naryPa55"
HBA = "hostssl all certified all cert\nhostssl all canary all scram-sha-256\nhost all open all scram-sha-256"
ENGINES: list[EngineChoice] = ["blocking", "io_uring"]


@dataclass
class Secured:
    """A server with TLS, and the authority that has signed its certificate."""

    cluster: Cluster
    authority: Authority
    good: Signed
    home: Path
    changed: bool = False

    def url(self, *more: str, host: str = "localhost", user: str = "canary") -> str:
        return (
            f"host={host} port={self.cluster.port} user={user} password={CANARY} dbname=postgres "
            + " ".join(more)
        )

    def show(self, signed: Signed) -> None:
        """The server has another certificate from now on."""
        give_certificate(self.cluster, signed)
        self.reload()

    def reload(self, setting: str = "") -> None:
        self.changed = True
        with self.cluster.connect() as session:
            if setting:
                session.execute(setting.encode())
            session.execute("SELECT pg_reload_conf()")
        time.sleep(0.3)


@pytest.fixture(scope="module")
def module_place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="pgs", dir="/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def running(module_place: Path, pg17: Server) -> Iterator[Secured]:
    authority = Authority(module_place)
    good = authority.sign("localhost", "DNS:localhost,IP:127.0.0.1,IP:::1")
    with Cluster(pg17, resolve([], pg17.version_num, 1 << 30), module_place / "c", tcp=True) as cluster:
        cluster.create()
        speak_tls(cluster, good, authority.certificate, HBA)
        cluster.start()
        with cluster.connect() as session:
            for role in ("canary", "open", "certified"):
                session.execute(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD '{CANARY}'".encode())
        yield Secured(cluster, authority, good, module_place)


@pytest.fixture
def server(running: Secured, monkeypatch: pytest.MonkeyPatch) -> Iterator[Secured]:
    """The running server as it was at first, and a home without certificates."""
    monkeypatch.setenv("HOME", str(running.home))
    yield running
    if running.changed:
        give_certificate(running.cluster, running.good)
        running.reload("ALTER SYSTEM RESET ALL")
        running.changed = False


ROWS = "SELECT repeat('x', 3000), i FROM generate_series(1, 40) AS i"


def measured(connection: Connection, engine: EngineChoice, clients: int = 3) -> Done:
    """A step of short statements, rows of many records, and a statement of 60 kB."""
    statements = [
        Sql("SELECT ssl::text, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()", name="tls"),
        Sql(ROWS, name="rows"),
        Sql(f"SELECT length('{'y' * 60_000}')", name="long"),
    ]
    role = Role("q", clients, [Script(*statements)], operations=20)
    step = Step("show", [role], Headline("q", "operations", "queries/s"), seconds=None)
    with Driver(driver_spec(step, connection, 1, engine)) as driver:
        assert driver.ready().engine == engine
        driver.start()
        done = [event for event in driver.events() if isinstance(event, Done)]
        driver.close()
    return done[0]


def encrypted(server: Secured, connection: Connection, engine: EngineChoice) -> str:
    """The version of TLS that the driver's sessions have, as the server says; empty without."""
    query = "SELECT CASE WHEN ssl THEN version ELSE '' END FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
    with server.cluster.connect() as session:
        session.execute("DROP TABLE IF EXISTS seen; CREATE TABLE seen (version text)")
    role = Role("q", 2, [Script(Sql(f"INSERT INTO seen {query}", name="see"))], operations=1)
    step = Step("show", [role], Headline("q", "operations", "queries/s"), seconds=None)
    with Driver(driver_spec(step, connection, 1, engine)) as driver:
        driver.ready()
        driver.start()
        list(driver.events())
        driver.close()
    with server.cluster.connect() as session:
        row = session.execute("SELECT DISTINCT version FROM seen").fetchall()
    return " ".join(str(version) for (version,) in row)


# --- every mode, both engines -------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("mode", "user", "version"),
    [
        ("disable", "open", ""),
        ("allow", "open", ""),
        ("allow", "canary", "TLSv1.3"),
        ("prefer", "canary", "TLSv1.3"),
        ("require", "canary", "TLSv1.3"),
        ("verify-ca", "canary", "TLSv1.3"),
        ("verify-full", "canary", "TLSv1.3"),
        ("verify-full ssl_max_protocol_version=TLSv1.2", "canary", "TLSv1.2"),
        ("verify-full sslnegotiation=direct", "canary", "TLSv1.3"),
        ("require channel_binding=require", "canary", "TLSv1.3"),
        ("require channel_binding=disable", "canary", "TLSv1.3"),
    ],
)
def test_the_driver_is_encrypted_as_libpq_is(
    server: Secured, engine: EngineChoice, mode: str, user: str, version: str
) -> None:
    roots = f" sslrootcert={server.authority.certificate}" if "verify" in mode else ""
    conninfo = Conninfo.parse(server.url(f"sslmode={mode}{roots}", user=user))
    with conninfo.connect() as session:
        assert session.pgconn.ssl_in_use == bool(version)
    assert encrypted(server, conninfo.for_driver(), engine) == version


@pytest.mark.parametrize("engine", ENGINES)
def test_long_rows_and_statements_cross_tls_whole(server: Secured, engine: EngineChoice) -> None:
    plain = measured(Conninfo.parse(server.url("sslmode=disable", user="open")).for_driver(), engine)
    secure = measured(Conninfo.parse(server.url("sslmode=require")).for_driver(), engine)
    for done in (plain, secure):
        (role,) = done.roles
        assert role.operations == 60 and not role.errors
        assert [(s.count, s.rows) for s in role.statements_by_name] == [(60, 60), (60, 60 * 40), (60, 60)]
        assert all(s.seconds_total > 0 for s in role.statements_by_name)


# --- who is believed ----------------------------------------------------------------------------


def is_encrypted(connection: Connection) -> None:
    measured(connection, "blocking", clients=1)


@pytest.mark.parametrize(
    ("name", "alternative", "host", "extensions"),
    [
        ("anything", "DNS:*.example.com,DNS:localhost", "localhost", True),
        ("localhost", "", "localhost", True),  # the name in the subject only
        (
            "localhost",
            "",
            "localhost",
            False,
        ),  # as PostgreSQL's documentation makes it: version 1
        ("127.0.0.1", "", "127.0.0.1", True),
        ("anything", "IP:127.0.0.1", "127.0.0.1", True),
        ("localhost", "DNS:db.example.com", "localhost", None),
        ("localhost", "IP:127.0.0.1", "localhost", True),  # only names hide the name in the subject
        ("127.0.0.1", "IP:127.0.0.2", "127.0.0.1", None),
    ],
)
def test_a_certificate_is_for_whom_libpq_says(
    server: Secured, name: str, alternative: str, host: str, extensions: bool | None
) -> None:
    good = Conninfo.parse(
        server.url("sslmode=verify-full", f"sslrootcert={server.authority.certificate}", host=host)
    )
    connection = good.for_driver()
    server.show(server.authority.sign(name, alternative, extensions=extensions is not False, file="tried"))
    if extensions is not None:
        good.connect().close()
        is_encrypted(connection)
        return
    with pytest.raises(ServerError, match=f"its certificate is for .*, not for {host}"):
        good.connect()
    with pytest.raises(DriverError, match=f"is not believed: its certificate is for .*, not for {host}"):
        is_encrypted(connection)
    assert connection.tls
    is_encrypted(structs.replace(connection, tls=structs.replace(connection.tls, mode="verify-ca")))


def test_a_certificate_that_is_its_own_authority_is_believed_by_who_has_it(server: Secured) -> None:
    authority, other = own_authority(server.home, "localhost"), own_authority(server.home, "localhost2")
    server.show(authority)
    conninfo = Conninfo.parse(server.url("sslmode=verify-full", f"sslrootcert={authority.certificate}"))
    connection = conninfo.for_driver()
    is_encrypted(connection)
    assert connection.tls
    tls = structs.replace(connection.tls, root_certificates=str(other.certificate))
    with pytest.raises(DriverError, match="is not believed"):
        is_encrypted(structs.replace(connection, tls=tls))


def refused_by_both(server: Secured, connection: Connection, *more: str) -> tuple[ServerError, DriverError]:
    """What the administrator's session says, and what the driver says."""
    with pytest.raises(ServerError) as by_libpq:
        Conninfo.parse(server.url(*more)).connect()
    with pytest.raises(DriverError) as by_driver:
        is_encrypted(connection)
    for error in (by_libpq.value, by_driver.value):
        assert "\n" not in error.message and error.hint and CANARY not in f"{error.message} {error.hint}"
    return by_libpq.value, by_driver.value


def test_a_certificate_that_is_not_good_is_told_with_the_reason(server: Secured) -> None:
    authority = server.authority
    full = ("sslmode=verify-full", f"sslrootcert={authority.certificate}")
    connection = Conninfo.parse(server.url(*full)).for_driver()
    assert connection.tls

    server.show(authority.sign("localhost", "DNS:localhost", PAST, file="expired"))
    libpq, driver = refused_by_both(server, connection, *full)
    assert "its certificate has expired" in libpq.message and "new one" in libpq.hint
    assert "its certificate was valid until Jan  1" in driver.message and "new one" in driver.hint
    assert f":{server.cluster.port}" in libpq.message and f":{server.cluster.port}" in driver.message

    # The first version, of another authority with the same name: only its signature tells.
    (server.home / "elsewhere").mkdir(exist_ok=True)
    stranger = Authority(server.home / "elsewhere", "ca")
    for extensions in (True, False):
        server.show(stranger.sign("localhost", extensions=extensions))
        libpq, driver = refused_by_both(server, connection, *full)
        assert "is not signed by an authority of sslrootcert" in libpq.message
        assert "its certificate is signed by CN=ca" in driver.message and "sslrootcert" in driver.hint
    other = Authority(server.home / "elsewhere", "other")
    server.show(other.sign("localhost", "DNS:localhost"))
    modes: list[TlsMode] = ["verify-ca", "verify-full"]
    for mode in modes:
        strict = structs.replace(connection, tls=structs.replace(connection.tls, mode=mode))
        libpq, driver = refused_by_both(server, strict, f"sslmode={mode}", full[1])
        assert "is not signed by an authority of sslrootcert" in libpq.message
        assert "its certificate is signed by CN=other" in driver.message and "sslrootcert" in driver.hint

    # Under `require` a file with authorities counts, too: libpq asks it where it is there.
    home = server.home / ".postgresql"
    home.mkdir(exist_ok=True)
    (home / "root.crt").write_bytes(authority.certificate.read_bytes())
    try:
        refused_by_both(server, connection, "sslmode=require")
        server.show(server.good)
        implied = Conninfo.parse(server.url("sslmode=require")).for_driver().tls
        assert implied and implied.mode == "verify-ca"
    finally:
        (home / "root.crt").unlink()

    revoked = authority.sign("localhost", "DNS:localhost", file="revoked")
    listed = authority.revoked()
    server.show(revoked)
    with_list = (*full, f"sslcrl={listed}")
    connection = Conninfo.parse(server.url(*with_list)).for_driver()
    is_encrypted(connection)
    authority.revoke(revoked)
    libpq, driver = refused_by_both(server, connection, *with_list)
    assert "its certificate has been revoked" in libpq.message
    assert "its certificate has been revoked" in driver.message


def test_a_server_without_tls_is_refused_where_tls_is_required(server: Secured) -> None:
    connection = Conninfo.parse(server.url("sslmode=require", user="open")).for_driver()
    server.reload("ALTER SYSTEM SET ssl = off")
    libpq, driver = refused_by_both(server, connection, "sslmode=require")
    assert "it has no TLS, and sslmode is require" in libpq.message and "ssl = on" in libpq.hint
    assert "it has no TLS" in driver.message and "ssl = on" in driver.hint
    prefer = Conninfo.parse(server.url("sslmode=prefer", user="open"))
    assert prefer.for_driver().tls is None
    is_encrypted(prefer.for_driver())


# --- the client's own certificate ---------------------------------------------------------------


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("extensions", [True, False])
def test_a_certificate_of_the_clients_lets_it_in(server: Secured, version: str, extensions: bool) -> None:
    credentials = server.authority.sign("certified", extensions=extensions, file="client")
    asked = server.url(
        "sslmode=require", f"sslcert={credentials.certificate}", f"sslkey={credentials.key}",
        f"ssl_max_protocol_version={version}", user="certified",
    )  # fmt: skip
    connection = Conninfo.parse(asked).for_driver()
    assert encrypted(server, connection, "io_uring") == version
    assert connection.tls
    without = structs.replace(connection, tls=structs.replace(connection.tls, certificate=None))
    with pytest.raises(DriverError, match="requires a valid client certificate"):
        is_encrypted(without)


def test_a_key_that_cannot_be_used_is_named(server: Secured) -> None:
    credentials = server.authority.sign("certified", file="key")
    certificate = f"sslcert={credentials.certificate}"

    def refused(*more: str) -> UsageError:
        with pytest.raises(UsageError) as caught:
            Conninfo.parse(server.url("sslmode=require", *more, user="certified")).connect()
        assert "\n" not in caught.value.message
        return caught.value

    credentials.key.chmod(0o644)
    error = refused(certificate, f"sslkey={credentials.key}")
    assert (
        f"others may read the key {credentials.key}" in error.message
        and error.hint == f"chmod 600 {credentials.key}"
    )
    error = refused(certificate, f"sslkey={server.home}/nowhere")
    assert "its key" in error.message and "sslkey" in error.hint
    error = refused(certificate, f"sslkey={server.good.key}")
    assert "cannot be used" in error.message and "belong together" in error.hint
    locked = server.home / "locked.key"
    locked.write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    error = refused(certificate, f"sslkey={locked}")
    assert "is encrypted, and no password was given" in error.message and "sslpassword" in error.hint
    error = refused("sslmode=verify-full", f"sslrootcert={server.home}/nowhere")
    assert "sslmode=verify-full needs the certificate of the authority" in error.message


@pytest.mark.parametrize(
    "how",
    [
        "pkcs8 -topk8 -v2 aes256",
        "pkcs8 -topk8 -scrypt",
        "pkcs8 -topk8 -v2 aes-128-cbc -v2prf hmacWithSHA1",
    ],
)
def test_an_encrypted_key_is_read_with_its_password_which_nobody_else_sees(server: Secured, how: str) -> None:
    credentials = server.authority.sign("certified", file="locked")
    locked = encrypted_key(credentials.key, CANARY, *how.split())
    words = ["sslmode=require", f"sslcert={credentials.certificate}", f"sslkey={locked}"]
    own_password = f"sslpassword={CANARY}"
    description = Conninfo.parse(server.url(*words, own_password, user="certified"))
    connection = description.for_driver()
    assert connection.tls and connection.tls.key_password == CANARY
    is_encrypted(connection)
    assert CANARY not in f"{connection!r} {connection.tls!r} {json.encode(public(connection)).decode()}"
    wrong = structs.replace(connection.tls, key_password="another")
    with pytest.raises(DriverError, match="cannot be decrypted") as refusal:
        is_encrypted(structs.replace(connection, tls=wrong))
    assert "another" not in refusal.value.message
    without = structs.replace(connection.tls, key_password=None)
    with pytest.raises(DriverError, match="is encrypted, and there is no `key_password`"):
        is_encrypted(structs.replace(connection, tls=without))
    with pytest.raises(UsageError, match=r"password (of the key .* )?is wrong") as caught:
        Conninfo.parse(server.url(*words, "sslpassword=another", user="certified")).connect()
    assert "\n" not in caught.value.message and "sslpassword" in caught.value.hint


@pytest.mark.parametrize("how", ["ec -aes256", "ec -des3", "rsa -traditional -aes256"])
def test_a_key_in_the_legacy_format_is_refused_with_the_command_that_converts_it(
    server: Secured, how: str
) -> None:
    credentials = server.authority.sign("certified", file="legacy", rsa=how.startswith("rsa"))
    locked = encrypted_key(credentials.key, CANARY, *how.split())
    words = ["sslmode=require", f"sslcert={credentials.certificate}", f"sslpassword={CANARY}"]
    for more in (words, words[:2]):
        with pytest.raises(UsageError, match="legacy format of PEM") as caught:
            Conninfo.parse(server.url(*more, f"sslkey={locked}", user="certified")).connect()
        command, _, then = caught.value.hint.partition(" writes it")
        assert "\n" not in caught.value.message and then.endswith("sslkey=FILE")
    # The driver says the same to whoever asks it without pgstrata.
    good = server.url(*words[:2], f"sslkey={credentials.key}", user="certified")
    connection = Conninfo.parse(good).for_driver()
    assert connection.tls is not None
    legacy = structs.replace(connection.tls, key=str(locked), key_password=CANARY)
    with pytest.raises(DriverError, match="legacy format of PEM") as refusal:
        is_encrypted(structs.replace(connection, tls=legacy))
    assert f"openssl pkcs8 -topk8 -v2 aes256 -in {locked} -out FILE" in refusal.value.hint
    # The command does what it promises.
    converted = locked.with_suffix(".pkcs8")
    told_command = command.replace("FILE", str(converted)).split()
    password = ["-passin", f"pass:{CANARY}", "-passout", f"pass:{CANARY}"]
    subprocess.run([*told_command, *password], check=True, capture_output=True)
    converted.chmod(0o600)
    is_encrypted(Conninfo.parse(server.url(*words, f"sslkey={converted}", user="certified")).for_driver())


def test_the_password_of_a_key_comes_from_a_service_file_and_goes_nowhere(
    server: Secured, pgstrata: Program, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    credentials = server.authority.sign("certified", file="served")
    locked = encrypted_key(credentials.key, CANARY, "pkcs8", "-topk8", "-v2", "aes256")
    lines = server.url(
        f"sslcert={credentials.certificate}", f"sslkey={locked}", f"sslpassword={CANARY}", "sslmode=require"
    )
    services = place / "services.conf"
    services.write_text(
        "[locked]\n" + "\n".join(lines.replace("user=canary", "user=certified").split()) + "\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    (place / "s.sql").write_text("SELECT 1;\n")
    file = place / "campaign.toml"
    file.write_text(
        'servers = ["dsn:service=locked"]\nallow_outside = true\n[[workloads]]\nname = "custom"\n'
        'options = { steps = [{ scripts = ["s.sql"], clients = 1, seconds = 0.5, warmup = 0 }] }\n'
    )
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    services.unlink()
    kept = [path for path in place.rglob("*") if path.is_file() and CANARY.encode() in path.read_bytes()]
    assert not kept and CANARY not in done.stdout + done.stderr


# --- what the server sees -----------------------------------------------------------------------


def test_channel_binding_is_required_of_the_driver_as_well(server: Secured) -> None:
    connection = Conninfo.parse(server.url("sslmode=require", "channel_binding=require")).for_driver()
    is_encrypted(connection)
    hba = server.cluster.data_folder.path / "pg_hba.conf"
    before = hba.read_text()
    try:
        hba.write_text("local all all trust\nhostssl all canary all trust\n")
        server.reload()
        libpq, driver = refused_by_both(server, connection, "sslmode=require channel_binding=require")
        assert "channel_binding=require cannot be kept" in libpq.message
        assert "channel binding is required" in driver.message
    finally:
        hba.write_text(before)
        server.reload()


def test_a_bench_over_tls_opens_and_cancels_encrypted(
    server: Secured, pgstrata: Program, place: Path
) -> None:
    (place / "s.sql").write_text("SELECT 1;\n")
    url = server.url("sslmode=verify-full", f"sslrootcert={server.authority.certificate}")
    done = pgstrata("bench", "-f", "s.sql", "-c", "2", "-C", "-t", "5", url)
    assert done.returncode == 0 and "processed: 10/10" in done.stdout, done.stdout + done.stderr
    assert CANARY not in done.stdout + done.stderr
    # A statement that is under way at the end is cancelled, over TLS, too: the server has no other way in.
    (place / "sleep.sql").write_text("SELECT pg_sleep(600);\n")
    role = Role("q", 1, [Script(Sql("SELECT pg_sleep(600)", name="sleep"))])
    step = Step("sleep", [role], Headline("q", "operations", "queries/s"), seconds=0.2)
    spec = structs.replace(
        driver_spec(step, Conninfo.parse(url).for_driver(), 1, "io_uring"), overtime_seconds=0.1
    )
    with Driver(spec) as driver:
        driver.ready()
        driver.start()
        assert [event for event in driver.events() if isinstance(event, Failure)]
    with server.cluster.connect() as session:
        until = time.monotonic() + 20
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'"
        )
        while (row := session.execute(query.encode()).fetchone()) and row[0]:
            assert time.monotonic() < until
            time.sleep(0.1)


def test_how_tls_is_made_is_part_of_the_spec_and_no_secret_is(server: Secured) -> None:
    tls = Conninfo.parse(server.url("sslmode=require", "sslsni=0")).for_driver().tls
    assert tls == TlsSpec(server_name="localhost", mode="require", sni=False)
