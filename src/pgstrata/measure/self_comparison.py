"""A base against itself: two clusters of one server that take turns, so that what differs is noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.file.reading import campaign_of
from pgstrata.campaign.study import VERDICT_SLICE_SECONDS, Variant
from pgstrata.judge.pairs import Pairs, pairs_of
from pgstrata.store import Run

Json = dict[str, Any]

STEP = "point-query"

LABELS = ("base", "again")


def options_of(step: str, rows: int, clients: int = 1) -> Json:
    """Options of the workload sysbench that measure one step and nothing around it."""
    return {
        "rows": rows,
        "clients": clients,
        "steps": [step],
        "warmup": 1,
        "cache_seconds": 0,
        "settle_base": 0,
    }


def document(
    name: str,
    options: Mapping[str, Any],
    seconds: float,
    *,
    variant: Mapping[str, Any] | None = None,
    slice_seconds: float = VERDICT_SLICE_SECONDS,
    server_cpus: Sequence[int] = (),
    driver_cpus: Sequence[int] = (),
    data_dir: str | None = None,
) -> Json:
    """A campaign as a file would have it. options: as `options_of` makes them; seconds: measured of each
    cluster; variant: its server, config and so on, where `of_base` does not put in another one."""
    return {
        "name": name,
        "order": "interleaved",
        "slice_seconds": slice_seconds,
        "placement": "free",
        "server_cpus": list(server_cpus),
        "driver_cpus": list(driver_cpus),
        "variants": [{**(variant or {"server": "pg:17"}), "label": label} for label in LABELS],
        "workloads": [{"name": "sysbench", "options": {**options, "read_seconds": seconds}}],
        **({"data_dir": data_dir} if data_dir else {}),
    }


def of_base(short: Json, campaign: Campaign, base: Variant) -> Campaign:
    """The short campaign, with the base of another one as both of its clusters."""
    made = campaign_of(short)
    two = [base.model_copy(update={"label": label, "memory": None}) for label in LABELS]
    spec = made.spec.model_copy(update={"variants": two, "builds": campaign.spec.builds})
    return made.model_copy(update={"spec": spec, "variants": two, "file": campaign.file})


def rates_in_pairs(runs: Sequence[Run], step: str = STEP) -> Pairs | None:
    """Returns the pairs that the two made; None where a step is missing or was not cut into slices."""
    made = {run.variant: run for run in runs}
    records = [next((s for s in made[v].steps if s.name == step), None) for v in LABELS if v in made]
    if len(records) < 2 or records[0] is None or records[1] is None or not records[0].slices:
        return None
    return pairs_of(records[0], records[1])


__all__ = ["STEP", "document", "of_base", "options_of", "rates_in_pairs"]
