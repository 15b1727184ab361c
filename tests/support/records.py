"""Records of runs and steps for tests: plausible in every key, and changed in those a test is about."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgstrata.store import Run
from pgstrata.store.record import (
    FORMAT,
    Circumstances,
    ComparisonRecord,
    ConfigRecord,
    Cpus,
    Host,
    LatencyRecord,
    Metrics,
    RatePercentiles,
    RoleRecord,
    RunRecord,
    ServerRecord,
    Sizes,
    StepRecord,
)


def latency(**seconds: float | None) -> LatencyRecord:
    """Response times; None where a test does not say."""
    return LatencyRecord(**(dict.fromkeys(LatencyRecord.__struct_fields__) | seconds))


def role_record(**changes: Any) -> RoleRecord:
    """One client that has done nothing."""
    counts = dict.fromkeys(("operations", "transactions", "statements", "rows", "errors", "retries"), 0)
    usual = {
        "clients": 1,
        **counts,
        "rate": 0.0,
        "target_rate": None,
        "cpu_seconds": None,
        "latency": latency(),
        "statements_by_name": (),
    }
    return RoleRecord(**(usual | changes))


def step_record(name: str = "s", **changes: Any) -> StepRecord:
    """A step of one role, `query`, on a server of which nothing was observed."""
    usual: dict[str, Any] = {
        "order": 1,
        "group": "g",
        "measured": True,
        "reads_only": False,
        "started": "2026-01-31T12:00:00.000Z",
        "seconds": 10.0,
        "rate": 1.0,
        "rate_unit": "queries/s",
        "role": "query",
        "operations": 0,
        "rows": 0,
        "target_rate": None,
        "background_rate": None,
        "sla_met": None,
        "engine": "blocking",
        "driver_cpu_seconds": 0.0,
        "driver_peak_rss_bytes": 0,
        "server_cpu_seconds": None,
        "roles": {"query": role_record()},
        "metrics": Metrics(),
        "rate_percentiles": RatePercentiles(p50=None, p75=None, p90=None, p95=None, p99=None),
        "wal_bytes": None,
        "sizes": Sizes(),
        "tables": {},
        "events": (),
        "plans": (),
        "notes": (),
    }
    return StepRecord(name=name, **(usual | changes))


_CIRCUMSTANCES: Mapping[str, Any] = {
    "status": "done",
    "error": None,
    "pgstrata_version": "0.1.0",
    "driver_version": "0.1.0",
    "server": ServerRecord(
        spec="pg:17.11", label="pg17.11", version="17.11", version_num=170011, build="", managed=True
    ),
    "config": ConfigRecord(name="default", fragments=(), settings={}, dropped=(), mapped=()),
    "env": {},
    "initdb": (),
    "memory": None,
    "cpus": Cpus(),
    "workload_name": "insert",
    "options": {},
    "seed": 1,
    "order": "sequential",
    "variant_order": 0,
    "base": None,
    "host": Host(hostname="bench1"),
    "timings": {},
    "sizes": Sizes(),
    "facts": {},
}


def comparison_record(*variants: str, **changes: Any) -> ComparisonRecord:
    """What variants share that took turns; the first is the base."""
    usual: dict[str, Any] = {
        "id": "c",
        "base": variants[0],
        "slice_seconds": 1.0,
        "rounds": 1,
        "until": "time",
        "max_seconds": None,
        "margin": 0.02,
    }
    return ComparisonRecord(variants=variants, **(usual | changes))


def circumstances(**changes: Any) -> Circumstances:
    """Of a finished run on PostgreSQL 17.11 with nothing special about it."""
    return Circumstances(**{**_CIRCUMSTANCES, **changes})


def stored_run(variant: str, repeat: int, *steps: StepRecord, **changes: Any) -> Run:
    """A run that is in no folder."""
    identity = {
        "format": FORMAT,
        "run_id": f"{variant}-{repeat}-{changes.get('workload', 'w')}",
        "campaign": "c",
        "variant": variant,
        "workload": "w",
        "repeat": repeat,
        "started": f"2026-01-31T12:00:{repeat:02d}Z",
        "finished": f"2026-01-31T12:01:{repeat:02d}Z",
        "steps": steps,
    }
    return Run(Path(f"{variant}-{repeat}"), RunRecord(**{**_CIRCUMSTANCES, **identity, **changes}))


def on_disk(run: Run) -> dict[str, Any]:
    """run.json as it lies in the run's folder, which others read, too."""
    record: dict[str, Any] = json.loads((run.folder / "run.json").read_text())
    return record
