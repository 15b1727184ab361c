"""The campaign that two servers become."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgstrata.errors import UsageError
from pgstrata.measure.two_servers import TwoServers, Work, steps_of


def asked(*steps: str, workload: str = "sysbench", **more: object) -> TwoServers:
    work = Work(steps, workload=workload, seconds=7.0, **more)  # type: ignore[arg-type]
    return TwoServers(work, {"server": "pg:16"}, {"server": "pg:17"}, "two", Path("results"))


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
