"""Servers under test have a network of their own, with nothing in it."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import psycopg
import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.replica import replicated
from pgstrata.server.cluster.wanted_replicas import Replicas
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server
from pgstrata.server.system.account import run_as, server_account
from pgstrata.server.system.network import has_own_network, outside_of_network, way_to_close

CONNECT = (
    "SELECT count(*) FROM dblink('host={host} port={port} user=postgres dbname=postgres', 'SELECT 1') "
    "t(i int)"
)


@pytest.fixture(scope="module", autouse=True)
def kernel_allows() -> None:
    if way_to_close(None) is None:
        pytest.skip("the kernel lets this process make no network namespace")


def _cluster(server: Server, folder: Path, **more: object) -> Cluster:
    return Cluster(server, resolve([], server.version_num, 1 << 30), folder, **more)  # type: ignore[arg-type]


def test_a_server_reaches_no_address_of_this_machine(pg13: Server, pg17: Server, place: Path) -> None:
    with _cluster(pg17, place / "a", tcp=True) as production:
        production.create()
        production.start()
        assert production.closed is None
        ask = CONNECT.format(host="127.0.0.1", port=production.port)
        for outside, name in ((False, "b"), (True, "c")):
            with _cluster(pg13, place / name, outside=outside) as tested:
                tested.create()
                tested.start()
                pid = tested.postmaster.pid
                assert pid is not None and has_own_network(pid) is not outside
                with tested.connect() as session:
                    session.execute("CREATE EXTENSION dblink")
                    if outside:
                        assert session.execute(ask.encode()).fetchone() == (1,)
                    else:
                        with pytest.raises(psycopg.OperationalError, match="Connection refused"):
                            session.execute(ask.encode())


def test_statistics_that_are_sent_by_udp_arrive(pg13: Server, place: Path) -> None:
    """Before 15 the collector has a socket on localhost, and works without statistics where there is none."""
    with _cluster(pg13, place / "c") as cluster:
        cluster.create()
        cluster.start()
        with cluster.connect() as session:
            session.execute("CREATE TABLE t AS SELECT generate_series(1, 100) i")
        with cluster.connect() as session:
            for _ in range(200):
                row = session.execute("SELECT n_tup_ins FROM pg_stat_user_tables").fetchone()
                if row == (100,):
                    break
                session.execute("SELECT pg_sleep(0.05)")
        assert row == (100,)
        assert "lack of working socket" not in cluster.log_file.read_text()


def test_a_replica_has_no_network_either(pg17: Server, place: Path) -> None:
    config = resolve([], pg17.version_num, 1 << 30)
    with replicated(pg17, config, place / "c", replicas=Replicas()) as both:
        both.create()
        both.start()
        assert both.postmaster.pid and both.standbys.pid
        assert has_own_network(both.postmaster.pid) and has_own_network(both.standbys.pid)


@pytest.mark.program
def test_the_thread_that_forks_comes_back() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root forks from another namespace")
    before = Path("/proc/thread-self/ns/net").readlink()
    with outside_of_network("root"):
        assert Path("/proc/thread-self/ns/net").readlink() != before
    assert Path("/proc/thread-self/ns/net").readlink() == before


def test_an_ordinary_user_closes_it_by_a_user_namespace(pg17: Server, place: Path) -> None:
    """Where the kernel allows those: the server runs as before, and its processes are the user's."""
    if os.geteuid() != 0:
        pytest.skip("the other tests of this file are run as an ordinary user then")
    account = server_account()
    assert account is not None
    home = place / "home"
    home.mkdir()
    os.chown(home, account.uid, account.gid)
    report = home / "said"

    def ordinary() -> None:
        try:
            if way_to_close(None) != "user":
                report.write_text("skip")
                return
            with _cluster(pg17, home / "c") as cluster:
                cluster.create()
                cluster.start()
                assert cluster.postmaster.pid is not None
                with cluster.connect() as session:
                    row = session.execute("SELECT 1").fetchone()
                owner = psutil.Process(cluster.postmaster.pid).uids().real
                report.write_text(f"{cluster.closed} {has_own_network(cluster.postmaster.pid)} {row} {owner}")
        except BaseException as error:
            report.write_text(repr(error))

    run_as(account, ordinary)
    if report.read_text() == "skip":
        pytest.skip("the kernel makes no namespace for an ordinary user")
    assert report.read_text() == f"user True (1,) {account.uid}"
