"""What a pooler costs: the same queries direct, through its sessions, and through its transactions.

    .venv/bin/python benchmarks/poolers.py                          about two minutes
    .venv/bin/python benchmarks/poolers.py --pooler pgbouncer:PROGRAM --mode prepared

One server and one database, pgbench's point select; the ways take turns in each round, in another order every
time. CPU is per query, of driver, pooler and all server processes over the measured time, user and system.
Medians of the rounds. A pool has as many server connections as there are clients, or `--pool` in transaction
mode.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from client_cpu import CONFIG, SELECT_ONLY
from peers import options, serving

from pgstrata.driver.path import find_driver
from pgstrata.observe.backends import ServerCpu, cpu_seconds
from pgstrata.server.acquire import acquire
from pgstrata.server.cluster import Cluster
from pgstrata.server.pooler import Pooler, find_through
from pgstrata.server.poolers import KINDS, PORT

SCALE = 10
WAYS = ("direct", "session", "transaction")


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
def standing_between(
    cluster: Cluster, program: str, way: str, clients: int, pool: int
) -> Iterator[Pooler | None]:
    """The pooler of this way; None for the direct one."""
    if way == "direct":
        yield None
        return
    size = clients if way == "session" else min(pool, clients)
    kind = KINDS[program.partition(":")[0]]
    mode = {kind.sharing.mode: way} if kind.sharing else {}
    through = find_through(program, {**mode, kind.sessions: str(size)})
    assert through is not None
    pooler = Pooler(cluster, through)
    pooler.start()
    try:
        yield pooler
    finally:
        pooler.stop()


def sample(cluster: Cluster, pooler: Pooler | None, mode: str, clients: int, seconds: int) -> Sample:
    """Point selects for so many seconds."""
    assert cluster.pid is not None
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
    server, begun = ServerCpu(cluster.pid, {}), (0.0, 0.0)
    done: dict[str, Any] = {}

    def used() -> tuple[float, float]:
        between = cpu_seconds(pooler.pid) if pooler and pooler.pid else None
        return server.read().total or 0.0, between or 0.0

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


def main() -> None:
    parser = options(__doc__ or "", seconds=3, rounds=5)
    parser.add_argument("--pooler", default="pgbouncer", help="a pooler, or pgbouncer:PROGRAM")
    parser.add_argument("--mode", default="extended", help="protocol: simple, extended, prepared")
    parser.add_argument("--pool", type=int, default=4, help="server connections in transaction mode (4)")
    args = parser.parse_args()
    through = find_through(args.pooler, {})
    assert through is not None
    server = acquire(args.server)
    print(f"{through.name} {through.version}, server {server.label}, {args.mode}, {args.rounds} rounds")
    print(
        f"{'clients':>8}  {'way':<12}{'queries/s':>10}{'p50 µs':>9}{'p99 µs':>9}"
        f"{'driver µs':>11}{'pooler µs':>11}{'server µs':>11}"
    )
    with serving(server, CONFIG, SCALE, {"pgbench"}) as cluster:
        for clients in (1, 8, 32):
            found: dict[str, list[Sample]] = {way: [] for way in WAYS}
            for number in range(args.rounds):
                for way in random.Random(number).sample(WAYS, len(WAYS)):
                    with standing_between(cluster, args.pooler, way, clients, args.pool) as pooler:
                        found[way].append(sample(cluster, pooler, args.mode, clients, args.seconds))
            for way, samples in found.items():
                rate, p50, p99, *cpu = (
                    statistics.median(getattr(s, name) for s in samples)
                    for name in ("rate", "p50", "p99", "driver", "pooler", "server")
                )
                figures = "".join(f"{value:>11.1f}" for value in cpu)
                print(f"{clients:>8}  {way:<12}{rate:>10,.0f}{p50:>9,.0f}{p99:>9,.0f}{figures}", flush=True)


if __name__ == "__main__":
    main()
