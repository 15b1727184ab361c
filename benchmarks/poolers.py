"""What poolers cost: the same queries direct, and through the sessions and the transactions of each.

    .venv/bin/python benchmarks/poolers.py                          about two minutes
    .venv/bin/python benchmarks/poolers.py --pooler pgbouncer:PROGRAM --mode prepared
    .venv/bin/python benchmarks/poolers.py --pooler pgbouncer --pooler pgpool2 --pooler odyssey:PROGRAM

One server and one database, pgbench's point select; the ways take turns in each round, in another order each
time. CPU is per query, of driver, pooler and server over the measured time, with all their processes, user
and system. Medians of the rounds; beside the pooler's CPU its quartiles. A pool has as many server
connections as there are clients, or `--pool` in transaction mode, which not every pooler has.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from client_cpu import CONFIG, SELECT_ONLY
from peers import options, serving

from pgstrata.driver.path import find_driver
from pgstrata.observe.backends import ServerCpu
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.connect.pooler import Pooler, find_through
from pgstrata.server.connect.poolers import KINDS, PORT
from pgstrata.server.find.acquire import acquire

SCALE = 10
CLIENTS = (1, 8, 32)


@dataclass(frozen=True)
class Way:
    """How queries reach the server: through a pooler in one of its modes; directly where it is None."""

    program: str | None = None
    mode: str = ""

    @property
    def label(self) -> str:
        return "direct" if self.program is None else f"{self.program.partition(':')[0]} {self.mode}"


@dataclass(frozen=True)
class Sample:
    """One run of one way: queries/s, response times in µs, CPU in µs per query."""

    rate: float
    p50: float
    p99: float
    driver: float
    pooler: float
    server: float


@contextmanager
def standing_between(cluster: Cluster, way: Way, clients: int, pool: int) -> Iterator[Pooler | None]:
    """The pooler of this way; None for the direct one."""
    if way.program is None:
        yield None
        return
    size = clients if way.mode == "session" else min(pool, clients)
    kind = KINDS[way.program.partition(":")[0]]
    mode = {kind.sharing.mode: way.mode} if kind.sharing else {}
    through = find_through(way.program, {**mode, kind.sessions: str(size)})
    assert through is not None
    pooler = Pooler(cluster, through)
    pooler.start()
    try:
        yield pooler
    finally:
        pooler.stop()


def sample(cluster: Cluster, pooler: Pooler | None, mode: str, clients: int, seconds: int) -> Sample:
    """Point selects for so many seconds."""
    assert cluster.postmaster.pid is not None
    role = {
        "name": "query",
        "clients": clients,
        "mode": mode,
        "variables": {"scale": SCALE},
        "scripts": [{"name": "select", "text": SELECT_ONLY}],
    }
    where = {
        "host": str(cluster.socket_dir),
        "port": PORT if pooler else cluster.port,
        "user": "postgres",
        "database": "bench",
    }
    spec = {"version": 1, "step": "select", "connection": where, "threads": 1, "warmup_seconds": 0.5}
    process = subprocess.Popen(
        [find_driver(), "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps({**spec, "seconds": seconds, "roles": [role]}) + "\n")
    server, between = ServerCpu(cluster.postmaster.pid, {}), ServerCpu(pooler.pid if pooler else None, {})
    begun = (0.0, 0.0)
    done: dict[str, Any] = {}

    def used() -> tuple[float, float]:
        return server.read().total or 0.0, between.read().total or 0.0

    for line in process.stdout:
        event = json.loads(line)
        match event["event"]:
            case "error":
                raise SystemExit(event["message"])
            case "ready":
                process.stdin.write('{"command":"start"}\n')
            case "measuring":
                begun = used()
            case "done":
                ended, done = used(), event
                process.stdin.write('{"command":"close"}\n')
    process.wait()
    (query,) = done["roles"]
    per = 1e6 / query["operations"]
    return Sample(
        query["operations"] / done["seconds"],
        query["latency"]["p50"] * 1e6,
        query["latency"]["p99"] * 1e6,
        done["driver_cpu_seconds"] * per,
        (ended[1] - begun[1]) * per,
        (ended[0] - begun[0]) * per,
    )


def ways(programs: Sequence[str]) -> list[Way]:
    """All there are with these poolers, whose versions are printed."""
    all_ways = [Way()]
    for program in programs:
        through = find_through(program, {})
        assert through is not None
        print(f"{through.name} {through.version}")
        modes = ("session", "transaction") if KINDS[through.name].sharing else ("session",)
        all_ways += [Way(program, mode) for mode in modes]
    return all_ways


def main() -> None:
    parser = options(__doc__ or "", seconds=3, rounds=5)
    parser.add_argument(
        "--pooler", action="append", help="pgbouncer (default), or pgbouncer:PROGRAM; also several"
    )
    parser.add_argument("--mode", default="extended", help="protocol: simple, extended, prepared")
    parser.add_argument("--pool", type=int, default=4, help="server connections in transaction mode (4)")
    parser.add_argument("--clients", type=int, action="append", help="so many, and so many (1, 8 and 32)")
    args = parser.parse_args()
    taken = ways(args.pooler or ["pgbouncer"])
    server = acquire(args.server)
    print(f"server {server.label}, {args.mode}, {args.rounds} rounds of {args.seconds} s")
    print(
        f"{'clients':>8}  {'way':<24}{'queries/s':>10}{'p50 µs':>9}{'p99 µs':>9}"
        f"{'driver µs':>11}{'pooler µs':>11}{'(quartiles)':>14}{'server µs':>11}"
    )
    with serving(server, CONFIG, SCALE, {"pgbench"}) as cluster:
        for clients in args.clients or CLIENTS:
            by_way: dict[Way, list[Sample]] = {way: [] for way in taken}
            for number in range(args.rounds):
                for way in random.Random(number).sample(taken, len(taken)):
                    with standing_between(cluster, way, clients, args.pool) as pooler:
                        by_way[way].append(sample(cluster, pooler, args.mode, clients, args.seconds))
            for way, samples in by_way.items():
                rate, p50, p99, driver, between, backend = (
                    statistics.median(getattr(s, name) for s in samples)
                    for name in ("rate", "p50", "p99", "driver", "pooler", "server")
                )
                low, _, high = statistics.quantiles([s.pooler for s in samples], n=4)
                print(
                    f"{clients:>8}  {way.label:<24}{rate:>10,.0f}{p50:>9,.0f}{p99:>9,.0f}"
                    f"{driver:>11.1f}{between:>11.1f}{f'{low:.1f} - {high:.1f}':>14}{backend:>11.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
