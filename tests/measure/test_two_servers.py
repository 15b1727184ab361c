"""The campaign that two servers become."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from pgstrata.campaign.plan.runs import Plan
from pgstrata.campaign.study import Variant
from pgstrata.errors import ServerError, UsageError
from pgstrata.measure.run.cause import DISK_FULL
from pgstrata.measure.two_servers import (
    MeasuredWork,
    OtherFailedError,
    TwoServers,
    WaitedError,
    steps_of,
)
from pgstrata.store import Run, RunKey
from pgstrata.store.read import read_run
from pgstrata.store.record import Slice, StepRecord
from support.runs import clone_run, make_run


def asked(*steps: str, workload: str = "sysbench", **more: object) -> TwoServers:
    work = MeasuredWork(steps, workload=workload, seconds=7.0, **more)  # type: ignore[arg-type]
    return TwoServers(work, Variant(server="pg:16"), Variant(server="pg:17"), "two", Path("results"))


def test_only_the_steps_that_are_asked_for_are_measured_where_they_can_stand_alone() -> None:
    campaign = asked("point-query", "hot-points").campaign()
    assert sorted(steps_of(campaign.workloads[0])) == ["hot-points", "point-query"]
    assert campaign.workloads[0].options.read_seconds == 7.0


def test_steps_that_share_their_data_are_all_measured_for_the_time_that_is_asked_for() -> None:
    campaign = asked(workload="pgbench", scale="quick").campaign()
    assert campaign.workloads[0].options.seconds == 7.0
    assert len(steps_of(campaign.workloads[0])) == 4


def test_an_option_that_is_set_wins() -> None:
    campaign = asked("point-query", sets=("read_seconds=3",)).campaign()
    assert campaign.workloads[0].options.read_seconds == 3.0


def test_a_step_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="sysbench has no step 'point-qery'") as refused:
        asked("point-qery").campaign()
    assert "point-query" in (refused.value.hint or "")


@pytest.mark.parametrize("waited", [0.0, 0.5])
def test_what_waited_too_often_is_measured_anew(tmp_path: Path, waited: float) -> None:
    source = make_run(tmp_path / "source", RunKey("c", "x", "insert", 1), seconds=2)

    def change(step: StepRecord) -> StepRecord:
        slices = tuple(Slice(pair=n, seconds=1.0, rate=20.0 + n % 3, waited=waited) for n in range(1, 21))
        return structs.replace(step, slices=slices, measured=True)

    results = tmp_path / "results"
    both = [
        read_run(clone_run(results, source, RunKey("two", label, "insert", 1), change=change))
        for label in ("base", "other")
    ]
    base, other = (run for run in both if isinstance(run, Run))
    work = MeasuredWork(("qr100",), workload="insert")
    two = TwoServers(work, Variant(server="pg:16"), Variant(server="pg:17"), "two", results)
    if not waited:
        assert two.ratios(base, other)["qr100"].log_ratio == 0.0
        assert base.folder.exists() and other.folder.exists()
        return
    with pytest.raises(WaitedError, match="in 20 of 20 pairs a server waited for a CPU"):
        two.ratios(base, other)
    assert list(results.rglob("run.json")) == []


def test_a_full_disk_is_no_fault_of_the_second_server() -> None:
    two = asked("point-query")
    plan = Plan(two.campaign(), [], "base", [])
    with pytest.raises(OtherFailedError, match="pg:17 could not be measured: it died"):
        two.check(plan, {"other": "it died"})
    with pytest.raises(ServerError) as caught:
        two.check(plan, {"other": f"{DISK_FULL}: no room"})
    assert not isinstance(caught.value, OtherFailedError)
