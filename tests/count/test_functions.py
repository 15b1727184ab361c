"""Which functions account for a difference of instructions, and what only moved."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.count.functions import costs_by_step, sentence
from pgstrata.count.verdicts import CountVerdict
from pgstrata.judge.functions import Cost, FunctionChange, function_changes, line_of
from pgstrata.store.rows import Rows

FUNCTIONS = ("step", "role", "object", "function", "instructions")
CALLS = ("step", "role", "caller_object", "caller", "callee_object", "callee", "instructions")


def verdict(base: float, other: float) -> CountVerdict:
    ratio = other / base
    return CountVerdict(
        workload="sysbench", step="point-query", role="query", headline=True, base=base, other=other,
        word="more" if ratio > 1 else "fewer", ratio=ratio, low=ratio - 0.001, high=ratio + 0.001,
        margin=0.002, confidence=0.95, starts=(3, 3), p_value=0.0, adjusted_p=0.0, reason="",
    )  # fmt: skip


def words_for(base: Cost, other: Cost) -> str:
    """Returns the sentence on all that two sides execute."""
    return sentence(verdict(sum(base.of.values()), sum(other.of.values())), function_changes(base, other))


def test_libraries_are_one_line_and_copies_of_a_function_are_it() -> None:
    assert line_of("/lib/x86_64-linux-gnu/libc.so.6", "memcpy") == "library libc"
    assert line_of("/usr/lib/libLLVM-14.so.1", "foo") == "library libLLVM-14"
    assert line_of("/srv/bin/postgres", "fasthash64.constprop.14") == "fasthash64"
    assert line_of("/srv/bin/postgres", "0x0000000000123") == "code without a name in postgres"
    assert line_of("/tmp/burn.so", "burn") == "burn"


def test_functions_of_other_steps_and_roles_do_not_count() -> None:
    functions = [
        ("a", "query", "postgres", "f", 1.0),
        ("a", "insert", "postgres", "f", 2.0),
        ("b", "query", "postgres", "f", 4.0),
        ("a", "query", "postgres", "g", 8.0),
    ]
    costs = costs_by_step(Rows(FUNCTIONS, functions), Rows(CALLS, []))
    assert costs["a", "query"].of == {"f": 1.0, "g": 8.0}


def test_functions_and_callers_of_copies_are_added_up() -> None:
    functions = [
        ("a", "query", "postgres", "g", 1.0),
        ("a", "query", "postgres", "g.isra.0", 2.0),
        ("b", "query", "postgres", "g", 8.0),
    ]
    calls = [
        ("a", "query", "postgres", "f", "postgres", "g.isra.0", 1.0),
        ("a", "query", "postgres", "f.cold", "postgres", "g", 2.0),
        ("a", "query", "postgres", "g", "postgres", "g.cold", 4.0),  # itself
        ("b", "query", "postgres", "f", "postgres", "g", 8.0),
    ]
    costs = costs_by_step(Rows(FUNCTIONS, functions), Rows(CALLS, calls))
    assert costs["a", "query"] == Cost({"g": 3.0}, {"g": {"f": 3.0}})
    assert costs["b", "query"] == Cost({"g": 8.0}, {"g": {"f": 8.0}})


def test_the_sentence_names_what_moved_the_same_way() -> None:
    base, other = {"ExecInitExpr": 100.0, "scan": 900.0}, {"ExecInitExpr": 133.0, "scan": 900.0}
    assert words_for(Cost(base), Cost(other)) == "3.3 % more instructions, of them 3.3 % in ExecInitExpr"


def test_parts_that_outweigh_each_other_are_never_of_the_whole() -> None:
    base, other = {"a": 500.0, "b": 500.0}, {"a": 575.0, "b": 430.0}
    assert words_for(Cost(base), Cost(other)) == "0.5 % more instructions: +7.5 % in a, −7 % in b"


@pytest.mark.parametrize(
    ("base", "other", "begins"),
    [
        (1e6, 300.0, "99.97 % fewer"),
        (1000.0, 5.0, "99.5 % fewer"),
        (1000.0, 12_345.0, "1,134 % more"),
        (1000.0, 1995.0, "100 % more"),
        (1000.0, 980.0, "2 % fewer"),
    ],
)
def test_nearly_all_and_many_times_are_told_in_digits(base: float, other: float, begins: str) -> None:
    assert sentence(verdict(base, other), []).startswith(begins)


def test_a_function_that_was_renamed_is_no_change() -> None:
    base = Cost({"probe": 100.0, "hash_any": 18_129.0, "scan": 900.0}, {"hash_any": {"probe": 18_129.0}})
    other = Cost({"probe": 100.0, "hash_bytes": 18_129.0, "scan": 950.0}, {"hash_bytes": {"probe": 18_129.0}})
    assert [(c.function, c.difference) for c in function_changes(base, other)] == [("scan", 50.0)]
    slower = Cost({**other.of, "hash_bytes": 20_000.0}, other.callers)
    changes = function_changes(base, slower)
    assert changes[0].title == "probe (hash_bytes in the place of hash_any)"
    assert math.isclose(changes[0].difference, 20_000.0 - 18_129.0)


def test_a_function_that_was_split_off_is_in_its_caller() -> None:
    base = Cost({"_bt_checkkeys": 1000.0, "scan": 9000.0})
    callers = {"_bt_check_compare": {"_bt_checkkeys": 750.0}}
    other = Cost({"_bt_checkkeys": 297.0, "_bt_check_compare": 750.0, "scan": 9000.0}, callers)
    assert words_for(base, other) == (
        "0.47 % more instructions, of them 0.47 % in _bt_checkkeys (with _bt_check_compare, new)"
    )
    # The other way round it was inlined.
    assert function_changes(other, base)[0].title == "_bt_checkkeys (without _bt_check_compare)"


def test_a_new_function_of_a_new_function_goes_up_to_all_that_call_it() -> None:
    base = Cost({"a": 100.0, "b": 100.0})
    callers = {"low": {"mid": 30.0}, "mid": {"a": 40.0, "b": 20.0}}
    changes = function_changes(base, Cost({"a": 100.0, "b": 100.0, "mid": 30.0, "low": 30.0}, callers))
    assert [(c.function, c.difference) for c in changes] == [("a", 40.0), ("b", 20.0)]
    assert set(changes[0].new) == {"mid", "low"}


def test_what_a_caller_saves_and_its_callee_spends_is_one_change() -> None:
    callers = {"slot_getattr": {"ExecScan": 500.0}}
    base = Cost({"ExecScan": 1000.0, "slot_getattr": 200.0, "other": 100.0}, callers)
    other = Cost({"ExecScan": 700.0, "slot_getattr": 520.0, "other": 100.0}, callers)
    (change,) = function_changes(base, other)
    assert (change.function, change.beside, change.difference) == ("slot_getattr", "ExecScan", 20.0)
    # Opposite changes of functions that have nothing to do with each other stay apart.
    apart = function_changes(Cost(base.of), Cost(other.of))
    assert [c.function for c in apart] == ["slot_getattr", "ExecScan"]


def test_without_callers_a_new_function_is_named_itself() -> None:
    (change,) = function_changes(Cost({"a": 100.0}), Cost({"a": 100.0, "b": 5.0}))
    assert (change.title, change.state) == ("b (new)", "new")


NAMES = st.sampled_from("abcdefgh")
COSTS = st.builds(
    Cost,
    st.dictionaries(NAMES, st.floats(0, 1e6), min_size=1),
    st.dictionaries(NAMES, st.dictionaries(NAMES, st.floats(0, 1e6), min_size=1)),
)


@given(COSTS, COSTS)
def test_changes_make_up_all_of_the_difference(base: Cost, other: Cost) -> None:
    changes = function_changes(base, other)
    whole = sum(other.of.values()) - sum(base.of.values())
    assert math.isclose(sum(c.difference for c in changes), whole, rel_tol=1e-6, abs_tol=1e-3)
    sizes = [abs(c.difference) for c in changes]
    assert sizes == sorted(sizes, reverse=True)


@given(st.lists(st.floats(-0.3, 0.3), min_size=1, max_size=6))
def test_of_them_is_never_more_than_the_whole(shares: list[float]) -> None:
    changes = [FunctionChange(f"f{n}", 1.0, 1.0 + share, share) for n, share in enumerate(shares)]
    text = sentence(verdict(1000.0, 1000.0 * (1 + sum(shares))), changes)
    whole, _, parts = text.partition(", of them ")
    figures = [float(number) for number in re.findall(r"([\d.]+(?:e-\d+)?) %", parts)]
    of_all = float(re.findall(r"([\d.,]+(?:e-\d+)?) %", whole)[0].replace(",", ""))
    assert sum(figures) <= of_all * 1.12 + 1e-9  # each has two digits
