"""Replicas as an axis of a campaign: what they cost, who reads, how far behind they are, how they die."""

from __future__ import annotations

import itertools
import os
import signal
import time
from datetime import datetime, timedelta
from pathlib import Path

import psutil
import pytest

from pgstrata.server.find.model import Server
from pgstrata.store import Results
from support.program import Program, Running, living_in

OPTIONS = (
    'rows = 5000, steps = ["update-index", "point-query"], read_seconds = 1, write_seconds = 3, warmup = 0, '
    "cache_seconds = 0, settle_base = 0, load_connections = 1"
)
SYNC = 'replicas = 1\nreplication = "sync"\nreads = "replica"'


def campaign(place: Path, *variants: str, options: str = OPTIONS, keys: str = "") -> Path:
    (place / "commit.conf").write_text("synchronous_commit = on\n")
    tables = "".join(f'[[variants]]\nserver = "pg:17"\nconfig = "commit.conf"\n{v}\n' for v in variants)
    file = place / "campaign.toml"
    file.write_text(
        f'{keys}\n{tables}[[workloads]]\nname = "sysbench"\noptions = {{ {options} }}\n', encoding="utf-8"
    )
    return file


def test_a_synchronous_replica_costs_waits_and_serves_what_only_reads(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    done = pgstrata("run", campaign(place, "", SYNC, keys="waits = 20"))
    assert done.returncode == 0, done.stdout + done.stderr
    alone, both = Results(place / "results").runs()
    assert (alone.variant, both.variant) == ("pg17.11.commit", "pg17.11.commit.replica-sync-reads")
    assert alone.record.replicas is None
    replicas = both.record.replicas
    assert replicas and (replicas.replication, replicas.reads) == ("sync", "replica")
    assert replicas.settings == {
        "hot_standby": "on",
        "max_wal_senders": "10",
        "wal_keep_size": "1GB",
        "wal_level": "replica",
    }
    steps = {step.name: step for step in both.steps}
    write, read = steps["update-index"], steps["point-query"]
    assert all(step.replica is None for step in alone.steps)
    assert write.replica and not write.replica.served
    assert write.replica.cpu_seconds and write.replica.cpu_seconds > 0
    assert write.waits and any("SyncRep" in wait for wait in write.waits[write.role])
    before = next(step for step in alone.steps if step.name == "update-index").waits
    assert before and not any("SyncRep" in wait for wait in before[write.role])
    assert read.replica and read.replica.served and read.replica.cpu_seconds is None
    assert read.operations and read.headline.cpu_seconds, "its backends are those of the replica"
    lag = both.table("lag").where(step="update-index")
    assert len(lag) >= 2 and min(lag["lag_bytes"]) >= 0
    assert write.replica.lag_bytes == max(lag["lag_bytes"])
    page = next((place / "results").rglob("*.html")).read_text()
    assert "a replica (sync, serves what only reads, " in page and "wal_keep_size = 1GB" in page
    assert "behind, MB" in page
    cpu = next((place / "results").rglob("cpu.csv")).read_text()
    assert "replica [s]" in cpu.splitlines()[0]
    asked = pgstrata(
        "query",
        "SELECT count(*) > 1 AS some FROM lag JOIN steps USING (run_id, step) "
        "WHERE replica_lag_bytes >= lag_bytes",
    )
    assert asked.returncode == 0 and "yes" in asked.stdout, asked.stdout + asked.stderr


def beside(place: Path, look: str, *variants: str, keys: str = "") -> Path:
    """A campaign of a step in which `look` only reads and `buy` writes."""
    (place / "look.sql").write_text(look)
    (place / "buy.sql").write_text("INSERT INTO bought VALUES (:client_id);\n")
    (place / "shop.sql").write_text("CREATE TABLE bought (client int);\n")
    file = campaign(place, *variants, keys=keys)
    step = (
        'setup = ["shop.sql"], settle = "none", steps = [{ seconds = 2, warmup = 0, roles = ['
        '{ name = "look", scripts = ["look.sql"], clients = 2, reads_only = true }, '
        '{ name = "buy", scripts = ["buy.sql"], clients = 1 }] }]'
    )
    file.write_text(file.read_text().replace('"sysbench"', '"custom"').replace(OPTIONS, step))
    return file


def test_roles_that_read_have_the_replica_while_others_write(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    only_there = "SELECT 1 / pg_is_in_recovery()::int FROM bought LIMIT 1;\n"
    done = pgstrata("run", beside(place, only_there, SYNC))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = Results(place / "results").runs()
    step = run.steps[-1]
    assert step.replica and not step.replica.served and step.replica.roles == ("look",)
    looked, bought = (step.roles[name] for name in ("look", "buy"))
    assert looked.operations and bought.operations
    assert looked.cpu_seconds and bought.cpu_seconds
    assert step.replica.cpu_seconds and step.replica.cpu_seconds > 0, "it replays"
    assert step.server_cpu_seconds and step.server_cpu_seconds >= looked.cpu_seconds + bought.cpu_seconds
    lag = run.table("lag").where(step=step.name)
    assert len(lag) >= 1 and step.replica.lag_bytes == max(lag["lag_bytes"])
    backends = run.table("backends").where(step=step.name)
    assert sorted(backends["role"]) == ["buy", "look", "look", "server"]
    assert any(note.startswith("look: on the replica") for note in step.notes)


def test_roles_that_read_stay_on_a_primary_whose_replica_only_follows(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    only_here = "SELECT 1 / (NOT pg_is_in_recovery())::int;\n"
    done = pgstrata("run", beside(place, only_here, "replicas = 1"))
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = Results(place / "results").runs()
    assert run.steps[-1].replica and run.steps[-1].replica.roles == ()
    done = pgstrata("run", beside(place, "DELETE FROM bought;\n", "replicas = 1"), "--fresh")
    assert done.returncode == 1 and "read-only transaction" in done.stdout + done.stderr


def test_a_replica_that_dies_fails_the_run_with_a_sentence_and_nothing_hangs(
    place: Path, pg17: Server
) -> None:
    options = OPTIONS.replace("write_seconds = 3", "write_seconds = 300")
    running = Running(place, ["run", str(campaign(place, SYNC, options=options)), "--data-dir", str(place)])
    running.wait_for(lambda: running.child("pgstrata-driver") and "update-index" in running.printed)
    (postmaster,) = [
        process
        for process in psutil.Process(running.process.pid).children()
        if any("-replica/data" in word for word in process.cmdline())
    ]
    os.kill(postmaster.pid, signal.SIGKILL)
    assert running.end() == 1
    assert "the replica died" in running.printed and "Traceback" not in running.printed
    (run,) = Results(place / "results").runs()
    assert run.record.status == "failed" and run.record.error
    assert run.record.error.message.startswith("the replica died")


def test_after_a_kill_neither_server_runs_and_both_folders_go(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    options = OPTIONS.replace("write_seconds = 3", "write_seconds = 300")
    file = campaign(place, SYNC, options=options)
    running = Running(place, ["run", str(file), "--data-dir", str(place)])
    running.wait_for(lambda: running.child("pgstrata-driver"))
    os.kill(running.process.pid, signal.SIGKILL)
    running.end()
    until = time.monotonic() + 60
    while [process for process in living_in(place) if process.name().startswith("postgres")]:
        assert time.monotonic() < until, "the kernel ends servers with what started them"
        time.sleep(0.1)
    file.write_text(file.read_text().replace("write_seconds = 300", "write_seconds = 1"))
    done = pgstrata("run", file, "--data-dir", place)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "-replica, left by process" in done.stderr
    assert not [path for path in place.iterdir() if path.name.endswith("-replica")]


@pytest.mark.parametrize(
    ("variant", "sentence"),
    [
        ('replication = "sync"', "has no `replicas`"),
        ("replicas = 2", "variants"),
        ('replicas = 1\nreads = "replica"\nthrough = "pgbouncer"', "`through` stands before the primary"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_starts(
    place: Path, pgstrata: Program, pg17: Server, variant: str, sentence: str
) -> None:
    done = pgstrata("run", campaign(place, variant))
    assert done.returncode == 2 and sentence in done.stderr, done.stderr


LATE_SECONDS = 2.0
"""How much later than committed a transaction is replayed."""


def test_what_an_async_replica_has_left_to_do_is_not_done_in_the_slices_of_others(
    place: Path, pgstrata: Program, pg17: Server
) -> None:
    (place / "late.conf").write_text(
        f"recovery_min_apply_delay = {LATE_SECONDS * 1000:.0f}ms\nsynchronous_commit = on\nautovacuum = off\n"
    )
    (place / "log.sql").write_text("SELECT pg_logical_emit_message(true, 'own', repeat('x', 100));\n")
    options = 'clients = 1, seconds = 1.2, warmup = 0, reads_only = true, scripts = ["log.sql"]'
    file = place / "campaign.toml"

    def write(slice_seconds: float) -> None:
        file.write_text(
            f'order = "interleaved"\nplacement = "free"\nslice_seconds = {slice_seconds}\n'
            'other_load = 1\nkeep_settings = ["recovery_min_apply_delay"]\n'
            '[[variants]]\nserver = "pg:17"\nconfig = "late.conf"\nlabel = "alone"\n'
            '[[variants]]\nserver = "pg:17"\nconfig = "late.conf"\nlabel = "followed"\nreplicas = 1\n'
            f'[[workloads]]\nname = "custom"\noptions = {{ {options} }}\n'
        )

    write(0.02)
    refused = pgstrata("run", file)
    assert refused.returncode == 2 and "followed has a replica that nobody waits for" in refused.stderr
    assert "slice_seconds = 0.25 or more" in refused.stderr
    write(0.3)
    done = pgstrata("run", file)
    assert done.returncode == 0, done.stdout + done.stderr
    slices = {run.variant: run.steps[-1].slices for run in Results(place / "results").runs()}
    both = sorted(
        (part.started or "", name, part.seconds) for name, parts in slices.items() for part in parts
    )
    # Its last transaction is replayed so much later, and nobody begins before that.
    gaps = [
        datetime.fromisoformat(after[0]) - datetime.fromisoformat(before[0]) - timedelta(seconds=before[2])
        for before, after in itertools.pairwise(both)
        if before[1] == "followed"
    ]
    assert len(gaps) >= 1 and min(gaps) >= timedelta(seconds=0.9 * LATE_SECONDS)


@pytest.mark.slow
def test_replicated_variants_take_turns(place: Path, pgstrata: Program, pg17: Server) -> None:
    keys = 'order = "interleaved"\nplacement = "free"\nrounds = 2\nslice_seconds = 0.02'
    done = pgstrata("run", campaign(place, "", SYNC, keys=keys))
    assert done.returncode == 0, done.stdout + done.stderr
    for run in Results(place / "results").runs():
        assert run.done and all(step.slices for step in run.steps if step.measured)
