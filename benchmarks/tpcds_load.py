"""TPC-DS generated and loaded by pgstrata, against COPY alone from ready files on the same server.

    .venv/bin/python benchmarks/tpcds_load.py --scale 1 --server pg:17

Pairs, alternating which comes first. `pgstrata`: an empty cache, so that the rows are generated, kept and
streamed into COPY by the driver. `copy`: the server's own COPY from files that are there (`COPY … FROM
'file'`), with the same connections and the same spread of tables, no client in between. Target: a ratio of at
most 1.3; memory of pgstrata and everything it starts, the server apart, below 300 MiB.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from pgstrata.campaign.measure import driver_spec
from pgstrata.driver import Driver
from pgstrata.server.acquire import acquire
from pgstrata.server.cache import cache_dir
from pgstrata.server.cluster import Cluster
from pgstrata.server.config import find_fragment, resolve
from pgstrata.workload.language import Step
from pgstrata.workload.tpcds import Tpcds, data, schema
from pgstrata.workload.tpcds.options import TpcdsOptions

MIB = 1 << 20


class Memory:
    """The largest resident memory of this process and its children, postgres apart; 20 samples a second."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        own = psutil.Process()
        while not self._stop.wait(0.05):
            total = own.memory_info().rss
            for child in own.children(recursive=True):
                try:
                    if child.name() != "postgres":
                        total += child.memory_info().rss
                except psutil.Error:
                    continue
            self.peak = max(self.peak, total)


def empty_tables(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        for table in schema.tables():
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in schema.create():
            connection.execute(statement.encode())
        connection.execute("CHECKPOINT")


def by_pgstrata(cluster: Cluster, options: TpcdsOptions) -> tuple[float, float]:
    """Seconds to generate, seconds to load."""
    shutil.rmtree(data.folder(options.scale), ignore_errors=True)
    begun = time.monotonic()
    data.make(options.scale)
    generated = time.monotonic() - begun
    (step,) = [p for p in Tpcds().phases(options, 0) if isinstance(p, Step) and p.name == "copy"]
    with Driver(driver_spec(step, cluster.connection("postgres"), 1, "auto")) as driver:
        driver.ready()
        driver.start()
        done = list(driver.events())[-1]
        driver.close()
    return generated, float(done["seconds"])


def by_copy(cluster: Cluster, options: TpcdsOptions) -> float:
    """Seconds the server takes for its own COPY from ready files."""

    def one(tables: list[str]) -> None:
        with cluster.connect() as connection:
            for table in tables:
                path = data.file(options.scale, table)
                connection.execute(f"COPY {table} FROM '{path}' WITH (DELIMITER '|', NULL '')".encode())

    shares = schema.spread(options.load_connections, lambda table: [table])
    begun = time.monotonic()
    with ThreadPoolExecutor(len(shares)) as pool:
        for future in [pool.submit(one, share) for share in shares]:
            future.result()
    return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--pairs", type=int, default=1)
    arguments = parser.parse_args()
    options = TpcdsOptions(scale=arguments.scale)
    server = acquire(arguments.server)
    servers = cache_dir() / "servers"
    place = Path(tempfile.mkdtemp(prefix="pgs", dir="/var/tmp"))
    place.chmod(0o755)
    os.environ["PGSTRATA_CACHE"] = str(place / "cache")
    (place / "cache").mkdir(mode=0o755)
    (place / "cache" / "servers").symlink_to(servers)
    config = resolve([find_fragment("default", None)], server.version_num, psutil.virtual_memory().total)
    try:
        with Cluster(server, config, place / "c") as cluster, Memory() as memory:
            cluster.create()
            cluster.start()
            for pair in range(arguments.pairs):
                if pair == 0:
                    data.make(options.scale)
                seconds: dict[str, float] = {}
                for side in ("pgstrata", "copy") if pair % 2 == 0 else ("copy", "pgstrata"):
                    empty_tables(cluster)
                    if side == "copy":
                        seconds[side] = by_copy(cluster, options)
                    else:
                        generated, loaded = by_pgstrata(cluster, options)
                        seconds[side] = generated + loaded
                        print(f"  generate {generated:.1f} s, load {loaded:.1f} s")
                about = data.about(options.scale)
                assert about is not None
                print(
                    f"pgstrata {seconds['pgstrata']:.1f} s, COPY alone {seconds['copy']:.1f} s, ratio "
                    f"{seconds['pgstrata'] / seconds['copy']:.2f}, {about['raw_bytes'] / 1e6:.0f} MB"
                )
    finally:
        shutil.rmtree(place, ignore_errors=True)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"memory: {memory.peak / MIB:.0f} MiB with children, {own:.0f} MiB of pgstrata alone")


if __name__ == "__main__":
    main()
