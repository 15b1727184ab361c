"""The OLTP workloads, every step, on an old server: their SQL is understood there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pgstrata.server.cluster.cluster import Cluster
from pgstrata.server.find.model import Server
from pgstrata.workload import catalog
from pgstrata.workload.core.language import Step
from support.steps import run_phase, running

TINY: dict[str, dict[str, Any]] = {
    "insert": {
        "rows": 5000,
        "rows_i1": 1000,
        "rows_i2": 100,
        "steps": "100:range 100:point",
        "seconds": 0.5,
        "clients": 2,
        "partitions": 2,
        "settle_base": 0,
        "settle_per_million": 0,
    },
    "sysbench": {
        "rows": 500,
        "tables": 2,
        "clients": 2,
        "steps": "full extras",
        "read_seconds": 0.1,
        "write_seconds": 0.1,
        "warmup": 0,
        "settle_base": 0,
        "settle_per_million": 0,
    },
    "pgbench": {"scale": 1, "clients": 2, "seconds": 0.2, "warmup": 0, "foreign_keys": True, "partitions": 2},
}


@pytest.fixture(scope="module")
def old_cluster(pg12: Server) -> Iterator[Cluster]:
    with running(pg12) as cluster:
        yield cluster


@pytest.mark.parametrize("name", TINY)
def test_every_step_works_on_an_old_server(old_cluster: Cluster, name: str) -> None:
    with old_cluster.connect() as admin:
        admin.execute(f"CREATE DATABASE {name}")
    workload = catalog.find(name)
    options = workload.Options.model_validate(TINY[name])
    steps = 0
    for phase in workload.phases(options, old_cluster.server.features):
        if isinstance(phase, Step) and phase.seconds:
            phase = replace(phase, seconds=min(phase.seconds, 0.5))  # scans warm the caches for a minute
        outcome = run_phase(old_cluster, name, phase)
        if outcome is not None:
            steps += 1
            for role in outcome.done["roles"]:
                assert role["operations"] > 0, (phase, role["name"])
                assert role["errors"] == role["retries"] or role["errors"] == 0
    assert steps == {"insert": 6, "sysbench": 2 + 4 + 42 + 5, "pgbench": 2 + 9}[name]
