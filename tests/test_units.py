from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.costs import step_cost
from pgstrata.judge.explain import explain
from pgstrata.stats.metrics import PER_OPERATION, metric_line, per_operation
from pgstrata.store.record import Metrics, StepRecord
from pgstrata.units import parse_unit, rate_of, rate_per_second, seconds_per_operation
from pgstrata.workload.core.language import Headline
from support.records import role_record, step_record

SOURCE = Path(__file__).parent.parent / "src" / "pgstrata"

UNITS = sorted(
    {
        unit
        for path in SOURCE.rglob("*.py")
        for unit in re.findall(r'"([a-z ]+/(?:s|min|h)(?: [a-z ]+)?)"', path.read_text(encoding="utf-8"))
    }
)
"""Every unit of a rate in the source."""

DISK = ("reads", "read_bytes", "writes", "write_bytes", "context_switches", "cpu_seconds")

amounts = st.floats(1e-3, 1e9)
units = st.sampled_from([*UNITS, "things/min"])


def test_units_of_all_kinds_are_among_those_that_are_tried() -> None:
    assert {"queries/s", "queries/h", "loads/h", "rows/s", "statements/s of their time"} <= set(UNITS)


@given(amount=amounts, seconds=amounts, clients=st.integers(1, 100), unit=units)
def test_a_rate_and_the_time_of_an_operation_say_the_same(
    amount: float, seconds: float, clients: int, unit: str
) -> None:
    rate = rate_of(amount, seconds, unit)
    assert rate_per_second(rate, unit) == pytest.approx(amount / seconds)
    assert seconds_per_operation(rate, unit, clients) == pytest.approx(clients * seconds / amount)


@pytest.mark.parametrize("unit", ["", "tps", "queries", "queries/", "/s", "queries/d", "queries/seconds"])
def test_a_unit_without_a_period_is_refused_everywhere(unit: str) -> None:
    for refused in (lambda: parse_unit(unit), lambda: Headline("query", "operations", unit)):
        with pytest.raises(ValueError, match="no unit of a rate"):
            refused()
    stored = msgspec.json.encode(step_record(rate_unit=unit))
    with pytest.raises(msgspec.ValidationError, match="rate_unit"):
        msgspec.json.decode(stored, type=StepRecord)


def test_a_rate_of_zero_has_no_time_per_operation() -> None:
    with pytest.raises(ValueError, match="no time per operation"):
        seconds_per_operation(0.0, "queries/h")
    assert rate_of(5, 0.0, "queries/h") == 0.0


# --- the same work told in each unit: every figure per operation is the same -----------------------


def _told_in(unit: str, operations: int, seconds: float) -> StepRecord:
    rate = rate_of(operations, seconds, unit)
    line = metric_line(
        seconds=seconds, rate=rate, rate_unit=unit, inserted=0, longest=None, longest_of_all=None,
        disk=dict.fromkeys(DISK, 1000.0),
        cpus=4, database_bytes=None, data_dir_bytes=None, rss_bytes=None, rate_percentiles={},
        client_percentiles={},
    )  # fmt: skip
    return step_record(
        rate=rate, rate_unit=unit, seconds=seconds, operations=operations, metrics=Metrics(**line),
        server_cpu_seconds=3.0, host_cpu_seconds=5.0, driver_cpu_seconds=1.0,
        roles={"query": role_record(cpu_seconds=2.0)},
    )  # fmt: skip


@given(operations=st.integers(1, 10**7), seconds=st.floats(0.1, 1e5), unit=units)
def test_costs_per_operation_do_not_depend_on_the_period_of_the_rate(
    operations: int, seconds: float, unit: str
) -> None:
    cost = step_cost(_told_in(unit, operations, seconds))
    by_second = step_cost(_told_in("queries/s", operations, seconds))
    for name in PER_OPERATION:
        assert getattr(cost, name) == pytest.approx(getattr(by_second, name)), name
    assert cost.cpu == pytest.approx(3.0 / operations * 1e6)
    metrics, of_second = (_told_in(u, operations, seconds).metrics for u in (unit, "queries/s"))
    if "rows" not in unit:
        for name in ("qps", "rpq", "rkbpq", "cspq", "cpupq", "cpuo"):
            assert getattr(metrics, name) == pytest.approx(getattr(of_second, name)), name


@given(operations=st.integers(1, 10**7), seconds=st.floats(0.1, 1e5), unit=units)
def test_the_time_of_an_operation_is_explained_in_microseconds_whatever_the_unit(
    operations: int, seconds: float, unit: str
) -> None:
    base, slower = _told_in(unit, operations, seconds), _told_in(unit, operations, 2 * seconds)
    explanation = explain([base], [slower])
    assert explanation is not None
    assert explanation.base_micros == pytest.approx(seconds / operations * 1e6)
    assert explanation.micros == pytest.approx(2 * seconds / operations * 1e6)


def test_one_query_of_half_a_second_is_no_143_microseconds() -> None:
    """7,000 queries an hour are one in 514 ms."""
    explanation = explain([_told_in("queries/h", 7, 3.6)], [_told_in("queries/h", 7, 7.2)])
    assert explanation is not None
    assert "514,286 → 1,028,571 µs" in explanation.sentence


def test_rows_are_told_as_rows() -> None:
    assert {unit: parse_unit(unit).noun for unit in ("rows/s", "rows scanned/s", "loads/h")} == {
        "rows/s": "row",
        "rows scanned/s": "row",
        "loads/h": "operation",
    }


def test_costs_need_the_unit_of_their_rate() -> None:
    with pytest.raises(TypeError, match="rate_unit"):
        per_operation(  # type: ignore[call-arg]
            rate=1.0, seconds=1.0, server_cpu_seconds=1.0, host_cpu_seconds=None, driver_cpu_seconds=None,
            cpups=None, csps=None, rps=None, rmbps=None, wps=None, wmbps=None,
        )  # fmt: skip
