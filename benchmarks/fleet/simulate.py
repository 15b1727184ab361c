"""Two thousand simulated comparisons on 64 workers, of which a fifth is killed at random moments.

    python benchmarks/fleet/simulate.py [--workers 64] [--tasks 2000] [--seconds 5] [--killed 0.2] [--check]

The engine, the client's loop and the rules of who gets what are the real ones; a comparison is two sleeps
that stand for its two variants, and notes where each took place. Says how many were lost, came home twice
or had their variants on two machines, what share of the machines' time went into anything but comparisons
while comparisons waited, how long all took against what those machines could have done at best, and how busy
this machine was: all of it shares its CPUs with whatever else runs here.
`--check` exits 1 where a goal is missed: none lost, none twice, no pair across machines, overhead under 2 %,
at most 1.1 times the bound.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import logging
import math
import multiprocessing
import os
import random
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import dask
import psutil
from distributed import LocalCluster, Worker

from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.conductor import Conductor
from pgstrata.fleet.dispatch import Dispatcher
from pgstrata.fleet.engine import SchedulerClient
from pgstrata.fleet.local import QUIET
from pgstrata.fleet.perform import RESOURCE
from pgstrata.fleet.restricted import permit
from pgstrata.fleet.roles import Machine


def simulated(text: bytes) -> bytes:
    """A comparison: both variants one after the other. The clock is that of all processes of the machine."""
    seconds = float(text)
    begun, where = time.monotonic(), []
    for _ in range(2):
        where.append(os.getpid())
        time.sleep(seconds / 2)
    return json.dumps([begun, time.monotonic(), where]).encode()


@dataclass(frozen=True)
class Home:
    """A comparison that came home: where both variants were measured, from when to when."""

    machine: str
    begun: float
    ended: float
    where: tuple[int, ...]


class Sleeps:
    """The job: no qualification, nothing to carry."""

    def __init__(self) -> None:
        self.home: dict[str, list[Home]] = {}
        self.failures: list[str] = []

    def admit(self, machine: Machine, others: Sequence[Machine]) -> Generator[bytes | None, Any, None]:
        machine.kind = machine.host = machine.address
        yield None

    def task(self, assignment: Assignment, machine: Machine, attempt: int) -> bytes:
        return str(assignment.seconds).encode()

    def arrived(self, assignment: Assignment, machine: str, answer: bytes) -> None:
        begun, ended, where = json.loads(answer)
        self.home.setdefault(assignment.id, []).append(Home(machine, begun, ended, tuple(where)))

    def failed(self, assignment: Assignment, reason: str) -> None:
        self.failures.append(f"{assignment}: {reason}")

    def further(self, number: int) -> None:
        """All are known from the start."""

    def earlier(self, id: str) -> None:
        """All are known from the start."""

    def open_workloads(self) -> set[str] | None:
        return None


class Silent:
    """Nobody watches."""

    def machine(self, machine: Machine, event: str) -> None: ...
    def assignment(self, assignment: Assignment, event: str, machine: str, reason: str) -> None: ...
    def refresh(self, machines: Sequence[Machine]) -> None: ...


def work(connection: Connection, number: int) -> None:
    """One worker, in a process of its own; connection: gives the address of the scheduler."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    address = connection.recv()

    async def forever() -> None:
        async with Worker(
            address,
            nthreads=1,
            name=f"w{number:02d}",
            resources={RESOURCE: 1},
            memory_limit=0,
            dashboard=False,
            host="127.0.0.1",
        ) as worker:
            await worker.finished()

    asyncio.run(forever())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--tasks", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a comparison, on average")
    parser.add_argument("--killed", type=float, default=0.2, help="share of the workers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    dice = random.Random(options.seed)
    assignments = [
        Assignment(f"w{n % 42:02d}", n // 42 + 1, dice.uniform(0.4, 1.6) * options.seconds)
        for n in range(options.tasks)
    ]
    dask.config.set(QUIET)
    # A function of a script would travel as code, which workers refuse; that of a module travels by its name.
    # They are forked from this process, and know both.
    simulated.__module__ = "simulate"
    sys.modules["simulate"] = sys.modules[__name__]
    permit(simulated)
    # Before there is any thread: a copy of one that holds a lock would hold it for ever.
    fork = multiprocessing.get_context("fork")
    pipes = [fork.Pipe(duplex=False) for _ in range(options.workers)]
    workers = [fork.Process(target=work, args=(connection, n)) for n, (connection, _) in enumerate(pipes)]
    for worker in workers:
        worker.start()
    with LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1") as cluster:
        address = cluster.scheduler_address
        for _, tell in pipes:
            tell.send(address)
        engine = SchedulerClient(address, f"simulate-{socket.gethostname()}", simulated)
        while len(engine.workers()) < options.workers:
            time.sleep(0.2)
        job = Sleeps()
        deaths: dict[int, float] = {}
        ideal = sum(assignment.seconds for assignment in assignments) / options.workers
        killer = threading.Thread(
            target=_kill, args=(workers, round(options.killed * options.workers), ideal, dice, deaths)
        )
        cpu, machine = time.process_time(), psutil.cpu_times()
        begun = time.monotonic()
        killer.start()
        Conductor(engine, Dispatcher(assignments, 5), job, Silent()).run()
        ended = time.monotonic()
        cpu = time.process_time() - cpu
        by_workers = [_cpu(worker.pid) for worker in workers if worker.pid]
        busy = _busy(machine, psutil.cpu_times(), math.fsum([cpu, *by_workers]))
        killer.join()
        engine.close()
        for worker in workers:
            worker.kill()
            worker.join()
    print(busy)
    return _report(options, assignments, job, workers, deaths, begun, ended, cpu)


def _cpu(pid: int) -> float:
    """Seconds of CPU that a worker has used; those that were killed are not counted."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)


def _busy(before: Any, after: Any, benchmark_seconds: float) -> str:
    """What the CPUs of this machine did meanwhile. benchmark_seconds: seconds of CPU of this
    benchmark, the start of its workers among them."""
    spent = {name: getattr(after, name) - getattr(before, name) for name in after._fields}
    # Those of virtual machines that run here are in `user` already.
    every = sum(seconds for name, seconds in spent.items() if not name.startswith("guest"))
    idle = spent["idle"] + spent.get("iowait", 0.0)
    return (
        f"CPUs busy {1 - idle / every:.0%} of the time, {benchmark_seconds / every:.0%} for this benchmark; "
        f"stolen {spent.get('steal', 0.0) / every:.1%}"
    )


def _kill(
    workers: Sequence[Any], number: int, ideal: float, dice: random.Random, deaths: dict[int, float]
) -> None:
    """Kills so many workers, each at a moment of its own before the end."""
    moments = sorted(
        (dice.uniform(0.0, ideal), worker) for worker in dice.sample(range(len(workers)), number)
    )
    begun = time.monotonic()
    for moment, worker in moments:
        time.sleep(max(0.0, begun + moment - time.monotonic()))
        os.kill(workers[worker].pid, signal.SIGKILL)
        deaths[workers[worker].pid] = time.monotonic()


def _report(
    options: argparse.Namespace,
    assignments: Sequence[Assignment],
    job: Sleeps,
    workers: Sequence[Any],
    deaths: dict[int, float],
    begun: float,
    ended: float,
    cpu: float,
) -> int:
    lost = sum(assignment.id not in job.home for assignment in assignments)
    twice = sum(len(homes) > 1 for homes in job.home.values())
    apart = sum(len(set(home.where)) > 1 for homes in job.home.values() for home in homes)
    every = [home for homes in job.home.values() for home in homes]
    overhead = _overhead(every, deaths)
    bound = _bound(sum(assignment.seconds for assignment in assignments), workers, deaths, begun)
    times = (ended - begun) / bound
    print(
        f"{options.tasks} comparisons of {options.seconds:g} s on {options.workers} workers, "
        f"{len(deaths)} killed"
    )
    print(f"lost {lost}, home twice {twice}, pairs across machines {apart}, failed {len(job.failures)}")
    print(f"engine overhead while comparisons wait: {overhead:.2%}; client and scheduler {cpu:.1f} s of CPU")
    print(f"all in {ended - begun:.1f} s, at best {bound:.1f} s: {times:.3f} times as long")
    good = not (lost or twice or apart or job.failures) and overhead < 0.02 and times <= 1.1
    return 0 if good or not options.check else 1


def _overhead(every: Sequence[Home], deaths: dict[int, float]) -> float:
    """Share of a machine's time between its comparisons, as long as others waited: until the last began."""
    last = max(home.begun for home in every)
    between = busy = 0.0
    by_machine: dict[int, list[Home]] = {}
    for home in every:
        by_machine.setdefault(home.where[0], []).append(home)
    for pid, homes in by_machine.items():
        homes.sort(key=lambda home: home.begun)
        for before, after in itertools.pairwise(homes):
            if after.begun <= last and pid not in deaths:
                between += after.begun - before.ended
                busy += after.ended - after.begun
    return between / (between + busy)


def _bound(seconds: float, workers: Sequence[Any], deaths: dict[int, float], begun: float) -> float:
    """The soonest end: when the workers that live have had as much time as all comparisons need."""
    low, high = 0.0, seconds
    lives = [deaths[w.pid] - begun if w.pid in deaths else float("inf") for w in workers]
    while high - low > 1e-3:
        middle = (low + high) / 2
        if sum(min(life, middle) for life in lives) >= seconds:
            high = middle
        else:
            low = middle
    return high


if __name__ == "__main__":
    sys.exit(main())
