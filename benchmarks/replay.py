"""What the replayer itself can do, and how late it is.

    python benchmarks/replay.py                         # against a process that answers at once
    python benchmarks/replay.py --server pg:17          # against a real server
    python benchmarks/replay.py --rates 10000,50000 --sessions 64 --seconds 10

A captured file is made of so many sessions that together ask for so many statements a second, evenly; the
driver replays it at its pace. Without --server the other end is `answering` (crates/driver/examples), which
does nothing but answer: a real server on the same two CPUs would be what is measured. For each rate:
statements a second that were answered in its whole seconds, how long after it was meant to begin the last one
had its answer, the lag (how late the replayer was) and its CPU for each statement.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Done, Failure, Second
from pgstrata.driver.spec import Connection, ReplaySpec, Spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.acquire import acquire
from pgstrata.traffic.captured import EXTENDED, PREPARED, SIMPLE, Header, Statement, Writer

ROOT = Path(__file__).parents[1]


def write_traffic(path: Path, rate: int, sessions: int, seconds: float) -> float:
    """A captured file of an even load; a third of each protocol. Returns when its last statement is meant to
    start, in seconds."""
    with Writer(path) as writer:
        database = writer.database("postgres")
        kinds = (
            (SIMPLE, "SELECT 1", (), writer.shape("SELECT $1")),
            (EXTENDED, "SELECT $1::int", ("1",), writer.shape("SELECT $1::int")),
            (PREPARED, "SELECT $1::text", ("a value",), writer.shape("SELECT $1::text")),
        )
        every = sessions * 1e6 / rate
        for number in range(sessions):
            begin = int(number * every / sessions)
            session = writer.begin(begin, database)
            for turn in range(int(seconds * 1e6 / every)):
                protocol, text, values, shape = kinds[turn % 3]
                statement = Statement(begin + int(turn * every), 10, protocol, shape, text, values)
                writer.add(session, statement, common=True)
            writer.end(session)
        writer.finish(Header())
    return statement.start / 1e6


@contextmanager
def other_end(server: str | None, folder: Path) -> Iterator[Connection]:
    if server is not None:
        acquired = acquire(server)
        with Cluster(acquired, resolve([], acquired.version_num, 1 << 30), folder / "c") as cluster:
            cluster.create()
            cluster.start()
            yield cluster.connection("postgres")
        return
    build = ["cargo", "build", "--release", "--quiet", "--example", "answering", "-p", "pgstrata-driver"]
    subprocess.run(build, cwd=ROOT, check=True)
    process = subprocess.Popen([ROOT / "target/release/examples/answering", folder / ".s.PGSQL.5432"])
    try:
        while not (folder / ".s.PGSQL.5432").exists():
            time.sleep(0.01)
        yield Connection(host=str(folder), port=5432, user="postgres", database="postgres")
    finally:
        process.kill()
        process.wait()


def replayed(connection: Connection, file: Path, sessions: int, threads: int) -> tuple[Done, list[int]]:
    """What the driver says at the end, and the statements that ended in each second. Raises SystemExit where
    the replay fails."""
    seconds: list[int] = []
    replay = ReplaySpec(file=str(file), role="replay", speed=1.0, database=None, sessions=sessions, skip=())
    spec = Spec(
        step="replay", seconds=None, roles=[], replay=replay, connection=connection, seed=1, threads=threads
    )
    with Driver(spec) as driver:
        driver.ready()
        driver.start()
        for event in driver.events():
            if isinstance(event, Failure):
                sys.exit(event.message)
            if isinstance(event, Second):
                seconds.append(event.roles[0].operations)
            if isinstance(event, Done):
                driver.close()
                return event, seconds
    raise AssertionError("a replay ends with `done`")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--server", help="a real server instead of a process that answers: pg:17")
    parser.add_argument("--rates", default="5000,10000,20000,50000", help="statements a second")
    parser.add_argument("--sessions", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0, help="of the driver; 0: as it chooses")
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    print("wanted/s    came/s  end ms  lag p50 ms  lag p99 ms  longest ms  CPU us/statement  peak MB")
    with tempfile.TemporaryDirectory(prefix="pgs", dir="/tmp") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)  # for the account of servers
        with other_end(options.server, folder) as connection:
            for rate in map(int, options.rates.split(",")):
                file = folder / f"{rate}.traffic"
                last = write_traffic(file, rate, options.sessions, options.seconds)
                done, seconds = replayed(connection, file, options.sessions, options.threads)
                (role,) = done.roles
                assert role.replay is not None
                lag, cpu = role.replay.lag, done.driver_cpu_seconds / role.operations * 1e6
                # The last second is cut where the file ends.
                whole = seconds[: int(done.seconds)]
                came, end = sum(whole) / len(whole), 1e3 * (done.seconds - last)
                lags = "  ".join(f"{1e3 * time:10.3f}" for time in (lag.p50, lag.p99, lag.max))
                peak = done.driver_peak_rss_bytes / 1e6
                print(f"{rate:8,}  {came:8,.0f}  {end:6.1f}  {lags}  {cpu:16.2f}  {peak:7.1f}")
                file.unlink()


if __name__ == "__main__":
    main()
