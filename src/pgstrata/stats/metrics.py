"""The metric line of the field, and what one operation costs in hardware.

The names are those of the Insert Benchmark's result tables (mdcallag/mytools, bench/ibench), so that
numbers can be held against published ones. KB, MB and GB are 1024-based, as iostat and du count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pgstrata.units import rate_per_second

KB, MB, GB = 1024.0, 1024.0**2, 1024.0**3

METRICS: Mapping[str, tuple[str, str]] = {
    # key in run.json: the field's name with its unit, what it is
    "ips": ("ips", "rows inserted per second; in l.x rows indexed per second"),
    "qps": ("qps", "queries per second"),
    "rps": ("rps", "disk reads per second"),
    "rmbps": ("rMB/s", "MB read from disk per second"),
    "wps": ("wps", "disk writes per second"),
    "wmbps": ("wMB/s", "MB written to disk per second"),
    "rpq": ("r/q", "disk reads per query or row"),
    "rkbpq": ("rKB/q", "KB read from disk per query or row"),
    "wpi": ("w/i", "disk writes per inserted row"),
    "wkbpi": ("wKB/i", "KB written to disk per inserted row"),
    "csps": ("cs/s", "context switches of the host per second"),
    "cpups": ("cpu/s", "CPU of the host in use, user and system, in % of all its CPUs"),
    "cspq": ("cs/q", "context switches per query or row"),
    "cpupq": ("cpu µs/q", "µs of the host's CPU per query or row"),
    "dbgb": ("database GB", "size of the database after the step"),
    "datagb": ("data folder GB", "size of the data folder after the step, WAL included"),
    "rss": ("RSS GB", "resident memory of the server's processes at the end of the step"),
    "cpuo": ("cpu/o", "cpu/s ÷ rate per second: % of the host per operation/s"),
    "maxop": ("max op", "the longest response time in seconds of the role the step is judged by"),
    "maxany": ("max any", "the longest response time in seconds of all roles"),
    "p50": ("p50", "the rate that half of the seconds reached, all clients together"),
    "p99": ("p99", "the rate that 99 % of the seconds reached, all clients together"),
    "p50c": ("p50/client", "p50 as the field takes it: of one client, of ten seconds or more"),
    "p99c": ("p99/client", "p99 as the field takes it: of one client, of ten seconds or more"),
}


def counts_rows(rate_unit: str) -> bool:
    """Returns whether a step is judged by rows written or indexed, not by queries."""
    return rate_unit in {"rows/s", "indexed rows/s"}


def metric_line(
    *,
    seconds: float,
    rate: float,
    rate_unit: str,
    inserted: int,
    longest: float | None,
    longest_of_all: float | None,
    disk: Mapping[str, float | None] | None,
    cpus: int | None,
    database_bytes: int | None,
    data_dir_bytes: int | None,
    rss_bytes: float | None,
    rate_percentiles: Mapping[str, float | None],
    client_percentiles: Mapping[str, float | None],
) -> dict[str, float | None]:
    """Returns the keys of `metrics` in a step record; null for a figure that was not observed.

    seconds: measured time; rate, rate_unit: the headline, in its own unit; inserted: rows of the role
    `insert`; longest, longest_of_all: response of the headline's role and of all roles, in seconds; disk:
    totals of the host over the step — `reads`, `read_bytes`, `writes`, `write_bytes`, `context_switches`,
    `cpu_seconds` — None where the host is not ours; cpus: of the host; database_bytes, data_dir_bytes: after
    the step; rate_percentiles, client_percentiles: of the headline (`stats.rates`).
    """
    pace = rate_per_second(rate, rate_unit)
    ips, qps = (pace, 0.0) if counts_rows(rate_unit) else (inserted / seconds, pace)

    def per_second(name: str) -> float | None:
        total = disk.get(name) if disk else None
        return None if total is None else total / seconds

    cpu = per_second("cpu_seconds")
    each = qps or ips
    return {
        "ips": ips,
        "qps": qps,
        "rps": per_second("reads"),
        "rmbps": _ratio(per_second("read_bytes"), MB),
        "wps": per_second("writes"),
        "wmbps": _ratio(per_second("write_bytes"), MB),
        "rpq": _ratio(per_second("reads"), each),
        "rkbpq": _ratio(per_second("read_bytes"), each * KB),
        "wpi": _ratio(per_second("writes"), ips),
        "wkbpi": _ratio(per_second("write_bytes"), ips * KB),
        "csps": per_second("context_switches"),
        "cpups": _ratio(cpu, cpus / 100 if cpus else None),
        "cspq": _ratio(per_second("context_switches"), each),
        "cpupq": _ratio(cpu, each / 1e6),
        "dbgb": _ratio(database_bytes, GB),
        "datagb": _ratio(data_dir_bytes, GB),
        "rss": _ratio(rss_bytes, GB),
        "cpuo": _ratio(_ratio(cpu, cpus / 100 if cpus else None), pace),
        "maxop": longest,
        "maxany": longest_of_all,
        "p50": rate_percentiles.get("p50"),
        "p99": rate_percentiles.get("p99"),
        "p50c": client_percentiles.get("p50"),
        "p99c": client_percentiles.get("p99"),
    }


@dataclass(frozen=True)
class PerOperation:
    """What one operation of the headline costs; None where not observed.

    cpu, host_cpu, client_cpu: µs of CPU of the server, of the whole host (client included, user and system)
    and of the driver; field_cpu: the host's user and system in % of all its CPUs ÷ rate, the column `cpu/o`
    of published tables; switches: context switches of the host; reads, writes: of the data folder's disk;
    read_kb, written_kb: KB of 1024 bytes.
    """

    cpu: float | None
    host_cpu: float | None
    field_cpu: float | None
    switches: float | None
    reads: float | None
    read_kb: float | None
    writes: float | None
    written_kb: float | None
    client_cpu: float | None


PER_OPERATION: Mapping[str, str] = {
    # field of PerOperation: heading with its unit
    "cpu": "cpu µs/o",
    "host_cpu": "host cpu µs/o",
    "field_cpu": "cpu/o",
    "switches": "cs/o",
    "reads": "r/o",
    "read_kb": "rKB/o",
    "writes": "w/o",
    "written_kb": "wKB/o",
    "client_cpu": "client cpu µs/o",
}


def per_operation(
    *,
    rate: float,
    rate_unit: str,
    seconds: float,
    server_cpu_seconds: float | None,
    host_cpu_seconds: float | None,
    driver_cpu_seconds: float | None,
    cpups: float | None,
    csps: float | None,
    rps: float | None,
    rmbps: float | None,
    wps: float | None,
    wmbps: float | None,
) -> PerOperation:
    """Returns the cost of one operation: totals of a step ÷ operations, which are its rate per second ×
    seconds.

    rate, rate_unit: in its own unit. The last six are of the step's metric line.

    Everything that happened in the step is charged to the operations of its headline, background writes
    and autovacuum included: steps compare only with themselves under another variant.
    """
    pace = rate_per_second(rate, rate_unit)
    operations = pace * seconds
    return PerOperation(
        cpu=_ratio(server_cpu_seconds, operations / 1e6),
        host_cpu=_ratio(host_cpu_seconds, operations / 1e6),
        field_cpu=_ratio(cpups, pace),
        switches=_ratio(csps, pace),
        reads=_ratio(rps, pace),
        read_kb=_ratio(rmbps, pace * KB / MB),
        writes=_ratio(wps, pace),
        written_kb=_ratio(wmbps, pace * KB / MB),
        client_cpu=_ratio(driver_cpu_seconds, operations / 1e6),
    )


def relative_cost(cost: PerOperation, base: PerOperation) -> PerOperation:
    """Returns each figure ÷ the base's: < 1 is cheaper. None where a figure is missing or the base's is 0."""
    return PerOperation(**{name: _ratio(getattr(cost, name), getattr(base, name)) for name in PER_OPERATION})


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
