"""Whether a stored run is what a plan would make."""

from __future__ import annotations

import json
from dataclasses import replace

from msgspec import structs

from pgstrata.campaign.checked import ChosenWorkload
from pgstrata.campaign.plan.model import PlannedRun, PlannedVariant
from pgstrata.errors import UsageError
from pgstrata.store import Results
from pgstrata.store.read import BrokenRun, read_run
from pgstrata.store.record import BuiltRecord, PlaceRecord, RunRecord, StorageRecord
from pgstrata.workload.plugin import FACT as PLUGIN_FACT
from pgstrata.workload.plugin import source_of


def with_existing(run: PlannedRun, results: Results) -> PlannedRun:
    """Returns the planned run with the folder of its finished run, if there is one. Raises UsageError if that
    run was measured in another way."""
    if run.unable:
        return run
    folder = results.find(run.key, done=True)
    if folder is None:
        return run
    stored = read_run(folder)
    if isinstance(stored, BrokenRun):  # damaged since it was found
        return run
    if other := difference(run.variant, run.workload, stored.record):
        raise UsageError(
            f"{folder} was measured with {other}: it cannot stand for the run planned now",
            "give the campaign another name, take another --results folder, or measure anew with --fresh",
        )
    return replace(run, existing=folder)


def difference(variant: PlannedVariant, chosen: ChosenWorkload, record: RunRecord) -> str:
    """Returns in which way a stored run was made differently from this plan; empty if in none."""
    for key, value in chosen.all_options.items():
        # An option that a later release added was at its default in the stored run.
        if key in record.options and record.options[key] != value:
            return f"{key} = {json.dumps(record.options[key])} instead of {json.dumps(value)}"
    if record.facts.get(PLUGIN_FACT, "") != source_of(chosen.workload):
        return f"another text of {chosen.workload.name}"
    if record.env != variant.spec.env:
        return "another `env`"
    if record.memory != variant.memory:
        return "another limit of `memory`"
    if record.through != variant.through_record():
        return "something else between driver and server"
    if _without_devices(record.storage) != _without_devices(variant.storage_record()):
        return "its data elsewhere, or with another `io_delay`"
    if record.replicas != variant.replicas_record():
        return "other `replicas`"
    if not set(variant.extensions) <= set(record.extensions):
        return "other `extensions`"
    if record.initdb != tuple(variant.spec.initdb):
        return "other `initdb` options"
    # Texts, not resolved settings: sizes relative to memory differ from host to host, runs may be merged.
    if [f.text for f in record.config.fragments] != [f.whole_text for f in variant.config.config_files]:
        return "other config files"
    if record.config.keep != variant.config.keep:
        return "other `keep_settings`"
    if record.server.version != variant.server.version:
        return f"PostgreSQL {record.server.version} instead of {variant.server.version}"
    return _built_otherwise(record.server.built, variant.server.built)


def _without_devices(storage: StorageRecord | None) -> StorageRecord | None:
    """Returns the storage as it was asked for: a folder may have been mounted from another device, and
    another way to delay may have been chosen for another reason."""

    def named(place: PlaceRecord | None) -> PlaceRecord | None:
        return PlaceRecord(folder=place.folder) if place is not None else None

    if storage is None:
        return None
    delay = storage.delay
    if delay is not None:
        delay = structs.replace(delay, by=delay.by.partition(",")[0])
    return structs.replace(storage, data=named(storage.data), wal=named(storage.wal), delay=delay)


def _built_otherwise(stored: BuiltRecord | None, now: BuiltRecord | None) -> str:
    """Returns how a server's build differs from the stored one, empty if it does not: a source tree is named
    by a folder or a branch, and its content may have changed."""
    if stored is None or now is None or stored.key == now.key:
        return ""
    return "another source tree" if stored.tree != now.tree else "a server that was built otherwise"


__all__ = ["difference", "with_existing"]
