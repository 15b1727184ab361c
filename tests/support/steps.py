"""Runs phases of a workload on a real server with the real driver, and asks the server about them."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from pgstrata.driver.client import Driver
from pgstrata.driver.events import Failure, Second
from pgstrata.driver.spec import Connection, EngineChoice
from pgstrata.measure.run.settle import run_admin, run_settle
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.config.resolve import ConfigFile, resolve
from pgstrata.server.find.model import Server
from pgstrata.workload.core.language import Admin, Phase, Settle, Step

Json = dict[str, Any]

CONF = """
fsync = off
shared_buffers = 64MB
max_connections = 60
autovacuum = off
shared_preload_libraries = pg_stat_statements
pg_stat_statements.track = all
"""

EVERY_META_COMMAND = """
\\set aid random(1, 1000 * :scale)
\\setshell five echo 5
\\shell true
BEGIN;
SELECT abalance, :five AS five FROM pgbench_accounts WHERE aid = :aid \\gset p_
\\if :p_five = 4
SELECT never;
\\elif :p_five = 5
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
\\else
SELECT never;
\\endif
\\sleep 1 ms
END;
\\startpipeline
SELECT 1;
\\syncpipeline
SELECT 2;
\\endpipeline
SELECT 3 AS three \\aset q_
"""
"""A user's script; needs pgbench's tables, a mode with parameters, and programs being allowed."""


@contextmanager
def running(server: Server, more: str = "") -> Iterator[Cluster]:
    """A cluster with pg_stat_statements; it and its folder are gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="pgs", dir="/tmp"))
    folder.chmod(0o755)
    config = resolve([ConfigFile("test", CONF + more, None)], server.version_num, 1 << 30)
    try:
        with Cluster(server, config, folder / "c") as cluster:
            cluster.create()
            cluster.start()
            yield cluster
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database(cluster: Cluster, name: str) -> Iterator[psycopg.Connection[Any]]:
    """An empty database of this name, with pg_stat_statements, and a connection to it."""
    with cluster.connect() as admin:
        admin.execute(f"CREATE DATABASE {name}")
    try:
        with cluster.connect(name) as connection:
            connection.execute("CREATE EXTENSION pg_stat_statements")
            yield connection
    finally:
        with cluster.connect() as admin:
            admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


@dataclass
class Outcome:
    """Everything the driver said about one step, as plain data."""

    events: list[Json]
    seconds: list[Json] = field(default_factory=list)
    done: Json = field(default_factory=dict)

    def role(self, name: str) -> Json:
        roles: list[Json] = [r for r in self.done["roles"] if r["name"] == name]
        return roles[0]

    def statement(self, role: str, name: str) -> Json:
        statements: list[Json] = [s for s in self.role(role)["statements_by_name"] if s["name"] == name]
        return statements[0]


def _as_json(event: msgspec.Struct) -> Json:
    """An event as it was sent, but for values that were left out."""
    sent: Json = msgspec.json.decode(msgspec.json.encode(event))
    return sent


def run_step(
    cluster: Cluster,
    database: str,
    step: Step,
    seed: int = 1,
    engine: EngineChoice = "auto",
    connection: Connection | None = None,
) -> Outcome:
    """connection: how the driver connects, if not as usual."""
    spec = driver_spec(step, connection or cluster.connection(database), seed, engine)
    outcome = Outcome([])
    with Driver(spec) as driver:
        outcome.events.append(_as_json(driver.ready()))
        driver.start()
        for event in driver.events():
            assert not isinstance(event, Failure), event
            outcome.events.append(_as_json(event))
            if isinstance(event, Second):
                outcome.seconds.append(outcome.events[-1])
        outcome.done = outcome.events[-1]
        driver.close()
    return outcome


def run_phase(cluster: Cluster, database: str, phase: Phase, seed: int = 1) -> Outcome | None:
    match phase:
        case Step():
            return run_step(cluster, database, phase, seed)
        case Admin():
            run_admin(cluster, phase, database)
        case Settle():
            run_settle(cluster, phase, database)
    return None


def with_transactions(step: Step, n: int) -> Step:
    """The step, with n transactions for each client in place of its time."""
    return replace(step, seconds=None, warmup=0, roles=[replace(r, operations=n) for r in step.roles])


def calls(connection: psycopg.Connection[Any]) -> dict[str, int]:
    """What pg_stat_statements saw in this database since it was reset: statement → calls."""
    return {text: count for text, (count, _) in statement_rows(connection).items()}


def statement_rows(connection: psycopg.Connection[Any]) -> dict[str, tuple[int, int]]:
    """The same with the rows of all calls: statement → calls, rows."""
    rows = connection.execute(
        "SELECT query, calls, rows FROM pg_stat_statements WHERE toplevel "
        "AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database())"
    ).fetchall()
    by_text: dict[str, tuple[int, int]] = {}
    for query, count, returned in rows:
        text = " ".join(query.split())
        if "pg_stat_statements" not in text:
            before = by_text.get(text, (0, 0))
            by_text[text] = before[0] + count, before[1] + returned
    return by_text


def forget_calls(connection: psycopg.Connection[Any]) -> None:
    connection.execute("SELECT pg_stat_statements_reset()")
