"""The parts of a query's execution exclude each other and add up to the clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.query_parts import MeanExecution, MeanExecutions, QueryParts, mean_executions, query_parts
from pgstrata.report.sections.query_times import difference_text
from pgstrata.store.record import ExecutionCpu, FileAccess, QueryTurns, Slice

seconds = st.floats(0, 10)


def means(base: MeanExecution, other: MeanExecution) -> MeanExecutions:
    return MeanExecutions(base, other, 10)


def files(base: float | None, other: float | None) -> tuple[FileAccess, FileAccess]:
    return FileAccess(pages=3, seconds=base), FileAccess(pages=70, seconds=other)


def by_name(parts: QueryParts) -> dict[str, tuple[float, float]]:
    return {part.name: (round(part.base, 6), round(part.other, 6)) for part in parts.parts}


QUICK = MeanExecution(seconds=0.010, cpu=0.009, planning=0.001, waited=0.0005)


def test_what_grew_is_named() -> None:
    parts = query_parts(means(QUICK, MeanExecution(0.110, 0.104, 0.002, 0.0005)), files(0.0, 0.003))
    assert by_name(parts) == {
        "planning": (0.001, 0.002),
        "execution": (0.008, 0.102),
        "files": (0.0, 0.003),
        "cpu_wait": (0.0005, 0.0005),
        "other_waits": (0.0005, 0.0025),
    }
    assert parts.sum == pytest.approx(parts.difference) == pytest.approx(0.1)
    assert parts.unexplained is None and parts.largest.name == "execution"
    assert difference_text(parts) == "+ 100 ms an execution: execution on a CPU + 94.0"
    assert parts.record().pages_from_files == (3, 70)


def test_reading_takes_from_sleeping_first_and_from_the_cpu_what_is_more() -> None:
    """Pages that the kernel had cached are copied by the CPU."""
    other = MeanExecution(seconds=0.050, cpu=0.030, planning=0.0, waited=0.0)
    assert by_name(query_parts(means(QUICK, other), files(0.0, 0.015)))["files"] == (0.0, 0.015)
    parts = by_name(query_parts(means(QUICK, other), files(0.0, 0.035)))
    assert (parts["files"][1], parts["execution"][1], parts["other_waits"][1]) == (0.035, 0.015, 0.0)


@given(
    base=st.tuples(seconds, seconds, seconds, seconds, seconds),
    other=st.tuples(seconds, seconds, seconds, seconds, seconds),
)
def test_the_parts_of_each_side_are_its_clock_and_never_below_nothing(
    base: tuple[float, ...], other: tuple[float, ...]
) -> None:
    sides = []
    for asleep, cpu, planning, waited, _ in (base, other):
        sides.append(MeanExecution(asleep + cpu + waited, cpu, planning, waited))
    parts = query_parts(means(*sides), files(base[4], other[4]))
    assert all(part.base >= 0 and part.other >= 0 for part in parts.parts)
    assert sum(part.base for part in parts.parts) == pytest.approx(parts.base, abs=1e-9)
    assert sum(part.other for part in parts.parts) == pytest.approx(parts.other, abs=1e-9)


def test_what_the_parts_leave_of_the_difference_is_unexplained() -> None:
    """A backend may work on for a moment after its answer has arrived."""
    longer = MeanExecution(seconds=0.020, cpu=0.0235, planning=0.001, waited=0.0)
    parts = query_parts(means(QUICK, longer), None)
    assert parts.unexplained == pytest.approx(-0.0035)
    assert difference_text(parts).endswith("unexplained − 3.50")
    near = MeanExecution(seconds=0.020, cpu=0.0205, planning=0.001, waited=0.0)
    assert query_parts(means(QUICK, near), None).unexplained is None


def test_planning_that_is_not_known_stays_in_the_execution() -> None:
    parts = query_parts(means(QUICK, MeanExecution(0.110, 0.104, None, 0.0)), None)
    assert by_name(parts)["execution"] == (0.009, 0.104) and not parts.is_planning_apart
    assert "planning and execution on a CPU + 95.0" in difference_text(parts)
    # The base's is known to be a tenth of the difference at most.
    short = MeanExecution(0.010, 0.009, None, 0.0005)
    parts = query_parts(means(short, MeanExecution(0.110, 0.104, 0.080, 0.0)), None)
    assert by_name(parts)["planning"] == (0.0, 0.080) and parts.is_planning_apart
    explained = query_parts(means(QUICK, MeanExecution(0.110, 0.104, None, 0.0)), None, (0.002, 0.090))
    assert by_name(explained)["planning"] == (0.001, 0.090) and explained.is_planning_apart
    assert by_name(explained)["execution"] == (0.008, 0.014)


def test_reading_whose_time_is_not_known_has_pages_only() -> None:
    parts = query_parts(means(QUICK, MeanExecution(0.110, 0.104, 0.001, 0.0)), files(None, None))
    assert parts.pages == (3, 70) and not parts.files_are_timed and "files" not in by_name(parts)


def turns(*executions: tuple[int, float, float | None]) -> QueryTurns:
    """Number of the pair, seconds of an execution, and those on a CPU."""
    return QueryTurns(
        name="q",
        slices=tuple(Slice(pair=pair, seconds=time, rate=1 / time) for pair, time, _ in executions),
        cpu=tuple(
            None if cpu is None else ExecutionCpu(seconds=cpu, waited_seconds=0.0) for *_, cpu in executions
        ),
    )


def test_means_are_over_the_pairs_that_count_and_are_known() -> None:
    base = turns((1, 1.0, 0.5), (2, 3.0, 1.5), (3, 100.0, 1.0), (4, 50.0, None))
    other = turns((1, 2.0, 1.5), (2, 4.0, 2.5), (3, 900.0, 1.0), (4, 5.0, 5.0), (5, 7.0, 7.0))
    means = mean_executions([(base, other, {3})])
    assert means is not None and means.pairs == 2
    assert [means.base.seconds, means.other.seconds] == pytest.approx([2.0, 3.0])
    assert (means.base.cpu, means.other.cpu, means.base.planning) == (1.0, 2.0, None)
    assert mean_executions([(base, other, {1, 2, 3})]) is None
    assert mean_executions([(turns((1, 1.0, None)), other, ())]) is None
    assert mean_executions([]) is None
