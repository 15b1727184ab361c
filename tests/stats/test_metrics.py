from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.stats.metrics import (
    METRICS,
    PER_OPERATION,
    PerOperation,
    metric_line,
    per_operation,
    relative_cost,
)

DISK = {
    "reads": 1000.0,
    "read_bytes": 1000 * 8192.0,
    "writes": 500.0,
    "write_bytes": 500 * 16384.0,
    "context_switches": 40_000.0,
    "cpu_seconds": 20.0,
}


def line(**changes: Any) -> dict[str, float | None]:
    given: dict[str, Any] = {
        "seconds": 10.0,
        "rate": 2000.0,
        "rate_unit": "queries/s",
        "inserted": 1000,
        "longest": 0.02,
        "longest_of_all": 0.5,
        "disk": DISK,
        "cpus": 8,
        "database_bytes": 2**31,
        "data_dir_bytes": 3 * 2**30,
        "rss_bytes": 2**29,
        "rate_percentiles": {"p50": 2010.0, "p99": 1500.0},
        "client_percentiles": {"p50": 1005.0, "p99": 750.0},
    }
    return metric_line(**given | changes)


def test_a_query_step_by_hand() -> None:
    assert line() == {
        "ips": 100.0,
        "qps": 2000.0,
        "rps": 100.0,
        "rmbps": pytest.approx(0.78125),
        "wps": 50.0,
        "wmbps": pytest.approx(0.78125),
        "rpq": 0.05,
        "rkbpq": 0.4,
        "wpi": 0.5,
        "wkbpi": 8.0,
        "csps": 4000.0,
        "cpups": 25.0,
        "cspq": 2.0,
        "cpupq": 1000.0,
        "dbgb": 2.0,
        "datagb": 3.0,
        "rss": 0.5,
        "cpuo": 25.0 / 2000,
        "maxop": 0.02,
        "maxany": 0.5,
        "p50": 2010.0,
        "p99": 1500.0,
        "p50c": 1005.0,
        "p99c": 750.0,
    }


def test_a_load_counts_per_row() -> None:
    load = line(rate=50_000.0, rate_unit="rows/s", inserted=500_000)
    assert load["ips"] == 50_000
    assert load["qps"] == 0
    assert load["rpq"] == 100 / 50_000
    assert load["cpupq"] == pytest.approx(2.0 / 50_000 * 1e6)
    assert load["wpi"] == 50 / 50_000


def test_indexed_rows_are_the_rows_of_the_index_step() -> None:
    step = line(rate=1e6, rate_unit="indexed rows/s", inserted=0)
    assert step["ips"] == 1e6
    assert step["wkbpi"] == pytest.approx(800 / 1e6)


def test_what_was_not_observed_is_null() -> None:
    missing = ("disk", "database_bytes", "data_dir_bytes", "rss_bytes", "cpus")
    foreign = line(**dict.fromkeys(missing), rate_percentiles={}, client_percentiles={})
    known = {name for name, value in foreign.items() if value is not None}
    assert known == {"ips", "qps", "maxop", "maxany"}


def test_nothing_done_is_no_division_by_zero() -> None:
    still = line(rate=0.0, inserted=0, longest=None, longest_of_all=None)
    assert still["qps"] == 0
    assert still["rpq"] is None
    assert still["wpi"] is None


def test_every_metric_has_a_name_and_a_meaning() -> None:
    assert list(line()) == list(METRICS)


def cost_of(**changes: Any) -> PerOperation:
    given: dict[str, Any] = {
        "rate": 2000.0,
        "rate_unit": "queries/s",
        "seconds": 10.0,
        "server_cpu_seconds": 8.0,
        "host_cpu_seconds": 20.0,
        "driver_cpu_seconds": 0.5,
        **{name: line()[name] for name in ("cpups", "csps", "rps", "rmbps", "wps", "wmbps")},
    }
    return per_operation(**given | changes)


def test_cost_of_an_operation_by_hand() -> None:
    cost = cost_of()
    assert cost.cpu == pytest.approx(400)
    assert cost.host_cpu == pytest.approx(1000)
    # 25 % of eight CPUs at 2000 operations a second, as the field's scripts divide vmstat's user and system
    assert cost.field_cpu == pytest.approx(0.0125)
    assert cost.client_cpu == pytest.approx(25)
    assert cost.switches == 2
    assert cost.reads == 0.05
    assert cost.read_kb == pytest.approx(0.4)
    assert cost.writes == 0.025
    assert cost.written_kb == pytest.approx(0.4)


@given(st.floats(0.01, 100))
def test_costs_fall_as_operations_rise(factor: float) -> None:
    """Twice the operations in the same time for the same totals cost half each."""
    cost, other = cost_of(), cost_of(rate=2000.0 * factor)
    for name in PER_OPERATION:
        assert getattr(relative_cost(other, cost), name) == pytest.approx(1 / factor)


def test_unknown_costs_stay_unknown() -> None:
    unknown = {"server_cpu_seconds": None, "host_cpu_seconds": None, "cpups": None}
    cost = cost_of(rate=10.0, seconds=1.0, driver_cpu_seconds=1.0, **unknown)
    assert cost.cpu is cost.host_cpu is cost.field_cpu is None
    assert cost.client_cpu == pytest.approx(1e5)
    assert relative_cost(cost, cost_of()).cpu is None
    assert cost_of(rate=0.0).client_cpu is None
