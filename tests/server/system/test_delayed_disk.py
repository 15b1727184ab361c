"""Disks that the kernel delays: which ones it can make, what they do, and that nothing of them stays."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pgstrata.errors import ServerError, UsageError
from pgstrata.server.cluster.cluster import Cluster, clear_leftovers
from pgstrata.server.cluster.delay import find_delay
from pgstrata.server.cluster.storage import Storage, find_storage
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server
from pgstrata.server.system.delayed_disk import (
    IMAGE,
    check_kernel,
    make_disk,
    names_device_mapper,
    remove_disk,
    too_coarse,
)
from support.delayed_disk import AT_LEAST_SECONDS, DELAY_SECONDS, disks_of, needs_delayed_disk
from support.users import STRANGER, needs_root


def test_what_becomes_half_as_much_again_is_too_coarse() -> None:
    # 4 ms are one tick of 250 Hz, and may become two; 12 ms become 8 to 16, 13 up to 20.
    assert [ms for ms in range(1, 17) if not too_coarse(ms, 250)] == [11, 12, 14, 15, 16]
    assert [ms for ms in range(1, 6) if not too_coarse(ms, 1000)] == [3, 4, 5]
    assert not any(too_coarse(ms, hertz) for hertz in (100, 250, 300, 1000) for ms in (50, 100, 10_000))


def test_a_kernel_is_asked_for_its_device_mapper(tmp_path: Path) -> None:
    devices = tmp_path / "misc"
    assert not names_device_mapper(devices)
    devices.write_text("237 loop-control\n")
    assert not names_device_mapper(devices)
    devices.write_text("237 loop-control\n236 device-mapper\n")
    assert names_device_mapper(devices)


@pytest.mark.program
@needs_root
def test_what_only_root_may_is_said_to_others() -> None:
    # In a process of its own: there is no way back.
    text = (
        "import os, sys\n"
        f"os.setgid({STRANGER}); os.setuid({STRANGER})\n"
        "from pgstrata.errors import UsageError\n"
        "from pgstrata.server.system.delayed_disk import check_kernel\n"
        "try: check_kernel(0.1)\n"
        "except UsageError as error: print(error.message)\n"
    )
    # The modules are read by root before: its folder may be closed to others.
    imports = "import pgstrata.server.system.delayed_disk, pgstrata.errors\n"
    done = subprocess.run([sys.executable, "-c", imports + text], capture_output=True, text=True, timeout=60)
    assert done.stdout == "only root may have the kernel delay a disk\n", done.stderr


@pytest.mark.program
@needs_root
def test_one_that_cannot_be_made_is_refused_and_leaves_nothing(place: Path) -> None:
    try:
        check_kernel(DELAY_SECONDS)
    except UsageError as reason:
        with pytest.raises(UsageError) as refused:
            find_delay(f"{DELAY_SECONDS}s", "device")
        assert reason.message in refused.value.message
        # Asked all the same, its sentence names the program and what it said.
        with pytest.raises(ServerError, match=r"the kernel makes no delayed disk in .* says: "):
            make_disk(place, "pgstrata-none", DELAY_SECONDS)
    else:
        # A name that is taken.
        (place / "one").mkdir()
        (place / "two").mkdir()
        make_disk(place / "one", "pgstrata-taken", DELAY_SECONDS)
        with pytest.raises(ServerError, match=r"the kernel makes no delayed disk in .*dmsetup says: "):
            make_disk(place / "two", "pgstrata-taken", DELAY_SECONDS)
        # It is the other's: while that is mounted it stays.
        remove_disk(place / "two", "pgstrata-taken")
        assert (place / "one" / "disk").is_mount()
        assert remove_disk(place / "one", "pgstrata-taken")
    assert remove_disk(place, "pgstrata-none")
    assert disks_of(place) == []


def test_a_disk_without_room_is_named(small_disk: Path) -> None:
    with pytest.raises(ServerError, match="no space left for a delayed disk"):
        make_disk(small_disk, "pgstrata-small", DELAY_SECONDS)
    assert list(small_disk.iterdir()) == []


def read_directly(file: Path, page: int) -> float:
    """Seconds of one read past the page cache."""
    handle, memory = os.open(file, os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 8192)
    try:
        begun = time.monotonic()
        assert os.preadv(handle, [memory], page * 8192) == 8192
        return time.monotonic() - begun
    finally:
        os.close(handle)


@needs_delayed_disk
def test_reads_and_commits_wait_and_nothing_stays(place: Path, pg17: Server) -> None:
    logs = place / "logs"
    logs.mkdir(0o755)
    storage = find_storage(None, str(logs), f"{DELAY_SECONDS}s")
    assert storage.delay and storage.delay.library is None
    config = resolve([], pg17.version_num, 1 << 30)
    with Cluster(pg17, config, place / "c", storage=storage) as one:
        one.create()
        one.start()
        assert one.data_folder.path == place / "c" / "disk" / "data"
        assert one.data_folder.wal == logs / "c" / "disk" / "wal"
        with one.connect() as session:
            session.execute("CREATE TABLE t AS SELECT i FROM generate_series(1, 10000) AS i")
            (file,) = session.execute("SELECT pg_relation_filepath('t')").fetchone() or ("",)
            session.execute("CHECKPOINT")
            took = [read_directly(one.data_folder.path / file, page) for page in range(10)]
            assert min(took) >= AT_LEAST_SECONDS
            session.execute("SET track_wal_io_timing = on")
            for number in range(10):
                begun = time.monotonic()
                session.execute("INSERT INTO t VALUES (%s)", [number])
                assert time.monotonic() - begun >= AT_LEAST_SECONDS
        one.stop()
        # Copies lie below the delayed disk, and come back.
        one.save()
        assert one.data_folder.snapshot == place / "c" / "snapshot"
        one.start()
        with one.connect() as session:
            session.execute("DROP TABLE t")
        one.stop("immediate")
        one.restore()
        one.start()
        with one.connect() as session:
            assert session.execute("SELECT count(*) FROM t").fetchone() == (10010,)
    assert disks_of(place) == [] and list(logs.iterdir()) == [] and not (place / "c").exists()


@needs_delayed_disk
def test_the_next_one_takes_down_what_a_killed_one_has_left(place: Path, pg17: Server) -> None:
    ready, said = os.pipe()
    child = os.fork()
    if not child:
        try:
            storage = Storage(delay=find_delay(f"{DELAY_SECONDS}s", "device"))
            one = Cluster(pg17, resolve([], pg17.version_num, 1 << 30), place / "c", storage=storage)
            one.create()
            one.start()
            os.write(said, b"!")
            time.sleep(600)
        finally:
            os._exit(1)
    os.close(said)
    assert os.read(ready, 1) == b"!"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    assert (place / "c" / "disk").is_mount() and (place / "c" / IMAGE).exists()
    (left,) = clear_leftovers(place)
    assert str(place / "c") in left
    assert disks_of(place) == [] and not (place / "c").exists()


@needs_delayed_disk
def test_a_kept_one_stays_mounted(place: Path, pg17: Server) -> None:
    storage = Storage(delay=find_delay(f"{DELAY_SECONDS}s", "device"))
    one = Cluster(pg17, resolve([], pg17.version_num, 1 << 30), place / "c", storage=storage)
    one.create()
    one.start()
    one.keep()
    assert clear_leftovers(place) == [] and (one.data_folder.path / "PG_VERSION").exists()
    with pytest.raises(ServerError):
        one.connect()
    mapped = [name for name in disks_of(place) if name.startswith("pgstrata-")]
    assert len(mapped) == 1
    assert remove_disk(place / "c", mapped[0]) and disks_of(place) == []
