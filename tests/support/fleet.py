"""A fleet on loopback for tests: real scheduler, real workers, simulated comparisons that only sleep."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import msgspec

from pgstrata.fleet import restricted
from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.conductor import Conductor
from pgstrata.fleet.dispatch import Dispatcher
from pgstrata.fleet.engine import SchedulerClient
from pgstrata.fleet.home import ARRIVED
from pgstrata.fleet.job import QUALIFIED, Known
from pgstrata.fleet.machine import look
from pgstrata.fleet.roles import Machine, RetryError
from pgstrata.fleet.tasks import Look
from pgstrata.store.record import Qualification
from pgstrata.store.write import now
from support.program import environment


def present(text: bytes) -> bytes:
    """What a worker answers that is there."""
    return text


def simulated(text: bytes) -> bytes:
    """What workers do instead of measuring: note that they began, sleep, answer. A file `hold` beside the
    notes makes them sleep on for as long as it is there."""
    from distributed import get_worker

    task = json.loads(text)
    folder = Path(task["folder"])
    me = {"id": task["id"], "attempt": task["attempt"], "pid": os.getpid(), "name": get_worker().name}
    with (folder / "begun").open("a") as file:
        file.write(json.dumps(me) + "\n")
    if task.get("refuse") == get_worker().name:
        return json.dumps({**me, "refused": True}).encode()
    time.sleep(task["seconds"])
    until = time.monotonic() + 60
    while (folder / "hold").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return json.dumps(me).encode()


def certificates_of_the_engine() -> dict[str, str]:
    """The certificates that this process uses, as variables for another client."""
    names = ["ca-file", *(f"{who}.{part}" for who in ("client", "worker") for part in ("cert", "key"))]
    tls = {name: dask.config.get(f"distributed.comm.tls.{name}") for name in names}
    prefix = "DASK_DISTRIBUTED__COMM__TLS__"
    return {prefix + name.upper().replace("-", "_").replace(".", "__"): path for name, path in tls.items()}


restricted.permit(present)
restricted.permit(simulated)


class Sleeping:
    """A job of simulated comparisons, and what became of it. refuse: name of a worker that does none;
    machines: so many have come before any is ready. later: assignments that become known when `first` are
    home."""

    def __init__(self, folder: Path, refuse: str = "", machines: int = 1) -> None:
        self.folder, self._refuse, self._machines = folder, refuse, machines
        self._come: set[str] = set()
        self.home: list[dict[str, Any]] = []
        self.failures: list[tuple[str, str]] = []
        self.open: set[str] | None = None
        self.later: list[Assignment] = []
        self.first = 0

    def admit(self, machine: Machine, others: Sequence[Machine]) -> Generator[bytes | None, Any, None]:
        machine.kind = machine.host = "simulated"
        self._come.add(machine.address)
        yield None
        while len(self._come) < self._machines:
            yield None

    def task(self, assignment: Assignment, machine: Machine, attempt: int) -> bytes:
        return json.dumps(
            {
                "id": assignment.id,
                "attempt": attempt,
                "seconds": assignment.seconds,
                "folder": str(self.folder),
                "refuse": self._refuse,
            }
        ).encode()

    def arrived(self, assignment: Assignment, machine: str, answer: bytes) -> None:
        fields = json.loads(answer)
        assert fields["id"] == assignment.id
        if fields.get("refused"):
            raise RetryError("it does not want to")
        self.home.append({**fields, "machine": machine})

    def failed(self, assignment: Assignment, reason: str) -> None:
        self.failures.append((assignment.id, reason))

    def further(self, number: int) -> Sequence[Assignment] | None:
        """Those that become known when the ones before are home."""
        begun = [self.later.pop(0) for _ in self.later[:number]] if len(self.home) >= self.first else []
        return begun or (() if self.later else None)

    def earlier(self, id: str) -> Assignment | None:
        """One of those, where an earlier client has begun it."""
        begun = next((assignment for assignment in self.later if assignment.id == id), None)
        if begun is not None:
            self.later.remove(begun)
        return begun

    def open_workloads(self) -> set[str] | None:
        return self.open

    @property
    def begun(self) -> list[dict[str, Any]]:
        """Every beginning, as the workers noted it."""
        path = self.folder / "begun"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class Noting:
    """A watcher that remembers. on_event: called with each."""

    def __init__(self, on_event: Callable[[str, str], None] = lambda event, name: None) -> None:
        self.events: list[tuple[str, str, str]] = []
        self._on_event = on_event

    def machine(self, machine: Machine, event: str) -> None:
        self.events.append((event, machine.name, machine.why))
        self._on_event(event, machine.name)

    def assignment(self, assignment: Assignment, event: str, machine: str, reason: str) -> None:
        self.events.append((event, str(assignment), reason))
        self._on_event(event, str(assignment))

    def refresh(self, machines: Sequence[Machine]) -> None:
        pass

    def of(self, event: str) -> list[str]:
        return [name for kind, name, _ in self.events if kind == event]


@contextmanager
def engine_at(
    address: str, owner: str = "tests", perform: Callable[[bytes], bytes] = simulated
) -> Iterator[SchedulerClient]:
    engine = SchedulerClient(address, owner, perform)
    try:
        yield engine
    finally:
        engine.close()


def conduct(
    engine: SchedulerClient,
    job: Sleeping,
    assignments: Sequence[Assignment],
    *,
    attempts: int = 3,
    silent_seconds: float = 60.0,
    watcher: Noting | None = None,
    check: Callable[[], None] = lambda: None,
) -> tuple[Conductor, Noting]:
    """Brings the assignments to their end."""
    noting = watcher or Noting()
    dispatcher = Dispatcher(assignments, attempts)
    conductor = Conductor(engine, dispatcher, job, noting, silent_seconds=silent_seconds, check=check)
    conductor.run()
    return conductor, noting


def repeats(number: int, seconds: float, workload: str = "w") -> list[Assignment]:
    return [Assignment(workload, repeat, seconds) for repeat in range(1, number + 1)]


@contextmanager
def engine_on_loopback(
    place: Path,
    workers: int,
    *options: str,
    one_host: bool = False,
    environ: Mapping[str, str] | None = None,
    worker_environ: Mapping[str, Mapping[str, str]] | None = None,
    inside: Mapping[str, Sequence[str]] | None = None,
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and workers as a user starts them, by the engine's own commands. options: of the scheduler;
    environ: of all, worker_environ: of one worker (`w1`, `w2`, …). one_host: the workers do not pass for
    machines of their own. inside: of one worker the command that starts it."""
    environ = environ or {}
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str, by: Sequence[str] = (), **more: str) -> None:
        with (place / f"engine-{len(started)}.log").open("wb") as log:
            command = [*by, str(Path(sys.executable).parent / "dask"), *words]
            started.append(
                subprocess.Popen(
                    command, cwd=place, env=environment(**more), stdout=log, stderr=subprocess.STDOUT
                )
            )

    try:
        start(
            *("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"),
            *("--scheduler-file", "s.json", "--preload", "pgstrata.fleet.restricted", *options),
            **environ,
        )
        until = time.monotonic() + 60
        address = ""
        while not address:
            assert time.monotonic() < until
            # It may not be there yet, nor whole.
            with contextlib.suppress(FileNotFoundError, json.JSONDecodeError):
                address = str(json.loads((place / "s.json").read_text())["address"])
            time.sleep(0.1)
        for name in (f"w{number}" for number in range(1, workers + 1)):
            start(
                *("worker", address, "--nthreads", "1", "--resources", "machine=1", "--no-nanny"),
                *("--no-dashboard", "--name", name, "--memory-limit", "0"),
                *("--preload", "pgstrata.fleet.restricted"),
                by=(inside or {}).get(name, ()),
                **({} if one_host else {"PGSTRATA_MACHINE": name}),
                **environ,
                **(worker_environ or {}).get(name, {}),
            )
        while (place / "engine-0.log").read_text().count("Register worker") < workers:
            assert time.monotonic() < until + 60
            time.sleep(0.05)
        yield address, started
    finally:
        for process in reversed(started):
            if process.poll() is None:
                process.kill()
            process.wait()


def qualified(place: Path, *names: str) -> None:
    """Lets machines of these names be known to see enough, as after an earlier start of a client."""
    seen = look(Look(data_dir="data", servers=()))
    qualification = Qualification(at=now(), seen=0.01, minutes=1.0, margin=0.9, offset=0.0)
    known = {f"{seen.host}/{name}": Known(seen.fingerprint, seen.pgstrata, qualification) for name in names}
    (place / "results" / ARRIVED).mkdir(parents=True)
    (place / "results" / ARRIVED / QUALIFIED).write_bytes(msgspec.json.encode(known))
