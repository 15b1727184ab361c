"""A variant of a campaign and a run of it, as they are planned."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import structs, to_builtins

from pgstrata.campaign.checked import ChosenWorkload
from pgstrata.campaign.study import Variant
from pgstrata.numbers import agreeing
from pgstrata.server.cluster.delay import DELAYED_BY
from pgstrata.server.cluster.storage import Storage
from pgstrata.server.cluster.wanted_replicas import Replicas, settings_for
from pgstrata.server.config.known import known_settings
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.connect.pooler import Through
from pgstrata.server.find.model import Server
from pgstrata.store.kept import KeptStep
from pgstrata.store.names import RunKey
from pgstrata.store.record import DelayRecord, PlaceRecord, ReplicasRecord, StorageRecord, ThroughRecord


def measured_again(number: int, of: str) -> str:
    """Returns what is said of runs that are there and measured again. of: `of them` or `more`."""
    are, they = agreeing(number, "is", "are"), agreeing(number, "it is", "they are")
    return (
        f"{number} {of} {are} there, but not from one comparison in which every variant finished: {they} "
        "measured anew, because only runs that took turns are a comparison"
    )


@dataclass(frozen=True)
class PlannedVariant:
    """A variant of the campaign with its server found and its configuration resolved.

    number: from 0, in the campaign's order. memory: most bytes the server may use, None without a limit.
    through: what stands between driver and server. storage: where its data lies. replicas: what follows it.
    extensions: that are made in its database, beside those it was built with.
    """

    spec: Variant
    server: Server
    config: Resolved
    label: str
    number: int = 0
    memory: int | None = None
    through: Through | None = None
    storage: Storage = field(default_factory=Storage)
    replicas: Replicas | None = None
    extensions: tuple[str, ...] = ()

    def through_record(self) -> ThroughRecord | None:
        """Returns the program between driver and server as runs record it; None without such a program."""
        if self.through is None:
            return None
        name, version = self.through.name, self.through.version
        return ThroughRecord(name=name, version=version, settings=dict(self.through.settings or {}))

    def identity(self) -> dict[str, Any]:
        """Returns the values that identify the variant when runs are checked for having measured the same."""
        server, through, storage = self.server, self.through_record(), self.storage_record()
        replicas = self.replicas_record()
        return {
            "server": [server.spec, server.version, server.build, server.built.key if server.built else None],
            "config": [config_file.whole_text for config_file in self.config.config_files],
            "settings": self.config.settings,
            "env": self.spec.env,
            "initdb": self.spec.initdb,
            "memory": self.memory,
            "through": structs.asdict(through) if through else None,
            "storage": to_builtins(storage) if storage else None,
            "extensions": self.extensions,
            "replicas": structs.asdict(replicas) if replicas else None,
        }

    def replicas_record(self) -> ReplicasRecord | None:
        """Returns the replicas as runs record them; None without replicas."""
        wanted = self.replicas
        if wanted is None:
            return None
        settings = settings_for(self.config, known_settings(self.server))
        return ReplicasRecord(replication=wanted.replication, reads=wanted.reads, settings=settings)

    def storage_record(self) -> StorageRecord | None:
        """Returns the storage as runs record it, without facts that are only seen while the server runs; None
        if the variant asks for nothing of the kind."""
        data, wal, delay = self.spec.data_dir, self.spec.wal_dir, self.storage.delay
        if data is None and wal is None and delay is None:
            return None
        return StorageRecord(
            data=PlaceRecord(folder=data) if data is not None else None,
            wal=PlaceRecord(folder=wal) if wal is not None else None,
            delay=DelayRecord(seconds=delay.seconds, by=DELAYED_BY) if delay is not None else None,
        )


@dataclass(frozen=True)
class PlannedRun:
    """One run to be made, or made already (`existing`). seconds: estimate; disk_bytes: at its largest.

    again: it is there, but not from a comparison in which all variants finished, and is measured anew.
    unable: why this version cannot run the workload; empty where it can. made_of: stands for all that decides
    what is measured. kept: steps that an earlier attempt has finished, in their order.

    With `keep_loaded`, data_key: of the data it loads; from_kept: that is there, or will be when it begins.
    """

    key: RunKey
    variant: PlannedVariant
    workload: ChosenWorkload
    seconds: float
    disk_bytes: int
    existing: Path | None = None
    again: bool = False
    unable: str = ""
    made_of: str = ""
    kept: tuple[KeptStep, ...] = ()
    data_key: str = ""
    from_kept: bool = False
