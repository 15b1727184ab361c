"""In which part of the server instructions are."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.functions import Cost
from pgstrata.judge.phases import ENTRIES, REST, by_part, file_changes, part_changes

QUERY = Cost(
    {
        "exec_simple_query": 50.0,
        "raw_parser": 100.0,
        "core_yylex": 40.0,
        "planner": 200.0,
        "ExecutorRun": 10.0,
        "ExecScan": 90.0,
        "btgettuple": 60.0,
        "_bt_search": 30.0,
        "palloc": 20.0,
    },
    {
        "raw_parser": {"exec_simple_query": 150.0},
        "core_yylex": {"raw_parser": 40.0},
        "planner": {"exec_simple_query": 215.0},
        "ExecutorRun": {"exec_simple_query": 195.0},
        "ExecScan": {"ExecutorRun": 185.0},
        "btgettuple": {"ExecScan": 90.0},
        "_bt_search": {"btgettuple": 30.0},
        "palloc": {"planner": 15.0, "ExecScan": 5.0},
    },
)


def test_a_function_belongs_to_the_parts_that_call_it() -> None:
    parts = by_part(QUERY)
    assert list(parts) == ["parse", "plan", "execution", "index", REST]
    assert {part: round(cost, 6) for part, cost in parts.items()} == {
        "parse": 140.0, "plan": 215.0, "execution": 105.0, "index": 90.0, REST: 50.0,
    }  # fmt: skip


def test_parts_of_both_sides_make_up_the_difference() -> None:
    slower = Cost({**QUERY.of, "_bt_search": 90.0, "palloc": 24.0}, QUERY.callers)
    changes = {change.part: change for change in part_changes(QUERY, slower)}
    assert round(changes["index"].share, 6) == 60 / 600
    assert round(changes["plan"].share, 6) == 3 / 600
    assert changes["parse"].share == 0
    assert math.isclose(sum(c.after - c.before for c in changes.values()), 64.0)


NAMES = st.sampled_from(["a", "b", "c", "d", "planner", "btgettuple", "XLogInsert"])
COSTS = st.builds(
    Cost,
    st.dictionaries(NAMES, st.floats(0, 1e6)),
    st.dictionaries(NAMES, st.dictionaries(NAMES, st.floats(0, 1e6))),
)


@given(COSTS)
def test_parts_make_up_the_whole_whatever_calls_whatever(cost: Cost) -> None:
    parts = by_part(cost)
    assert math.isclose(sum(parts.values()), sum(cost.of.values()), rel_tol=1e-6, abs_tol=1e-6)
    assert set(parts) <= {*ENTRIES, REST}


def test_no_function_enters_two_parts() -> None:
    functions = [function for names in ENTRIES.values() for function in names]
    assert len(set(functions)) == len(functions)


def test_files_are_named_by_the_size_of_their_change_and_need_both_sides() -> None:
    base = Cost({"planner": 100.0}, files={"plan.c": 60.0, "sort.h": 40.0})
    other = Cost({"planner": 110.0}, files={"plan.c": 62.0, "sort.h": 40.0, "new.c": 8.0})
    changes = file_changes(base, other)
    assert [(c.part, round(c.share, 6)) for c in changes] == [
        ("new.c", 0.08), ("plan.c", 0.02), ("sort.h", 0.0),
    ]  # fmt: skip
    assert file_changes(base, QUERY) == file_changes(QUERY, other) == []
