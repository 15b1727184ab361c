"""A cluster with a standby: made, followed, read, made anew, and what becomes of one that fails."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest

from pgstrata.errors import ServerError, UsageError
from pgstrata.server.cluster import replica
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.replica import Standby
from pgstrata.server.cluster.wanted_replicas import Replicas, Replication, check_replicas, settings_for
from pgstrata.server.config.conf_file import ConfigFile
from pgstrata.server.config.known import KnownSettings
from pgstrata.server.config.resolve import Resolved, resolve
from pgstrata.server.find.acquire import acquire
from pgstrata.server.find.model import Server


def config(server_version: int, **settings: str) -> Resolved:
    text = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
    return resolve([ConfigFile("own", text)], server_version, 1 << 30, keep=settings)


@contextmanager
def replicated(server: Server, folder: Path, replicas: Replicas, **settings: str) -> Iterator[Cluster]:
    how = config(server.version_num, **settings)
    with replica.replicated(server, how, folder, replicas=replicas) as both:
        both.create()
        both.start()
        yield both


def standby_of(both: Cluster) -> Cluster:
    assert isinstance(both.standbys, Standby)
    return both.standbys.cluster


def wait_for(what: Callable[[], object], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.server
@pytest.mark.parametrize(("version", "replication"), [("17", "sync"), ("9.6", "async")])
def test_what_is_written_on_the_primary_is_read_on_its_replica(
    place: Path, version: str, replication: Replication
) -> None:
    server = acquire(f"pg:{version}")
    with replicated(
        server, place / "c", Replicas(replication, "replica"), wal_level="minimal", max_wal_senders="0"
    ) as both:
        with both.connect() as session:
            row = session.execute("SELECT state, sync_state FROM pg_stat_replication").fetchone()
            assert row == ("streaming", replication)
            session.execute("CREATE TABLE t AS SELECT generate_series(1, 100000) AS i")
        assert both.standbys.serving(reads_only=False) is both
        standby = both.standbys.serving(reads_only=True)
        with standby.connect() as session:
            assert session.execute("SELECT count(*) FROM t").fetchall() == [(100000,)]
            assert session.execute("SHOW hot_standby_feedback").fetchall() == [("on",)]
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                session.execute("INSERT INTO t VALUES (1)")
        assert standby.connection("postgres").host == str(standby.socket_dir) != str(both.socket_dir)
        wait_for(lambda: both.standbys.lag_between(0, time.time()))
        assert all(lag.bytes >= 0 for lag in both.standbys.lag_between(0, time.time()))
        assert both.standbys.lag_between(0, 1) == []
        both.stop()
        both.save()
        both.start()
        with both.connect() as session:
            session.execute("DELETE FROM t")
        both.stop()
        both.restore()
        assert not standby.data_folder.path.exists(), "it follows other data now, and is made anew"
        both.start()
        with both.standbys.serving(reads_only=True).connect() as session:
            assert session.execute("SELECT count(*) FROM t").fetchall() == [(100000,)]
        both.standbys.check()
    assert not any(path.name.startswith("c") for path in place.iterdir())


def test_settings_are_those_without_which_nothing_streams() -> None:
    assert settings_for(config(170000), KnownSettings(170000)) == {
        "wal_level": "replica",
        "max_wal_senders": "10",
        "wal_keep_size": "1GB",
        "hot_standby": "on",
    }
    usual = config(170000, wal_level="logical", max_wal_senders="3", wal_keep_size="0")
    assert settings_for(usual, KnownSettings(170000)) == {"hot_standby": "on"}
    assert settings_for(config(90600), KnownSettings(90600)) == {
        "wal_level": "replica",
        "max_wal_senders": "10",
        "wal_keep_segments": "64",
        "hot_standby": "on",
    }


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UsageError, match=r"from 9\.6 on"):
        check_replicas(Replicas(), config(90500), KnownSettings(90500), "v")
    with pytest.raises(UsageError, match="no commit waits for a replica"):
        check_replicas(Replicas("sync"), config(170000, synchronous_commit="off"), KnownSettings(170000), "v")
    with pytest.raises(UsageError, match="nobody can read on the replica"):
        check_replicas(
            Replicas(reads="replica"), config(170000, hot_standby="off"), KnownSettings(170000), "v"
        )
    check_replicas(Replicas("sync"), config(170000), KnownSettings(170000), "v")


def commit_that_waits(both: Cluster) -> threading.Thread:
    """A commit that a standby would have to confirm; it ends when its server does."""

    def commit() -> None:
        with both.connect() as session, pytest.raises(psycopg.OperationalError):
            session.execute("CREATE TABLE waiting (i int)")

    thread = threading.Thread(target=commit)
    thread.start()
    return thread


def test_a_replica_that_dies_ends_the_primary_and_the_commits_that_wait(place: Path, pg17: Server) -> None:
    with replicated(pg17, place / "c", Replicas("sync")) as both:
        pid = both.standbys.pid
        assert pid
        os.kill(pid, signal.SIGKILL)
        waiting = commit_that_waits(both)
        wait_for(lambda: not both.postmaster.alive())
        waiting.join(60)
        assert not waiting.is_alive()
        with pytest.raises(ServerError, match="the replica died"):
            both.standbys.check()


@contextmanager
def stopped(processes: list[psutil.Process]) -> Iterator[None]:
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            if process.is_running():
                process.resume()


def processes_of(pid: int | None) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def test_a_replica_without_a_stream_fails_the_run(
    place: Path, pg17: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "GONE_SECONDS", 1.0)
    cluster = replicated(pg17, place / "c", Replicas("sync"), wal_sender_timeout="500ms")
    with cluster as both, stopped(processes_of(standby_of(both).postmaster.pid)):
        waiting = commit_that_waits(both)
        wait_for(lambda: not both.postmaster.alive())
        waiting.join(60)
        with pytest.raises(ServerError, match="the replica has not streamed for 1 s"):
            both.standbys.check()


def test_whoever_waits_for_a_replica_goes_on_when_it_has_replayed(place: Path, pg17: Server) -> None:
    with replicated(pg17, place / "c", Replicas("async")) as both:
        over = threading.Event()

        def wait() -> None:
            both.standbys.await_replayed()
            over.set()

        with both.connect() as session, standby_of(both).connect() as standby:
            standby.execute("SELECT pg_wal_replay_pause()")
            session.execute("CREATE TABLE t AS SELECT generate_series(1, 1000) AS i")
            waiting = threading.Thread(target=wait)
            waiting.start()
            assert not over.wait(0.5)
            standby.execute("SELECT pg_wal_replay_resume()")
            waiting.join()
            assert over.is_set()
            assert standby.execute("SELECT count(*) FROM t").fetchone() == (1000,)


def test_a_replica_that_replays_nothing_fails_the_run(
    place: Path, pg17: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "STILL_SECONDS", 1.0)
    monkeypatch.setattr(replica, "CAUGHT_UP_SECONDS", 1.0)
    with replicated(pg17, place / "c", Replicas("async", "replica")) as both:
        (startup,) = (
            p for p in processes_of(standby_of(both).postmaster.pid) if "startup" in " ".join(p.cmdline())
        )
        with stopped([startup]):
            with both.connect() as session:
                session.execute("CREATE TABLE t AS SELECT generate_series(1, 100000) AS i")
            with pytest.raises(ServerError, match=r"the replica (is still|has replayed nothing)"):
                both.standbys.serving(reads_only=True)
            wait_for(lambda: not both.postmaster.alive())
            with pytest.raises(ServerError, match=r"has replayed nothing for 1 s and is .* behind"):
                both.standbys.check()


def test_a_replica_that_fell_too_far_behind_is_said_to(
    place: Path, pg17: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica, "GONE_SECONDS", 4.0)
    small = {
        "wal_keep_size": "0",
        "max_wal_size": "32MB",
        "min_wal_size": "32MB",
        "wal_sender_timeout": "500ms",
    }
    with replicated(pg17, place / "c", Replicas(), **small) as both:
        with stopped(processes_of(standby_of(both).postmaster.pid)), both.connect() as session:
            for _ in range(6):
                session.execute("SELECT pg_logical_emit_message(false, '', repeat('x', 16000000))")
            session.execute("CHECKPOINT")
        wait_for(lambda: not both.postmaster.alive())
        with pytest.raises(ServerError, match="the replica fell behind by more than") as failed:
            both.standbys.check()
        assert "wal_keep_size" in failed.value.hint
