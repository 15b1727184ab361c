"""The parts of an operation's time exclude each other, and are the verdict's difference with the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from pgstrata.judge.divided import TOLERANCE
from pgstrata.judge.explain import explain
from pgstrata.judge.operation_parts import OperationParts, operation_parts
from pgstrata.report.operation_times import difference_line, difference_text, operation_table
from pgstrata.store.record import StepRecord, WaitsCost
from support.records import role_record, step_record

SECONDS = 100.0

Waits = dict[str, float]


def step(
    rate: float,
    *,
    cpu: float | None = 0.0,
    driver: float = 0.0,
    waits: Waits | None = None,
    polls: int = 0,
    clients: int = 1,
    roles: tuple[str, ...] = ("query",),
    **more: Any,
) -> StepRecord:
    """A step by what one operation takes: µs of CPU of its connection and of the driver, shares of waits."""
    operations = rate * SECONDS
    cpu_seconds = None if cpu is None else cpu * operations / 1e6
    return step_record(
        rate=rate,
        seconds=SECONDS,
        roles={name: role_record(clients=clients, cpu_seconds=cpu_seconds) for name in roles},
        driver_cpu_seconds=driver * operations / 1e6,
        waits=None if waits is None else {"query": waits},
        waits_cost=WaitsCost(polls=polls, wanted=polls, sampler_cpu_seconds=0.0, backend_cpu_seconds=0.0)
        if polls
        else None,
        **more,
    )


def parts_of(base: StepRecord, other: StepRecord, ratio: float | None = None) -> OperationParts:
    parts = operation_parts([base], [other], ratio)
    assert parts is not None
    return parts


def micros(parts: OperationParts) -> dict[str, tuple[float, float]]:
    return {part.name: (round(part.base * 1e6, 6), round(part.other * 1e6, 6)) for part in parts.parts}


def test_every_part_of_the_time_is_told_apart() -> None:
    base = step(10_000, cpu=50, driver=10, waits={"running": 0.6, "Client: ClientRead": 0.4})
    events = {
        "running": 0.4,
        "Client: ClientRead": 0.2,
        "Lock: tuple": 0.1,
        "LWLock: WALWrite": 0.1,
        "IO: DataFileRead": 0.1,
        "IPC: BgWorkerStartup": 0.1,
    }
    parts = parts_of(base, step(5_000, cpu=62, driver=12, waits=events))
    assert micros(parts) == {
        "connections": (50, 62),
        "driver": (10, 12),
        "cpu_wait": (10, 18),
        "locks": (0, 20),
        "lwlocks": (0, 20),
        "io": (0, 20),
        "client": (30, 28),
        "other": (0, 20),
    }
    assert parts.unexplained is None and parts.sum == pytest.approx(parts.difference) == pytest.approx(1e-4)
    assert difference_text(parts) == (
        "+ 100 µs per operation: waiting for locks: tuple + 20.0, waiting for LWLocks: WALWrite + 20.0, "
        "waiting for I/O: DataFileRead + 20.0, other waits: IPC BgWorkerStartup + 20.0, "
        "CPU of the query connections + 12.0"
    )


def test_a_rest_is_a_row_with_its_sign() -> None:
    parts = parts_of(step(10_000, cpu=60), step(8_000, cpu=70))
    assert parts.unexplained == pytest.approx(15e-6)
    assert difference_text(parts).endswith("CPU of the query connections + 10.0, unexplained + 15.0")
    assert difference_line(parts).endswith("+ 15.0 (wait events were not sampled on both sides: --waits 10)")
    *_, rest = operation_table(parts, "a", "b").rows
    assert [cell.text for cell in rest.cells] == ["unexplained", "", "", "+ 15.0", "60"]
    too_much = parts_of(step(10_000, cpu=60), step(8_000, cpu=95))
    assert difference_text(too_much).endswith("CPU of the query connections + 35.0, unexplained − 10.0")
    near = parts_of(step(10_000, cpu=60), step(8_000, cpu=83))
    assert near.unexplained is None and len(operation_table(near, "a", "b").rows) == 3 + len(near.parts) - 1


def test_the_cpu_of_the_driver_is_time_in_which_the_connection_waits_for_it() -> None:
    """What overlaps with the work of the connections is no part."""
    base = step(10_000, cpu=80, driver=50, waits={"running": 0.8, "Client: ClientRead": 0.2})
    parts = parts_of(base, structs.replace(base, rate=9_000.0))
    assert micros(parts)["driver"][0] == 20 and "client" not in micros(parts)
    without = parts_of(step(10_000, cpu=80, driver=50), step(9_000, cpu=80, driver=20))
    assert micros(without)["driver"] == (20, 20)


def test_what_cannot_be_told_apart_is_said() -> None:
    waits = {"running": 0.8, "Client: ClientRead": 0.2}
    base, other = (step(rate, cpu=50, waits=waits, roles=("query", "insert")) for rate in (10_000, 8_000))
    parts = parts_of(base, other)
    assert "driver" not in micros(parts) and "several roles" in parts.not_apart[0]
    unseen = parts_of(step(10_000, cpu=None, waits=waits), step(8_000, cpu=None, waits=waits))
    assert micros(unseen)["running"] == (80, 100) and "CPU of the connections" in unseen.not_apart[0]
    one_side = parts_of(step(10_000, cpu=50, waits=waits), step(8_000, cpu=60))
    assert set(micros(one_side)) == {"connections"} and "wait events" in one_side.not_apart[0]


def test_whole_steps_that_say_something_else_have_a_reason_and_no_parts() -> None:
    parts = parts_of(step(10_000, cpu=60), step(9_000, cpu=70), 0.5)
    assert parts.reason == (
        "by the whole steps an operation takes 11 % longer, by the verdict 2.0 times as long"
    )
    record = parts.record()
    assert record.parts == () and record.sum_seconds is None and record.unexplained_seconds is None
    assert difference_text(parts) == f"not known: {parts.reason}"


def test_a_sampled_part_within_its_error_is_not_said_to_have_moved() -> None:
    base, other = (
        step(rate, cpu=50, waits={"running": 1 - share, "Lock: tuple": share}, polls=10)
        for rate, share in ((10_000, 0.3), (8_000, 0.4))
    )
    assert "waiting for locks: tuple + 20.0 (± " in difference_text(parts_of(base, other))
    explanation = explain([base], [other])
    assert explanation is not None and "locks" not in explanation.moved
    base, other = (structs.replace(record, waits_cost=None) for record in (base, other))
    again = explain([base], [other])
    assert again is not None and "waiting for locks: tuple (+20.0 µs, 80 % of the change)" in again.moved


def test_events_that_are_spelt_differently_are_one() -> None:
    base = step(10_000, cpu=10, waits={"running": 0.1, "LWLock: WALWrite": 0.9})
    other = step(5_000, cpu=10, waits={"running": 0.1, "LWLock: WalWrite": 0.4, "LWLock: ProcArray": 0.5})
    (lwlocks,) = [part for part in parts_of(base, other).parts if part.name == "lwlocks"]
    assert lwlocks.events == ("ProcArray",) and lwlocks.title == "waiting for LWLocks: ProcArray"


COST = st.floats(0, 500)
STATES = ("running", "Client: ClientRead", "Lock: tuple", "LWLock: A", "IO: B", "IPC: C")
SAMPLES = st.none() | st.lists(st.integers(0, 50), min_size=6, max_size=6).filter(any)


@st.composite
def steps(draw: st.DrawFn) -> StepRecord:
    samples = draw(SAMPLES)
    waits = None if samples is None else dict(zip(STATES, (n / sum(samples) for n in samples), strict=True))
    return step(
        draw(st.floats(10, 1e5)),
        cpu=draw(st.none() | COST),
        driver=draw(COST),
        waits=waits,
        polls=draw(st.integers(0, 1000)),
        clients=draw(st.integers(1, 8)),
        roles=draw(st.sampled_from((("query",), ("query", "insert")))),
    )


@given(steps(), steps(), st.none() | st.floats(0.05, 20))
def test_parts_add_up_to_the_difference_or_the_rest_is_exactly_what_is_left(
    base: StepRecord, other: StepRecord, ratio: float | None
) -> None:
    parts = parts_of(base, other, ratio)
    assert all(part.base >= 0 and part.other >= 0 for part in parts.parts)
    rest = parts.difference - sum(part.difference for part in parts.parts)
    near = 1e-9 * max(parts.base, parts.other, *(part.other for part in parts.parts), 0.0)
    if parts.unexplained is None:
        assert abs(rest) <= TOLERANCE * abs(parts.difference) + near
    else:
        assert parts.unexplained == pytest.approx(rest, abs=near)
    if ratio is not None:
        assert parts.base / parts.other == pytest.approx(ratio)
    if parts.parts and (base.waits and other.waits) and parts.parts[0].name == "running":
        # Samples alone are all of the time: they exclude each other.
        assert sum(part.base for part in parts.parts) == pytest.approx(parts.base)
    # The sentence takes its figures from the parts.
    explanation = explain([base], [other], ratio)
    assert explanation is not None and explanation.parts == parts
    by_title = {part.title: part for part in parts.parts}
    for factor in explanation.factors:
        if factor.kind == "time":
            part = by_title[factor.name]
            assert (factor.base, factor.value) == (part.base * 1e6, part.other * 1e6)
            assert factor.share == parts.share(part)
