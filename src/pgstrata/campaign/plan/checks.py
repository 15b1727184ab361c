"""What an order of runs, a limit of memory or a list of CPUs does not go with, said before anything is
started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

from pgstrata import numbers
from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.plan.model import PlannedVariant
from pgstrata.campaign.plan.order import freezes, schedule_of
from pgstrata.campaign.study import Study
from pgstrata.driver.message import document
from pgstrata.errors import UsageError
from pgstrata.server.cluster.storage import Storage
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.config.settings import size_bytes
from pgstrata.server.connect.pooler import Through
from pgstrata.turns.windows import SHORT_SECONDS
from pgstrata.workload.core.language import Recovery, Step
from pgstrata.workload.core.options import NotInVersionError

BESIDE_BUFFERS = 64 << 20
"""Bytes a server needs beside shared_buffers: its processes, their catalogs, a little page cache."""


def memory_limit(text: str | None) -> int | None:
    """Returns a memory limit in bytes, or None without a limit. Raises UsageError if it is not a size."""
    if text is None:
        return None
    limit = size_bytes(text)
    if limit is None or limit <= 0:
        raise UsageError(f"memory = {text!r} is not a size", 'write it like memory = "2GB"')
    return limit


def check_memory(limit: int | None, config: Resolved, label: str) -> None:
    """Raises UsageError where a limit is too small for shared_buffers."""
    if limit is None:
        return
    buffers_text = config.settings.get("shared_buffers", "128MB")
    buffers = size_bytes(buffers_text) or 0
    if limit < buffers + BESIDE_BUFFERS:
        raise UsageError(
            f"{label}: memory = {limit >> 20}MB leaves no room beside shared_buffers = {buffers_text}",
            "the kernel would end the server when its buffers fill: "
            f"at least {(buffers + BESIDE_BUFFERS) >> 20}MB, or smaller shared_buffers",
        )


def check_cpus(campaign: Campaign) -> None:
    """Raises UsageError for CPUs that this machine, or this process, does not have."""
    there = sorted(os.sched_getaffinity(0))
    wanted = {"server_cpus": campaign.spec.server_cpus, "driver_cpus": campaign.spec.driver_cpus}
    for key, cpus in wanted.items():
        if missing := sorted(set(cpus) - set(there)):
            raise UsageError(
                f"`{key}`: there is no CPU {', '.join(map(str, missing))} to be used here",
                f"there are {', '.join(map(str, there))}",
            )


def check_delay(storage: Storage, config: Resolved, label: str) -> None:
    """Raises UsageError where a server would read past the library that delays it."""
    if storage.delay is not None and config.settings.get("io_method") == "io_uring":
        raise UsageError(
            f"{label}: io_delay does not reach what io_method = io_uring reads: it asks the kernel without a "
            "call that a library could delay",
            "io_method = worker or sync",
        )


def check_counted(campaign: Campaign, variants: Sequence[PlannedVariant]) -> None:
    """Raises UsageError where instructions would be counted of a variant that only delays, depends on another
    server, or has something before it."""
    if campaign.spec.count is None:
        return
    for variant in variants:
        if variant.replicas is not None:
            raise UsageError(
                f"{variant.label}: instructions are counted of one server, without replicas",
                "leave `count` out, or `replicas`",
            )
        if variant.storage.delay is not None:
            raise UsageError(
                f"{variant.label}: the library that delays its disk has instructions of its own, which would "
                "be counted",
                "leave `count` out, or `io_delay`",
            )
        if variant.through is not None:
            raise UsageError(
                f"{variant.label}: counts are of a backend and not of what stands before it",
                "leave `count` out, or `through`",
            )


def check_poolers(campaign: Campaign, variants: Sequence[PlannedVariant]) -> None:
    """Raises UsageError where a pooler cannot do what a workload asks of its connections."""
    for variant in variants:
        through = variant.through
        if through is None:
            continue
        for chosen in campaign.workloads:
            try:
                phases = chosen.phases(variant.server.features)
            except NotInVersionError:
                continue
            for step in (phase for phase in phases if isinstance(phase, Step)):
                _check_pooled(step, through, variant.label)


def _check_pooled(step: Step, through: Through, label: str) -> None:
    clients, room = sum(role.clients for role in step.roles), through.sessions
    if room is not None and clients > room:
        raise UsageError(
            f"{label}: {step.name} has {clients} connections, and {through.name} has room for {room} "
            "sessions: the others would wait for ever",
            f"pooler = {{ {through.kind.sessions if through.kind else ''} = {clients} }}",
        )
    sharing = through.kind.sharing if through.kind is not None else None
    if sharing is None or through.mode == "session":
        return
    if any(role.start for role in step.roles):
        raise UsageError(
            f"{label}: {step.name} begins each connection with statements of its own, which {through.name} "
            f"would give to any connection of the server in {through.mode} mode",
            f"{sharing.mode} = session",
        )
    if not through.prepares and _prepares(step):
        raise UsageError(
            f"{label}: {step.name} prepares its statements, which {through.name} {through.version} does not "
            f"keep in {through.mode} mode",
            f"{sharing.mode} = session; or {sharing.how}; or a workload that prepares none",
        )


def _prepares(step: Step) -> bool:
    """Returns whether any statement of the step is prepared under a name."""

    def of(value: object) -> bool:
        match value:
            case {"mode": "prepared"}:
                return True
            case dict():
                return any(map(of, value.values()))
            case list():
                return any(map(of, value))
        return False

    return any(of(document(role)) for role in step.spec().roles)


def check_recovery(campaign: Campaign, variants: Sequence[PlannedVariant]) -> None:
    """Raises UsageError where a server would have to recover that is not pgstrata's alone, or as a standby
    that its log is not enough for."""
    for variant in variants:
        for step, recovery in _recoveries(campaign, variant):
            what = f"{variant.label}: {step.name}"
            if not variant.server.managed:
                raise UsageError(
                    f"{what} would crash a running server (dsn:)",
                    f"leave step {step.name} out for this server",
                )
            if variant.replicas is not None:
                raise UsageError(f"{what} is of one server, without replicas", "leave `replicas` out")
            if recovery.kind == "standby" and variant.config.settings.get("wal_level") == "minimal":
                raise UsageError(
                    f"{what} needs a log that a standby can replay, and wal_level = minimal writes less",
                    f"wal_level = replica, or leave step {step.name} out",
                )


def _recoveries(campaign: Campaign, variant: PlannedVariant) -> Iterator[tuple[Step, Recovery]]:
    for chosen in campaign.workloads:
        with suppress(NotInVersionError):
            for phase in chosen.phases(variant.server.features):
                if isinstance(phase, Step) and phase.recovery is not None:
                    yield phase, phase.recovery


def check_interleaved(chosen: ChosenWorkload, variants: Sequence[PlannedVariant], spec: Study) -> None:
    """Raises UsageError where variants cannot take turns at a workload as the campaign has it."""
    if len(variants) < 2:
        raise UsageError(
            "a comparison in turns needs two variants, and there is one", "name another server or config"
        )
    for variant in variants:
        if not variant.server.managed:
            raise UsageError(
                f'order = "interleaved": {variant.label} is a running server (dsn:)',
                "pgstrata must be able to stop and copy what it interleaves; use another order",
            )
        if freezes(spec) and variant.replicas is not None:
            raise UsageError(
                f'turns = "frozen": {variant.label} has a replica, which would lose its primary',
                'leave `replicas` out, or take whole rounds: turns = "rounds"',
            )
    for variant in variants:
        follows = variant.replicas is not None and variant.replicas.replication == "async"
        steps = [p for p in chosen.phases(variant.server.features) if isinstance(p, Step)]
        kinds = [kind for step in steps if (kind := schedule_of(step, spec).kind) is not None]
        if follows and any(kind.keeps_connections for kind in kinds):
            raise UsageError(
                f'order = "interleaved": {variant.label} has a replica that nobody waits for: with slices of '
                f"{numbers.duration(spec.slice_seconds)} it would do its work in those of the others",
                f"slice_seconds = {SHORT_SECONDS:g} or more: then it catches up at the end of each slice",
            )
    names = [[p.name for p in chosen.phases(v.server.features) if isinstance(p, Step)] for v in variants]
    for variant, step_names in zip(variants, names, strict=True):
        if step_names != names[0]:
            raise UsageError(
                f'order = "interleaved": {chosen.label} has other steps on {variant.label} than on '
                f"{variants[0].label}: "
                f"{', '.join(sorted(set(step_names) ^ set(names[0]))) or 'another order'}",
                "choose steps that both have, or another order",
            )


__all__ = [
    "check_counted",
    "check_cpus",
    "check_delay",
    "check_interleaved",
    "check_memory",
    "check_poolers",
    "check_recovery",
    "memory_limit",
]
