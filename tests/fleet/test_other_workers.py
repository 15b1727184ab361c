"""Workers that really are what a machine must not be: each takes no part and says why; another measures."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgstrata
from pgstrata.driver.path import find_driver
from pgstrata.fleet.machine import driver_build
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.fleet import engine_on_loopback, qualified
from support.interleaved import write
from support.program import Running

CLOCK = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
"""Gives a process another clock."""

MORE = """
margin = 0.9
server_cpus = [{cpu}]
[fleet]
qualify_seconds = 2
machines = ["w*"]
"""

OTHER = "9.9.9"


def other_pgstrata(place: Path) -> dict[str, str]:
    """An installation of another release, before the one here."""
    source = Path(pgstrata.__file__).parent
    copy = shutil.copytree(source, place / "other" / "pgstrata", ignore=shutil.ignore_patterns("__pycache__"))
    first = copy / "__init__.py"
    text = first.read_text()
    assert pgstrata.__version__ in text
    first.write_text(text.replace(pgstrata.__version__, OTHER))
    return {"PYTHONPATH": str(place / "other")}


def other_driver(place: Path) -> dict[str, str]:
    """A driver of another release: the one here but for what it says of itself."""
    copy = place / "pgstrata-driver"
    assert len(pgstrata.__version__) == len(OTHER) and pgstrata.__version__ in driver_build()
    copy.write_bytes(find_driver().read_bytes().replace(pgstrata.__version__.encode(), OTHER.encode()))
    copy.chmod(0o755)
    return {"PGSTRATA_DRIVER": str(copy)}


def slow_clock() -> dict[str, str]:
    """One that is an hour behind; what is measured by seconds goes on as ever."""
    return {"LD_PRELOAD": str(CLOCK), "FAKETIME": "-1h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.fixture(scope="module")
def last_cpu() -> int:
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2 or shutil.which("taskset") is None:
        pytest.skip("a worker that lacks a CPU needs two of them, and taskset")
    return cpus[-1]


def out(client: Running) -> dict[str, str]:
    """Who takes no part, and why."""
    events = [json.loads(line) for line in client.printed.splitlines() if line.startswith("{")]
    return {event["machine"]: event["reason"] for event in events if event["event"] == "machine-out"}


@pytest.fixture
def reasons(place: Path, pg17: Server, last_cpu: int) -> Iterator[dict[str, str]]:
    """What was said of the workers of a campaign, of which one is as it should be."""
    worker_env = {"w1": other_pgstrata(place), "w2": other_driver(place)}
    if CLOCK is not None:
        worker_env["w5"] = slow_clock()
    inside = {"w3": ["taskset", "-c", str(min(os.sched_getaffinity(0)))]}
    qualified(place, "w4")
    file = write(place, pg17, ["point-query"], seconds=1, slice_=0.1, more=MORE.format(cpu=last_cpu))
    with engine_on_loopback(place, 5 if CLOCK else 4, worker_environ=worker_env, inside=inside) as (
        address,
        _,
    ):
        client = Running(place, ["run", str(file), "--fleet", address, "--format", "json"])
        assert client.end() == 0, client.printed
    runs = Results(place / "results").runs()
    assert [(run.done, run.machine) for run in runs] == [(True, "w4")] * 2
    yield out(client)


@pytest.mark.program
def test_another_build_of_the_same_version_is_another_driver(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_build, copy = driver_build(), place / "pgstrata-driver"
    copy.write_bytes(find_driver().read_bytes() + b"of another compiler")
    copy.chmod(0o755)
    monkeypatch.setenv("PGSTRATA_DRIVER", str(copy))
    assert driver_build() != own_build and driver_build().partition(" (")[0] == own_build.partition(" (")[0]


def test_each_says_why(reasons: dict[str, str], last_cpu: int) -> None:
    installed = f"pgstrata {pgstrata.__version__} with {driver_build()}"
    assert f"it has pgstrata {OTHER} with " in reasons["w1"] and f"the client {installed}" in reasons["w1"]
    assert re.search(rf"with pgstrata-driver {OTHER} \(build [0-9a-f]{{8}}\), and the client ", reasons["w2"])
    assert f"the client {installed}" in reasons["w2"]
    assert f"`server_cpus`: it has no CPU {last_cpu}; it has 0" in reasons["w3"]
    if CLOCK is None:
        pytest.skip("libfaketime is not here (Debian's faketime): no worker has another clock")
    assert re.match(r"its clock is (1:00 h|5\d:\d\d min) behind: set it", reasons["w5"]), reasons["w5"]
    assert sorted(reasons) == ["w1", "w2", "w3", "w5"]
