"""What the tool adds to each recorded query: between the queries, and when the step is over.

    .venv/bin/python benchmarks/query_overhead.py [--server pg:17] [--queries 2000]

Runs made-up full text searches over a small corpus, one connection. `between`: from the end of one query's
time to the begin of the next one's, in which the driver keeps the rows and says the event; it is in no
query's time. `driver CPU`: all that the driver did, sending and receiving included. `digest`: reading the
rows again for their MD5, after the step. Target: less than a millisecond each.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import psutil
from own_cache import own_cache

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Done, StatementDone
from pgstrata.fulltext.options import FulltextOptions
from pgstrata.fulltext.steps import Fulltext
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import find_config_file, resolve
from pgstrata.server.find.acquire import acquire
from pgstrata.workload.core.language import Admin, Step, Work, WorkContext


def prepare(cluster: Cluster, options: FulltextOptions) -> Step:
    """Loads the corpus; returns the step of the queries."""
    for phase in Fulltext().phases(options, cluster.server.features):
        if isinstance(phase, Work):
            phase.do(WorkContext(cluster.connect, print, lambda: None))
        elif isinstance(phase, Admin):
            with cluster.connect() as connection:
                for statement in phase.statements:
                    connection.execute(statement.encode())
        elif isinstance(phase, Step) and phase.digest is not None:
            return phase
        elif isinstance(phase, Step):
            with Driver(driver_spec(phase, cluster.connection("postgres"), 1, "auto")) as driver:
                driver.ready()
                driver.start()
                list(driver.events())
                driver.close()
    raise SystemExit("the workload has no queries")


def report(step: Step, cluster: Cluster, folder: str) -> None:
    with Driver(driver_spec(step, cluster.connection("postgres"), 1, "auto", results_dir=folder)) as driver:
        driver.ready()
        driver.start()
        *events, done = driver.events()
        driver.close()
    assert isinstance(done, Done)
    statements = [event for event in events if isinstance(event, StatementDone)]
    between = sorted(b.start - a.start - a.seconds for a, b in pairwise(statements))
    begun = time.process_time()
    assert step.digest is not None
    step.digest(statements, Path(folder))
    digest = time.process_time() - begun
    n = len(statements)
    print(f"{n} queries of {statistics.median(e.seconds for e in statements) * 1e3:.3f} ms (median)")
    middle, late = statistics.median(between) * 1e3, between[len(between) * 99 // 100] * 1e3
    print(f"between: {middle:.3f} ms (median), {late:.3f} ms (p99)")
    print(f"driver CPU: {done.driver_cpu_seconds / n * 1e3:.3f} ms per query")
    print(f"digest: {digest / n * 1e3:.3f} ms of CPU per query")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--queries", type=int, default=2000)
    arguments = parser.parse_args()
    server = acquire(arguments.server)
    config = resolve([find_config_file("default", None)], server.version_num, psutil.virtual_memory().total)
    options = FulltextOptions(
        messages=2_000, shortest=20, indexes=("gin",), build="before", query_count=arguments.queries
    )
    with own_cache() as place, Cluster(server, config, place / "c") as cluster:
        cluster.create()
        cluster.start()
        step = prepare(cluster, options)
        with tempfile.TemporaryDirectory(dir=place) as folder:
            report(step, cluster, folder)


if __name__ == "__main__":
    main()
