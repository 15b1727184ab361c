"""Steps of the Insert Benchmark as figures: what a plausible server would have been seen doing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from pgstrata.driver.events import Second
from pgstrata.judge.sla import sla
from pgstrata.measure.step_records import series_rows
from pgstrata.stats.metrics import metric_line
from pgstrata.stats.rates import client_percentiles, per_second, rate_percentiles
from pgstrata.store import RunBuilder
from pgstrata.store.histogram import Histogram, histogram_of, merge
from pgstrata.store.record import (
    Bloat,
    LatencyRecord,
    LogEvent,
    Metrics,
    RatePercentiles,
    RoleRecord,
    Sizes,
    StatementRecord,
    StepRecord,
    TableRecord,
    TableSizes,
)

GIB = 2**30
PERCENTS = (50, 75, 90, 95, 99)


def percentiles(latency: Histogram) -> dict[str, float | None]:
    """Returns response times in seconds by the names that a role's records have for them."""
    return {f"p{p}": at for p, at in zip(PERCENTS, latency.percentiles(PERCENTS), strict=True)}


def _roles(name: str, speed: float, clients: int, missed: bool) -> list[dict[str, Any]]:
    """Per role: operations/s, rows per operation, typical response time in µs, target in rows/s."""
    if name == "l.i0":
        return [_role("insert", 1600 * speed * clients, 100, 620 / speed)]
    if name == "l.x":
        return [_role("index", 0.0, 0, 2e6)]
    if name in {"l.i1", "l.i2"}:
        rows, batch = (24e3, 50) if name == "l.i1" else (11e3, 5)
        rate = rows * speed * clients / batch
        return [_role("insert", rate, batch, 900 / speed), _role("delete", rate, batch, 700 / speed)]
    target = int(name[2:]) * clients
    writes = target * (0.82 if missed else 1.0) / 50
    queries = (17e3 if name.startswith("qp") else 12e3) * speed * clients * (1 - target / clients / 20_000)
    return [
        _role("query", queries, 10, 1e6 * clients / queries * 0.9),
        _role("insert", writes, 50, 1500, target),
        _role("delete", writes, 50, 1700, target),
    ]


def _role(name: str, rate: float, rows: int, micros: float, target: float | None = None) -> dict[str, Any]:
    return {"name": name, "rate": rate, "rows": rows, "micros": micros, "target": target}


def add_step(
    run: RunBuilder,
    random: np.random.Generator,
    order: int,
    name: str,
    speed: float,
    seconds: int,
    clients: int,
    missed: bool,
    managed: bool,
) -> None:
    roles = _roles(name, speed, clients, missed)
    length = 3.4 / speed if name == "l.x" else seconds + (0.37 if name.startswith("l.") else 0.0)
    stall = seconds // 2
    events = []
    totals: dict[str, dict[str, Any]] = {}
    whole: dict[str, list[Histogram]] = {role["name"]: [] for role in roles}
    for second in range(int(np.ceil(length))):
        part = min(1.0, length - second)
        role_seconds = []
        for role in roles:
            slow = 0.35 if second == stall and role["target"] is None else 1.0
            n = round(role["rate"] * part * slow * random.normal(1, 0.02))
            if name == "l.x" and second == int(np.ceil(length)) - 1:
                n = clients
            micros = np.round(random.lognormal(np.log(role["micros"] / slow), 0.4, min(n, 400))) + 1
            # one draw stands for many responses: the counts add up, the tail is that of 400 draws
            latency = histogram_of(np.resize(micros, n).astype(np.int64))
            whole[role["name"]].append(latency)
            counts = {
                "name": role["name"],
                "operations": n,
                "transactions": n,
                "statements": n,
                "rows": n * role["rows"],
                "errors": 0,
                "retries": 0,
            }
            role_seconds.append(
                counts
                | {"histogram": latency.encode()}
                | {name: seconds or 0.0 for name, seconds in percentiles(latency).items()}
                | {"max": latency.max_seconds or 0.0, "mean": 0.0, "stddev": 0.0}
            )
            total = totals.setdefault(role["name"], dict.fromkeys(counts, 0))
            for count in counts:
                total[count] += counts[count] if count != "name" else 0
        event = {"event": "second", "second": second, "seconds": part, "roles": role_seconds}
        events.append(msgspec.convert(event, Second))
    series = series_rows(events)

    headline = roles[0]["name"]
    unit = {"l.x": "indexed rows/s"}.get(name, "rows/s" if name.startswith("l.") else "queries/s")
    fixed = 1_000_000 * clients if name == "l.x" else None
    counted = fixed or totals[headline]["rows" if unit == "rows/s" else "operations"]
    rate = counted / length
    merged = {role: merge(parts) for role, parts in whole.items()}
    records = {
        role["name"]: _role_record(role, totals[role["name"]], merged[role["name"]], length, clients, managed)
        for role in roles
    }
    reached = sla(records)
    in_seconds = [r for _, r in per_second(series, headline, _counts(unit))]
    spread = rate_percentiles(in_seconds)
    server_cpu = sum(r.cpu_seconds or 0.0 for r in records.values()) + 0.4 if managed else None
    disk = {
        "reads": 40.0 * length,
        "read_bytes": 40.0 * 8192 * length,
        "writes": 300.0 * length,
        "write_bytes": 22e6 * length,
        "context_switches": 2.1 * sum(t["operations"] for t in totals.values()) + 400 * length,
        "cpu_seconds": 1.15 * (server_cpu or 0.0),
    }
    at_end = sizes(0.2 * order)
    metrics = metric_line(
        seconds=length,
        rate=rate,
        rate_unit=unit,
        inserted=records["insert"].rows if "insert" in records else 0,
        longest=records[headline].latency.max,
        longest_of_all=max((r.latency.max or 0.0 for r in records.values()), default=None),
        disk=disk if managed else None,
        cpus=8,
        database_bytes=at_end.database_bytes,
        data_dir_bytes=at_end.data_dir_bytes,
        rss_bytes=3.1 * GIB if managed else None,
        rate_percentiles=spread,
        client_percentiles=client_percentiles(in_seconds, clients),
    )
    run.spec(order, name, {"version": 1, "step": name, "seconds": seconds, "roles": []})
    run.step(
        StepRecord(
            name=name,
            order=order,
            group=_group(name),
            measured=True,
            reads_only=False,
            started=f"2026-01-31T12:{order:02d}:00.000Z",
            seconds=length,
            rate=rate,
            rate_unit=unit,
            role=headline,
            operations=totals[headline]["operations"],
            rows=totals[headline]["rows"],
            target_rate=reached.target_rate,
            background_rate=reached.background_rate,
            sla_met=reached.met,
            engine="blocking",
            driver_cpu_seconds=4e-6 * sum(t["operations"] for t in totals.values()),
            driver_peak_rss_bytes=9 * 2**20,
            server_cpu_seconds=server_cpu,
            host_cpu_seconds=disk["cpu_seconds"] if managed else None,
            roles=records,
            metrics=Metrics(**metrics),
            rate_percentiles=RatePercentiles(**spread),
            wal_bytes=int(2e7 * length),
            sizes=at_end,
            tables={
                "pi1": TableRecord(
                    rows_estimate=1_000_000,
                    dead_estimate=1200,
                    indexes={"pi1_pkey": "CREATE UNIQUE INDEX pi1_pkey ON pi1 (transactionid)"},
                    bloat=Bloat(
                        table={"dead_tuple_percent": 2.5, "free_percent": 11.25},
                        indexes={"pi1_pkey": {"avg_leaf_density": 88.5, "leaf_fragmentation": 0.0}},
                    ),
                )
            },
            events=_events(stall, seconds) if managed else (),
            plans=(),
            notes=(),
        ),
        series=series,
        histograms={role: histogram.encode() for role, histogram in merged.items()},
        host=_host_rows(random, int(np.ceil(length))) if managed else [],
        backends=_backend_rows(records, clients) if managed else [],
        pgstat=[
            {
                "view": "pg_stat_database",
                "object": "pgstrata",
                "counter": c,
                "before": 1000.0,
                "after": 9000.0 * k,
            }
            for k, c in enumerate(("xact_commit", "blks_read", "blks_hit", "tup_inserted"), 1)
        ],
    )


def _events(stall: int, seconds: int) -> tuple[LogEvent, ...]:
    return (
        LogEvent(kind="checkpoint", second=stall - 1.2, until=stall + 1.5, text="checkpoint: time"),
        LogEvent(kind="autovacuum", second=0.7 * seconds, until=0.8 * seconds, text="pi1"),
    )


def _counts(unit: str) -> str:
    return "rows" if unit == "rows/s" else "operations"


def _group(name: str) -> str:
    if name in {"l.i0", "l.x"}:
        return "load"
    return {"l": "write", "qr": "range queries", "qp": "point queries"}[name[: 1 if name[0] == "l" else 2]]


def _role_record(
    role: Mapping[str, Any],
    totals: Mapping[str, Any],
    latency: Histogram,
    seconds: float,
    clients: int,
    managed: bool,
) -> RoleRecord:
    operations = totals["operations"]
    cpu = min(0.9 * seconds * clients, operations * role["micros"] * 0.8e-6)
    mean = latency.mean_seconds or 0.0
    return RoleRecord(
        clients=clients,
        **{key: value for key, value in totals.items() if key != "name"},
        rate=(totals["rows"] if role["target"] else operations) / seconds,
        target_rate=role["target"],
        cpu_seconds=cpu if managed else None,
        latency=LatencyRecord(
            mean=latency.mean_seconds,
            stddev=0.4 * mean,
            max=latency.max_seconds,
            **percentiles(latency),
        ),
        statements_by_name=(
            StatementRecord(
                name=role["name"],
                count=operations,
                errors=0,
                rows=totals["rows"],
                seconds_total=mean * operations,
                seconds_max=latency.max_seconds or 0.0,
            ),
        ),
    )


def _host_rows(random: np.random.Generator, seconds: int) -> list[dict[str, Any]]:
    return [
        {
            "second": second,
            "cpu_user": 1.6 + random.normal(0, 0.05),
            "cpu_system": 0.5,
            "cpu_iowait": 0.1,
            "cpu_steal": 0.0,
            "cpu_idle": 5.8,
            "context_switches": 30_000 + random.normal(0, 500),
            "disk_reads": 40.0,
            "disk_read_bytes": 40 * 8192.0,
            "disk_writes": 300.0,
            "disk_write_bytes": 22e6,
            "memory_used_bytes": 6 * GIB,
            "page_cache_bytes": 5 * GIB,
            "server_rss_bytes": 3 * GIB,
        }
        for second in range(seconds)
    ]


def _backend_rows(records: Mapping[str, RoleRecord], clients: int) -> list[dict[str, Any]]:
    rows = [
        {
            "role": role,
            "client": client,
            "pid": 5000 + 100 * number + client,
            "cpu_seconds": (record.cpu_seconds or 0.0) / clients,
        }
        for number, (role, record) in enumerate(records.items())
        for client in range(1, clients + 1)
    ]
    return [*rows, {"role": "server", "client": None, "pid": None, "cpu_seconds": 0.4}]


def sizes(gib: float) -> Sizes:
    table = TableSizes(table_bytes=int(0.4 * gib * GIB), index_bytes=int(0.6 * gib * GIB))
    return Sizes(database_bytes=int(gib * GIB), data_dir_bytes=int((gib + 1.5) * GIB), tables={"pi1": table})
