"""What the driver costs in the Insert Benchmark: CPU per row, share of the backends' CPU, memory.

    .venv/bin/python benchmarks/insert_client.py [--server pg:17] [--rows 1000000]

Prints the driver's CPU per row in l.i0 (100 rows per statement), its CPU against that of the two
backends in l.i1 (one insert and one delete connection), and its peak memory with 100 connections
at work. The driver's CPU is its own account (getrusage) over the measured time, the backends' that
of the scheduler (/proc/PID/schedstat) between the same two events.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Done, Failure
from pgstrata.driver.spec import EngineChoice
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import find_config_file, resolve
from pgstrata.server.find.acquire import acquire
from pgstrata.workload.core.language import Admin, Settle, Step
from pgstrata.workload.insert.options import InsertOptions
from pgstrata.workload.insert.steps import InsertBenchmark


def backend_seconds(pids: list[int]) -> float:
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


def drive(cluster: Cluster, step: Step, engine: EngineChoice) -> tuple[Done, float, str]:
    """The `done` event, the backends' CPU seconds, and the engine that ran."""
    spec = driver_spec(step, cluster.connection("pgstrata"), 1, engine)
    with Driver(spec) as driver:
        ready = driver.ready()
        pids = [pid for role in ready.roles for pid in role.pids]
        before = backend_seconds(pids)
        driver.start()
        for event in driver.events():
            if isinstance(event, Failure):
                raise SystemExit(event.message)
            if isinstance(event, Done):
                cpu = backend_seconds(pids) - before
                driver.close()
                return event, cpu, ready.engine
    raise SystemExit("the driver ended without `done`")


def study(cluster: Cluster, options: InsertOptions, wanted: set[str], engine: EngineChoice) -> None:
    for phase in InsertBenchmark().phases(options, cluster.server.features):
        if isinstance(phase, Admin):
            with cluster.connect("pgstrata") as admin:
                for statement in phase.statements:
                    admin.execute(statement)
        elif isinstance(phase, Settle):
            continue
        elif isinstance(phase, Step) and phase.name in wanted:
            done, cpu, used = drive(cluster, phase, engine)
            rows = sum(role.rows for role in done.roles)
            driver_cpu_seconds = done.driver_cpu_seconds
            line = f"{phase.name:<6} {options.clients:>3} client(s)  {used:<9}"
            line += f" {rows / done.seconds:>10,.0f} rows/s"
            line += f"  driver {driver_cpu_seconds * 1e6 / rows:6.3f} µs/row"
            line += f"  {100 * driver_cpu_seconds / cpu:5.2f} % of the backends' {cpu:.2f} s"
            print(line + f"  peak {done.driver_peak_rss_bytes / 2**20:.1f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--engine", default="auto")
    args = parser.parse_args()
    server = acquire(args.server)
    config = resolve([find_config_file("cached-by-pg", None)], server.version_num, 8 << 30)
    for clients, rows, wanted in (
        (1, args.rows, {"l.i0", "l.x", "l.i1"}),
        (50, args.rows // 5, {"l.i0", "l.x", "l.i1"}),
    ):
        with tempfile.TemporaryDirectory(prefix="pgs") as folder:
            # As root the server runs as another account, which has to get into the folder.
            Path(folder).chmod(0o755)
            with Cluster(server, config, Path(folder) / "c") as cluster:
                cluster.create()
                cluster.start()
                with cluster.connect() as admin:
                    admin.execute("CREATE DATABASE pgstrata")
                options = InsertOptions.model_validate(
                    {"rows": rows, "clients": clients, "rows_i1": rows // 4, "rows_i2": 0}
                )
                study(cluster, options, wanted, args.engine)


if __name__ == "__main__":
    main()
