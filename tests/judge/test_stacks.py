"""Folded stacks: text, weights, callers."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.phases import REST
from pgstrata.judge.stacks import (
    CUT,
    add_up,
    callers_in,
    folded_text,
    in_samples,
    parse_folded,
    where_they_end,
)

names = st.text(st.characters(exclude_characters="\n;", exclude_categories=["Cs"]), min_size=1)
profiles = st.dictionaries(st.lists(names, min_size=1).map(";".join), st.integers(1, 10**9))


@given(profiles)
def test_text_and_back(stacks: dict[str, int]) -> None:
    assert parse_folded(folded_text(stacks)) == Counter(stacks)


def test_what_is_no_stack_is_left_out() -> None:
    assert parse_folded("a;b 3\n\nnonsense\na;b x\n 7\na;b 4") == {"a;b": 7}


def test_where_stacks_end_and_who_called_whom() -> None:
    stacks = {"postgres;main;planner;f;g;f": 3, "postgres;main;g.isra.0": 1, "postgres;main;[libc.so.6]": 2}
    assert where_they_end(stacks) == {("plan", "f"): 3, (REST, "g"): 1, (REST, "library libc"): 2}
    cut = {"postgres;[unknown];h": 1, "postgres;[unknown];planner;h": 1}
    assert where_they_end(cut) == {(CUT, "h"): 1, ("plan", "h"): 1}
    assert callers_in(stacks) == {
        "planner": {"main": 3}, "f": {"planner": 3, "g": 3}, "g": {"f": 3, "main": 1},
        "library libc": {"main": 2},
    }  # fmt: skip


@given(profiles)
def test_all_weight_ends_somewhere(stacks: dict[str, int]) -> None:
    assert where_they_end(stacks).total() == sum(stacks.values())


def test_in_samples_keeps_proportions() -> None:
    assert in_samples({"a": 5025125 * 3, "b": 5025125}, 4) == {"a": 3, "b": 1}
    assert in_samples({}, 10) == {}
    assert add_up([{"a": 1}, {"a": 2, "b": 1}]) == {"a": 3, "b": 1}
