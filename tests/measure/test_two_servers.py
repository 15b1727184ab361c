"""The campaign that two servers become."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.campaign.plan.runs import Plan
from pgstrata.campaign.study import Variant
from pgstrata.errors import ServerError, UsageError
from pgstrata.measure.run.cause import DISK_FULL
from pgstrata.measure.two_servers import MeasuredWork, OtherFailedError, TwoServers, steps_of


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


def test_a_full_disk_is_no_fault_of_the_second_server() -> None:
    two = asked("point-query")
    plan = Plan(two.campaign(), [], "base", [])
    with pytest.raises(OtherFailedError, match="pg:17 could not be measured: it died"):
        two.check(plan, {"other": "it died"})
    with pytest.raises(ServerError) as caught:
        two.check(plan, {"other": f"{DISK_FULL}: no room"})
    assert not isinstance(caught.value, OtherFailedError)
