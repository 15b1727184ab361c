"""On which CPUs variants take turns, where the campaign leaves that open."""

from __future__ import annotations

import io
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from pgstrata.campaign.file.models import Campaign
from pgstrata.campaign.file.reading import campaign_of
from pgstrata.measure import placement
from pgstrata.measure.campaign import execute
from pgstrata.observe.placement import Placement, placements_here
from pgstrata.server.model import Server
from pgstrata.store import Results
from pgstrata.store.record import PlacementRecord, TriedPlacement


def campaign_between(place: Path, pg17: Server) -> Campaign:
    """A short comparison of a server with itself."""
    assert pg17.bin_dir is not None
    document = {
        "name": "c",
        "order": "interleaved",
        "slice_seconds": 0.02,
        "data_dir": str(place / "data"),
        "variants": [{"server": f"path:{pg17.bin_dir.parent}", "label": label} for label in "ab"],
        "workloads": [{"name": "sysbench", "options": {
            "rows": 500, "steps": ["point-query"], "read_seconds": 0.5, "warmup": 0, "cache_seconds": 0,
            "settle_base": 0,
        }}],
    }  # fmt: skip
    return campaign_of(document)


def test_a_campaign_tries_placements_where_none_is_known(
    place: Path, pg17: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    monkeypatch.setattr(placement, "SECONDS", 0.5)
    campaign = campaign_between(place, pg17)
    places = placement.candidates(campaign)
    outcome = execute(campaign, Results(place / "results"), Console(file=io.StringIO()))
    assert not outcome.failed
    known = placement.remembered(places)
    for made in Results(place / "results").runs():
        if len(places) > 1:
            assert known is not None and {one.name for one in known.tried} == {one.name for one in places}
            assert made.record.cpus.placement == known
        else:
            assert made.record.cpus.placement is None


def test_without_a_cache_the_kernel_places_them_and_the_campaign_goes_on(
    place: Path, pg17: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "file").write_text("")
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "file" / "cache"))
    said = io.StringIO()
    outcome = execute(campaign_between(place, pg17), Results(place / "results"), Console(file=said))
    assert not outcome.failed
    assert len(outcome.made) == 2
    if len(placements_here()) > 1:
        assert "left to the kernel" in " ".join(said.getvalue().split())


def test_connections_that_work_at_the_same_time_keep_a_cpu_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})

    def names(workload: str, **options: object) -> list[str]:
        document = {
            "order": "interleaved",
            "servers": ["pg:16", "pg:17"],
            "workloads": [{"name": workload, "options": options}],
        }
        return [place.name for place in placement.candidates(campaign_of(document)) if len(place.server) < 2]

    assert names("sysbench", clients=1) == ["free", "one CPU", "one CPU each"]
    assert names("sysbench", clients=2) == ["free"]
    # Its writers keep to a rate behind queries, and in lockstep where they load.
    assert names("insert", clients=1) == ["free", "one CPU", "one CPU each"]
    assert names("insert", clients=2) == ["free"]
    assert names("tpcds", scale=0.01) == ["free"]


def test_what_was_tried_long_ago_or_under_other_names_is_not_known(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSTRATA_CACHE", str(place / "cache"))
    places = [Placement("free"), Placement("one CPU", (1,), (1,))]
    tried = tuple(
        TriedPlacement(name=p.name, server=p.server, driver=p.driver, error_of_a_second=0.1) for p in places
    )
    now = datetime.now(UTC)
    for days, known in ((0, True), (6.9, True), (7.1, False), (-1, False)):
        at = (now - timedelta(days=days)).isoformat(timespec="seconds").replace("+00:00", "Z")
        placement.remember(places, PlacementRecord(name="free", at=at, tried=tried))
        assert (placement.remembered(places) is not None) is known
        assert placement.remembered([*places, Placement("node 0", (0,), (0,))]) is None
