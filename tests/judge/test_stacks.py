"""Shares of functions in folded stacks, and which of them changed."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.stacks import add_up, folded_text, in_samples, moved, parse_folded, shares

names = st.text(st.characters(exclude_characters="\n;", exclude_categories=["Cs"]), min_size=1)
profiles = st.dictionaries(st.lists(names, min_size=1).map(";".join), st.integers(1, 10**9))


@given(profiles)
def test_text_and_back(stacks: dict[str, int]) -> None:
    assert parse_folded(folded_text(stacks)) == Counter(stacks)


def test_what_is_no_stack_is_left_out() -> None:
    assert parse_folded("a;b 3\n\nnonsense\na;b x\n 7\na;b 4") == {"a;b": 7}


def test_shares_count_recursion_once() -> None:
    own_shares, total = shares({"postgres;main;f;g;f": 3, "postgres;main;g": 1})
    assert own_shares == {"f": 0.75, "g": 0.25}
    assert total == {"main": 1.0, "f": 0.75, "g": 1.0}


@given(profiles)
def test_own_shares_add_up(stacks: dict[str, int]) -> None:
    own_shares, total = shares(stacks)
    assert sum(own_shares.values()) == pytest.approx(1.0 if stacks else 0.0)
    assert all(own_shares[f] <= total[f] + 1e-9 for f in own_shares)


def test_stacks_without_any_weight_have_no_shares() -> None:
    assert shares({"postgres;main": 0}) == ({}, {})


def test_in_samples_keeps_proportions() -> None:
    assert in_samples({"a": 5025125 * 3, "b": 5025125}, 4) == {"a": 3, "b": 1}
    assert in_samples({}, 10) == {}
    assert add_up([{"a": 1}, {"a": 2, "b": 1}]) == {"a": 3, "b": 1}


def _sampled(weights: dict[str, float], n: int, seed: int) -> Counter[str]:
    drawn = random.Random(seed).choices(list(weights), list(weights.values()), k=n)
    return Counter(f"postgres;main;{name}" for name in drawn)


def test_a_change_is_found_and_its_size_is_right() -> None:
    base = _sampled({"a": 0.5, "b": 0.3, "c": 0.2}, 2000, 1)
    other = _sampled({"a": 0.4, "b": 0.3, "d": 0.3}, 2000, 2)
    changes = {m.function: m for m in moved(base, 2000, other, 2000)}
    assert set(changes) == {"a", "c", "d"}
    assert changes["d"].change == pytest.approx(0.3, abs=0.05)
    assert changes["c"].change < 0 and changes["a"].change < 0


def test_two_profiles_of_the_same_server_hardly_ever_differ() -> None:
    weights = {f"f{i}": 1 / (i + 1) for i in range(200)}
    wrong = sum(
        bool(moved(_sampled(weights, 500, seed), 500, _sampled(weights, 500, seed + 1000), 500))
        for seed in range(100)
    )
    assert wrong <= 15


def test_without_samples_nothing_moved() -> None:
    assert moved({}, 0, {"a;b": 1}, 1) == []
