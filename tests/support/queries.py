"""Runs steps whose statements are recorded, and work in Python, as the conductor does."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pgstrata.driver.client import Driver
from pgstrata.driver.events import StatementDone
from pgstrata.measure.step import driver_spec
from pgstrata.server.cluster.cluster import Cluster
from pgstrata.workload.core.language import Digest, Phase, Step, Work, WorkContext
from support.steps import run_phase

Json = dict[str, Any]


def work(cluster: Cluster, database: str, phase: Work) -> Json:
    """What the work found out."""
    return dict(phase.do(WorkContext(partial(cluster.connect, database), lambda text: None, lambda: None)))


def digested(cluster: Cluster, database: str, step: Step) -> Digest:
    """The step's recorded statements, digested. An error of the driver is left for the caller to see."""
    assert step.digest is not None
    statements: list[StatementDone] = []
    with tempfile.TemporaryDirectory() as folder:
        spec = driver_spec(step, cluster.connection(database), 1, "auto", results_dir=folder)
        with Driver(spec) as driver:
            driver.ready()
            driver.start()
            for event in driver.events():
                if isinstance(event, StatementDone):
                    statements.append(event)
            driver.close()
        return step.digest(statements, Path(folder))


def until(cluster: Cluster, database: str, phases: Sequence[Phase], name: str) -> Json:
    """Does every phase up to the one of this name, which is left to the caller; returns the facts."""
    facts: Json = {}
    for phase in phases:
        if getattr(phase, "name", "") == name:
            return facts
        if isinstance(phase, Work):
            facts |= work(cluster, database, phase)
        elif isinstance(phase, Step) and phase.digest is not None:
            digested(cluster, database, phase)
        else:
            run_phase(cluster, database, phase)
    raise AssertionError(f"no phase {name}")


def step_of(phases: Sequence[Phase], name: str) -> Step:
    """The step of this name."""
    (step,) = [p for p in phases if isinstance(p, Step) and p.name == name]
    return step
