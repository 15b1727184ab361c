"""A quick run of pgbench scripts against one running server: no cluster, no run folder, no report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import psycopg

from pgstrata.driver.client import Driver, driver_failure
from pgstrata.driver.events import Done, Failure, Second
from pgstrata.driver.spec import Connection, Spec
from pgstrata.errors import DriverError, UsageError, server_said
from pgstrata.measure.bench.connection import conninfo
from pgstrata.measure.bench.options import BenchOptions
from pgstrata.measure.bench.result import BenchResult
from pgstrata.measure.interrupt import Ending
from pgstrata.server.connect.session import answering
from pgstrata.workload.core.language import FixedRate, PgbenchScript, Role
from pgstrata.workload.core.scripts import RETRIED

Say = Callable[[Second], None]

LEAST_ANSWER_SECONDS = 10.0
"""An answer that is arriving at the end may go on for as long as the bench took, and at least this long."""

VACUUM_SECONDS = 3600.0
"""Longest time for the VACUUM and TRUNCATE before a built-in script."""

UNDER_WAY_SECONDS = 1.0
"""What is under way when a bench is stopped may take so long; what takes longer is cancelled."""


def _scale(bench: BenchOptions, connection: psycopg.Connection[Any], built_in: bool) -> int:
    if not built_in:
        return bench.scale or 1
    try:
        row = connection.execute("select count(*) from pgbench_branches").fetchone()
    except psycopg.errors.UndefinedTable as error:
        raise UsageError(
            "the database has no table pgbench_branches",
            f"make the tables with: pgbench -i -d {connection.info.dbname}",
        ) from error
    return int(row[0]) if row else 1


_GOES_ON = (
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.UndefinedTable,
    psycopg.errors.WrongObjectType,
)
"""After which pgbench goes on: select-only needs neither vacuum nor history, say on a standby."""


def _vacuum(connection: psycopg.Connection[Any]) -> None:
    """Vacuums and truncates the tables of pgbench as it does before a built-in script, unless -n."""
    for statement in (
        "vacuum pgbench_branches",
        "vacuum pgbench_tellers",
        "truncate pgbench_history",
    ):
        try:
            connection.execute(statement)
        except _GOES_ON as error:
            server_message = server_said(error.diag.message_primary or error)
            print(
                f"warning: {statement}: {server_message}; the bench goes on, -n leaves this out",
                file=sys.stderr,
            )


def run(bench: BenchOptions, say: Say, ending: Ending) -> BenchResult:
    """Runs to the end, or until `ending` has caught something; each second goes to `say`.

    Raises UsageError for scripts that do not compile, ServerError and DriverError where nothing
    could be measured, Interrupted before the measurement. A failure in the middle comes back in `failure`
    with what was measured.
    """
    scripts = bench.scripts()
    built_in = any(s.name.startswith("<builtin") for s in scripts)
    wanted = conninfo(bench.url, bench.where)
    with wanted.connect() as connection:
        place = wanted.of_session(connection)
        with answering(connection, wanted.seconds):
            scale = _scale(bench, connection, built_in)
        server = server_said(connection.info.parameter_status("server_version") or "", 60)
        if built_in and bench.vacuum:
            with answering(connection, VACUUM_SECONDS):
                _vacuum(connection)
    seed = bench.seed if bench.seed is not None else int.from_bytes(os.urandom(4))
    spec = _spec(bench, scripts, place, scale, seed)
    failure: DriverError | None = None
    with Driver(spec, stderr=sys.stderr.buffer) as driver:
        try:
            ready = driver.ready()
        except DriverError as error:
            raise _script_error(error) from error
        ending.measuring = True
        driver.start()
        done: Done | None = None
        stopped = False
        for event in driver.events():
            match event:
                case Failure():
                    failure = failure or driver_failure(event)
                case Second():
                    say(event)
                case Done():
                    done = event
            if ending.caught and not stopped:
                stopped = True
                driver.stop(within=UNDER_WAY_SECONDS)
        ending.measuring = False
        driver.close()
    assert done is not None  # events() raises where it does not come
    return BenchResult(
        bench,
        scripts,
        server,
        ready.engine,
        scale,
        done.seconds,
        done.roles[0],
        done.driver_cpu_seconds,
        failure,
        ready.connect_seconds,
    )


def _spec(
    bench: BenchOptions, scripts: list[PgbenchScript], place: Connection, scale: int, seed: int
) -> Spec:
    predefined = {"scale": scale, "random_seed": seed, "default_seed": seed}
    role = Role(
        "query",
        bench.clients,
        scripts,
        mode=bench.mode,
        prepare="lazy",
        allow_shell=bench.allow_shell,
        operations=bench.transactions,
        rate=FixedRate(bench.rate / bench.clients, "poisson") if bench.rate else None,
        retry_sqlstates=RETRIED,
        max_tries=bench.max_tries,
        latency_limit_seconds=bench.latency_limit,
        reconnect=bench.reconnect,
        variables={**predefined, **bench.define},
    )
    return Spec(
        step="bench",
        connection=place,
        seed=seed,
        engine=bench.engine,
        threads=bench.threads,
        seconds=bench.seconds,
        answer_overtime_seconds=max(LEAST_ANSWER_SECONDS, bench.seconds or 0.0),
        roles=[role.spec()],
    )


def _script_error(error: DriverError) -> Exception:
    """Returns the error in the user's terms: a script that does not compile is the user's to mend; the
    driver's message shows the line."""
    if error.kind == "script":
        return UsageError(error.server_message)
    if error.sqlstate == "53300":  # too_many_connections
        return error.worded(error.message, "ask for fewer with -c, or raise max_connections")
    return error
