"""What a run's data is made of, and whether it is kept from an earlier load: known before anything starts."""

from __future__ import annotations

import platform
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pgstrata
from pgstrata.campaign.plan.model import PlannedRun
from pgstrata.campaign.plan.order import data_at, seconds_of
from pgstrata.campaign.plan.resume import phases_of
from pgstrata.campaign.study import Study
from pgstrata.files import digests
from pgstrata.server.cluster import loaded
from pgstrata.server.find.model import Server
from pgstrata.turns.model import COPIED_BYTES
from pgstrata.workload.core.language import Admin, Phase, Refine, Settle, Step, Work
from pgstrata.workload.plugin import source_of

_FORMAT = 1
"""Another one for data that is kept in another way."""

_WRITTEN = ("default_table_access_method", "default_toast_compression", "default_with_oids")
"""Settings that decide what is on disk. All others decide how it gets there."""


def with_loaded(groups: Sequence[Sequence[PlannedRun]], spec: Study) -> list[PlannedRun]:
    """Returns the runs with the key of their data; `from_kept` is set where the data is there already, or
    will be when the run's turn comes. groups: in the order in which they are made, each of the runs that are
    made together."""
    there: set[str] = set()
    planned_runs = []
    for group in groups:
        with_keys = [_with_key(run, spec, there) for run in group]
        there |= {run.data_key for run in with_keys}
        planned_runs += with_keys
    return planned_runs


def _with_key(run: PlannedRun, spec: Study, there: Collection[str]) -> PlannedRun:
    made_of = data_made_of(run, spec) if spec.keep_loaded and not run.existing else None
    if made_of is None:
        return run
    key = loaded.key_of(made_of)
    from_kept = key in there or loaded.find(key) is not None
    end = data_at(phases_of(run))
    saved = sum(map(seconds_of, phases_of(run)[:end])) if from_kept else 0.0
    seconds = max(0.0, run.seconds - saved) + run.disk_bytes / COPIED_BYTES
    return replace(run, data_key=key, from_kept=from_kept, seconds=seconds)


def data_made_of(run: PlannedRun, spec: Study) -> dict[str, Any] | None:
    """Returns everything that decides the content of the data folder after loading; None if nothing is kept:
    there is no load, or the server is not managed by us or not there yet."""
    phases = phases_of(run)
    end = data_at(phases)
    server = run.variant.server
    if not server.managed or not any(isinstance(phase, Step) for phase in phases[:end]):
        return None
    identity = _server(server)
    if identity is None:
        return None
    made_of: dict[str, Any] = {
        "format": _FORMAT,
        "release": pgstrata.__version__,
        "machine": platform.machine(),
        "server": identity,
        "initdb": list(run.variant.spec.initdb),
        **({"extensions": list(run.variant.extensions)} if run.variant.extensions else {}),
        "settings": {name: value for name, value in run.variant.config.settings.items() if name in _WRITTEN},
        "workload": run.workload.workload.name,
        "seed": getattr(run.workload.options, "seed", spec.seed),
        "phases": [_phase(phase) for phase in phases[:end]],
    }
    if any(isinstance(phase, Work) and phase.depends_on is None for phase in phases[:end]):
        # what work in Python does is not said elsewhere
        made_of["options"] = run.workload.all_options
        made_of["source"] = source_of(run.workload.workload)
    return made_of


def _phase(phase: Phase) -> list[Any]:
    match phase:
        case Step():
            return ["step", phase.spec()]
        case Admin():
            return ["admin", phase.name, list(phase.statements)]
        case Settle():
            return ["settle", list(phase.tables), phase.checkpoint]
        case Work():
            return ["work", phase.name, *([dict(phase.depends_on)] if phase.depends_on is not None else [])]
        case Refine():  # comes after measured steps, which no load has before it
            return ["refine", phase.steps]


def _server(server: Server) -> list[str] | None:
    if server.built is not None:
        return [server.version, server.built.key]
    if server.spec.startswith("pg:"):
        return [server.spec]
    assert server.bin_dir is not None
    program = server.bin_dir / "postgres"
    try:
        about = program.stat()
        return [server.version, server.build, _digest(program, about.st_size, about.st_mtime_ns)]
    except OSError:
        return None


@lru_cache
def _digest(program: Path, _size: int, _changed: int) -> str:
    return digests.of_file(program)


__all__ = ["data_made_of", "with_loaded"]
