"""A campaign or the errands of a command on a fleet, from the plan to the last that comes home."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.runs import Plan
from pgstrata.campaign.study import FleetSpec
from pgstrata.errors import PgstrataError
from pgstrata.files import digests
from pgstrata.fleet.assignments import assignments_of
from pgstrata.fleet.conductor import Conductor
from pgstrata.fleet.dispatch import Dispatcher
from pgstrata.fleet.engine import SchedulerClient, SchedulerLostError, check_address
from pgstrata.fleet.errands import ErrandJob
from pgstrata.fleet.job import CampaignJob
from pgstrata.fleet.local import local_fleet, number_of
from pgstrata.fleet.perform import perform
from pgstrata.fleet.planning import plan_of
from pgstrata.fleet.watching import Watching, watching
from pgstrata.measure.errands import Errands
from pgstrata.measure.interrupt import Interrupts
from pgstrata.store import Results
from pgstrata.store.read import Run, read_run

RECONNECT_SECONDS = 60.0
"""How long a scheduler that does not answer is tried again."""


@dataclass
class FleetOutcome:
    """What became of a campaign: folders of the runs that came home now, and what failed why."""

    plan: Plan
    folders: list[Path]
    failed: list[tuple[PlannedRun, str]]


def check_fleet(text: str) -> None:
    """Raises UsageError for what `--fleet` cannot stand for."""
    if text.startswith("local:"):
        number_of(text)
    else:
        check_address(text)


def execute(
    campaign: Campaign,
    results: Results,
    fleet: str,
    console: Console,
    *,
    fresh: bool = False,
    as_json: bool = False,
) -> FleetOutcome:
    """Makes all missing runs on the machines of a fleet: `local:N`, or the address of a scheduler.

    Raises Interrupted when a signal asked for the end; then nothing is left running anywhere. UsageError for
    what cannot be done, ServerError where the scheduler does not answer, StoreError where results cannot be
    written.
    """
    check_fleet(fleet)
    with Interrupts() as interrupts, results.lock():
        results.clean()
        plan = plan_of(campaign, results, fresh=fresh)
        assignments = assignments_of(plan, results)
        owner = _owner(plan.campaign.name, results.root)
        job = CampaignJob(plan, results, assignments, f"pgstrata-{owner}")
        if assignments:
            with _address(fleet) as address:
                had = {
                    (run.key.workload, stored.machine)
                    for run in plan.runs
                    if run.existing is not None and isinstance(stored := read_run(run.existing), Run)
                }
                client = _Client(address, owner, job, plan.campaign.spec.fleet, had, interrupts)
                client.run(console, as_json=as_json)
    return FleetOutcome(plan, job.folders, job.failures)


def do_errands(errands: Errands, fleet: str, console: Console, interrupts: Interrupts) -> None:
    """Has all errands done by the machines of a fleet. The results folder is locked by the caller. Raises as
    `execute`."""
    check_fleet(fleet)
    owner = _owner(errands.name, errands.results)
    job = ErrandJob(errands, f"pgstrata-{owner}")
    with _address(fleet) as address:
        _Client(address, owner, job, errands.fleet, set(), interrupts).run(console)


@contextmanager
def _address(fleet: str) -> Iterator[str]:
    if fleet.startswith("local:"):
        with local_fleet(number_of(fleet)) as address:
            yield address
    else:
        yield fleet


def _owner(name: str, results: Path) -> str:
    """Returns an identity of the client that stays the same when it is started again and differs between
    campaigns and results folders."""
    identity = [name, socket.gethostname(), str(results.resolve()), os.getuid()]
    return digests.of(repr(identity))[:12]


class _Client:
    """One start of a client: connects, conducts, and goes on where the scheduler was away for a moment."""

    def __init__(
        self,
        address: str,
        owner: str,
        job: CampaignJob | ErrandJob,
        spec: FleetSpec,
        had: Collection[tuple[str, str]],
        interrupts: Interrupts,
    ) -> None:
        self._address, self._owner, self._job = address, owner, job
        self._spec, self._had, self._interrupts = spec, had, interrupts

    def run(self, console: Console, *, as_json: bool = False) -> None:
        engine = self._connect()
        words = lambda: self._job.words  # noqa: E731 - asked again and again
        with watching(console, words, as_json=as_json, dashboard=engine.dashboard) as watcher:
            if engine.dashboard:
                watcher.say(f"scheduler {self._address}, dashboard {engine.dashboard}")
            while True:
                try:
                    self._conduct(engine, watcher)
                    return
                except SchedulerLostError as error:
                    watcher.say(f"{error.message}; trying for {RECONNECT_SECONDS:.0f} s")
                    engine.close()
                    engine = self._reconnect(error)

    def _connect(self) -> SchedulerClient:
        return SchedulerClient(self._address, self._owner, perform)

    def _reconnect(self, lost: SchedulerLostError) -> SchedulerClient:
        until = time.monotonic() + RECONNECT_SECONDS
        while True:
            self._interrupts.check()
            try:
                return self._connect()
            except PgstrataError:
                if time.monotonic() > until:
                    raise lost from None
                time.sleep(1.0)

    def _conduct(self, engine: SchedulerClient, watcher: Watching) -> None:
        dispatcher = Dispatcher(self._job.left.values(), self._spec.attempts, self._had)
        watcher.dispatcher = dispatcher
        conductor = Conductor(
            engine,
            dispatcher,
            self._job,
            watcher,
            silent_seconds=self._spec.silent_seconds,
            check=self._interrupts.check,
        )
        try:
            conductor.run()
        except SchedulerLostError:
            raise
        except BaseException:
            with self._interrupts.shield():
                self._end(conductor, watcher.say)
            raise
        finally:
            with self._interrupts.shield():
                engine.close()

    def _end(self, conductor: Conductor, say: Callable[[str], None]) -> None:
        say("stopping the servers and drivers of all machines, one moment")
        if silent := conductor.end():
            say(
                f"not known to have stopped: {', '.join(silent)}; what runs there ends by itself when it "
                "sees that nobody wants it"
            )


__all__ = ["FleetOutcome", "check_fleet", "do_errands", "execute"]
