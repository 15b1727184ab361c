"""Where the data of a cluster lies: folders that are looked at, a write-ahead log elsewhere, and delays."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.errors import OwnershipError, ServerError, UsageError
from pgstrata.server.cluster import delay, loaded
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.delay import delay_seconds, find_delay
from pgstrata.server.cluster.storage import Storage, check_storage, find_storage, wal_folder
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server
from pgstrata.server.system.guard import MARKER
from support.users import STRANGER, needs_root


@pytest.fixture
def elsewhere(place: Path) -> Path:
    """A folder for write-ahead logs beside that of the data."""
    folder = place / "elsewhere"
    folder.mkdir(0o755)
    return folder


def cluster(server: Server, folder: Path, storage: Storage) -> Cluster:
    return Cluster(server, resolve([], server.version_num, 1 << 30), folder, storage=storage)


def test_a_folder_that_is_not_there_is_not_made(place: Path) -> None:
    with pytest.raises(UsageError, match="`wal_dir`: there is no folder") as refused:
        find_storage(None, str(place / "unmounted"), None)
    assert "mount its disk" in refused.value.hint
    assert not (place / "unmounted").exists()
    (place / "file").write_text("")
    with pytest.raises(UsageError, match="`data_dir`: there is no folder"):
        find_storage(str(place / "file"), None, None)


def test_a_folder_that_others_may_write_to_is_refused(elsewhere: Path) -> None:
    elsewhere.chmod(0o777)
    with pytest.raises(OwnershipError, match="can be written by other users"):
        find_storage(str(elsewhere), None, None)


@needs_root
def test_a_folder_of_somebody_else_or_closed_to_the_servers_account_is_refused(elsewhere: Path) -> None:
    os.chown(elsewhere, STRANGER, STRANGER)
    with pytest.raises(OwnershipError, match=f"belongs to uid {STRANGER}"):
        find_storage(None, str(elsewhere), None)
    os.chown(elsewhere, 0, 0)
    elsewhere.chmod(0o700)
    with pytest.raises(ServerError, match="as which servers run, cannot enter") as refused:
        find_storage(None, str(elsewhere), None)
    assert f"chmod o+x {elsewhere}" in refused.value.hint


@pytest.mark.program
def test_a_full_disk_is_named(small_disk: Path) -> None:
    with (small_disk / "filling").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
        while True:
            file.write(bytes(1 << 16))
    with pytest.raises(UsageError, match="its disk is full"):
        find_storage(str(small_disk), None, None)


def test_the_log_lies_elsewhere_and_every_copy_of_the_data_has_it_within(
    place: Path, elsewhere: Path, pg17: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    with cluster(pg17, place / "c", find_storage(None, str(elsewhere), None)) as new_cluster:
        new_cluster.create()
        new_cluster.start()
        assert new_cluster.data_folder.wal == elsewhere / "c" / "wal"
        assert (new_cluster.data_folder.path / "pg_wal").resolve() == new_cluster.data_folder.wal
        segments = {path.name for path in new_cluster.data_folder.wal.iterdir()}
        assert any(len(name) == 24 for name in segments)
        with new_cluster.connect() as session:
            session.execute("CREATE TABLE t AS SELECT 1 AS i")
        new_cluster.stop()
        new_cluster.save()
        assert (new_cluster.data_folder.snapshot / "pg_wal").is_dir() and not (
            new_cluster.data_folder.snapshot / "pg_wal"
        ).is_symlink()
        new_cluster.start()
        with new_cluster.connect() as session:
            session.execute("INSERT INTO t VALUES (2)")
        new_cluster.stop("immediate")
        new_cluster.restore()
        new_cluster.start()
        with new_cluster.connect() as session:
            assert session.execute("SELECT count(*) FROM t").fetchall() == [(1,)]
        assert (new_cluster.data_folder.path / "pg_wal").resolve() == new_cluster.data_folder.wal
        new_cluster.stop()
        key = loaded.key_of({"rows": 1})
        kept = loaded.keep(
            key, new_cluster.data_folder.path, about=loaded.begin_record(key, "pg17", "w", {}, {}, 1.0)
        )
        assert kept is not None and loaded.find(key) is not None
        # A copy of the data goes to a cluster without a folder of its own for the log, and the other way.
        with cluster(pg17, place / "d", Storage()) as two:
            two.create(new_cluster.data_folder.path)
            two.start()
            assert not (two.data_folder.path / "pg_wal").is_symlink()
            two.stop()
            with cluster(pg17, place / "e", Storage(wal=elsewhere)) as three:
                three.create(kept.data)
                three.start()
                assert (three.data_folder.path / "pg_wal").resolve() == elsewhere / "e" / "wal"
                with three.connect() as session:
                    assert session.execute("SELECT count(*) FROM t").fetchall() == [(1,)]
    assert list(elsewhere.iterdir()) == []


def test_a_log_in_the_folder_of_the_data_is_refused_and_a_kept_one_stays(
    place: Path, elsewhere: Path, pg17: Server
) -> None:
    both = cluster(pg17, place / "c", Storage(wal=place))
    with both, pytest.raises(ServerError, match="where the data lies anyway"):
        both.create()
    kept = cluster(pg17, place / "k", Storage(wal=elsewhere))
    kept.create()
    kept.keep()
    assert (elsewhere / "k" / MARKER).exists()
    assert wal_folder(place / "k" / "data") == place / "k" / "data" / "pg_wal"
    with pytest.raises(ServerError, match="holds a cluster that was kept"):
        cluster(pg17, place / "other" / "k", Storage(wal=elsewhere)).create()


@pytest.mark.parametrize("text", ["", "5", "5 minutes", "0ms", "-1ms", "11s", "1e3ms", "٣ms"])
def test_what_is_no_delay_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is no delay"):
        check_storage(None, None, text)
    assert delay_seconds("1.5 ms") == 0.0015
    assert delay_seconds("250us") == 0.00025


@pytest.mark.program
def test_a_delay_that_the_kernel_cannot_make_is_said() -> None:
    # No kernel sleeps for a nanosecond: this is what it really does.
    assert delay.shortest_sleep(1e-9) > 1e-9
    with pytest.raises(UsageError, match="does not sleep for so short a time") as refused:
        find_delay("0.001us")
    assert 'io_delay = "' in refused.value.hint


def test_without_a_compiler_the_sentence_says_what_to_install(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place))
    with pytest.raises(ServerError, match="needs a C compiler") as refused:
        find_delay("2ms")
    assert "gcc" in refused.value.hint


READS = "SELECT sum(blks_read) FROM pg_stat_database"


@pytest.fixture
def delayed(place: Path, pg17: Server) -> Iterator[Cluster]:
    """A server with the fewest buffers whose disk answers 5 ms later."""
    with cluster(pg17, place / "c", find_storage(None, None, "5ms")) as slow:
        slow.create()
        slow.start(settings={"shared_buffers": "128kB", "max_parallel_workers_per_gather": "0"})
        yield slow


def test_reads_wait_and_what_follows_or_was_asked_for_waits_together(delayed: Cluster) -> None:
    def milliseconds(statement: str) -> float:
        row = session.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}").fetchone()
        assert row
        plan = row[0][0]
        read[0] = plan["Plan"]["Shared Read Blocks"]
        return float(plan["Execution Time"])

    read = [0]
    with delayed.connect() as session:
        session.execute(
            "CREATE TABLE t AS SELECT i, repeat('x', 900) AS p FROM generate_series(1, 4000) AS i"
        )
        session.execute("CREATE INDEX ON t (i); CREATE TABLE u AS SELECT 1 FROM generate_series(1, 90000)")
        session.execute("SELECT count(*) FROM u")  # nothing of t is in the buffers then
        session.execute("SET track_io_timing = on; SET enable_seqscan = off; SET enable_bitmapscan = off")
        # In the order of the index every row lies in another page than the one before it.
        scattered = "SELECT p FROM t WHERE i IN (1, 501, 1001, 1501, 2001, 2501, 3001, 3501)"
        # A sleep never ends early: each page waits its time.
        took = milliseconds(scattered)
        assert read[0] >= 8 and took >= 5 * 8
        # Read ahead: 16 pages wait once, so it takes a small part of what each page alone would.
        session.execute("SET enable_seqscan = on; SET enable_indexscan = off; SET enable_bitmapscan = off")
        session.execute("SELECT count(*) FROM u")
        took = milliseconds("SELECT count(p) FROM t")
        assert read[0] >= 400 and 5 < took < 5 * read[0] / 2
        # Asked for beforehand: the waits of the pages overlap.
        session.execute(
            "SET enable_seqscan = off; SET enable_bitmapscan = on; SET effective_io_concurrency = 64"
        )
        session.execute("SELECT count(*) FROM u")
        alone = " OR ".join(f"i = {number * 100 + 1}" for number in range(40))
        took = milliseconds(f"SELECT p FROM t WHERE {alone}")
        assert read[0] >= 40 and 5 < took < 5 * read[0]


def test_a_commit_waits_and_the_variables_of_the_server_stay(
    place: Path, pg17: Server, delayed: Cluster
) -> None:
    with delayed.connect() as session:
        session.execute("CREATE TABLE c (i int)")
        session.execute("SET track_wal_io_timing = on")
        before = session.execute("SELECT wal_sync, wal_sync_time FROM pg_stat_wal").fetchone()
        for number in range(20):
            session.execute("INSERT INTO c VALUES (%s)", [number])
        session.execute("SELECT pg_stat_force_next_flush()")
        after = session.execute("SELECT wal_sync, wal_sync_time FROM pg_stat_wal").fetchone()
        assert before and after
        syncs, took = after[0] - before[0], after[1] - before[1]
        assert syncs >= 20 and took >= 5 * 20
    env = Path(f"/proc/{delayed.postmaster.pid}/environ").read_bytes().split(b"\0")
    delay = find_delay("5ms")
    assert delay is not None
    assert f"LD_PRELOAD={delay.library}".encode() in env
    own_env = {"LD_PRELOAD": "/lib/other.so", "X": "1"}
    assert delay.env(place, None, own_env)["LD_PRELOAD"] == f"{delay.library}:/lib/other.so"
    assert delay.env(place, None, own_env)["X"] == "1"
