"""How much the CPU time of a query differs between two equal servers from start to start.

    .venv/bin/python benchmarks/queries/starts.py [--starts 24] [--pairs 8] [--shared]

TPC-DS at scale 0.1 on PostgreSQL and a copy of its data folder, both started anew each time, in either order.
All queries are executed once on one of them, then on the other; which comes first is drawn by lot in equal
numbers. Then pairs follow, in random order, each execution on a connection of its own that has executed the
query once. Queries are serial, so that the backend's CPU time is all of it. What starts differ by beyond what
their pairs tell is what a start is by chance; half of the difference between starts in which the one and the
other came first is what coming first does. --shared: both have the same layout of memory, as servers of the
same programs have in a comparison; else the kernel draws one for each.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import numpy as np
import psutil
import psycopg

from pgstrata.layout import draw
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import find_config_file, resolve
from pgstrata.server.find.acquire import acquire
from pgstrata.tpc import data, load, source
from pgstrata.tpcds.schema import TPCDS, indexes

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from own_cache import own_cache

SCALE = 0.1
SETTINGS = {"max_parallel_workers_per_gather": "0", "jit": "off", "autovacuum": "off"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--server", default="pg:17")
    parser.add_argument("--starts", type=int, default=24, help="a multiple of 4")
    parser.add_argument("--pairs", type=int, default=8, help="of each query at each start")
    parser.add_argument("--queries", default="7 12 15 42 43 52 55 61 98")
    parser.add_argument("--shared", action="store_true", help="the same layout of memory for both")
    given = parser.parse_args()
    texts = {number: source.queries(TPCDS)[number] for number in map(int, given.queries.split())}
    server = acquire(given.server)
    config = resolve([find_config_file("default", None)], server.version_num, psutil.virtual_memory().total)
    # By numbers of starts, queries and pairs: log of the base's CPU time over the other's.
    logs = np.empty((given.starts, len(texts), given.pairs))
    with (
        own_cache() as place,
        Cluster(server, config, place / "a") as base,
        Cluster(server, config, place / "b") as other,
    ):
        base.create()
        base.start()
        load_data(base)
        base.stop()
        other.create(copy_of=base.data_folder.path)
        for number in range(given.starts):
            both = (base, other)
            layout = draw() if given.shared else None
            for cluster in both if number % 2 else both[::-1]:
                cluster.layout = layout
                cluster.start(settings=SETTINGS)
            for cluster in both if is_base_first(number) else both[::-1]:
                for text in texts.values():
                    cpu_seconds(cluster, text)
            logs[number] = pairs_of_start(both, texts, given.pairs)
            print(f"start {number + 1} of {given.starts}", file=sys.stderr, flush=True)
            for cluster in both:
                cluster.stop()
    print_table(logs, list(texts))


def is_base_first(number: int) -> bool:
    """Of the start of this number, from 0: both orders of starting have as many of each."""
    return number // 2 % 2 == 0


def load_data(cluster: Cluster) -> None:
    data.make(TPCDS, SCALE)
    with cluster.connect() as connection:
        for statement in load.create(TPCDS):
            connection.execute(statement.encode())
        for table in source.tables(TPCDS):
            with connection.cursor().copy(load.copy(table).encode()) as copy:
                copy.write(data.file(TPCDS, SCALE, table).read_bytes())
            for statement in indexes(table, "keys"):
                connection.execute(statement.encode())
        connection.execute("VACUUM (FREEZE, ANALYZE)")


def pairs_of_start(both: tuple[Cluster, Cluster], texts: dict[int, str], pairs: int) -> np.ndarray:
    """By numbers of queries and pairs."""
    logs = np.empty((len(texts), pairs))
    for pair in range(pairs):
        for place, text in random.sample(list(enumerate(texts.values())), len(texts)):
            order = random.sample((0, 1), 2)
            seconds = {side: cpu_seconds(both[side], text) for side in order}
            logs[place, pair] = np.log(seconds[0] / seconds[1])
    return logs


def cpu_seconds(cluster: Cluster, text: str) -> float:
    """Of the second execution on a new connection."""
    with cluster.connect() as connection:
        run(connection, text)
        before = used_seconds(connection)
        run(connection, text)
        return used_seconds(connection) - before


def run(connection: psycopg.Connection, text: str) -> None:
    connection.execute(text.encode()).fetchall()


def used_seconds(connection: psycopg.Connection) -> float:
    """CPU time of the backend so far, to the nanosecond, as the scheduler counts it."""
    return int(Path(f"/proc/{connection.info.backend_pid}/schedstat").read_text().split()[0]) * 1e-9


def print_table(logs: np.ndarray, numbers: list[int]) -> None:
    print("| query | ratio | coming first | starts differ by | error of their pairs | a start by chance |")
    print("|---|---:|---:|---:|---:|---:|")
    first = np.array([is_base_first(number) for number in range(len(logs))])
    chances, biases = [], []
    for place, number in enumerate(numbers):
        starts = np.median(logs[:, place], axis=1)
        halves = [np.median(logs[:, place, half::2], axis=1) for half in (0, 1)]
        error = np.sqrt(np.mean((halves[0] - halves[1]) ** 2)) / 2
        bias = (starts[first].mean() - starts[~first].mean()) / 2
        differ = np.sqrt((starts[first].var(ddof=1) + starts[~first].var(ddof=1)) / 2)
        chance = np.sqrt(max(0.0, differ**2 - error**2))
        chances.append(differ**2 - error**2)
        biases.append(bias**2)
        shown = " | ".join(f"{100 * value:.2f} %" for value in (differ, error, chance))
        print(f"| q{number} | {np.exp(starts.mean()):.4f} | {100 * bias:+.2f} % | {shown} |")
    chance, bias = (100 * np.sqrt(max(0.0, np.mean(values))) for values in (chances, biases))
    print(f"\nroot mean square: coming first {bias:.2f} %, a start by chance {chance:.2f} %")


if __name__ == "__main__":
    main()
