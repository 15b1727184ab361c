"""Campaigns small enough for tests, every step of them a second or less; a server for `pgstrata bench`."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server
from support.bench import TABLES, Bench, Done, run_bench

TINY = """
name = "tiny"
data_dir = "data"
servers = [{servers}]
{more}

[[workloads]]
name = "insert"
[workloads.options]
rows = 3000
rows_i1 = 500
rows_i2 = 100
seconds = {seconds}
steps = [{steps}]
settle_base = 0
"""


@pytest.fixture
def campaign(place: Path) -> Callable[..., Path]:
    """Writes a tiny campaign into `place`."""

    def write(
        *servers: Server, steps: str = '"100:range", "100:point"', seconds: float = 1, more: str = ""
    ) -> Path:
        file = place / "tiny.toml"
        names = ", ".join(f'"{server.spec}"' for server in servers)
        file.write_text(TINY.format(servers=names, steps=steps, seconds=seconds, more=more))
        return file

    return write


@pytest.fixture(scope="module")
def cluster(pg17: Server) -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="pgs", dir="/tmp"))
    folder.chmod(0o755)
    new_cluster = Cluster(pg17, resolve([], pg17.version_num, psutil.virtual_memory().total), folder / "c")
    new_cluster.create()
    new_cluster.start()
    try:
        with new_cluster.connect() as connection:
            connection.execute(TABLES)
            connection.execute("ALTER SYSTEM SET deadlock_timeout = '20ms'")
            connection.execute("SELECT pg_reload_conf()")
        yield new_cluster
    finally:
        new_cluster.stop("immediate")
        new_cluster.remove()
        folder.rmdir()


@pytest.fixture
def bench(cluster: Cluster, tmp_path: Path) -> Bench:
    """Runs `pgstrata bench` with a script (text or bytes) and options, in a folder of its own."""

    def call(script: str | bytes | None, *options: object) -> Done:
        given: list[object] = []
        if script is not None:
            data = script.encode() if isinstance(script, str) else script
            (tmp_path / "mine.sql").write_bytes(data)
            given = ["-f", "mine.sql"]
        return run_bench(cluster, tmp_path, *given, *options)

    return call
