"""Snapshots of data folders: the same data again, nothing left where the space was not enough."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pgstrata.errors import ServerError
from pgstrata.files.disk import folder_bytes
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.cluster.snapshot import copy_folder
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server


def test_what_was_written_since_is_gone(place: Path, pg17: Server) -> None:
    config = resolve([], pg17.version_num, 1 << 30)
    with Cluster(pg17, config, place / "a") as first, Cluster(pg17, config, place / "b") as other:
        first.create()
        first.start()
        with first.connect() as connection:
            connection.execute("CREATE TABLE t AS SELECT 1 AS x")
        first.stop()
        first.save()
        other.create(copy_of=first.data_folder.path)
        other.start()
        first.start()
        with first.connect() as connection, other.connect() as beside:
            connection.execute("INSERT INTO t VALUES (2)")
            assert beside.execute("SELECT x FROM t").fetchall() == [(1,)]
        first.stop("immediate")
        first.restore()
        first.start()
        with first.connect() as connection:
            assert connection.execute("SELECT x FROM t").fetchall() == [(1,)]
        first.data_folder.drop_snapshot()
        assert not first.data_folder.snapshot.exists()


@pytest.mark.program
def test_without_space_it_says_how_much_and_leaves_nothing(place: Path) -> None:
    source, small = place / "source", place / "small"
    source.mkdir()
    (source / "file").write_bytes(b"x" * (4 << 20))
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], capture_output=True)
    if mounted.returncode:  # not root: a target that cannot be written says what is wrong, too
        small.chmod(0o500)
        with pytest.raises(ServerError, match="cannot be made"):
            copy_folder(source, small / "copy", None)
        return
    try:
        with pytest.raises(ServerError, match=r"no space for a snapshot of .*: 4 MiB, 1 MiB are free"):
            copy_folder(source, small / "copy", None)
        assert list(small.iterdir()) == []
    finally:
        subprocess.run(["umount", small], check=True)
    assert folder_bytes(source) == 4 << 20
