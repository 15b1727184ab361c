"""Whole campaigns on a fleet with servers that are not fetched: one runs already, one comes from source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import resolve
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.fleet import engine_on_loopback, qualified
from support.passwords import CANARY, passwords_only
from support.program import Program, Running
from support.tree import commit, git, serving

FOREIGN = """
servers = ["dsn:postgresql://canary@127.0.0.1:{port}/postgres"]
[fleet]
machines = ["w1"]
[[workloads]]
name = "pgbench"
options = {{ scale = 1, seconds = 3, clients = 2, builtin = "select-only" }}
"""

BUILT = """
servers = ["git:{repo}#HEAD"]
repeats = 2
margin = 0.9
data_dir = "data"
[[workloads]]
name = "pgbench"
options = {{ scale = 1, seconds = 1, warmup = 0, builtin = "select-only" }}
"""


NOTING = """
import pickle
from tornado.ioloop import PeriodicCallback

def dask_setup(scheduler):
    "Notes everything that the scheduler knows of what workers are asked, and by which names."
    def note():
        tasks = scheduler.tasks.values()
        with open({file!r}, "ab") as file:
            file.write(pickle.dumps([(task.key, task.run_spec, task.annotations) for task in tasks]))
    scheduler.noting = PeriodicCallback(note, 200)
    scheduler.noting.start()
"""


@pytest.fixture
def foreign(place: Path, pg17: Server) -> Iterator[Cluster]:
    """A server that somebody else runs, with a password."""
    with Cluster(pg17, resolve([], pg17.version_num, 1 << 30), place / "theirs", tcp=True) as cluster:
        cluster.create()
        cluster.start()
        passwords_only(cluster, "scram-sha-256")
        yield cluster


def test_a_running_server_is_measured_from_the_machine_that_is_named(place: Path, foreign: Cluster) -> None:
    (place / "noting.py").write_text(NOTING.format(file=str(place / "asked")))
    worker_env = {"PGPASSFILE": str(place / "passwords")}
    (place / "passwords").write_text(f"*:*:*:canary:{CANARY}\n")
    (place / "passwords").chmod(0o600)
    (place / "foreign.toml").write_text(FOREIGN.format(port=foreign.port))
    with engine_on_loopback(place, 2, "--preload", "noting.py", worker_environ={"w1": worker_env}) as (
        address,
        _,
    ):
        client = Running(place, ["run", "foreign.toml", "--fleet", address, "--format", "json"], **worker_env)
        assert client.end() == 0, client.printed
    asked = (place / "asked").read_bytes()
    assert b"canary@127.0.0.1" in asked and CANARY.encode() not in asked
    events = [json.loads(line) for line in client.printed.splitlines() if line.startswith("{")]
    out = [(event["machine"], event["reason"]) for event in events if event["event"] == "machine-out"]
    assert out == [("w2", "the campaign names others: w1")]
    (run,) = Results(place / "results").runs()
    assert run.done and run.machine == "w1" and not run.record.server.managed
    assert foreign.postmaster.alive()
    kept = [path for path in place.rglob("*") if path.is_file() and not path.is_relative_to(place / "theirs")]
    assert [path.name for path in kept if CANARY.encode() in path.read_bytes()] == ["passwords"]


def test_a_server_from_source_is_built_once_and_measured_on_two_machines(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    repo = serving(place / "repo", pg17, "work_mem = '9MB'")
    built = place / "built"
    built.touch()
    built.chmod(0o666)
    makefile = repo / "src/backend/Makefile"
    makefile.write_text(f"{makefile.read_text()}\techo once >>{built}\n")
    commit(repo, "tells of each build")
    (place / "built.toml").write_text(BUILT.format(repo=repo))
    qualified(place, "w1", "w2")
    worker_env = {name: {"PGSTRATA_CACHE": str(place / f"cache-{name}")} for name in ("w1", "w2")}
    with engine_on_loopback(place, 2, worker_environ=worker_env) as (address, _):
        done = pgstrata("run", "built.toml", "--fleet", address, "--no-report")
    assert done.returncode == 0, done.stdout + done.stderr
    assert built.read_text() == "once\n"
    first, second = Results(place / "results").runs()
    assert {first.machine, second.machine} == {"w1", "w2"} and first.done and second.done
    assert first.record.server == second.record.server
    assert first.record.server.built is not None
    assert first.record.server.built.source["commit"] == git(repo, "rev-parse", "HEAD")
    assert first.record.config.settings == second.record.config.settings
    # Each has it in its own cache, under the name of what it was built from.
    folders = [sorted((place / f"cache-{name}" / "servers").glob("built-*")) for name in ("w1", "w2")]
    assert len(folders[0]) == 1 and [f.name for f in folders[0]] == [f.name for f in folders[1]]
    assert all((f[0] / "bin" / "postgres").is_file() for f in folders)
