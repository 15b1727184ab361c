"""A quick run of pgbench scripts against one running server: no cluster, no run folder, no report."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import psycopg

from pgstrata.driver.client import Driver, driver_failure
from pgstrata.errors import DriverError, ServerError, UsageError
from pgstrata.workload.core.language import Json, PgbenchScript, Rate, Role
from pgstrata.workload.pgbench.options import BuiltIn, Mode, PgbenchOptions
from pgstrata.workload.pgbench.steps import BUILT_IN, RETRIED, read_scripts

Say = Callable[[Json], None]


@dataclass(frozen=True)
class Bench:
    """What to run, in pgbench's terms; `seconds` or `transactions` (per client) ends it.

    rate: transactions/s over all clients, None as fast as possible. scale: None reads it from the
    database where a built-in script runs, as pgbench does.
    """

    url: str
    files: Sequence[str] = ()
    builtin: Sequence[str] = ()
    clients: int = 1
    threads: int = 1
    seconds: float | None = None
    transactions: int | None = None
    mode: Mode = "simple"
    define: dict[str, str] = field(default_factory=dict)
    rate: float | None = None
    scale: int | None = None
    max_tries: int = 1
    seed: int | None = None
    vacuum: bool = True
    engine: Literal["auto", "blocking", "io_uring"] = "auto"
    allow_shell: bool = False

    def scripts(self) -> list[PgbenchScript]:
        """The scripts with their weights; TPC-B-like where none is given. Raises UsageError."""
        own = read_scripts(PgbenchOptions.model_validate({"scripts": list(self.files)})) if self.files else []
        names = list(self.builtin) or ([] if own else ["tpcb-like"])
        return own + [_builtin(name) for name in names]


@dataclass(frozen=True)
class OfScript:
    """What one of the scripts did. mean, stddev: of its transactions' latencies in seconds;
    statements: its entries of `statements_by_name`."""

    script: PgbenchScript
    transactions: int
    errors: int
    mean: float
    stddev: float
    statements: list[Json]


@dataclass(frozen=True)
class Measured:
    """`done` of the driver as a pgbench user reads it. Times in milliseconds where the name says so."""

    bench: Bench
    scripts: list[PgbenchScript]
    server: str
    engine: str
    scale: int
    seconds: float
    role: Json
    driver_cpu_seconds: float
    failure: DriverError | None

    @property
    def tps(self) -> float:
        """Transactions per second, the time of connecting left out."""
        return self.role["transactions"] / self.seconds if self.seconds > 0 else 0.0

    @property
    def threads(self) -> int:
        """Of the driver: one for each connection where the engine is the blocking one."""
        clients = self.bench.clients
        return clients if self.engine == "blocking" else min(self.bench.threads, clients)

    def by_script(self) -> list[OfScript]:
        """Those that could be drawn, in their order."""
        drawn = [script for script in self.scripts if script.weight]
        left = list(self.role["statements_by_name"])
        whole = {**self.role, **self.role["latency"], "statements": len(left)}
        found = []
        for script, told in zip(drawn, self.role.get("scripts") or [whole], strict=True):
            own, left = left[: told["statements"]], left[told["statements"] :]
            counts = told["transactions"], told["errors"]
            found.append(OfScript(script, *counts, told["mean"], told["stddev"], own))
        return found

    def as_json(self) -> Json:
        latency, lag = self.role["latency"], self.role.get("lag")
        keys = ("mean", "stddev", "p50", "p75", "p90", "p95", "p99", "max")
        return {
            "transactions": self.role["transactions"],
            "failed": self.role["errors"],
            "retries": self.role["retries"],
            "tps": self.tps,
            # no transaction, no latency
            "latency_ms": {key: latency[key] * 1e3 if self.role["transactions"] else None for key in keys},
            "schedule_lag_ms": {key: lag[key] * 1e3 for key in ("mean", "max")} if lag else None,
            "seconds": self.seconds,
            "driver_cpu_seconds": self.driver_cpu_seconds,
            "clients": self.bench.clients,
            "threads": self.threads,
            "mode": self.bench.mode,
            "scale": self.scale,
            "server": self.server,
            "engine": self.engine,
            "scripts": [
                {
                    "script": of.script.name,
                    "weight": of.script.weight,
                    "transactions": of.transactions,
                    "failed": of.errors,
                    "latency_ms": {
                        "mean": of.mean * 1e3 if of.transactions else None,
                        "stddev": of.stddev * 1e3 if of.transactions else None,
                    },
                }
                for of in self.by_script()
            ],
            "statements": [
                {
                    "statement": s["name"],
                    "count": s["count"],
                    "failures": s["errors"],
                    "rows": s["rows"],
                    "latency_ms": s["seconds_total"] * 1e3 / s["count"] if s["count"] else None,
                    "max_ms": s["seconds_max"] * 1e3,
                }
                for s in self.role["statements_by_name"]
            ],
            "error": str(self.failure) if self.failure else None,
        }


def _builtin(text: str) -> PgbenchScript:
    """A built-in script by its name or the beginning of it, with a weight behind @, as pgbench's -b."""
    name, _, weight = text.partition("@")
    found = [known for known in BUILT_IN if name and known.startswith(name)]
    if len(found) != 1 or not (weight or "1").isdigit():
        raise UsageError(
            f"there is no built-in script {text!r}", f"the built-in scripts are {', '.join(BUILT_IN)}"
        )
    known: BuiltIn = found[0]
    return PgbenchScript(BUILT_IN[known], f"<builtin: {known}>", int(weight or 1))


def connect(url: str) -> psycopg.Connection[Any]:
    """A connection as libpq makes it: URL, key=value words, a database's name, PG… variables."""
    plain = "=" not in url and "://" not in url
    try:
        return psycopg.connect(f"dbname='{_quoted(url)}'" if plain and url else url, autocommit=True)
    except psycopg.ProgrammingError as error:
        raise UsageError(f"{url!r} is no connection URL: {error}", "example: postgresql:///mydb") from error
    except psycopg.OperationalError as error:
        raise ServerError(f"cannot connect: {' '.join(str(error).split())}") from error


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _where(connection: psycopg.Connection[Any]) -> Json:
    """The driver's `connection` for the place that libpq has found."""
    info = connection.info
    parameters = info.get_parameters()
    if parameters.get("sslmode") in ("require", "verify-ca", "verify-full"):
        raise UsageError(
            f"the driver speaks no TLS, and sslmode is {parameters['sslmode']}",
            "use a Unix socket or a tunnel, or leave sslmode out",
        )
    where = {"host": info.hostaddr or info.host or "/tmp", "port": info.port, "user": info.user}
    if info.host.startswith("/"):
        where["host"] = info.host
    where |= {"database": info.dbname, "application_name": "pgstrata bench"}
    return where | ({"password": info.password} if info.password else {})


def _scale(bench: Bench, connection: psycopg.Connection[Any], built_in: bool) -> int:
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


def _vacuum(connection: psycopg.Connection[Any]) -> None:
    for statement in (
        "vacuum pgbench_branches",
        "vacuum pgbench_tellers",
        "truncate pgbench_history",
    ):
        connection.execute(statement)  # as pgbench does before a built-in script, unless -n


def run(bench: Bench, say: Say, stopping: Callable[[], bool]) -> Measured:
    """Runs to the end, or until `stopping` says so; each second goes to `say`.

    Raises UsageError for scripts that do not compile, ServerError and DriverError where nothing
    could be measured. A failure in the middle comes back in `failure` with what was measured.
    """
    scripts = bench.scripts()
    built_in = any(s.name.startswith("<builtin") for s in scripts)
    with connect(bench.url) as connection:
        where = _where(connection)
        scale = _scale(bench, connection, built_in)
        server = connection.info.parameter_status("server_version") or ""
        if built_in and bench.vacuum:
            _vacuum(connection)
    seed = bench.seed if bench.seed is not None else int.from_bytes(os.urandom(4))
    spec = _spec(bench, scripts, where, scale, seed)
    failure: DriverError | None = None
    with Driver(spec) as driver:
        try:
            ready = driver.ready()
        except DriverError as error:
            raise _script_error(error) from error
        driver.start()
        done: Json = {}
        stopped = False
        for event in driver.events():
            if event["event"] == "error":
                failure = failure or driver_failure(event)
            elif event["event"] == "second":
                say(event)
            elif event["event"] == "done":
                done = event
            if stopping() and not stopped:
                stopped = True
                driver.stop()
        driver.close()
    role = done["roles"][0]
    cpu = done["driver_cpu_seconds"]
    return Measured(bench, scripts, server, ready["engine"], scale, done["seconds"], role, cpu, failure)


def _spec(bench: Bench, scripts: list[PgbenchScript], where: Json, scale: int, seed: int) -> Json:
    predefined = {"scale": scale, "random_seed": seed, "default_seed": seed}
    role = Role(
        "query",
        bench.clients,
        scripts,
        mode=bench.mode,
        prepare="lazy",
        allow_shell=bench.allow_shell,
        operations=bench.transactions,
        rate=Rate(bench.rate / bench.clients, "poisson") if bench.rate else None,
        retry_sqlstates=RETRIED,
        max_tries=bench.max_tries,
        variables={**predefined, **bench.define},
    )
    return {
        "step": "bench",
        "connection": where,
        "seed": seed,
        "engine": bench.engine,
        "threads": bench.threads,
        "seconds": bench.seconds,
        "roles": [role.spec()],
    }


def _script_error(error: DriverError) -> Exception:
    """A script that does not compile is the user's to mend; the driver's message shows the line."""
    if error.event.get("kind") == "script" and "file" in error.event:
        return UsageError(str(error.event["message"]))
    if error.event.get("sqlstate") == "53300":  # too_many_connections
        return DriverError(error.message, "ask for fewer with -c, or raise max_connections", error.event)
    return error
