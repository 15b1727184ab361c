"""The client's loop: machines come, are admitted, get assignments, and are lost; until all is done or failed.

It keeps no state of its own that matters: what is done lies in the results folder, and what runs is known to
the engine by name. So it may be killed at any moment and started again.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from typing import Any

from pgstrata import numbers
from pgstrata.errors import PgstrataError, StoreError, UsageError
from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.dispatch import Dispatcher
from pgstrata.fleet.engine import Call, SchedulerClient, WorkerInfo
from pgstrata.fleet.roles import FleetWork, Machine, RetryError, UnfitError, Watcher

LOOK_SECONDS = 1.0
"""How often the client asks which machines there are."""

WAIT_SECONDS = 0.1
"""Longest wait for something to happen before signals and machines are looked after."""

ASK_SECONDS = 120.0
"""How long a machine may take to say what it is."""

ALONE_SECONDS = 120.0
"""How long a campaign waits for a first machine, or for another one when all are gone."""

END_SECONDS = 20.0
"""How long machines may take to say that they have ended what was called off."""


class Conductor:
    """Brings the assignments of a dispatcher to their end, on whatever machines there are.

    silent_seconds: after which a machine that is not heard of is lost. check: called several times a second,
    raises where a signal has come.
    """

    def __init__(
        self,
        engine: SchedulerClient,
        dispatcher: Dispatcher,
        job: FleetWork,
        watcher: Watcher,
        *,
        silent_seconds: float = 60.0,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._engine, self._dispatcher, self._job, self._watcher = engine, dispatcher, job, watcher
        self._silent_seconds, self._check = silent_seconds, check
        self.machines: dict[str, Machine] = {}
        self._calls: dict[int, Machine] = {}
        self._adopted: dict[int, tuple[Call, Assignment]] = {}
        """By the identity of the call: what an earlier client has begun."""
        self._taken: list[Call] = []
        """Answers that are home, to be forgotten by the engine when no machine waits for us."""
        self._waits_said: set[str] = set()
        """Assignments of which was said that no machine is of their kind."""
        self._may_come = False
        """Whether assignments will become known although nothing comes home."""
        self._looked = -LOOK_SECONDS
        self._alone_since = time.monotonic()

    def run(self) -> None:
        """Runs until every assignment is done or has failed.

        Raises SchedulerLostError, StoreError, ServerError where no machine is left, and what `check` raises.
        """
        self._adopt()
        while not self._is_finished():
            self._check()
            self._meet()
            self._admit()
            self._dispatch()
            self._tidy()
            self._listen()
            self._watcher.refresh(list(self.machines.values()))
            if not self._dispatcher.finished or self._may_come:
                self._not_for_ever()
        self._tidy()

    def _is_finished(self) -> bool:
        """Asks for as many assignments as there are machines for, one at least. Returns whether all are done
        and no more will come."""
        ready = sum(machine.state == "ready" for machine in self.machines.values())
        number = max(1, ready) - self._dispatcher.number_waiting
        if number <= 0:
            return False
        more = self._job.further(number)
        for assignment in more or ():
            self._dispatcher.add(assignment)
        self._may_come = more is not None
        return not self._may_come and self._dispatcher.finished

    def end(self) -> list[str]:
        """Calls everything off that runs. Names of machines that have not said that they have ended it."""
        running: dict[str, str] = {}
        for machine in self.machines.values():
            if machine.call is not None:
                running[machine.address] = machine.name
                self._engine.drop(machine.call)
        for call, _ in self._adopted.values():
            running.setdefault(call.address, call.address)
            self._engine.drop(call)
        until = time.monotonic() + END_SECONDS
        while running and time.monotonic() < until:
            try:
                event = self._engine.events.get(timeout=0.2)
            except queue.Empty:
                continue
            if event.get("ended"):
                running.pop(str(event.get("address")), None)
        return sorted(running.values())

    # --- what an earlier client has left ------------------------------------------------------

    def _adopt(self) -> None:
        """Goes on with what runs already; what nobody wants any more is ended."""
        wanted = {waiting.id: waiting for waiting in self._dispatcher.waiting}
        for task in self._engine.earlier_tasks():
            assignment = wanted.pop(task.assignment, None)
            if assignment is None and (assignment := self._job.earlier(task.assignment)) is not None:
                self._dispatcher.add(assignment)
            if assignment is None:
                self._engine.drop(task.call)
                continue
            self._dispatcher.begin(assignment, task.call.address, begun=task.attempt)
            self._adopted[id(task.call)] = task.call, assignment
            self._engine.watch(task)
            self._watcher.assignment(assignment, "found", task.call.address, "")

    # --- machines -----------------------------------------------------------------------------

    def _meet(self) -> None:
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        self._looked = now
        workers = self._engine.workers()
        newest = max((worker.seen for worker in workers.values()), default=0.0)
        for address, worker in workers.items():
            if newest - worker.seen > self._silent_seconds:
                continue  # it has stopped answering, and is lost below
            if address not in self.machines:
                self.machines[address] = self._new(worker)
        for address, machine in list(self.machines.items()):
            known = workers.get(address)
            machine.unsure = False
            if known is None:
                self._lose(machine, "the worker is gone")
            elif newest - known.seen > self._silent_seconds:
                self._lose(machine, f"it was not heard of for {newest - known.seen:.0f} s")
            elif (
                machine.state == "arriving"
                and machine.call is not None
                and not machine.kind
                and now - machine.call.asked > ASK_SECONDS
            ):
                self._put_out(machine, f"it does not say what it is within {ASK_SECONDS:.0f} s")
        for call, assignment in list(self._adopted.values()):
            known = workers.get(call.address)
            if known is None or newest - known.seen > self._silent_seconds:
                self._adopted.pop(id(call))
                self._engine.drop(call)
                self._begin_again(assignment, "the worker is gone")
        self._say_what_waits()

    def _new(self, worker: WorkerInfo) -> Machine:
        machine = Machine(worker, worker.name or worker.address)
        self._watcher.machine(machine, "joins")
        if worker.problem:
            self._put_out(machine, worker.problem)
        return machine

    def _lose(self, machine: Machine, reason: str) -> None:
        del self.machines[machine.address]
        machine.state, machine.why = "gone", reason
        self._forget(machine)
        if (assignment := machine.assignment) is not None:
            machine.assignment = None
            self._begin_again(assignment, reason)
        self._watcher.machine(machine, "gone")
        for other in self.machines.values():
            # One that was refused as a second worker of the same host is its only one now.
            if other.state == "out" and other.host and other.host == machine.host:
                other.state, other.admission = "arriving", None

    def _forget(self, machine: Machine) -> None:
        if machine.call is not None:
            self._calls.pop(id(machine.call), None)
            self._engine.drop(machine.call)
            machine.call = None

    def _put_out(self, machine: Machine, why: str) -> None:
        machine.state, machine.why, machine.admission = "out", why, None
        self._forget(machine)
        self._watcher.machine(machine, "out")

    def _admit(self) -> None:
        """Brings machines that have come a step nearer to taking part."""
        adopted = {call.address for call, _ in self._adopted.values()}
        for machine in list(self.machines.values()):
            if machine.state != "arriving" or machine.call is not None or machine.address in adopted:
                continue
            if machine.unsure:
                continue  # until it is seen again
            if machine.admission is None:
                others = [other for other in self.machines.values() if other is not machine]
                machine.admission = self._job.admit(machine, others)
            self._step(machine, None)

    def _step(self, machine: Machine, answer: bytes | None) -> None:
        """Hands an answer to the admission of a machine, and asks what it wants to know next."""
        assert machine.admission is not None
        try:
            wanted = machine.admission.send(answer)
        except StopIteration:
            machine.state, machine.admission, machine.doing = "ready", None, ""
            self._watcher.machine(machine, "ready")
        except UnfitError as error:
            self._put_out(machine, str(error))
        else:
            if wanted is not None:
                machine.call = self._engine.ask(machine.address, f"admit-{machine.name}", wanted)
                self._calls[id(machine.call)] = machine

    # --- assignments --------------------------------------------------------------------------

    def _dispatch(self) -> None:
        if (open_ones := self._job.open_workloads()) is not None:
            self._dispatcher.known = {
                waiting.workload for waiting in self._dispatcher.waiting if waiting.workload not in open_ones
            }
        ready = [machine for machine in self.machines.values() if machine.state == "ready"]
        for machine in ready:
            coming = [
                other.candidate
                for other in self.machines.values()
                if other is not machine and other.kind and other.state in ("arriving", "ready")
            ]
            assignment = self._dispatcher.next_for(machine.candidate, coming)
            if assignment is not None:
                self._begin(assignment, machine)

    def _begin(self, assignment: Assignment, machine: Machine) -> None:
        attempt = self._dispatcher.begin(assignment, machine.name)
        try:
            text = self._job.task(assignment, machine, attempt)
        except UnfitError:
            # Its qualification is over, say: it is admitted anew and asked again.
            self._dispatcher.called_off(assignment)
            machine.state = "arriving"
            return
        label = f"{assignment.workload}-{assignment.repeat}-{attempt}"
        machine.call = self._engine.ask(machine.address, label, text, (assignment.id, attempt))
        self._calls[id(machine.call)] = machine
        machine.state, machine.assignment = "measuring", assignment
        machine.doing, machine.since, machine.left = "begins", time.monotonic(), None
        self._watcher.assignment(assignment, "begins", machine.name, "")

    def _tidy(self) -> None:
        while self._taken:
            self._engine.forget(self._taken.pop())

    def _listen(self) -> None:
        """Takes what has come: what machines tell of themselves, and one answer, so that its machine does not
        wait for those of others to be taken in."""
        while not self._engine.events.empty():
            self._on_event(self._engine.events.get())
        try:
            call = self._engine.answers.get(timeout=WAIT_SECONDS)
        except queue.Empty:
            return
        self._on_answer(call)

    def _on_event(self, event: dict[str, Any]) -> None:
        machine = self.machines.get(str(event.get("address")))
        if machine is None or machine.call is None:
            return
        what = event.get("what") or event.get("text")
        if isinstance(what, str):
            at = event.get("at")
            machine.doing = f"{what}, {at:.0f} s" if isinstance(at, int | float) else what
            left = event.get("left")
            machine.left = float(left) if isinstance(left, int | float) else None

    def _on_answer(self, call: Call) -> None:
        if (adopted := self._adopted.pop(id(call), None)) is not None:
            _, assignment = adopted
            self._take(assignment, call.address, call)
            return
        machine = self._calls.pop(id(call), None)
        if machine is None or machine.call is not call:
            return  # called off meanwhile
        machine.call = None
        if machine.assignment is not None:
            assignment, machine.assignment = machine.assignment, None
            machine.state, machine.doing = "ready", ""
            if not self._take(assignment, machine.name, call):
                self._doubt(machine)
            return
        try:
            answer = self._engine.answer(call)
        except PgstrataError as error:
            self._engine.drop(call)
            self._put_out(machine, error.message + (f"; {error.hint}" if error.hint else ""))
            return
        self._engine.drop(call)
        if answer is None:
            self._doubt(machine)
        elif machine.admission is not None:
            self._step(machine, answer)

    def _doubt(self, machine: Machine) -> None:
        """Marks a machine whose answer was lost: nothing is asked of it before it is seen again, and then
        from the start."""
        machine.state, machine.admission, machine.unsure = "arriving", None, True
        self._looked = -LOOK_SECONDS

    def _take(self, assignment: Assignment, machine: str, call: Call) -> bool:
        """Takes in the answer of a machine to an assignment. Returns False if the answer was lost."""
        answer = None
        try:
            answer = self._engine.answer(call)
            if answer is None:
                raise RetryError("the worker is gone", fault=False)
            self._job.arrived(assignment, machine, answer)
        except StoreError:
            raise
        except RetryError as error:
            self._engine.drop(call)
            self._begin_again(assignment, str(error), fault=error.fault)
        except PgstrataError as error:
            self._engine.drop(call)
            self._begin_again(assignment, error.message, fault=True)
        else:
            self._dispatcher.done(assignment)
            self._taken.append(call)
            self._watcher.assignment(assignment, "home", machine, "")
        return answer is not None

    def _begin_again(self, assignment: Assignment, reason: str, *, fault: bool = False) -> None:
        machine = next(
            (name for running, name in self._dispatcher.running if running.id == assignment.id), ""
        )
        refuse = self._dispatcher.refused if fault else self._dispatcher.lost
        if refuse(assignment, reason):
            self._watcher.assignment(assignment, "again", machine, reason)
        else:
            self._fail(assignment, machine)

    def _fail(self, assignment: Assignment, machine: str) -> None:
        reason = self._dispatcher.reason(assignment)
        times = self._dispatcher.begun(assignment)
        if times:
            reason = f"begun {numbers.counted(times, 'time')}; the last one failed on {reason}"
        self._job.failed(assignment, reason)
        self._watcher.assignment(assignment, "failed", machine, reason)

    # --- where nothing goes on ----------------------------------------------------------------

    def _not_for_ever(self) -> None:
        """Ends waiting for machines that do not come."""
        usable = [m for m in self.machines.values() if m.state in ("arriving", "ready", "measuring")]
        if usable or self._adopted:
            self._alone_since = time.monotonic()
            self._give_up_unfit(usable)
            return
        waited = time.monotonic() - self._alone_since
        problems = [f"{m.name}: {m.why}" for m in self.machines.values() if m.state == "out"]
        if problems and waited > 2 * LOOK_SECONDS:
            raise UsageError(
                f"no machine can take part: {'; '.join(problems)}",
                "docs/guides/fleet.md says what each must be",
            )
        if waited > ALONE_SECONDS:
            raise UsageError(
                f"no machine has come to {self._engine.address} for {ALONE_SECONDS:.0f} s",
                "start workers, or `pgstrata fleet up`; the same command goes on then",
            )

    def _give_up_unfit(self, usable: Sequence[Machine]) -> None:
        """Gives up the assignments that none of the machines here may do, when nothing else is left to wait
        for."""
        if self._adopted or any(machine.state != "ready" for machine in usable):
            return
        waiting, fits = self._dispatcher.waiting, self._dispatcher.fits
        if any(fits(assignment, machine.candidate) for assignment in waiting for machine in usable):
            return  # it is given out in a moment
        of_no_kind = [assignment for assignment in waiting if not self._dispatcher.reason(assignment)]
        for assignment in waiting:
            if assignment not in of_no_kind:
                self._dispatcher.give_up(assignment)
                self._fail(assignment, "")
        for assignment in of_no_kind:
            raise UsageError(
                f"{assignment}: {_no_kind(assignment)}",
                f"there is: {_kinds(usable)}; the same command goes on when there is one",
            )

    def _say_what_waits(self) -> None:
        """Reports assignments that wait for a machine of their kind, at once and not when all else is done:
        such a machine may still come, but the kind may be misspelt, too."""
        usable = [machine for machine in self.machines.values() if machine.state in ("ready", "measuring")]
        if not usable or any(machine.state == "arriving" for machine in self.machines.values()):
            return
        for assignment in self._dispatcher.waiting:
            if assignment.id not in self._waits_said and not any(
                assignment.suits(machine.kind) for machine in usable
            ):
                self._waits_said.add(assignment.id)
                reason = f"{_no_kind(assignment)}; there is: {_kinds(usable)}"
                self._watcher.assignment(assignment, "waits", "", reason)


def _no_kind(assignment: Assignment) -> str:
    return f"no machine is of the kind {assignment.kind!r}"


def _kinds(machines: Sequence[Machine]) -> str:
    return "; ".join(sorted({machine.kind for machine in machines}))


__all__ = ["Conductor"]
