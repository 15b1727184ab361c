"""What the record of a run has of its plan."""

from __future__ import annotations

from pathlib import Path

import pgstrata
from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.plan.model import PlannedVariant
from pgstrata.store.record import Circumstances, Cpus, Host, Sizes


def as_planned(campaign: Campaign, variant: PlannedVariant, chosen: ChosenWorkload) -> Circumstances:
    """Returns the circumstances of a run before anything was done: a failed run on an unknown host. The code
    that makes the run replaces them with the real ones."""
    spec = campaign.spec
    return Circumstances(
        status="failed",
        error=None,
        pgstrata_version=pgstrata.__version__,
        driver_version="",
        server=variant.server.record(),
        config=variant.config.record(),
        env=dict(variant.spec.env),
        initdb=tuple(variant.spec.initdb),
        memory=variant.memory,
        cpus=Cpus(server=tuple(spec.server_cpus), driver=tuple(spec.driver_cpus)),
        workload_name=chosen.workload.name,
        options=chosen.all_options,
        seed=spec.seed,
        order=spec.order,
        variant_order=variant.number,
        base=spec.base,
        host=Host(),
        timings={},
        sizes=Sizes(),
        facts={},
        through=variant.through_record(),
        storage=variant.storage_record(),
        replicas=variant.replicas_record(),
        machine=campaign.machine,
        campaign_file=named_file(campaign),
    )


def named_file(campaign: Campaign) -> str | None:
    """Returns the campaign's file as a command started from the current folder names it; None if there is no
    file. On a machine of a fleet the file lies in a cache, and only its name means something elsewhere."""
    file = campaign.file
    if file is None or campaign.machine is not None:
        return None if file is None else file.name
    here = Path.cwd()
    return str(file.relative_to(here) if file.is_relative_to(here) else file)


__all__ = ["as_planned", "named_file"]
