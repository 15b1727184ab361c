"""What a fleet is doing now, whoever asked it to."""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass

from pgstrata.errors import PgstrataError
from pgstrata.fleet.engine import SchedulerClient
from pgstrata.fleet.perform import perform
from pgstrata.fleet.tasks import Look, SeenMachine, Unable, decode_answer, encode

ANSWER_SECONDS = 15.0
"""How long machines that do nothing may take to say what they are."""


@dataclass(frozen=True)
class MachineStatus:
    """A worker: its address, its machine's name and kind where it said them, what it does, what is wrong."""

    address: str
    name: str
    kind: str
    doing: str
    problem: str


@dataclass(frozen=True)
class FleetRecord:
    """A fleet as JSON."""

    scheduler: str
    dashboard: str
    machines: list[MachineStatus]


FleetRecords = list[FleetRecord]


def status(address: str) -> tuple[list[MachineStatus], str]:
    """Returns every worker of a scheduler, and the address of the engine's dashboard.

    Raises ServerError where no scheduler answers, SchedulerLostError.
    """
    engine = SchedulerClient(address, "status", perform)
    try:
        workers, doing = engine.workers(), engine.doing()
        idle = [a for a, worker in workers.items() if not worker.problem and not doing.get(a)]
        seen = _ask(engine, idle)
        machines = []
        for worker_address, worker in workers.items():
            reply = seen.get(worker_address)
            problem = worker.problem
            if isinstance(reply, str):
                problem = reply
            elif reply is None and worker_address in idle:
                problem = "it does not say what it is"
            known = reply if isinstance(reply, SeenMachine) else None
            what = ", ".join(label.rpartition("-")[0] for label in doing.get(worker_address, []))
            machines.append(
                MachineStatus(
                    worker_address,
                    known.name if known else worker.name,
                    known.kind if known else "",
                    what or ("" if problem else "free"),
                    problem,
                )
            )
        return machines, engine.dashboard
    finally:
        engine.close()


def _ask(engine: SchedulerClient, addresses: list[str]) -> dict[str, SeenMachine | str]:
    """Returns, by address, the machine's facts or its error."""
    text = encode(Look(data_dir=None, servers=()))
    calls = [engine.ask(address, "status", text) for address in addresses]
    replies: dict[str, SeenMachine | str] = {}
    until = time.monotonic() + ANSWER_SECONDS
    while len(replies) < len(calls) and (left := until - time.monotonic()) > 0:
        try:
            call = engine.answers.get(timeout=left)
        except queue.Empty:
            break
        try:
            answer = engine.answer(call)
            reply = decode_answer(answer) if answer is not None else None
        except PgstrataError as error:
            replies[call.address] = error.message
            continue
        if isinstance(reply, SeenMachine):
            replies[call.address] = reply
        else:
            replies[call.address] = reply.message if isinstance(reply, Unable) else "it was lost"
    for call in calls:
        engine.drop(call)
    return replies


__all__ = ["MachineStatus", "status"]
