"""The record of one step as docs/reference/results.md has it, from what the driver said and StepWatch saw."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import psutil
from msgspec import structs

from pgstrata.driver.events import Done, Ready, Replayed, RoleDone, Second, StatementTotals
from pgstrata.judge.sla import sla
from pgstrata.observe import StepObserved
from pgstrata.observe.waits import Waits
from pgstrata.server.cluster.served import Served
from pgstrata.stats.metrics import metric_line
from pgstrata.stats.rates import client_percentiles, per_second, rate_percentiles
from pgstrata.store.record import (
    LatencyRecord,
    LatenessRecord,
    Metrics,
    RatePercentiles,
    ReplayFailureRecord,
    ReplayRecord,
    ReplicaStep,
    RoleRecord,
    ScriptRecord,
    Sizes,
    StatementRecord,
    StepRecord,
    WaitsCost,
)
from pgstrata.units import rate_of
from pgstrata.workload.core.language import Headline, Role, Step

_ADDED = ("count", "errors", "retries", "rows", "seconds_total")
"""Numbers of statements that are added up."""

COUNTS = ("operations", "transactions", "statements", "rows", "errors", "retries")


def iso(unix_time: float) -> str:
    """Formats a Unix time as ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(unix_time, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def headline_rate(headline: Headline, role: RoleDone, seconds: float) -> float:
    """Returns the rate a step is judged by, in the headline's unit."""
    counted: int = getattr(role, headline.counts)
    amount = headline.fixed if headline.fixed is not None else counted * headline.factor
    if headline.busy:
        seconds = sum(statement.seconds_total for statement in role.statements_by_name)
    return rate_of(float(amount), seconds, headline.unit)


def series_rows(seconds: Iterable[Second]) -> list[dict[str, Any]]:
    """Returns the driver's seconds as rows of the table `series`: one per second and role."""
    return [
        {
            "second": event.second,
            "seconds": event.seconds,
            "role": role.name,
            "histogram": role.histogram,
            **{name: getattr(role, name) for name in COUNTS},
            **{f"{time}_seconds": getattr(role, time) for time in ("p50", "p95", "p99", "max")},
        }
        for event in seconds
        for role in event.roles
    ]


LATE = ("mean", "p50", "p95", "p99", "max")


def lateness_rows(seconds: Iterable[Second]) -> list[dict[str, Any]]:
    """Returns how late a replay was in each second, as rows of the table `lateness`; none for other steps."""
    return [
        {
            "second": event.second,
            "sent": role.replay.sent,
            **{f"{name}_seconds": getattr(role.replay, name) for name in LATE},
        }
        for event in seconds
        for role in event.roles
        if role.replay is not None
    ]


def statement_rows(part: int, done: Done) -> list[dict[str, Any]]:
    """Returns the executions of each statement of a replay in one part, as rows of the table `statements`;
    none for other steps."""
    return [
        {
            "part": part,
            "statement": totals.name,
            "calls": totals.count,
            "errors": totals.errors,
            "rows": totals.rows,
            "seconds": totals.seconds_total,
            "max_seconds": totals.seconds_max,
        }
        for role in done.roles
        if role.replay is not None
        for totals in role.statements_by_name
    ]


def replay_record(replayed: Replayed) -> ReplayRecord:
    """Returns a replay's own figures as they are stored."""
    return ReplayRecord(
        lateness=LatenessRecord(**{name: getattr(replayed.lag, name) for name in LATE}),
        sessions=replayed.sessions,
        lost=replayed.lost,
        unsent=replayed.unsent,
        failures=tuple(ReplayFailureRecord(**structs.asdict(failure)) for failure in replayed.failures),
        found_nothing=dict(replayed.found_nothing),
    )


def statements_by_name(statements: Iterable[StatementTotals]) -> list[StatementTotals]:
    """Adds up statements of one name: those of several parts, and those that a script has several times."""
    by_name: dict[str, StatementTotals] = {}
    for statement in statements:
        seen = by_name.get(statement.name)
        if seen is not None:
            added = {name: getattr(seen, name) + getattr(statement, name) for name in _ADDED}
            statement = structs.replace(
                seen, **added, seconds_max=max(seen.seconds_max, statement.seconds_max)
            )
        by_name[statement.name] = statement
    return list(by_name.values())


def role_record(role: Role, done: RoleDone, seconds: float, cpu_seconds: float | None) -> RoleRecord:
    """Returns the record of a role of a step. Its rate is rows/s where it has a target, else operations/s."""
    counted = done.rows if role.target_rows is not None else done.operations
    return RoleRecord(
        clients=role.clients,
        **{name: getattr(done, name) for name in COUNTS},
        rate=counted / seconds if seconds > 0 else 0.0,
        target_rate=role.target_rows,
        cpu_seconds=cpu_seconds,
        latency=LatencyRecord(**structs.asdict(done.latency)),
        statements_by_name=tuple(
            StatementRecord(**{name: getattr(totals, name) for name in StatementRecord.__struct_fields__})
            for totals in statements_by_name(done.statements_by_name)
        ),
        scripts={
            script.name: ScriptRecord(
                transactions=script.transactions,
                errors=script.errors,
                retries=script.retries,
                latency=LatencyRecord(**structs.asdict(script.latency)),
            )
            for script in done.scripts
        },
    )


def sends_nothing(done: Done) -> bool:
    """Returns whether no role has sent a statement."""
    return not any(statement.count for role in done.roles for statement in role.statements_by_name)


def step_record(
    step: Step,
    order: int,
    ready: Ready,
    unix_time: float,
    seconds_events: Sequence[Second],
    done: Done,
    observed: StepObserved,
) -> StepRecord:
    """Returns the record of a step: everything about it but its tables.

    order counts from 1; unix_time: when the clock of the step started; ready, seconds_events and
    done: the driver's events.
    """
    seconds = done.seconds
    by_name = {role.name: role for role in done.roles}
    roles = {
        role.name: role_record(role, by_name[role.name], seconds, observed.cpu_by_role.get(role.name))
        for role in step.roles
    }
    headline = step.headline
    counted = by_name[headline.role]
    rate = None if sends_nothing(done) else headline_rate(headline, counted, seconds)
    # A step judged by a fixed amount has no rate per second of its own.
    in_seconds = (
        []
        if headline.fixed is not None or headline.busy or rate is None
        else [
            rate_of(r * headline.factor, 1.0, headline.unit)
            for _, r in per_second(series_rows(seconds_events), headline.role, headline.counts)
        ]
    )
    percentiles = rate_percentiles(in_seconds)
    kept_up = sla(roles)
    sizes = observed.sizes or Sizes()
    longest = [role.latency.max for role in roles.values() if role.latency.max is not None]
    metrics = metric_line(
        seconds=seconds or 1e-9,
        rate=(
            rate_of(counted.operations, seconds, headline.unit) if headline.busy and seconds else rate or 0.0
        ),
        rate_unit=headline.unit,
        inserted=roles["insert"].rows if "insert" in roles else 0,
        longest=roles[headline.role].latency.max,
        longest_of_all=max(longest, default=None),
        disk=observed.disk,
        cpus=psutil.cpu_count() if observed.disk is not None else None,
        database_bytes=sizes.database_bytes,
        data_dir_bytes=sizes.data_dir_bytes,
        rss_bytes=observed.rss_bytes,
        rate_percentiles=percentiles,
        client_percentiles=client_percentiles(in_seconds, roles[headline.role].clients),
    )
    return StepRecord(
        name=step.name,
        order=order,
        group=step.group,
        summary=step.summary,
        measured=step.measured,
        reads_only=step.reads_only,
        started=iso(unix_time),
        seconds=seconds,
        rate=rate,
        rate_unit=headline.unit,
        role=headline.role,
        operations=counted.operations,
        rows=counted.rows,
        target_rate=kept_up.target_rate,
        background_rate=kept_up.background_rate,
        sla_met=kept_up.met,
        engine=ready.engine if ready.driver else "none",
        driver_cpu_seconds=done.driver_cpu_seconds,
        driver_peak_rss_bytes=done.driver_peak_rss_bytes,
        server_cpu_seconds=observed.server_cpu_seconds,
        pooler_cpu_seconds=observed.pooler_cpu_seconds,
        host_cpu_seconds=None if observed.of_processes else (observed.disk or {}).get("cpu_seconds"),
        roles=roles,
        metrics=Metrics(**metrics),
        rate_percentiles=RatePercentiles(**percentiles),
        wal_bytes=observed.wal_bytes,
        sizes=sizes,
        tables=observed.tables,
        events=tuple(observed.events),
        plans=(),
        notes=tuple(observed.notes),
        replay=None if counted.replay is None else replay_record(counted.replay),
        judged_load=observed.judged_load,
        waits=None if observed.waits is None else wait_shares(observed.waits),
        waits_cost=None if observed.waits is None else waits_cost(observed.waits),
    )


def replica_step(
    observed: StepObserved,
    cluster: Served,
    server: Served,
    away: Collection[str],
) -> ReplicaStep | None:
    """Returns `replica` of a step record; None without a replica. server: the one that was measured; away:
    roles that read from the replica meanwhile."""
    if cluster.standbys.pid is None:
        return None
    return ReplicaStep(
        served=server is not cluster,
        roles=tuple(sorted(away)),
        cpu_seconds=observed.replica_cpu_seconds,
        lag_bytes=max((row["lag_bytes"] for row in observed.lag), default=None),
        lag_seconds=max(
            (row["lag_seconds"] for row in observed.lag if row["lag_seconds"] is not None), default=None
        ),
    )


def merged_replica(parts: Sequence[ReplicaStep | None]) -> ReplicaStep | None:
    """Merges the replica records of all parts of a step; None without a replica."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    cpu = [part.cpu_seconds for part in known]
    return ReplicaStep(
        served=known[-1].served,
        roles=known[-1].roles,
        cpu_seconds=sum(c for c in cpu if c is not None) if None not in cpu else None,
        lag_bytes=max((part.lag_bytes for part in known if part.lag_bytes is not None), default=None),
        lag_seconds=max((part.lag_seconds for part in known if part.lag_seconds is not None), default=None),
    )


def wait_shares(waits: Waits) -> dict[str, dict[str, float]]:
    """Returns `waits` of a step record: parallel workers count to the role they work for."""
    samples: dict[str, dict[str, int]] = {}
    for row in waits.rows:
        kind, event = row["wait_event_type"], row["wait_event"]
        name = "running" if kind == "CPU" else f"{kind}: {event}"
        of_role = samples.setdefault(row["role"], {})
        of_role[name] = of_role.get(name, 0) + row["samples"]
    return {
        role: {name: count / sum(counts.values()) for name, count in counts.items()}
        for role, counts in samples.items()
    }


def waits_cost(waits: Waits) -> WaitsCost:
    """Returns `waits_cost` of a step record."""
    return WaitsCost(
        polls=waits.polls,
        wanted=waits.wanted,
        sampler_cpu_seconds=waits.sampler_cpu_seconds,
        backend_cpu_seconds=waits.backend_cpu_seconds,
    )
