"""What goes wrong around the proxy: traffic goes on, memory stays flat, a kill costs less than a second."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from pathlib import Path

import psycopg
import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.model import Server
from pgstrata.traffic.record.convert import convert
from support.program import Program
from support.steps import running
from support.wire import Proxy, recording

pytestmark = pytest.mark.server

MB = 1 << 20


def memory(proxy: Proxy) -> int:
    return int(proxy.process.memory_info().rss)


def startup(user: str = "postgres", database: str = "postgres") -> bytes:
    body = struct.pack("!i", 196_608) + f"user\0{user}\0database\0{database}\0\0".encode()
    return struct.pack("!i", len(body) + 4) + body


def message(tag: bytes, body: bytes) -> bytes:
    return tag + struct.pack("!i", len(body) + 4) + body


class Client:
    """A client that speaks the protocol by itself."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(60)
        self.socket.sendall(startup())
        self.until(b"Z")

    def read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            more = self.socket.recv(min(MB, length - len(data)))
            assert more, "closed"
            data += more
        return data

    def skim(self, length: int) -> None:
        """Reads and forgets."""
        while length:
            more = len(self.socket.recv(min(MB, length)))
            assert more, "closed"
            length -= more

    def until(self, tag: bytes) -> list[bytes]:
        """The tags of messages up to this one."""
        seen: list[bytes] = []
        while not seen or seen[-1] != tag:
            head = self.read(5)
            seen.append(head[:1])
            self.skim(struct.unpack("!i", head[1:])[0] - 4)
        return seen


def test_a_row_of_a_gigabyte_passes_in_flat_memory(cluster: Cluster, place: Path) -> None:
    size = 512 * MB if os.environ.get("PGSTRATA_QUICK") else 1000 * MB
    with recording(place, cluster) as proxy:
        client = Client(proxy.port)
        before = memory(proxy)
        client.socket.sendall(message(b"Q", f"SELECT repeat('x', {size})\0".encode()))
        time.sleep(3)  # a client that reads late
        most = memory(proxy)
        seen = client.until(b"Z")
        assert seen == [b"T", b"D", b"C", b"Z"]
        assert max(most, memory(proxy)) - before < 16 * MB
        client.socket.close()
        proxy.end()
        _, (statement,) = proxy.captured()
    assert not statement.sqlstate and statement.duration is not None and statement.duration > 2e6


def test_answers_that_wait_for_their_client_arrive_to_the_end(cluster: Cluster, place: Path) -> None:
    """However much of an answer the buffers on the way take before the client reads."""
    with recording(place, cluster) as proxy:
        client = Client(proxy.port)
        for size in range(1, 20):
            client.socket.sendall(message(b"Q", f"SELECT repeat('x', {size * MB})\0".encode()))
            time.sleep(0.2)
            assert client.until(b"Z") == [b"T", b"D", b"C", b"Z"]
        client.socket.close()


def test_a_long_value_passes_and_is_left_out(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster) as proxy, proxy.connect() as c:
        before = memory(proxy)
        long = "x" * (100 * MB)
        assert c.execute("SELECT length(%s)", (long,)).fetchone() == (100 * MB,)
        assert c.execute("SELECT %s::int", (7,)).fetchone() == (7,)
        assert memory(proxy) - before < 16 * MB
        proxy.end()
        header, (statement,) = proxy.captured()
    assert statement.parameters == ("7",)
    assert [part.count for part in header.left_out if "longer than" in part.why] == [1]


def test_a_client_that_vanishes(cluster: Cluster, place: Path) -> None:
    """The server's session ends, too, and the recording says what was under way."""
    with recording(place, cluster) as proxy:
        client = Client(proxy.port)
        client.socket.sendall(message(b"Q", b"SELECT generate_series(1, 100000000)\0"))
        client.read(1000)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.socket.close()
        with cluster.connect() as admin:
            assert gone(admin, "SELECT generate_series%")
        with proxy.connect() as c:
            assert c.execute("SELECT 1").fetchone() == (1,)
        proxy.end()
        header, statements = proxy.captured()
    assert statements[0].text == "SELECT generate_series(1, 100000000)" and statements[0].duration is None
    assert any("was not seen" in note for note in header.notes)


def gone(admin: psycopg.Connection[tuple[object, ...]], like: str, seconds: float = 30) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        row = admin.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE %s AND state = 'active' "
            "AND pid <> pg_backend_pid()",
            (like,),
        ).fetchone()
        if row == (0,):
            return True
        time.sleep(0.1)
    return False


def test_a_server_that_vanishes(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster) as proxy:
        with proxy.connect() as c, cluster.connect() as admin:
            row = c.execute("SELECT pg_backend_pid()").fetchone()
            assert row is not None
            admin.execute("SELECT pg_terminate_backend(%s)", row)
            # What is sent while the server goes makes the kernel drop its last words, without a proxy, too.
            # On a busy machine it goes some time after it was told to.
            with pytest.raises(psycopg.OperationalError):
                for _ in range(10_000):
                    c.execute("SELECT 1")
        with proxy.connect() as c:
            assert c.execute("SELECT 2").fetchone() == (2,)


def test_a_server_that_is_not_there(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster, to="postgresql://127.0.0.1:1") as proxy:
        with pytest.raises(psycopg.OperationalError, match=r"cannot connect to the server at 127\.0\.0\.1:1"):
            proxy.connect()
        assert "cannot connect" in proxy.running.printed


def test_what_no_client_sends(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster) as proxy:
        for data in (
            b"GET / HTTP/1.1\r\n\r\n",
            b"\0\0\0\4",
            b"\xff" * 20,
            struct.pack("!ii", 8, 80877103) + b"x",
        ):
            with socket.create_connection(("127.0.0.1", proxy.port)) as other:
                other.settimeout(20)
                other.sendall(data)
                assert other.recv(100) == b""
        with proxy.connect() as c:
            assert c.execute("SELECT 1").fetchone() == (1,)


def test_a_session_that_cannot_be_followed_goes_on(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster) as proxy:
        client = Client(proxy.port)
        client.socket.sendall(message(b"Q", b"SELECT 1\0"))
        client.until(b"Z")
        # A Parse that ends within its name: the server says so, and no recording can be made of it.
        client.socket.sendall(message(b"P", b"abc") + message(b"S", b""))
        assert b"E" in client.until(b"Z")
        client.socket.sendall(message(b"Q", b"SELECT 2\0"))
        assert b"D" in client.until(b"Z")
        client.socket.close()
        proxy.end()
        header, (statement,) = proxy.captured()
    assert statement.text == "SELECT 1"
    assert [part.count for part in header.left_out if "could not be followed" in part.why] == [1]


def test_a_kill_costs_less_than_a_second(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster) as proxy:
        with pytest.raises(psycopg.OperationalError), proxy.connect() as c:
            for n in range(200):
                c.execute("SELECT %s::int", (n,))
            time.sleep(1)
            c.execute("SELECT 'too late'")
            proxy.end(signal.SIGKILL)
            c.execute("SELECT 1")
        _, statements = proxy.captured()
    assert [statement.parameters for statement in statements[:200]] == [(str(n),) for n in range(200)]


def test_a_recording_that_was_cut_or_changed(cluster: Cluster, place: Path, tmp_path: Path) -> None:
    with recording(place, cluster) as proxy:
        with proxy.connect() as c:
            c.execute("SELECT 1")
            time.sleep(0.6)
            c.execute("SELECT 2")
        proxy.end()
    file = proxy.folder / "000001.record"
    whole = file.read_bytes()
    for place_of, note in ((len(whole) - 3, "cut off within a block"), (None, None)):
        if place_of is not None:
            file.write_bytes(whole[:place_of])
        else:
            file.write_bytes(whole[:60] + bytes([whole[60] ^ 255]) + whole[61:])
        header = convert(proxy.folder, tmp_path / f"to-{place_of}")
        assert header.statements == 1
        if note:
            assert any(note in header_note for header_note in header.notes)
        else:
            assert [part.count for part in header.damaged] == [1]


def test_a_full_disk_stops_the_recording_and_not_the_traffic(
    cluster: Cluster, place: Path, small_disk: Path
) -> None:
    small_disk.chmod(0o777)
    with (small_disk / "filler").open("wb") as file:
        file.write(bytes(155 * MB))
    (place / "recording").symlink_to(small_disk / "recording")
    proxy = Proxy.__new__(Proxy)
    (place / "recording").unlink()
    Proxy.__init__(proxy, small_disk, cluster)
    try:
        with proxy.connect() as c:
            value = "x" * 100_000
            for _ in range(120):
                assert c.execute("SELECT length(%s)", (value,)).fetchone() == (100_000,)
            time.sleep(1)
            assert "recording has stopped: No space left on device" in proxy.running.printed
            assert c.execute("SELECT 1").fetchone() == (1,)
    finally:
        assert proxy.end() == 0
    (small_disk / "filler").unlink()
    header, statements = proxy.captured()
    assert 10 < len(statements) < 120 and not header.damaged and not header.notes


def test_the_greatest_size(cluster: Cluster, place: Path) -> None:
    with recording(place, cluster, "--max-size", "1MB") as proxy, proxy.connect() as c:
        for _ in range(30):
            c.execute("SELECT length(%s)", ("x" * 100_000,))
        time.sleep(1)
        assert "recording has stopped: it has its greatest size (--max-size)" in proxy.running.printed
        c.execute("SELECT 1")
        proxy.end()
    assert sum(file.stat().st_size for file in proxy.folder.iterdir()) <= MB


def test_many_connections(pg17: Server, place: Path) -> None:
    with running(pg17, "max_connections = 410\n") as cluster, recording(place, cluster) as proxy:
        before = memory(proxy)
        clients = [Client(proxy.port) for _ in range(400)]
        for client in clients:
            client.socket.sendall(message(b"Q", b"SELECT 1\0"))
        for client in clients:
            assert b"D" in client.until(b"Z")
        assert memory(proxy) - before < 400 * 20_000 + 8 * MB
        for client in clients:
            client.socket.close()
        proxy.end()
        header, statements = proxy.captured()
    assert header.sessions == 400 and len(statements) == 400


def test_ctrl_c_ends_all_at_once(cluster: Cluster, place: Path, pgstrata: Program) -> None:
    with recording(place, cluster) as proxy, proxy.connect() as c:
        c.execute("SELECT 1")
        begun = time.monotonic()
        assert proxy.end() == 0
        assert time.monotonic() - begun < 5
        assert "recorded: 1 statements of 1 sessions" in proxy.running.printed
        assert "pgstrata capture " in proxy.running.printed.splitlines()[-1]
        with pytest.raises(psycopg.OperationalError):
            c.execute("SELECT 1")
    done = pgstrata("capture", "recording", "-o", "traffic")
    assert done.returncode == 0 and "recording, 000001.record" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--to", "postgresql://127.0.0.1:5432", "--listen", "0.0.0.0:6432"], "--allow-network"),
        (["--to", "postgresql://127.0.0.1:5432", "--listen", "6432"], "is no address"),
        (["--to", "postgresql://127.0.0.1:5432", "--listen", "127.0.0.1:99999"], "is no address"),
        (["--to", "postgresql://a,b/"], "several servers"),
        (["--to", "postgresql:///x?host=/tmp"], "--allow-peer"),
        (["--to", "nonsense"], "missing"),
        (["--to", "postgresql://127.0.0.1", "--max-size", "many"], "no size"),
        (["--to", "postgresql://127.0.0.1", "--certificate", "x.crt"], "its key"),
        (["--to", "postgresql://127.0.0.1", "--certificate", "no.crt", "--key", "no.key"], "cannot be read"),
        (["--to", "postgresql://no-such-host.invalid"], "cannot be found"),
    ],
)
def test_bad_input(pgstrata: Program, place: Path, arguments: list[str], complaint: str) -> None:
    done = pgstrata("record", *arguments, "-o", "recording")
    assert done.returncode != 0 and complaint in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and "panicked" not in done.stderr
    assert not (place / "recording").exists()


def test_a_folder_that_is_there_and_a_port_that_is_taken(pgstrata: Program, place: Path) -> None:
    (place / "recording").mkdir()
    done = pgstrata("record", "--to", "postgresql://127.0.0.1", "-o", "recording")
    assert done.returncode == 2 and "is there already" in done.stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = pgstrata("record", "--to", "host=127.0.0.1", "--listen", f"127.0.0.1:{port}", "-o", "another")
    assert done.returncode == 1 and "Address already in use" in done.stderr


def test_an_empty_recording(cluster: Cluster, place: Path, pgstrata: Program) -> None:
    with recording(place, cluster) as proxy:
        proxy.end()
    done = pgstrata("capture", "recording", "-o", "traffic")
    assert done.returncode == 2 and "has no statement" in done.stderr
    assert not (place / "traffic").exists()
