"""What an order of runs, a limit of memory or a list of CPUs does not go with, said before anything is
started."""

from __future__ import annotations

import os
from collections.abc import Sequence

from pgstrata.campaign.file.models import Campaign, ChosenWorkload
from pgstrata.campaign.plan.model import Variant
from pgstrata.errors import UsageError
from pgstrata.server.config.resolve import Resolved
from pgstrata.server.config.settings import size_bytes
from pgstrata.workload.core.language import Step

BESIDE_BUFFERS = 64 << 20
"""Bytes a server needs beside shared_buffers: its processes, their catalogs, a little page cache."""


def memory_limit(text: str | None) -> int | None:
    """A limit in bytes, None for none. Raises UsageError where it is no size."""
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


def check_interleaved(chosen: ChosenWorkload, variants: Sequence[Variant]) -> None:
    """Raises UsageError where variants cannot take turns at a workload."""
    if len(variants) < 2:
        raise UsageError('order = "interleaved" needs at least two variants', "name another server or config")
    for variant in variants:
        if not variant.server.managed:
            raise UsageError(
                f'order = "interleaved": {variant.label} is a running server (dsn:)',
                "pgstrata must be able to stop and copy what it interleaves; use another order",
            )
    names = [[p.name for p in chosen.phases(v.server.version_num) if isinstance(p, Step)] for v in variants]
    for variant, own in zip(variants, names, strict=True):
        if own != names[0]:
            raise UsageError(
                f'order = "interleaved": {chosen.label} has other steps on {variant.label} than on '
                f"{variants[0].label}: {', '.join(sorted(set(own) ^ set(names[0]))) or 'another order'}",
                "choose steps that both have, or another order",
            )


__all__ = ["check_cpus", "check_interleaved", "check_memory", "memory_limit"]
