"""What the record of a run has of its plan."""

from __future__ import annotations

import pgstrata
from pgstrata.campaign.checked import Campaign, ChosenWorkload
from pgstrata.campaign.plan.model import PlannedVariant
from pgstrata.store.record import Circumstances, Cpus, Host, Sizes


def as_planned(campaign: Campaign, variant: PlannedVariant, chosen: ChosenWorkload) -> Circumstances:
    """The circumstances of a run before anything was done: one that has failed, on a host that is not known.
    Who makes the run puts in what there was instead."""
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
        campaign_file=campaign.file.name if campaign.file is not None else None,
    )


__all__ = ["as_planned"]
