"""What recording costs: pgbench's point selects direct, and through proxies, `pgstrata record` among them.

    .venv/bin/python benchmarks/record.py                     about two minutes
    .venv/bin/python benchmarks/record.py --clients 1 --clients 32 --rounds 9

One server; the ways take turns in each round, in another order each time. Clients come by TCP, and all
proxies lead to the server's Unix socket, pgbouncer by sessions. forward.c is the least that a proxy can do.
CPU is per statement, of the proxy alone, user and system. Medians of the rounds; ratios are those of the same
round, with their quartiles.
"""

from __future__ import annotations

import itertools
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from client_cpu import CONFIG
from peers import options, serving

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.acquire import acquire
from pgstrata.server.system.account import server_account

SCALE = 10
WAYS = ("direct", "forward", "pgbouncer", "record")
PORT = 16_432


@dataclass(frozen=True)
class Sample:
    """One run of one way: statements/s, mean latency in µs; of the proxy CPU in µs per statement, memory."""

    rate: float
    latency: float
    cpu: float
    megabytes: float


@contextmanager
def between(cluster: Cluster, way: str, folder: Path) -> Iterator[psutil.Process | None]:
    """The proxy of this way, which listens on PORT; None for the direct one."""
    if way == "direct":
        yield None
        return
    if way == "pgbouncer":
        account = server_account()
        config = folder / "pgbouncer.ini"
        config.write_text(
            f"[databases]\nbench = host={cluster.socket_dir} port={cluster.port} user=postgres\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {PORT}\nunix_socket_dir =\nauth_type = any\n"
            "pool_mode = session\ndefault_pool_size = 100\nmax_client_conn = 200\nlog_connections = 0\n"
            "log_disconnections = 0\n"
        )
        command = ["pgbouncer", "-q", *(["-u", account.name] if account else []), str(config)]
    elif way == "forward":
        program = str(folder / "forward")
        subprocess.run(["cc", "-O2", "-o", program, Path(__file__).with_name("forward.c")], check=True)
        command = [program, str(PORT), f"{cluster.socket_dir}/.s.PGSQL.{cluster.port}"]
    else:
        to = f"host={cluster.socket_dir} port={cluster.port}"
        command = [sys.executable, "-m", "pgstrata", "record", "--to", to, "--allow-peer", "--listen"]
        command += [f"127.0.0.1:{PORT}", "-o", str(folder / "recording")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_for_port()
        yield psutil.Process(process.pid)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()


def wait_for_port() -> None:
    for _ in range(300):
        with suppress(OSError), socket.create_connection(("127.0.0.1", PORT)):
            return
        time.sleep(0.1)
    raise SystemExit(f"nothing listens on port {PORT}")


def sample(cluster: Cluster, way: str, clients: int, seconds: int, mode: str) -> Sample:
    folder = Path(tempfile.mkdtemp(prefix="pgs", dir="/tmp"))
    folder.chmod(0o755)
    try:
        with between(cluster, way, folder) as proxy:
            where = ("127.0.0.1", PORT) if proxy else (str(cluster.socket_dir), cluster.port)
            begun = used(proxy)
            command = ["pgbench", "-n", "-S", "-M", mode, "-c", str(clients), "-j", "1", "-T", str(seconds)]
            target = ["-h", where[0], "-p", str(where[1]), "-U", "postgres", "bench"]
            done = subprocess.run([*command, *target], check=True, capture_output=True, text=True).stdout
            cpu = used(proxy) - begun
            memory = proxy.memory_info().rss if proxy else 0
            count = float(re.search(r"processed: (\d+)", done)[1])  # type: ignore[index]
            latency = float(re.search(r"latency average = ([\d.]+) ms", done)[1])  # type: ignore[index]
            return Sample(count / seconds, latency * 1000, 1e6 * cpu / count, memory / 2**20)
    finally:
        shutil.rmtree(folder)


def used(process: psutil.Process | None) -> float:
    """Returns the CPU seconds of a proxy's threads, finer than the clock ticks of its process times."""
    if process is None:
        return 0.0
    threads = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def main() -> None:
    parser = options(__doc__ or "", seconds=4, rounds=7)
    parser.add_argument("--mode", default="prepared", help="protocol: simple, extended, prepared")
    parser.add_argument("--clients", type=int, action="append", help="so many, and so many (1, 8 and 32)")
    args = parser.parse_args()
    server = acquire(args.server)
    print(f"server {server.label}, {args.mode}, {args.rounds} rounds of {args.seconds} s")
    print(
        f"{'clients':>8}  {'way':<12}{'statements/s':>13}{'mean µs':>9}{'CPU µs':>8}"
        f"{'(quartiles)':>14}{'MB':>6}"
    )
    with serving(server, CONFIG, SCALE, {"pgbench"}) as cluster:
        for clients in args.clients or (1, 8, 32):
            by_way: dict[str, list[Sample]] = {way: [] for way in WAYS}
            for number in range(args.rounds):
                for way in random.Random(number).sample(WAYS, len(WAYS)):
                    by_way[way].append(sample(cluster, way, clients, args.seconds, args.mode))
            for way, samples in by_way.items():
                rate, latency, cpu, memory = (
                    statistics.median(getattr(s, name) for s in samples)
                    for name in ("rate", "latency", "cpu", "megabytes")
                )
                low, _, high = statistics.quantiles([s.cpu for s in samples], n=4)
                print(
                    f"{clients:>8}  {way:<12}{rate:>13,.0f}{latency:>9,.0f}{cpu:>8.2f}"
                    f"{f'{low:.2f} - {high:.2f}':>14}{memory:>6.0f}"
                )
            for name, peer in itertools.product(("cpu", "rate"), ("pgbouncer", "forward")):
                pairs = zip(by_way["record"], by_way[peer], strict=True)
                ratios = [getattr(ours, name) / getattr(other, name) for ours, other in pairs]
                low, middle, high = statistics.quantiles(ratios, n=4)
                print(f"{'':>10}{name} of record / {peer}: {middle:.2f} ({low:.2f} - {high:.2f})", flush=True)


if __name__ == "__main__":
    main()
