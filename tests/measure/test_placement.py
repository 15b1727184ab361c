"""Variants that take turns in short slices share the same CPUs."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from pgstrata.campaign.checked import Campaign
from pgstrata.campaign.file.reading import check_study
from pgstrata.campaign.study import Study
from pgstrata.measure.campaign import execute
from pgstrata.measure.placement import busy_connections, draw_cpus, pin
from pgstrata.server.features import NEWEST
from pgstrata.server.find.model import Server
from pgstrata.store import Results
from pgstrata.workload.core.language import Step


def campaign_between(place: Path, pg17: Server, **keys: object) -> Campaign:
    """A short comparison of a server with itself."""
    assert pg17.bin_dir is not None
    document = {
        "name": "c",
        "order": "interleaved",
        "slice_seconds": 0.02,
        "data_dir": str(place / "data"),
        "variants": [{"server": f"path:{pg17.bin_dir.parent}", "label": label} for label in "ab"],
        "workloads": [{"name": "sysbench", "options": {
            "rows": 500, "steps": ["point-query"], "read_seconds": 2, "warmup": 0, "cache_seconds": 0,
            "settle_base": 0,
        }}],
        **keys,
    }  # fmt: skip
    return check_study(Study.model_validate(document))


def test_blocks_of_both_variants_share_their_cpus_and_say_what_disturbed_them(
    place: Path, pg17: Server
) -> None:
    outcome = execute(campaign_between(place, pg17), Results(place / "results"), Console(file=io.StringIO()))
    assert not outcome.failed
    steps = [step for run in Results(place / "results").runs() for step in run.steps if step.slices]
    assert len(steps) == 2
    assert steps[0].cpus == steps[1].cpus, "both on the same"
    assert steps[0].cpus and set(steps[0].cpus) <= os.sched_getaffinity(0)
    for step in steps:
        assert len(step.blocks) >= 8
        assert step.disturbance is not None and 0 <= step.disturbance.other_load <= 1
        waited = [part.waited for part in step.slices]
        assert all(share is not None and 0 <= share <= 1 for share in waited)


def test_nothing_is_left_out_where_any_load_is_allowed(place: Path, pg17: Server) -> None:
    campaign = campaign_between(place, pg17, other_load=1, placement="free")
    assert not execute(campaign, Results(place / "results"), Console(file=io.StringIO())).failed
    for run in Results(place / "results").runs():
        for step in run.steps:
            assert not step.cpus
            assert all(part.waited is None for part in step.slices)


def steps_of(workload: str, **options: object) -> list[Step]:
    """The measured steps of a workload."""
    document = {
        "order": "interleaved",
        "servers": ["pg:16", "pg:17"],
        "workloads": [{"name": workload, "options": options}],
    }
    phases = check_study(Study.model_validate(document)).workloads[0].phases(NEWEST)
    return [phase for phase in phases if isinstance(phase, Step) and phase.measured]


@pytest.mark.parametrize(
    ("workload", "clients", "busy"), [("sysbench", 1, 1), ("sysbench", 2, 2), ("insert", 1, 1)]
)
def test_connections_that_work_at_the_same_time(workload: str, clients: int, busy: int) -> None:
    """Writers of the Insert Benchmark keep to a rate behind queries, and to lockstep where they load."""
    counts = {busy_connections(step) for step in steps_of(workload, clients=clients)}
    assert max(counts) == busy


def test_only_steps_with_one_connection_have_one_cpu(place: Path, pg17: Server) -> None:
    spec = campaign_between(place, pg17).spec
    single, several = steps_of("sysbench", clients=1)[0], steps_of("sysbench", clients=4)[0]
    drawn = {draw_cpus(single, spec) for _ in range(100)}
    assert {cpu for cpus in drawn for cpu in cpus} <= os.sched_getaffinity(0)
    assert all(len(cpus) == 1 for cpus in drawn)
    assert len(draw_cpus(several, spec)) != 1 or len(os.sched_getaffinity(0)) == 1
    free = spec.model_copy(update={"placement": "free"})
    by_hand = spec.model_copy(update={"server_cpus": [min(os.sched_getaffinity(0))]})
    assert draw_cpus(single, free) == draw_cpus(single, by_hand) == ()


def test_a_process_that_has_ended_is_left_out() -> None:
    pin([2**22 + 1], [min(os.sched_getaffinity(0))])
