"""Machines of one kind measure what is compared with each other, and only what was asked comes home."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pgstrata.campaign.study import FleetSpec
from pgstrata.errors import UsageError
from pgstrata.fleet.child import _do_errand
from pgstrata.fleet.engine import WorkerInfo
from pgstrata.fleet.errands import ErrandJob
from pgstrata.fleet.machine import look
from pgstrata.fleet.roles import Machine, RetryError, UnfitError
from pgstrata.fleet.tasks import Do, Done, Look, Parcel, Unable, decode_task, encode
from pgstrata.measure.errands import Errand
from pgstrata.store import Run
from pgstrata.store.record import MachineRecord

pytestmark = pytest.mark.program


class Asking:
    """Two errands that need nothing, and what became of them. known: the kind that has measured before."""

    does, name, most_seconds, fleet = "nothing", "asking", 10.0, FleetSpec()

    def __init__(self, results: Path, known: str = "") -> None:
        self.results, self._known = results, known
        self.kinds: list[str] = []
        self.home: list[bytes] = []
        self.left = [Errand(f"{n:016x}", f"errand {n}", (), (), b"%d" % n) for n in (1, 2)]

    def preferred(self, kinds: Sequence[str]) -> str:
        return self._known if self._known in kinds else ""

    def begin(self, kind: str) -> None:
        self.kinds.append(kind)

    def next(self, number: int) -> list[Errand]:
        given, self.left = self.left[:number], self.left[number:]
        return given

    def earlier(self, id: str) -> Errand | None:
        return None

    def arrived(self, errand: Errand, answer: bytes, runs: Sequence[Run]) -> None:
        self.home.append(answer)

    def failed(self, errand: Errand, reason: str) -> None:
        raise AssertionError(reason)


def machines(*names: str) -> list[Machine]:
    return [Machine(WorkerInfo(f"tcp://{name}:1", name, 1, 1, time.time()), name) for name in names]


def admitted(job: ErrandJob, kinds: dict[str, str]) -> dict[str, str]:
    """Brings machines of these kinds through their admission side by side; why each takes no part, or
    nothing."""
    seen = look(Look(data_dir=None, servers=()))
    all_ = machines(*kinds)
    for machine in all_:
        machine.admission = job.admit(machine, [other for other in all_ if other is not machine])
        assert isinstance(decode_task(machine.admission.send(None) or b""), Look)
    outcome: dict[str, str] = {}
    for _ in range(10):
        for machine in all_:
            if machine.admission is None:
                continue
            answer: Any = None
            if not machine.alike:
                answer = encode(
                    msgspec.structs.replace(
                        seen, name=machine.name, host=machine.name, alike=kinds[machine.name]
                    )
                )
            try:
                machine.admission.send(answer)
            except StopIteration:
                outcome[machine.name], machine.admission, machine.state = "", None, "ready"
            except UnfitError as error:
                outcome[machine.name], machine.admission, machine.state = str(error), None, "out"
    return outcome


def test_the_kind_with_most_machines_measures(tmp_path: Path) -> None:
    asking = Asking(tmp_path)
    job = ErrandJob(asking, "topic")
    assert job.further(2) == ()  # nothing is due before the kind is known, and it is not the end
    outcome = admitted(job, {"a": "old", "b": "new", "c": "new"})
    assert asking.kinds == ["new"]
    assert outcome["b"] == outcome["c"] == ""
    assert "it is of another kind (old) than the machines that measure (new)" in outcome["a"]


def test_the_kind_that_has_measured_before_goes_on(tmp_path: Path) -> None:
    asking = Asking(tmp_path, known="old")
    outcome = admitted(ErrandJob(asking, "topic"), {"a": "old", "b": "new", "c": "new"})
    assert asking.kinds == ["old"]
    assert [name for name, why in outcome.items() if not why] == ["a"]


def test_answers_come_home_once_and_others_are_refused(tmp_path: Path) -> None:
    asking = Asking(tmp_path)
    job = ErrandJob(asking, "topic")
    admitted(job, {"a": "one"})
    first, second = job.further(2) or ()
    assert job.further(1) is None and str(first) == "errand 1"
    with pytest.raises(RetryError, match="no valgrind; install it") as refused:
        job.arrived(first, "a", encode(Unable(message="no valgrind", hint="install it")))
    assert refused.value.fault
    with pytest.raises(RetryError, match="of something else"):
        job.arrived(first, "a", encode(Done(answer=b"", runs=Parcel(digest=""))))
    job.arrived(second, "a", encode(Done(answer=b"two")))
    job.arrived(first, "a", encode(Done(answer=b"one")))
    assert asking.home == [b"two", b"one"] and not job.left


def test_a_worker_does_only_what_capabilities_offer(tmp_path: Path) -> None:
    record = MachineRecord(name="w", kind="", fingerprint="", qualification=None)
    task = Do(
        does="os.system",
        campaigns=(),
        asked=b"",
        trees={},
        machine=record,
        kind="",
        folder="here",
        limit=1.0,
        topic="",
    )
    with pytest.raises(UsageError, match=r"no capability here does os\.system"):
        _do_errand(task, tmp_path)
    for folder in ("../elsewhere", "a/b", ""):
        with pytest.raises(UsageError, match="no name of a folder"):
            _do_errand(msgspec.structs.replace(task, does="count", folder=folder), tmp_path)
