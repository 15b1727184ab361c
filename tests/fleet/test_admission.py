"""Which machines take part, and what those are told that do not: decided by what a machine says of itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pgstrata.campaign.file.reading import read_campaign
from pgstrata.campaign.plan.runs import make_plan
from pgstrata.errors import UsageError
from pgstrata.fleet.assignments import assignments_of
from pgstrata.fleet.engine import WorkerInfo, check_address, security_for
from pgstrata.fleet.job import CampaignJob
from pgstrata.fleet.local import number_of
from pgstrata.fleet.machine import look
from pgstrata.fleet.roles import Machine, UnfitError
from pgstrata.fleet.tasks import (
    Answer,
    Installed,
    Look,
    Parcel,
    Provided,
    Qualified,
    Qualify,
    SeenMachine,
    Unable,
    decode_task,
    encode,
)
from pgstrata.server.find.model import Server
from pgstrata.server.find.recipe import Build
from pgstrata.store import Results
from pgstrata.store.record import Qualification
from pgstrata.store.write import now
from support.campaign import server

TEXT = 'servers = ["pg:12", "pg:17"]\n{more}\n[[workloads]]\nname = "sysbench"\n'


def find_server(spec: str, how: Build | None = None) -> Server:
    if spec.startswith("dsn:"):
        return Server("dsn:host=db", "dsn17.6", "17.6", 170006, "", None, spec.removeprefix("dsn:"))
    return server(spec, how)


def job_of(place: Path, more: str = "", text: str = TEXT) -> CampaignJob:
    file = place / "study.toml"
    file.write_text(text.format(more=more))
    results = Results(place / "results")
    plan = make_plan(read_campaign(file), results, find_server, elsewhere=True)
    return CampaignJob(plan, results, assignments_of(plan, results), "topic")


def machine(name: str = "w") -> Machine:
    return Machine(WorkerInfo(f"tcp://{name}:1", name, 1, 1, time.time()), name)


def seen(**other: Any) -> SeenMachine:
    """This machine, as it sees itself, but for what is given."""
    have = ("pg:12.22", "pg:17.6")
    return msgspec.structs.replace(look(Look(data_dir=None, servers=())), **{"have": have, **other})


def admitted(
    job: CampaignJob, machine: Machine, *answers: Answer, others: list[Machine] | None = None
) -> list[Any]:
    """Brings a machine through its admission with these answers, and returns what it was asked."""
    admission = job.admit(machine, others or [])
    text, asked = admission.send(None), []
    for answer in answers:
        assert text is not None
        asked.append(decode_task(text))
        try:
            text = admission.send(encode(answer))
        except StopIteration:
            return asked
    raise AssertionError(f"it is asked more: {decode_task(text) if text else None}")


def qualification(**other: Any) -> Qualification:
    usual = {"at": now(), "seen": 0.01, "minutes": 6.0, "margin": 0.02, "offset": 0.0}
    return Qualification(**{**usual, **other})


@pytest.mark.program
@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"pgstrata": "0.0.9"}, r"it has pgstrata 0\.0\.9 .* install the same release"),
        ({"driver": "pgstrata-driver 0.0.9"}, r"pgstrata-driver 0\.0\.9.* install the same release"),
    ],
)
def test_what_does_not_agree_is_named(place: Path, other: dict[str, Any], message: str) -> None:
    with pytest.raises(UnfitError, match=message):
        admitted(job_of(place), machine(), seen(**other))


@pytest.mark.program
@pytest.mark.parametrize(("seconds", "direction"), [(-4500, "behind"), (4500, "ahead")])
def test_a_clock_that_is_wrong_is_named(place: Path, seconds: int, direction: str) -> None:
    job = job_of(place)
    with pytest.raises(UnfitError, match=rf"its clock is 1:1\d h {direction}: set it"):
        admitted(job, machine(), seen(clock=time.time() + seconds))


@pytest.mark.program
def test_cpus_that_a_machine_lacks(place: Path) -> None:
    job = job_of(place, "server_cpus = [0, 60000]")
    with pytest.raises(UnfitError, match="`server_cpus`: it has no CPU 60000; it has 0"):
        admitted(job, machine(), seen(cpus=(0, 1)))


@pytest.mark.program
def test_two_workers_on_one_host(place: Path) -> None:
    first, second = machine("first"), machine("second")
    job = job_of(place)
    admitted(job, first, seen(), Qualified(qualification=qualification()))
    with pytest.raises(UnfitError, match="second worker on the host of tcp://first:1"):
        admitted(job, second, seen(), others=[first])
    # The first one is gone: the second is the only one of its host.
    first.state = "gone"
    admitted(job, second, seen(), others=[first])


@pytest.mark.program
def test_machines_of_the_same_name_are_told_apart(place: Path) -> None:
    first, second = machine("first"), machine("second")
    job = job_of(place)
    admitted(job, first, seen(name="db", host="1234abcd"), Qualified(qualification=qualification()))
    admitted(
        job,
        second,
        seen(name="db", host="5678abcd"),
        Qualified(qualification=qualification()),
        others=[first],
    )
    assert (first.name, second.name) == ("db", "db-5678")


@pytest.mark.program
def test_only_machines_that_are_named(place: Path) -> None:
    job = job_of(place, '[fleet]\nmachines = ["db*"]')
    with pytest.raises(UnfitError, match=r"names others: db\*"):
        admitted(job, machine(), seen(name="web1"))
    admitted(job, machine(), seen(name="db1"), Qualified(qualification=qualification()))


@pytest.mark.program
def test_a_machine_that_sees_too_little_says_why(place: Path) -> None:
    blind = Qualified(qualification=qualification(seen=0.3), problem="it sees no slowdown below 30.0%")
    with pytest.raises(UnfitError, match="no slowdown below 30"):
        admitted(job_of(place), machine(), seen(), blind)


@pytest.mark.program
def test_a_qualification_is_remembered_and_ends(place: Path) -> None:
    worker = machine()
    asked = admitted(job_of(place), worker, seen(), Qualified(qualification=qualification()))
    assert [type(task) for task in asked] == [Look, Qualify]
    assert asked[1].margin == 0.02
    # A client that is started again, on the same results.
    job = job_of(place)
    assert [type(task) for task in admitted(job, worker, seen())] == [Look]
    # Other hardware under the same name, or another margin, is to be seen anew.
    with pytest.raises(AssertionError, match="asked more: Qualify"):
        admitted(job, worker, seen(fingerprint="another"))
    with pytest.raises(AssertionError, match="asked more: Qualify"):
        admitted(job_of(place, "margin = 0.01"), worker, seen())
    # And after so many hours again.
    old = qualification(at="2020-01-01T00:00:00.000Z")
    admitted(job_of(place, "margin = 0.03"), worker, seen(), Qualified(qualification=old))
    with pytest.raises(UnfitError, match="its qualification is over"):
        job.task(job.left[next(iter(job.left))], worker, 1)


@pytest.mark.program
def test_servers_are_made_once_for_each_kind(place: Path) -> None:
    job = job_of(place)
    provided = Provided(
        spec="pg:12.22",
        variant=0,
        server=server("pg:12").record(),
        folder="pg-12.22",
        files=Parcel(digest="x", content=b"archive"),
    )
    good = Qualified(qualification=qualification())
    first, second, other = machine("first"), machine("second"), machine("other")
    lacks = seen(name="first", host="1", have=("pg:17.6",))
    assert [type(t).__name__ for t in admitted(job, first, lacks, provided, good)] == [
        "Look",
        "Provide",
        "Qualify",
    ]
    lacks = seen(name="second", host="2", have=("pg:17.6",))
    asked = admitted(job, second, lacks, Installed(), good)
    assert [type(t).__name__ for t in asked] == ["Look", "Install", "Qualify"]
    assert asked[1].server.files.content == b"archive"
    lacks = seen(name="other", host="3", kind="another kind", have=("pg:17.6",))
    assert [type(t).__name__ for t in admitted(job, other, lacks, provided, good)] == [
        "Look",
        "Provide",
        "Qualify",
    ]


@pytest.mark.program
def test_a_machine_waits_for_another_that_makes_the_server(place: Path) -> None:
    job = job_of(place)
    first, second = machine("first"), machine("second")
    begun = job.admit(first, [])
    begun.send(None)
    assert begun.send(encode(seen(name="first", host="1", have=("pg:17.6",)))) is not None
    waiting = job.admit(second, [first])
    waiting.send(None)
    assert waiting.send(encode(seen(name="second", host="2", have=("pg:17.6",)))) is None
    assert waiting.send(None) is None and "waits for pg:12.22 of first" in second.doing
    # The maker is lost: the next one makes it.
    begun.close()
    task = waiting.send(None)
    assert task is not None and type(decode_task(task)).__name__ == "Provide"


@pytest.mark.program
def test_what_cannot_be_fetched_keeps_a_machine_out(place: Path) -> None:
    no = Unable(message="PostgreSQL 12.22 cannot be fetched", hint="look at the network")
    with pytest.raises(
        UnfitError, match=r"pg:12\.22: PostgreSQL 12\.22 cannot be fetched; look at the network"
    ):
        admitted(job_of(place), machine(), seen(have=()), no)


FOREIGN = """
{more}
[[variants]]
server = "dsn:host=db user=me"
label = "theirs"
[[workloads]]
name = "sysbench"
"""


@pytest.mark.parametrize("more", ["", '[fleet]\nmachines = ["db*"]', '[fleet]\nmachines = ["a", "b"]'])
def test_a_running_server_is_measured_from_the_machine_that_is_named(place: Path, more: str) -> None:
    with pytest.raises(UsageError, match=r"theirs is a running server .dsn:."):
        job_of(place, more, FOREIGN)


@pytest.mark.program
def test_the_machine_of_a_running_server(place: Path) -> None:
    job = job_of(place, '[fleet]\nmachines = ["client"]', FOREIGN)
    with pytest.raises(UnfitError, match="names others: client"):
        admitted(job, machine(), seen(name="another"))


def test_counts_are_not_for_fleets(place: Path) -> None:
    with pytest.raises(UsageError, match="counted on one machine"):
        job_of(place, "count = true")


@pytest.mark.parametrize("address", ["", "scheduler", "tcp://host", "http://host:1", "tcp://:1", "tcp://h:0"])
def test_what_is_no_address_of_a_scheduler(address: str) -> None:
    with pytest.raises(UsageError, match="not the address of a scheduler"):
        check_address(address)


@pytest.mark.parametrize("text", ["local:", "local:0", "local:x", "local:-1", "local:1000"])
def test_how_many_machines_are_none(text: str) -> None:
    with pytest.raises(UsageError, match="how many machines"):
        number_of(text)


def test_tls_needs_certificates() -> None:
    with pytest.raises(UsageError, match="no certificates here"):
        security_for("tls://host:8786")


@pytest.mark.parametrize(
    ("threads", "machines", "message"), [(4, 1, "has 4 threads"), (1, 0, "has not the resource machine=1")]
)
def test_a_worker_is_one_thread_and_one_machine(threads: int, machines: int, message: str) -> None:
    worker = WorkerInfo("tcp://w:1", "w", threads, machines, 0.0)
    assert message in worker.problem and "--nthreads 1 --resources machine=1" in worker.problem
