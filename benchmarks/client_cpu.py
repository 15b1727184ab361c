"""What the client costs: pgstrata's driver against pgbench and sysbench, paired and alternating.

    .venv/bin/python benchmarks/client_cpu.py                 every pair, about five minutes
    .venv/bin/python benchmarks/client_cpu.py --pairs point   only those whose name contains `point`
    .venv/bin/python benchmarks/client_cpu.py --against FILE  against another pgstrata-driver, not the peers
    .venv/bin/python benchmarks/client_cpu.py --tls           everything over TLS to 127.0.0.1

One server, one database, one connection per client over the Unix socket (or TLS), one client thread on each
side, everything the driver records switched on. Each round runs both sides, the order turned every
round (A B B A). CPU is that of the whole client process, user and system (wait4), start-up included
on both sides, and its part in system calls; the table shows medians of the rounds, of ratios too.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from peers import ROWS, options, serving

from pgstrata.driver.path import find_driver
from pgstrata.server.find.acquire import acquire

SCALE = 20

CONFIG = """
shared_buffers = 2GB
max_wal_size = 16GB
checkpoint_timeout = 3600s
synchronous_commit = off
autovacuum = off
max_connections = 200
"""

SELECT_ONLY = """\\set aid random(1, 100000 * :scale)
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
"""
TPCB = """\\set aid random(1, 100000 * :scale)
\\set bid random(1, 1 * :scale)
\\set tid random(1, 10 * :scale)
\\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
    VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""


@dataclass(frozen=True)
class Sample:
    """One run of one side: operations/s, client CPU in µs per operation, and that in the kernel."""

    rate: float
    cpu: float
    kernel: float


@dataclass(frozen=True)
class Pair:
    name: str
    peer: str
    clients: int
    theirs: Callable[[Target, int], Sample]
    ours: Callable[[Target, int], Sample]


@dataclass(frozen=True)
class Target:
    host: str
    port: int
    seconds: int
    engine: str
    driver: Path
    tls: bool = False


def _finish(process: subprocess.Popen[str]) -> tuple[str, tuple[float, float]]:
    """Standard output, and the CPU seconds of the process in all and in the kernel."""
    assert process.stdout
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{process.args!r} ended with {process.returncode}:\n{text}")
    return text, (usage.ru_utime + usage.ru_stime, usage.ru_stime)


def _sample(rate: float, cpu: tuple[float, float], operations: int) -> Sample:
    return Sample(rate, *(seconds * 1e6 / operations for seconds in cpu))


def pgbench(builtin: str) -> Callable[[Target, int], Sample]:
    def run(target: Target, clients: int) -> Sample:
        command = [
            "pgbench",
            "-h",
            target.host,
            "-p",
            str(target.port),
            "-U",
            "postgres",
            "-n",
            "-M",
            "prepared",
        ]
        command += ["-b", builtin, "-c", str(clients), "-j", "1", "-T", str(target.seconds), "bench"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        text, cpu = _finish(process)
        done = re.search(r"actually processed: (\d+)", text)
        tps = re.search(r"tps = ([\d.]+)", text)
        assert done and tps, text
        return _sample(float(tps[1]), cpu, int(done[1]))

    return run


def sysbench(script: str, *options: str) -> Callable[[Target, int], Sample]:
    def run(target: Target, clients: int) -> Sample:
        command = [
            "sysbench",
            script,
            "--db-driver=pgsql",
            f"--pgsql-host={target.host}",
            "--pgsql-user=postgres",
        ]
        command += [f"--pgsql-port={target.port}", "--pgsql-db=bench", "--tables=1", f"--table-size={ROWS}"]
        command += [
            f"--threads={clients}",
            f"--time={target.seconds}",
            "--rand-type=uniform",
            *options,
            "run",
        ]
        text, cpu = _finish(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        queries = re.search(r"queries: +(\d+) +\(([\d.]+) per sec", text)
        assert queries, text
        return _sample(float(queries[2]), cpu, int(queries[1]))

    return run


def drive(target: Target, spec: dict[str, Any]) -> Sample:
    process = subprocess.Popen(
        [target.driver, "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert process.stdin and process.stdout
    where: dict[str, Any] = {
        "host": target.host,
        "port": target.port,
        "user": "postgres",
        "database": "bench",
    }
    if target.tls:
        where["tls"] = {"server_name": "localhost", "mode": "require"}
    whole = {"version": 1, "step": "pair", "connection": where, "engine": target.engine, "threads": 1}
    process.stdin.write(json.dumps({**whole, "seconds": target.seconds, **spec}) + "\n")
    done: dict[str, Any] = {}
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "error":
            raise SystemExit(event["message"])
        if event["event"] == "ready":
            process.stdin.write('{"command":"start"}\n')
        if event["event"] == "done":
            done = event
            process.stdin.write('{"command":"close"}\n')
    _, cpu = _finish(process)
    role = done["roles"][0]
    return _sample(role["operations"] / done["seconds"], cpu, role["operations"])


def script(text: str) -> Callable[[Target, int], Sample]:
    def run(target: Target, clients: int) -> Sample:
        role = {"name": "query", "clients": clients, "mode": "prepared", "variables": {"scale": SCALE}}
        return drive(target, {"roles": [{**role, "scripts": [{"name": "script", "text": text}]}]})

    return run


def statement(*parts: Any) -> Callable[[Target, int], Sample]:
    def run(target: Target, clients: int) -> Sample:
        # sysbench declares integers as int8; the server plans `k IN (…)` of another type another way
        as_sysbench = {"mode": "prepared", "declare_types": True, "binary_results": True}
        role = {"name": "query", "clients": clients, **as_sysbench}
        op = {"sql": list(parts), "name": "statement"}
        return drive(target, {"roles": [{**role, "scripts": [{"name": "event", "ops": [op]}]}]})

    return run


KEY = {"expr": f"random(1, {ROWS})", "type": "int8"}
POINT = statement("SELECT c FROM sbtest1 WHERE id=", KEY)
POINTS = statement("SELECT id, k, c, pad FROM sbtest1 WHERE k IN (", {"repeat": 100, "of": [KEY]}, ")")
UPDATE = statement("UPDATE sbtest1 SET k=k+1 WHERE id=", KEY)

PAIRS = [
    *[Pair("point select", "pgbench", c, pgbench("select-only"), script(SELECT_ONLY)) for c in (1, 2, 8, 32)],
    Pair("TPC-B-like", "pgbench", 32, pgbench("tpcb-like"), script(TPCB)),
    *[Pair("point-query", "sysbench", c, sysbench("oltp_point_select"), POINT) for c in (1, 8)],
    Pair("random-points=100", "sysbench", 8, sysbench("select_random_points", "--random-points=100"), POINTS),
    Pair("update-index", "sysbench", 8, sysbench("oltp_update_index"), UPDATE),
]


def measure(pair: Pair, target: Target, rounds: int, against: Path | None) -> dict[str, float]:
    """Both sides in turn, as often as `rounds`. against: a driver that takes the place of the peer."""

    def other(target: Target, clients: int) -> Sample:
        return (
            pair.ours(replace(target, driver=against), clients) if against else pair.theirs(target, clients)
        )

    theirs: list[Sample] = []
    ours: list[Sample] = []
    for i in range(rounds):
        both = [(other, theirs), (pair.ours, ours)]
        for side, samples in both if i % 2 == 0 else reversed(both):
            samples.append(side(target, pair.clients))

    def median(values: list[float]) -> float:
        return statistics.median(values)

    return {
        "their_rate": median([s.rate for s in theirs]),
        "our_rate": median([s.rate for s in ours]),
        "their_cpu": median([s.cpu for s in theirs]),
        "our_cpu": median([s.cpu for s in ours]),
        "their_kernel": median([s.kernel for s in theirs]),
        "our_kernel": median([s.kernel for s in ours]),
        "rate_ratio": median([o.rate / t.rate for o, t in zip(ours, theirs, strict=True)]),
        "cpu_ratio": median([o.cpu / t.cpu for o, t in zip(ours, theirs, strict=True)]),
    }


def main() -> None:
    parser = options(__doc__ or "", seconds=5, rounds=5)
    parser.add_argument("--against", type=Path, help="another pgstrata-driver, in place of the peers")
    parser.add_argument("--tls", action="store_true", help="over TLS to 127.0.0.1 instead of the socket")
    parser.add_argument("--format", default="table", choices=("table", "json"))
    args = parser.parse_args()
    server = acquire(args.server)
    pairs = [p for p in PAIRS if args.pairs in p.name]
    if args.tls:
        # libpq's, of the peers; the server takes nothing else over the network.
        os.environ["PGSSLMODE"] = "require"
    with serving(server, CONFIG, SCALE, {p.peer for p in pairs}, args.tls) as cluster:
        with cluster.connect("bench") as admin:
            admin.execute("VACUUM ANALYZE")
            admin.execute("CHECKPOINT")
        host = "127.0.0.1" if args.tls else str(cluster.socket_dir)
        target = Target(host, cluster.port, args.seconds, args.engine, find_driver(), args.tls)
        if args.format == "table":
            print(
                f"server {server.label}, engine {args.engine}, {args.rounds} rounds, {args.seconds} s a side"
                f"{', over TLS' if args.tls else ''}"
            )
            head = f"\n{'work':<20}{'clients':>8}  {'peer':<9}{'peer/s':>10}{'pgstrata/s':>12}{'ratio':>8}"
            more = f"{'peer µs/op':>13}{'of it kernel':>14}{'pgstrata µs/op':>16}{'of it kernel':>14}"
            print(f"{head}{more}{'CPU ratio':>11}", flush=True)
        for pair in pairs:
            r = measure(pair, target, args.rounds, args.against)
            if args.format == "json":
                print(
                    json.dumps({"work": pair.name, "peer": pair.peer, "clients": pair.clients, **r}),
                    flush=True,
                )
                continue
            peer = "driver" if args.against else pair.peer
            left = f"{pair.name:<20}{pair.clients:>8}  {peer:<9}{r['their_rate']:>10,.0f}"
            middle = f"{r['our_rate']:>12,.0f}{r['rate_ratio']:>8.2f}"
            right = f"{r['their_cpu']:>13.2f}{r['their_kernel']:>14.2f}"
            right += f"{r['our_cpu']:>16.2f}{r['our_kernel']:>14.2f}{r['cpu_ratio']:>11.2f}"
            print(left + middle + right, flush=True)


if __name__ == "__main__":
    main()
