"""Real clusters: made, started, stopped, and nothing left of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest

from pgstrata.errors import PgstrataError, ServerError, UsageError
from pgstrata.layout import Layout, draw
from pgstrata.server.cluster import cluster as cluster_module
from pgstrata.server.cluster.cluster import Cluster, clear_leftovers, new_database
from pgstrata.server.config.resolve import ConfigFile, Resolved, resolve
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server
from pgstrata.server.system.account import server_account
from pgstrata.server.system.guard import MARKER
from pgstrata.server.system.ipc import posix_segments
from pgstrata.server.system.running import processes_of

PLAIN = Resolved("plain")
ROOT = os.geteuid() == 0
DEBIAN = Path("/usr/lib/postgresql/15")


@pytest.fixture(params=["pg:9.6", "pg:12", "pg:17", f"path:{DEBIAN}"])
def server(request: pytest.FixtureRequest) -> Server:
    if request.param.startswith("path:") and not DEBIAN.is_dir():
        pytest.skip(f"there is no {DEBIAN}")
    try:
        return acquire(request.param)
    except PgstrataError as error:
        pytest.skip(error.message)


def started(server: Server, place: Path, config: Resolved = PLAIN, **more: object) -> Cluster:
    cluster = Cluster(server, config, place / "c", **more)  # type: ignore[arg-type]
    cluster.create()
    cluster.start()
    return cluster


def working_in(data: Path) -> list[int]:
    return [process.pid for process in processes_of(data, None)]


def segments_of(data: Path) -> list[str]:
    """Names in /dev/shm of what the postmaster of a data folder has mapped."""
    pid = int((data / "postmaster.pid").read_text().split()[0])
    return posix_segments(pid, data.stat().st_uid)


def posix_memory(names: list[str]) -> list[str]:
    return [name for name in names if (Path("/dev/shm") / name).exists()]


def semaphores_of(pid: int) -> int:
    """Sets of System V semaphores whose last operation was by `pid`; ipcs is asked, not our own code."""
    account = server_account()

    def ipcs(*options: str) -> list[str]:
        return subprocess.run(
            ["ipcs", "-s", *options],
            capture_output=True,
            text=True,
            user=account.uid if account else None,
            group=account.gid if account else None,
        ).stdout.splitlines()

    sets = [line.split()[0] for line in ipcs("-c") if line[:1].isdigit()]
    return sum(any(line.split()[-1:] == [str(pid)] for line in ipcs("-i", number)) for number in sets)


@pytest.mark.program
def test_a_cluster_lives_and_goes(server: Server, place: Path) -> None:
    config = resolve(
        [ConfigFile("mine", "work_mem = 7MB\nmax_wal_size = 2GB\nlog_checkpoints = on\nport = 1")],
        server.version_num,
        8 << 30,
        server.build,
    )
    with Cluster(server, config, place / "c") as cluster:
        cluster.create()
        cluster.start()
        server_process = cluster.postmaster
        assert server_process.alive() and server_process.pid in server_process.pids()
        assert len(server_process.pids()) > 4
        assert os.getsid(server_process.pid) == server_process.pid  # Ctrl-C in a terminal goes to another one
        with cluster.connect() as session:
            shown = dict(session.execute("SELECT name, current_setting(name) FROM pg_settings").fetchall())
            collation = session.execute(
                "SELECT datcollate, pg_encoding_to_char(encoding) FROM pg_database"
            ).fetchall()
        assert {name: shown[name] for name in config.settings} == config.settings
        assert set(collation) == {("C", "UTF8")}
        assert shown["listen_addresses"] == "" and shown["data_checksums"] == "off"
        assert shown["server_version_num"] == str(server.version_num)
        if ROOT:
            assert cluster.data_folder.path.stat().st_uid == server_account().uid  # type: ignore[union-attr]
        log = cluster.log_file.read_text()
        assert "database system is ready to accept connections" in cluster.log_tail()
        assert all(line[0] in "2\t" for line in log.splitlines())  # %m begins with the year
        cluster.stop()
        assert not server_process.alive() and server_process.pids() == []
        assert not working_in(cluster.data_folder.path)
        cluster.start()
        with cluster.connect() as session:
            assert session.execute("SELECT 1").fetchone() == (1,)
    assert not (place / "c").exists()


def test_starting_takes_no_second_longer_than_the_server(pg17: Server, place: Path) -> None:
    with Cluster(pg17, PLAIN, place / "c") as cluster:
        cluster.create()
        begun = time.time()
        cluster.start()
        seen = time.time()
        ready = (cluster.data_folder.path / "postmaster.pid").stat().st_mtime
        assert begun <= ready + 0.01 and seen - ready < 0.5


def test_a_thread_that_ends_takes_no_server_with_it(pg17: Server, place: Path) -> None:
    cluster = Cluster(pg17, PLAIN, place / "c")

    def work() -> None:
        cluster.create()
        cluster.start()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    time.sleep(0.3)
    with cluster:
        assert cluster.postmaster.alive()
        cluster.connect().close()


@pytest.mark.server
@pytest.mark.parametrize("version", ["9.6", "17"])
def test_nothing_is_left_of_a_killed_postmaster(version: str, place: Path) -> None:
    cluster = started(acquire(f"pg:{version}"), place)
    with cluster:
        pid = cluster.postmaster.pid
        assert pid
        segments = segments_of(cluster.data_folder.path)
        assert posix_memory(segments) == segments != []
        if version == "9.6":
            assert semaphores_of(pid) > 0
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while cluster.postmaster.alive() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not cluster.postmaster.alive()
        with pytest.raises(ServerError, match="cannot connect"):
            cluster.connect()
        cluster.stop()
        assert posix_memory(segments) == [] and not working_in(cluster.data_folder.path)
        assert semaphores_of(pid) == 0
    assert not (place / "c").exists()


OWNER = """
import os, sys, time
from pathlib import Path
from pgstrata.server.find.acquire import acquire
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
spec, folder, until = sys.argv[1:4]
cluster = Cluster(acquire(spec), Resolved("plain"), Path(folder))
cluster.create()
if until != "created":
    cluster.start()
    with cluster.connect() as session:
        print(session.execute("select current_user").fetchone()[0], os.stat(cluster.data_folder.path).st_uid)
if until == "removed":
    cluster.remove()
    sys.exit()
print("up", flush=True)
time.sleep(60)
"""


def owner(*arguments: str | Path, prefix: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", OWNER, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_server_outlives_its_owner(number: signal.Signals, pg17: Server, place: Path) -> None:
    running = owner(pg17.spec, place / "c", "started")
    assert running.stdout
    assert any(line == "up\n" for line in running.stdout)
    data = place / "c" / "data"
    segments = segments_of(data)
    assert working_in(data) and posix_memory(segments) == segments != []
    busy = Cluster(pg17, PLAIN, place / "c")
    with pytest.raises(ServerError, match=f"in use by pgstrata, process {running.pid}"):
        busy.create()
    assert clear_leftovers(place) == []  # its owner lives
    running.send_signal(number)
    running.wait(60)
    deadline = time.monotonic() + 10
    while working_in(data) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not working_in(data) and posix_memory(segments) == []
    leftovers = clear_leftovers(place)
    assert len(leftovers) == 1 and f"process {running.pid}" in leftovers[0]
    assert list(place.iterdir()) == []


def test_a_leftover_is_reused_when_the_same_folder_is_wanted(pg17: Server, place: Path) -> None:
    running = owner(pg17.spec, place / "c", "created")
    assert running.stdout
    assert any(line == "up\n" for line in running.stdout)
    running.kill()
    running.wait()
    with started(pg17, place) as cluster:
        assert cluster.postmaster.alive()
    assert list(place.iterdir()) == []


def test_a_kept_cluster_is_left_alone(pg17: Server, place: Path) -> None:
    cluster = started(pg17, place)
    cluster.keep()
    assert not working_in(cluster.data_folder.path)
    assert clear_leftovers(place) == []
    assert (cluster.data_folder.path / "PG_VERSION").exists()
    with pytest.raises(ServerError, match="was kept"):
        Cluster(pg17, PLAIN, place / "c").create()


def test_what_pgstrata_did_not_make_is_never_touched(pg17: Server, place: Path) -> None:
    (place / "c").mkdir()
    (place / "c" / "precious").write_text("mine")
    with (
        Cluster(pg17, PLAIN, place / "c") as cluster,
        pytest.raises(ServerError, match="not empty and pgstrata did not make it"),
    ):
        cluster.create()
    (place / "d").mkdir()
    with Cluster(pg17, PLAIN, place / "d") as cluster:
        cluster.create()
    assert clear_leftovers(place) == []
    # An empty folder of the user's is used and left, emptied.
    assert sorted(p.name for p in place.iterdir()) == ["c", "d"]
    assert (place / "c" / "precious").read_text() == "mine" and list((place / "d").iterdir()) == []


def test_a_folder_that_cannot_be_written(pg17: Server, place: Path) -> None:
    (place / "file").write_text("")
    with pytest.raises(ServerError, match=r"the data folder .* cannot be written: Not a directory"):
        Cluster(pg17, PLAIN, place / "file" / "c").create()


def test_a_deep_folder_gets_a_short_socket(pg17: Server, place: Path) -> None:
    deep = place / ("x" * 100) / "with space, 'quote' and ü"
    with Cluster(pg17, PLAIN, deep) as cluster:
        cluster.create()
        cluster.start()
        sockets = cluster.socket_dir
        assert not sockets.is_relative_to(deep) and len(str(sockets)) < 60
        assert sockets.stat().st_mode & 0o077 == 0
        cluster.connect().close()
    assert not sockets.exists() and not deep.exists()


def test_a_folder_deeper_than_postgresql_can_name(pg17: Server, place: Path) -> None:
    deep = place.joinpath(*["y" * 200] * 5)
    with pytest.raises(ServerError, match="more than 900 bytes"):
        Cluster(pg17, PLAIN, deep).create()
    assert list(place.iterdir()) == []


def test_a_server_that_dies_at_its_start_says_why(pg12: Server, place: Path) -> None:
    config = Resolved("bad", settings={"shared_preload_libraries": "not_there"})
    with Cluster(pg12, config, place / "c") as cluster:
        cluster.create()
        with pytest.raises(ServerError, match='could not access file "not_there"') as error:
            cluster.start()
        assert "its log ends with" in error.value.hint and "not_there" in cluster.log_tail()
        assert not cluster.postmaster.alive()


@pytest.mark.skipif(not ROOT, reason="only root can hide /etc/hosts from a process")
def test_a_server_without_its_statistics_is_refused(pg12: Server, place: Path) -> None:
    """As in a container without /etc/hosts: each look at its statistics would wait for ten seconds."""
    hide = "mount --bind /dev/null /etc/hosts && mount --bind /dev/null /etc/resolv.conf"
    hidden = ("unshare", "--mount", "sh", "-c", f'{hide} && exec "$@"', "sh")
    output, _ = owner(pg12.spec, place / "c", "removed", prefix=hidden).communicate(timeout=120)
    assert "without its statistics collector: could not resolve" in output
    assert not working_in(place / "c")


def test_initdb_options(pg12: Server, pg17: Server, place: Path) -> None:
    with Cluster(pg12, PLAIN, place / "c", initdb=["--data-checksums", "--wal-segsize=4"]) as cluster:
        cluster.create()
        cluster.start()
        with cluster.connect() as session:
            assert session.execute("SHOW data_checksums").fetchone() == ("on",)
            assert session.execute("SHOW wal_segment_size").fetchone() == ("4MB",)
    with pytest.raises(UsageError, match="is set by pgstrata"):
        Cluster(pg12, PLAIN, place / "c", initdb=["-kX/x"])
    with (
        Cluster(pg17, PLAIN, place / "c", initdb=["--no-such-option"]) as cluster,
        pytest.raises(ServerError, match=r"initdb of pg17\.\d+ failed: .*no-such-option"),
    ):
        cluster.create()


def test_environment_and_cpus_reach_the_server_only(pg17: Server, place: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    with started(pg17, place, env={"PGSTRATA_TEST": "1"}, cpus=[cpu]) as cluster:
        environment = Path(f"/proc/{cluster.postmaster.pid}/environ").read_bytes().split(b"\0")
        assert b"PGSTRATA_TEST=1" in environment
        assert not any(v.startswith((b"PGHOST", b"LANG=", b"LD_PRELOAD")) for v in environment)
        assert all(os.sched_getaffinity(pid) == {cpu} for pid in cluster.postmaster.pids())
    assert "PGSTRATA_TEST" not in os.environ


@pytest.mark.parametrize("library", ["/nowhere/libfast.so", "/etc/passwd", "libnone.so.7"])
def test_a_library_that_is_not_preloaded_ends_the_start(pg17: Server, place: Path, library: str) -> None:
    """The loader goes on without it: what is measured would be the ordinary server."""
    cluster = Cluster(pg17, PLAIN, place / "c", env={"LD_PRELOAD": library})
    cluster.create()
    with cluster, pytest.raises(ServerError) as refused:
        cluster.start()
    assert f"ERROR: ld.so: object '{library}' from LD_PRELOAD cannot be preloaded" in refused.value.message
    assert "`env`" in refused.value.hint
    assert not cluster.postmaster.alive()


def test_tcp_only_on_loopback_and_only_when_asked(pg17: Server, place: Path) -> None:
    with started(pg17, place, tcp=True) as cluster, cluster.connect() as session:
        assert session.execute("SHOW listen_addresses").fetchone() == ("127.0.0.1",)
        there = cluster.connection("postgres", tcp=True)
        with psycopg.connect(host=there.host, port=there.port, user=there.user) as other:
            row = other.execute("SELECT inet_server_addr()::text").fetchone()
            assert row == ("127.0.0.1/32",)


def test_a_port_that_was_taken_in_between(pg17: Server, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ports = [taken.getsockname()[1], free.getsockname()[1]]
        free.close()
        monkeypatch.setattr(cluster_module, "_free_port", lambda: ports.pop(0))
        with started(pg17, place, tcp=True) as cluster:
            assert ports == [] and cluster.port != taken.getsockname()[1]


def test_a_database_is_made_while_a_session_on_template1_is_ending(pg17: Server, place: Path) -> None:
    with (
        started(pg17, place) as cluster,
        cluster.connect("template1"),
        cluster.connect("postgres") as session,
    ):
        session.execute(new_database("mine"))
        assert session.execute("SELECT 1 FROM pg_database WHERE datname = 'mine'").fetchone()


def test_a_full_disk(pg17: Server, place: Path) -> None:
    small = place / "small"
    small.mkdir()
    if not ROOT or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", small]).returncode:
        pytest.skip("only root can mount a small file system")
    try:
        small.chmod(0o755)
        with Cluster(pg17, PLAIN, small / "c") as cluster:
            with pytest.raises(ServerError, match="no space left"):
                cluster.create()
            assert (small / "c" / MARKER).exists()
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)


def test_an_account_that_cannot_reach_the_folder(pg17: Server, place: Path) -> None:
    if not ROOT:
        pytest.skip("only root runs servers as another account")
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    with (
        Cluster(pg17, PLAIN, closed / "c") as cluster,
        pytest.raises(ServerError, match=f"cannot enter {closed}, so it cannot use the data folder"),
    ):
        cluster.create()
    assert list(closed.iterdir()) == []


def test_an_ordinary_account_runs_servers_as_itself(pg17: Server, place: Path) -> None:
    if not ROOT:
        pytest.skip("as an ordinary account every other test shows it")
    nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    reach = subprocess.run([*nobody, sys.executable, "-c", "import pgstrata.server.cluster.cluster"])
    if reach.returncode != 0:
        pytest.skip("nobody cannot read this checkout")
    mine = place / "mine"
    mine.mkdir()
    os.chown(mine, 65534, 65534)
    ran = owner(f"path:{pg17.bin_dir}", mine / "c", "removed", prefix=nobody)
    output, _ = ran.communicate(timeout=60)
    assert (ran.returncode, output) == (0, "postgres 65534\n")
    assert list(mine.iterdir()) == []
    mine.chmod(0o555)
    ran = owner(f"path:{pg17.bin_dir}", mine / "c", "removed", prefix=nobody)
    output, _ = ran.communicate(timeout=60)
    assert "cannot be written: Permission denied" in output


@pytest.mark.program
@pytest.mark.skipif(draw() is None, reason="this kernel does not let a program choose its layout")
def test_servers_of_one_layout_have_their_memory_at_the_same_places(server: Server, place: Path) -> None:
    """Wherever their data lie, and whatever else is in their environment; the next start has another one."""

    def taken(cluster: Cluster, layout: Layout) -> list[str]:
        cluster.layout = layout
        cluster.start()
        assert cluster.postmaster.pid is not None
        lines = Path(f"/proc/{cluster.postmaster.pid}/maps").read_text().splitlines()
        cluster.stop("fast")
        # Kernels put their own pages where they like, above the stack.
        return [line.split()[0] for line in lines if "[v" not in line]

    first = Cluster(server, PLAIN, place / "c")
    two = Cluster(server, PLAIN, place / "longer-name", env={"SOMETHING": "x" * 99})
    with first, two:
        for cluster in (first, two):
            cluster.create()
        assert taken(first, Layout(77_000, 5)) == taken(two, Layout(77_000, 5))
        assert taken(first, Layout(1_000, 5)) != taken(first, Layout(60_000, 5))
