"""A running server of an old and of a current version, shared by the tests of a session."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.find.model import Server
from support.disks import ON_DISK
from support.needs import needs

# Everything is logged, and autovacuum comes within a second or two.
SETTINGS = {
    "fsync": "off",
    "shared_buffers": "32MB",
    "log_checkpoints": "on",
    "log_autovacuum_min_duration": "0",
    "autovacuum_naptime": "1s",
    "autovacuum_vacuum_threshold": "50",
    "autovacuum_vacuum_scale_factor": "0",
}


@contextmanager
def running(server: Server) -> Iterator[Cluster]:
    """A cluster with the database pgstrata, in a folder on a disk that every account can enter."""
    folder = Path(tempfile.mkdtemp(prefix="pgo", dir=ON_DISK))
    folder.chmod(0o755)
    try:
        with Cluster(server, Resolved("test", settings=SETTINGS), folder / "c") as cluster:
            cluster.create()
            cluster.start()
            with cluster.connect() as session:
                session.execute("CREATE DATABASE pgstrata")
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", params=["pg12", "pg17"])
@needs("server")
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with running(request.getfixturevalue(request.param)) as shared:
        yield shared


@pytest.fixture
def new_cluster(pg17: Server) -> Iterator[Cluster]:
    """One that the test may destroy."""
    with running(pg17) as cluster:
        yield cluster
