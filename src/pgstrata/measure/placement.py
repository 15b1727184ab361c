"""On which CPUs servers and driver tell differences soonest: tried once on a machine, and remembered.

Variants that take turns are compared with neighbours in time, so what is left of the noise is what the kernel
does with their processes in a few milliseconds. Where one connection is at work, server and driver wait for
each other: on one CPU nothing is lost by that, and no other CPU has to be woken.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from pgstrata.campaign.file.models import Campaign
from pgstrata.measure.self_comparison import STEP, document, of_base, options_of, rates_in_pairs
from pgstrata.observe.placement import Placement, placements_here
from pgstrata.server.cache import cache_folder
from pgstrata.stats.estimate import estimate
from pgstrata.store import Run, disk
from pgstrata.store.record import Cpus, PlacementRecord, TriedPlacement
from pgstrata.store.write import now
from pgstrata.workload.core.language import Step
from pgstrata.workload.core.options import NotInVersionError

SECONDS = 4.0
"""Measured of each of two clusters of the base, to know what a placement is worth."""

TRIAL_SECONDS = 15.0
"""About how long one takes, with two new clusters."""

DAYS = 7
"""So long a choice is remembered: machines get other neighbours."""

NAME = "placement"
"""Of the campaigns that try them."""


def choices(campaign: Campaign) -> list[Placement]:
    """The placements that the campaign leaves to pgstrata to choose from; none where there is no choice."""
    spec = campaign.spec
    if spec.placement != "auto" or spec.order != "interleaved" or spec.server_cpus or spec.driver_cpus:
        return []
    found = candidates(campaign)
    return found if len(found) > 1 else []


def candidates(campaign: Campaign) -> list[Placement]:
    """The placements that do not change what the campaign asks: connections that work as fast as they can at
    the same time have a CPU each, where the machine has so many, and so have the workers of a query measured
    by itself."""
    wanted = _wanted(campaign)
    everything = len(os.sched_getaffinity(0))
    return [
        place
        for place in placements_here()
        if not place.server or len(place.server) >= min(wanted, everything)
    ]


def _wanted(campaign: Campaign) -> int:
    """How many CPUs of the server the largest step can use at the same time; many for recorded queries, which
    may have parallel plans."""
    most = 1
    for chosen in campaign.workloads:
        with suppress(NotInVersionError):
            for phase in chosen.phases(170_000):
                if isinstance(phase, Step) and phase.measured:
                    many = 10_000 if phase.digest is not None else 0
                    most = max(most, many, _at_once(phase))
    return most


def _at_once(step: Step) -> int:
    """Connections of a step that work as fast as they can: those that keep to a rate wait most of the time,
    and roles in lockstep wait for each other."""
    fast = {role.name: role.clients for role in step.roles if role.rate is None}
    for together in step.lockstep:
        own = [fast.pop(name) for name in together.roles if name in fast]
        fast[together.roles[0]] = max(own, default=0)
    return sum(fast.values())


def placed(campaign: Campaign, placement: PlacementRecord) -> Campaign:
    """The campaign on these CPUs."""
    chosen = next(one for one in placement.tried if one.name == placement.name)
    cpus = {"server_cpus": list(chosen.server), "driver_cpus": list(chosen.driver)}
    return campaign.model_copy(update={"spec": campaign.spec.model_copy(update=cpus), "placement": placement})


def cpus_of(campaign: Campaign) -> Cpus:
    """As its runs record them."""
    spec = campaign.spec
    return Cpus(server=tuple(spec.server_cpus), driver=tuple(spec.driver_cpus), placement=campaign.placement)


def trial(campaign: Campaign, place: Placement) -> Campaign:
    """A short campaign of the base against itself."""
    base = next((v for v in campaign.variants if v.label == campaign.spec.base), campaign.variants[0])
    short = document(
        f"{NAME} {place.name}",
        options_of(STEP, rows=100_000),
        SECONDS,
        server_cpus=place.server,
        driver_cpus=place.driver,
        data_dir=campaign.spec.data_dir,
    )
    return of_base(short, campaign, base)


def choose(tried: Sequence[tuple[Placement, tuple[Sequence[float], Sequence[float]]]]) -> PlacementRecord:
    """The placement with the smallest error after a measured second, of the rates of pairs under each."""
    found = [
        TriedPlacement(
            name=place.name,
            server=place.server,
            driver=place.driver,
            # of both clusters together: what a second of measuring is worth there
            error_of_a_second=estimate(*pairs).standard_error * (2 * SECONDS) ** 0.5,
        )
        for place, pairs in tried
    ]
    best = min(found, key=lambda one: one.error_of_a_second)
    return PlacementRecord(name=best.name, at=now(), tried=tuple(found))


# --- remembering ------------------------------------------------------------------------------


def remembered(places: Sequence[Placement]) -> PlacementRecord | None:
    """What was chosen of these on this machine in the last days; None also where there was no choice."""
    if not places:
        return None
    try:
        record = msgspec.json.decode(_file(places, make=False).read_bytes(), type=PlacementRecord)
        at = datetime.fromisoformat(record.at)
    except (OSError, ValueError, msgspec.MsgspecError):
        return None
    if {one.name for one in record.tried} != {place.name for place in places}:
        return None
    return record if timedelta(0) <= datetime.now(UTC) - at <= timedelta(days=DAYS) else None


def remember(places: Sequence[Placement], record: PlacementRecord) -> None:
    """Raises OSError, OwnershipError and ServerError where the cache cannot be written."""
    disk.replace(_file(places, make=True), msgspec.json.encode(record))


def _file(places: Sequence[Placement], *, make: bool) -> Path:
    whose = json.dumps([socket.gethostname(), [[p.name, p.server, p.driver] for p in places]])
    digest = hashlib.sha256(whose.encode()).hexdigest()[:16]
    return cache_folder("placements", make=make) / f"{digest}.json"


def try_all(
    places: Sequence[Placement], measured: Callable[[Placement], Sequence[Run]], step: str = STEP
) -> PlacementRecord | None:
    """Tries placements one after the other; None where one of them could not be measured."""
    tried = []
    for place in places:
        pairs = rates_in_pairs(measured(place), step)
        if pairs is None:
            return None
        tried.append((place, pairs))
    return choose(tried)


__all__ = [
    "DAYS",
    "NAME",
    "SECONDS",
    "TRIAL_SECONDS",
    "candidates",
    "choices",
    "cpus_of",
    "placed",
    "remember",
    "remembered",
    "trial",
    "try_all",
]
