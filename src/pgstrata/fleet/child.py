"""One task of a worker, done in a process of its own: `python -m pgstrata.fleet.child FOLDER`.

The folder holds the task; the answer is written beside it. Standard output says how far it is, one JSON
object in each line. Standard input is the lease: a line every few seconds as long as somebody wants the
answer. Where they stop coming, or it ends, everything here is taken down: a machine that has lost its worker,
its scheduler or its network runs nothing on.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.runs import Plan
from pgstrata.driver.events import Second
from pgstrata.errors import PgstrataError, StoreError, UsageError
from pgstrata.files import disk
from pgstrata.files.user_files import shown
from pgstrata.fleet import parcel, provision
from pgstrata.fleet.portable import LASTING, drop_old_files, opened
from pgstrata.fleet.qualify import qualify
from pgstrata.fleet.tasks import (
    Answer,
    Compare,
    Do,
    Done,
    MeasuredRuns,
    Provide,
    Qualify,
    Unable,
    decode_task,
    encode,
    unable,
)
from pgstrata.measure.campaign import CampaignOutcome, Conditions, execute
from pgstrata.measure.errands import There
from pgstrata.measure.interrupt import Interrupted, Interrupts
from pgstrata.measure.progress import seconds_left
from pgstrata.measure.run.cause import DISK_FULL
from pgstrata.process_end import allow_process_end
from pgstrata.registry import capabilities, load
from pgstrata.server.find.cache import cache_folder
from pgstrata.store import Results
from pgstrata.store.record import StepRecord
from pgstrata.workload.core.language import Step

TASK, ANSWER, RESULTS = "task", "answer", "results"

LEASE_SECONDS = 30.0
"""How long the worker may say nothing."""

TAKE_DOWN_SECONDS = 60.0
"""How long taking down may take before the process ends itself; the kernel ends server and driver then."""

EVERY_SECONDS = 2.0
"""How often a step says how far it is."""


def main() -> None:
    """Does the task in the folder that is named on the command line."""
    os.umask(os.umask(0o022) | 0o022)
    allow_process_end()
    folder = Path(sys.argv[1])
    threading.Thread(target=_watch_lease, daemon=True).start()
    try:
        answer: Answer = do(folder)
    except Interrupted:
        answer = Unable(message="it was told to stop", ended=True)
    except (PgstrataError, OSError) as error:
        # What is not valid here may be somewhere else: CPUs, files of an installation, a package.
        answer = unable(error)
    disk.replace(folder / ANSWER, encode(answer))


def _watch_lease() -> None:
    heard = time.monotonic()
    while time.monotonic() - heard < LEASE_SECONDS:
        if select.select([0], [], [], 1.0)[0]:
            if not os.read(0, 4096):
                break
            heard = time.monotonic()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(TAKE_DOWN_SECONDS)
    os._exit(1)


def do(folder: Path) -> Answer:
    """Returns the answer to the task in a folder. Raises PgstrataError, OSError, Interrupted."""
    task = decode_task((folder / TASK).read_bytes())
    match task:
        case Provide():
            with Interrupts() as interrupts:
                campaign = opened(task.campaign, folder / RESULTS)
                return provision.provide(task, campaign, _say, interrupts.check)
        case Qualify():
            campaign = opened(task.campaign, folder / RESULTS)
            find = provision.finder(campaign, task.servers)
            return qualify(task, campaign, folder / RESULTS, Conditions(find=find, progress=_progress))
        case Compare():
            drop_old_files()
            return _compare(task, folder)
        case Do():
            drop_old_files()
            return _do_errand(task, folder)
    raise UsageError(f"{type(task).__name__} is no task for a process of its own")


def _compare(task: Compare, folder: Path) -> Answer:
    campaign = opened(task.campaign, folder / RESULTS)
    campaign = campaign.model_copy(update={"machine": task.machine})
    results = Results(folder / RESULTS)
    conditions = Conditions(
        only=lambda run: run.key.repeat == task.repeat,
        find=provision.finder(campaign, task.servers),
        progress=_progress,
    )
    outcome = _measured(campaign, results, conditions)
    for _, error in outcome.failed:
        if error.startswith(DISK_FULL):
            return Unable(message=error)
    names = [str(run.folder.relative_to(results.root)) for run in results.runs()]
    if results.broken or not names:
        raise StoreError(f"the runs cannot be read: {', '.join(map(str, results.broken)) or 'none is there'}")
    shared = Path(task.shared) if task.shared else None
    failed = tuple(f"{planned.key.variant}: {error}" for planned, error in outcome.failed)
    return MeasuredRuns(runs=parcel.pack(results.root, names, shared), failed=failed)


def _do_errand(task: Do, folder: Path) -> Answer:
    function = _function_of(task.does)
    campaigns = [
        opened(travelled, folder / RESULTS).model_copy(update={"machine": task.machine})
        for travelled in task.campaigns
    ]
    if not re.fullmatch(r"[0-9a-z-]{1,64}", task.folder):
        raise UsageError(f"{shown(task.folder)} is no name of a folder of the cache")
    lasting = cache_folder("fleet", LASTING, task.folder, make=True)
    os.utime(lasting)  # it is in use
    with Interrupts() as interrupts:
        answer = function(
            There(
                campaigns=campaigns,
                asked=task.asked,
                results=folder / RESULTS,
                lasting=lasting,
                kind=task.kind,
                find=provision.builder(task.trees, _say, interrupts.check),
                console=_Telling(),
                say=_say,
                check=interrupts.check,
            )
        )
    results = Results(folder / RESULTS)
    names = [str(run.folder.relative_to(results.root)) for run in results.runs()]
    if results.broken:
        raise StoreError(f"the runs cannot be read: {', '.join(map(str, results.broken))}")
    shared = Path(task.shared) if task.shared else None
    return Done(answer=answer, runs=parcel.pack(results.root, names, shared) if names else None)


def _function_of(name: str) -> Callable[[There], bytes]:
    for offer in capabilities():
        if name in offer.errands:
            function: Callable[[There], bytes] = load(offer.errands[name])
            return function
    raise UsageError(f"no capability here does {shown(name)}", "client and workers must be of one release")


class _Telling(Console):
    """A console that tells the worker what would be printed."""

    def __init__(self) -> None:
        super().__init__(file=io.StringIO())

    def print(self, *objects: Any, **how: Any) -> None:
        _say(" ".join(map(str, objects)).strip()[:500])


def _measured(campaign: Campaign, results: Results, conditions: Conditions) -> CampaignOutcome:
    with Path(os.devnull).open("w") as nowhere:
        return execute(campaign, results, Console(file=nowhere), fresh=True, conditions=conditions)


# --- how far it is ----------------------------------------------------------------------------


def _tell(**event: Any) -> None:
    # Nobody reads any more: then the lease ends soon.
    with contextlib.suppress(OSError):
        os.write(1, f"{json.dumps(event)}\n".encode())


def _say(text: str) -> None:
    _tell(text=text)


class _Told:
    """Tells the worker how far a measurement is."""

    def __init__(self) -> None:
        self._step: Step | None = None
        self._told = 0.0
        self._variants = ""

    def say(self, text: str) -> None:
        _say(text.strip())

    def runs_begin(self, runs: Sequence[PlannedRun], number: int, total: int) -> None:
        self._variants = ", ".join(run.key.variant for run in runs)
        _tell(what=f"{self._variants}: begins")

    def runs_ended(self, failed: Sequence[tuple[PlannedRun, str]], seconds: float) -> None:
        for run, error in failed:
            _tell(what=f"{run.key.variant}: {error}")
        _tell(what=f"{self._variants}: done")

    def phase(self, name: str, seconds: float | None = None) -> None:
        _tell(what=name)

    def step_begins(self, step: Step) -> None:
        self._step, self._told = step, 0.0

    def round_begins(self, number: int, variant: str) -> None:
        if self._step is not None:
            _tell(what=f"{self._step.name}: round {number}, {variant}")

    def second(self, event: Second) -> None:
        now = time.monotonic()
        if self._step is None or now - self._told < EVERY_SECONDS:
            return
        self._told = now
        at = event.second + event.seconds
        left = seconds_left(self._step, at, 0)
        _tell(what=self._step.name, at=round(at, 1), left=None if left is None else round(left, 1))

    def step_ended(self, record: StepRecord, rate: float | None = None) -> None:
        self._step = None
        _tell(what=f"{record.name}: done")


@contextmanager
def _progress(plan: Plan) -> Iterator[_Told]:
    yield _Told()


if __name__ == "__main__":
    main()
