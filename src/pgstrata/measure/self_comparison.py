"""A base against itself: two clusters of one server that take turns, so that what differs is noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.file.reading import check_study
from pgstrata.campaign.study import VERDICT_SLICE_SECONDS, Study, Variant, Workload
from pgstrata.judge.pairs import Pairs, pairs_of
from pgstrata.store import Run

Json = dict[str, Any]

STEP = "point-query"

LABELS = ("base", "again")


def options_of(step: str, rows: int, clients: int = 1) -> Json:
    """Returns options of the workload sysbench that measure one step and nothing around it."""
    return {
        "rows": rows,
        "clients": clients,
        "steps": [step],
        "warmup": 1,
        "cache_seconds": 0,
        "settle_base": 0,
    }


def study_of_one(
    name: str,
    options: Mapping[str, Any],
    seconds: float,
    *,
    variant: Variant | None = None,
    slice_seconds: float = VERDICT_SLICE_SECONDS,
    **keys: Any,
) -> Study:
    """Returns the study of one variant against itself.

    options: as `options_of` makes them; seconds: measured of each cluster; variant: where `of_base` does not
    put in another one; keys: others of the study.
    """
    variant = variant or Variant(server="pg:17")
    return Study(
        name=name,
        order="interleaved",
        slice_seconds=slice_seconds,
        placement="free",
        variants=[variant.replaced(label=label) for label in LABELS],
        workloads=[Workload(name="sysbench", options={**options, "read_seconds": seconds})],
        **keys,
    )


def of_base(short: Study, campaign: Campaign, base: Variant) -> Campaign:
    """Returns the short study, with the base of a campaign as both of its clusters."""
    study = check_study(short)
    two = [base.model_copy(update={"label": label, "memory": None}) for label in LABELS]
    spec = study.spec.model_copy(update={"variants": two, "builds": campaign.spec.builds})
    return study.model_copy(update={"spec": spec, "variants": two, "file": campaign.file})


def rates_in_pairs(runs: Sequence[Run], step: str = STEP) -> Pairs | None:
    """Returns the pairs that the two made; None where a step is missing or was not cut into slices."""
    by_variant = {run.variant: run for run in runs}
    records = [
        next((s for s in by_variant[v].steps if s.name == step), None) for v in LABELS if v in by_variant
    ]
    if len(records) < 2 or records[0] is None or records[1] is None or not records[0].slices:
        return None
    return pairs_of(records[0], records[1])


__all__ = ["STEP", "of_base", "options_of", "rates_in_pairs", "study_of_one"]
