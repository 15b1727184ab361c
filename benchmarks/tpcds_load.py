"""TPC-DS generated and loaded by pgstrata, against COPY alone from ready files on the same server.

    .venv/bin/python benchmarks/tpcds_load.py --scale 1 --server pg:17

Rounds in which three ways take turns. `pgstrata`: an empty cache, so that the rows are generated, kept and
streamed into COPY by the driver. `copy`: the server's own COPY from files that are there (`COPY … FROM
'file'`), one table after the other on one connection, as scripts load them; no client in between. `spread`:
the same with the connections and the spread of tables that pgstrata has. Target: a ratio of at most 1.3;
memory of pgstrata and everything it starts, the server apart, below 300 MiB: while it loads, and, with
--answers, while DuckDB answers these queries as it does before a run's first query.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from own_cache import own_cache

import pgstrata.cli.main  # noqa: F401  (what a run has in memory, this has)
from pgstrata.driver.client import Driver
from pgstrata.driver.events import Done
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import find_config_file, resolve
from pgstrata.server.features import NEWEST
from pgstrata.server.find.acquire import acquire
from pgstrata.tpc import data, load, reference, source
from pgstrata.tpc.options import numbers_in
from pgstrata.tpcds.options import TpcdsOptions
from pgstrata.tpcds.schema import TPCDS
from pgstrata.tpcds.steps import Tpcds
from pgstrata.workload.core.language import Step

MIB = 1 << 20


def proportional_bytes(process: psutil.Process) -> int:
    """Memory in which a page that several processes share counts once among them (PSS)."""
    rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text()
    return next(int(line.split()[1]) << 10 for line in rollup.splitlines() if line.startswith("Pss:"))


def own_cpu_seconds() -> float:
    """Of this process and of the children that have ended: generator, driver."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def server_cpu_seconds(cluster: Cluster) -> float:
    """Of all processes of the server, those that have ended included."""
    assert cluster.postmaster.pid is not None
    time.sleep(0.5)  # until the backends that have just ended are among those
    postmaster = psutil.Process(cluster.postmaster.pid)
    total = sum(postmaster.cpu_times()[:4])
    for child in postmaster.children():
        with contextlib.suppress(psutil.Error):
            total += sum(child.cpu_times()[:2])
    return float(total)


class Memory:
    """The largest memory of this process and its children together, postgres apart; 2 samples a second."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._stop.set()
        self._thread.join()
        print(f"memory {self.name}: {self.peak / MIB:.0f} MiB with children, shared pages counted once")

    def _watch(self) -> None:
        this_process = psutil.Process()
        while not self._stop.wait(0.5):
            total = 0
            for process in (this_process, *this_process.children(recursive=True)):
                with contextlib.suppress(psutil.Error, OSError):
                    if process.name() != "postgres":
                        total += proportional_bytes(process)
            self.peak = max(self.peak, total)


def empty_tables(cluster: Cluster) -> None:
    with cluster.connect() as connection:
        for table in source.tables(TPCDS):
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in load.create(TPCDS):
            connection.execute(statement.encode())
        connection.execute("CHECKPOINT")


def by_pgstrata(cluster: Cluster, options: TpcdsOptions) -> tuple[float, float]:
    """Seconds to generate, seconds to load."""
    shutil.rmtree(data.folder(TPCDS, options.scale), ignore_errors=True)
    begun = time.monotonic()
    data.make(TPCDS, options.scale)
    generated = time.monotonic() - begun
    (step,) = [p for p in Tpcds().phases(options, NEWEST) if isinstance(p, Step) and p.name == "copy"]
    with Driver(driver_spec(step, cluster.connection("postgres"), 1, "auto")) as driver:
        driver.ready()
        driver.start()
        *_, done = driver.events()
        driver.close()
    assert isinstance(done, Done)
    return generated, done.seconds


def by_copy(cluster: Cluster, options: TpcdsOptions, connections: int) -> float:
    """Seconds the server takes for its own COPY from ready files."""

    def copy_tables(tables: list[str]) -> None:
        with cluster.connect() as connection:
            for table in tables:
                path = data.file(TPCDS, options.scale, table)
                connection.execute(f"COPY {table} FROM '{path}' WITH (DELIMITER '|', NULL '')".encode())

    shares = load.spread_tables(TPCDS, connections, lambda table: [table])
    begun = time.monotonic()
    with ThreadPoolExecutor(len(shares)) as pool:
        for future in [pool.submit(copy_tables, share) for share in shares]:
            future.result()
    return time.monotonic() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--answers", metavar="QUERIES", help='say "4 11 14 23 51 64 67 78 97", the largest')
    arguments = parser.parse_args()
    options = TpcdsOptions(scale=arguments.scale)
    server = acquire(arguments.server)
    config = resolve([find_config_file("default", None)], server.version_num, psutil.virtual_memory().total)
    with own_cache() as place:
        with Cluster(server, config, place / "c") as cluster, Memory("of the load"):
            cluster.create()
            cluster.start()
            for turn in range(arguments.rounds):
                seconds: dict[str, float] = {}
                cpu: dict[str, float] = {}
                # The first to come makes the files.
                sides = ["pgstrata", "copy", "spread"]
                for side in sides if turn % 2 == 0 else sides[::-1]:
                    empty_tables(cluster)
                    before = own_cpu_seconds(), server_cpu_seconds(cluster)
                    if side != "pgstrata":
                        connections = 1 if side == "copy" else options.load_connections
                        seconds[side] = by_copy(cluster, options, connections)
                    else:
                        generated, loaded = by_pgstrata(cluster, options)
                        seconds[side] = generated + loaded
                        print(f"  generate {generated:.1f} s, load {loaded:.1f} s")
                    own_seconds, its = own_cpu_seconds() - before[0], server_cpu_seconds(cluster) - before[1]
                    cpu[side] = own_seconds + its
                    print(f"  {side}: CPU {own_seconds:.1f} s, the server's {its:.1f} s")
                about = data.about(TPCDS, options.scale)
                assert about is not None
                print(f"pgstrata {seconds['pgstrata']:.1f} s, {about['raw_bytes'] / 1e6:.0f} MB")
                for side, what in (("copy", "one connection"), ("spread", "as many connections")):
                    print(
                        f"COPY alone, {what}: {seconds[side]:.1f} s, "
                        f"ratio {seconds['pgstrata'] / seconds[side]:.2f} of time, "
                        f"{cpu['pgstrata'] / cpu[side]:.2f} of CPU"
                    )
        if arguments.answers:
            numbers = numbers_in(arguments.answers, TPCDS.queries)
            with Memory("of the answers"):
                reference.make(TPCDS, options.scale, numbers, print)
            known_numbers = [n for n in numbers if reference.answer(TPCDS, options.scale, n)]
            print(f"answered: {' '.join(map(str, known_numbers))}")


if __name__ == "__main__":
    main()
