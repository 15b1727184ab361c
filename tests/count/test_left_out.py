"""What of an operation is judged and what is left out: only what time decides, and all of it is shown.

The graphs have the shape and the figures of real backends (pgbench's and sysbench's point queries)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.count.measure.callgrind import Arc, Asking, CallGraph, Key, mean
from pgstrata.count.measure.left_out import asking_of, timed, untimed
from pgstrata.count.measure.rows import function_rows

MAIN, REPORT = ("postgres", "PostgresMain"), ("postgres", "pgstat_report_stat")
CLOCK, READ = ("postgres", "GetCurrentTransactionStopTimestamp"), ("postgres", "secure_read")
ASKING = Asking(54.0, ("GetCurrentTransactionStopTimestamp",))
"""As a mark of 17 shows it."""


def graph(
    exclusive: dict[Key, float],
    arcs: dict[tuple[Key, Key], tuple[float, float]],
    asking: Asking | None = ASKING,
) -> CallGraph:
    return CallGraph(
        totals=[sum(exclusive.values())],
        exclusive=exclusive,
        arcs={pair: Arc(*arc) for pair, arc in arcs.items()},
        asking=asking,
    )


def judged(counted: CallGraph) -> float:
    return counted.instructions - timed(counted)


def operations(
    number: int, *, turns: float = 0.0, reports: int = 0, of_a_report: float = 500.0, waits: int = 0
) -> CallGraph:
    """Operations of 40,000 instructions, each with a call of the reporting function.

    turns: planted instructions of that function at each call. reports: how often it reports; of_a_report:
    instructions of one in the function itself, a hundred more are in each of two others.
    """
    flush, relation, wait = (
        ("postgres", name)
        for name in ("pgstat_update_dbstats", "pgstat_relation_flush_cb", "WaitEventSetWait")
    )
    itself = (54.0 + turns) * number + of_a_report * reports
    exclusive = {
        MAIN: 40_000.0 * number,
        REPORT: itself,
        CLOCK: 30.0 * number,
        READ: 100.0 * number + 40 * waits,
    }
    arcs = {
        (MAIN, REPORT): (float(number), itself + 30 * number + reports * 4500),
        (REPORT, CLOCK): (float(number), 30.0 * number),
        (MAIN, READ): (float(number), 100.0 * number + 160 * waits),
    }
    if waits:
        exclusive[wait] = 120.0 * waits
        arcs[READ, wait] = (float(waits), 120.0 * waits)
    if reports:
        exclusive |= {flush: 100.0 * reports, relation: 4400.0 * reports}
        arcs[REPORT, flush] = (float(reports), 100.0 * reports)
        # more often than there are operations: once for each table
        arcs[REPORT, relation] = (44.0 * reports, 4400.0 * reports)
    return graph(exclusive, arcs).per(number)


def test_a_loop_in_the_function_that_reports_statistics_is_judged() -> None:
    """An empty loop of 1,000 turns there was 15 % more of each operation, and was left out."""
    for reports in (0, 1, 3):
        plain = operations(200, reports=reports)
        # the marks go through the loop, too
        planted = replace(operations(200, turns=6000, reports=reports), asking=Asking(6054.0, ASKING.callees))
        assert judged(planted) / judged(plain) == pytest.approx(1.15, abs=0.001)


def test_a_loop_that_the_marks_do_not_reach_is_judged_but_for_what_a_report_can_take() -> None:
    planted = operations(200, turns=6000, reports=1)
    assert 1.147 < judged(planted) / judged(operations(200, reports=1)) < 1.151
    assert judged(operations(200, turns=6000)) - judged(operations(200)) == pytest.approx(6000)


def test_a_function_that_is_called_at_each_report_of_a_transaction_is_judged() -> None:
    helper = ("postgres", "pgstat_planted")
    plain = operations(200, reports=1)
    exclusive, arcs = dict(plain.exclusive), dict(plain.arcs)
    exclusive[helper] = 3000.0
    arcs[REPORT, helper] = Arc(1.0, 3000.0)
    planted = replace(
        plain,
        totals=[plain.instructions + 3000],
        exclusive=exclusive,
        arcs=arcs,
        asking=Asking(54.0, (*ASKING.callees, "pgstat_planted")),
    )
    assert judged(planted) - judged(plain) == pytest.approx(3000)


def test_reports_are_left_out_wherever_they_fall_and_whoever_collects_the_statistics() -> None:
    plain = judged(operations(200))
    assert plain == 40_084
    for reports in (1, 2, 5):
        # 15 and later; 14 and older, where the function itself collects them
        assert judged(operations(200, reports=reports)) == pytest.approx(plain)
        assert judged(operations(200, reports=reports, of_a_report=6500)) == pytest.approx(plain)


def test_a_report_at_every_operation_is_judged() -> None:
    """Without the look at the clock it is part of each operation: a defect that must be seen."""
    assert judged(operations(200, reports=200)) - judged(operations(200)) == pytest.approx(5000)


def test_waiting_for_the_client_is_left_out_with_all_it_calls_and_is_shown() -> None:
    quick, slow = operations(200, waits=3), operations(200, waits=190)
    assert judged(quick) == pytest.approx(judged(slow)) == pytest.approx(40_084)
    assert timed(slow) - timed(quick) == pytest.approx(160 * 187 / 200)
    rows = {row["function"]: row["instructions"] for row in function_rows("query", [quick, slow])}
    assert rows["WaitEventSetWait"] == rows["secure_read"] == 0
    assert sum(rows.values()) == pytest.approx(judged(quick))


def test_a_mark_that_waited_longer_than_the_operation_leaves_the_judged_part_as_it_is() -> None:
    mark, counted = operations(1, waits=1), operations(1)
    twice = mean([counted, counted])
    twice = CallGraph(
        totals=[2 * counted.instructions],
        exclusive={key: 2 * value for key, value in twice.exclusive.items()},
        arcs={pair: Arc(2 * arc.calls, 2 * arc.instructions) for pair, arc in twice.arcs.items()},
        asking=ASKING,
    )
    assert judged(twice.without(mark)) == pytest.approx(40_084)


def test_pages_of_wal_and_signals_are_left_out_with_all_they_call() -> None:
    wal, lock, alarm = (
        ("postgres", n) for n in ("AdvanceXLInsertBuffer.isra.0", "LWLockAcquire", "handle_sig_alarm")
    )
    counted = graph(
        {MAIN: 900.0, wal: 50.0, lock: 40.0, alarm: 7.0},
        {
            (MAIN, wal): (1.0, 60.0),
            (wal, lock): (1.0, 10.0),
            (MAIN, lock): (3.0, 30.0),
            (MAIN, alarm): (1.0, 7.0),
        },
    )
    assert timed(counted) == pytest.approx(67)
    assert untimed(counted) == pytest.approx({MAIN: 900, wal: 0, lock: 30, alarm: 0})


def test_tables_looked_up_after_a_report_are_left_out_and_at_each_operation_judged() -> None:
    lookup = ("postgres", "pgstat_assoc_relation")

    def looked_up(calls: float) -> CallGraph:
        counted = operations(1000)
        counted.exclusive[lookup] = 80.0 * calls
        counted.arcs[MAIN, lookup] = Arc(calls, 80.0 * calls)
        return replace(counted, totals=[sum(counted.exclusive.values())])

    assert judged(looked_up(3 / 1000)) == pytest.approx(40_084)
    assert judged(looked_up(2.0)) > 40_084 + 150


def test_marks_say_what_looking_at_the_clock_costs() -> None:
    assert asking_of(operations(1)) == Asking(54.0, ("GetCurrentTransactionStopTimestamp",))
    assert asking_of(CallGraph(exclusive={MAIN: 5.0})) is None


@st.composite
def _graphs(draw: st.DrawFn) -> CallGraph:
    """Call graphs without circles: a function calls those behind it."""
    names = [
        "PostgresMain",
        "exec",
        "secure_read",
        "AdvanceXLInsertBuffer",
        "work",
        "lock",
        "alloc",
        "memcpy",
    ]
    keys = [("postgres", name) for name in names]
    exclusive = {key: float(draw(st.integers(1, 1000))) for key in keys}
    # From the last to the first, so that what a call costs is known; it is divided among its callers.
    inclusive, arcs = dict(exclusive), {}
    for place in range(len(keys) - 1, 0, -1):
        callers = draw(st.lists(st.sampled_from(keys[:place]), min_size=1, max_size=3, unique=True))
        for caller in callers:
            arcs[caller, keys[place]] = (1.0, 0.0)
    for place in range(len(keys) - 1, 0, -1):
        key = keys[place]
        inclusive[key] = exclusive[key] + sum(cost for (a, _), (_, cost) in arcs.items() if a == key)
        callers = [a for a, b in arcs if b == key]
        for caller in callers:
            arcs[caller, key] = (1.0, inclusive[key] / len(callers))
    return graph(exclusive, arcs)


@given(_graphs())
def test_what_is_judged_and_what_is_left_out_are_the_whole(counted: CallGraph) -> None:
    functions = untimed(counted)
    assert sum(functions.values()) + timed(counted) == pytest.approx(counted.instructions)
    assert all(
        -1e-9 <= functions[key] <= instructions + 1e-9 for key, instructions in counted.exclusive.items()
    )
    # what only left-out functions call is left out, what they do not reach is judged
    outside = sum(
        arc.instructions
        for (a, b), arc in counted.arcs.items()
        if b[1] == "secure_read" or (b[1] == "AdvanceXLInsertBuffer" and a[1] != "secure_read")
    )
    if ("postgres", "secure_read") not in {a for a, b in counted.arcs if b[1] == "AdvanceXLInsertBuffer"}:
        assert timed(counted) == pytest.approx(outside)


def test_functions_of_several_starts_add_up_to_the_mean_of_what_is_judged() -> None:
    starts = [operations(200, reports=reports, waits=waits) for reports, waits in ((0, 3), (2, 77))]
    rows = function_rows("query", starts)
    assert sum(r["instructions"] for r in rows) == pytest.approx(sum(map(judged, starts)) / 2)
    assert sum(r["inclusive"] for r in rows) > mean(starts).instructions
