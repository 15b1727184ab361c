"""What paired profiles say of functions: intervals, words, parts that add up, cost that only moved."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.functions import Cost, account_for
from pgstrata.judge.phases import REST
from pgstrata.judge.profile_pairs import OLD, PairedProfiles, PartProfile
from pgstrata.judge.profiles import CpuChange, ProfileVerdict
from pgstrata.report.profile_changes import profile_lines, profile_tables
from support.profiled import simulate

COSTS: Mapping[str, float] = simulate.COSTS


def paired(seed: int, other: Mapping[str, float] = COSTS, **more: Any) -> PairedProfiles:
    pairs: PairedProfiles = simulate.paired(seed, other, **more)
    return pairs


def judged(pairs: PairedProfiles, disturbance: str = "") -> ProfileVerdict:
    verdict: ProfileVerdict = simulate.judged(pairs, disturbance)
    return verdict


def by_name(changes: tuple[CpuChange, ...]) -> dict[str, CpuChange]:
    return {change.name: change for change in changes}


@pytest.mark.long
def test_equal_sides_hardly_ever_differ() -> None:
    verdicts = [judged(paired(seed)) for seed in range(100)]
    changes = [change for verdict in verdicts for change in verdict.functions]
    left_out = sum(not change.low <= 0 <= change.high for change in changes)
    assert 0.01 * len(changes) < left_out <= 0.06 * len(changes), "intervals of 95 %"
    assert sum(len(verdict.proven) for verdict in verdicts) <= len(changes) / 200
    wholes = [verdict.whole for verdict in verdicts]
    assert sum(change.low <= 0 <= change.high for change in wholes) >= 88


def test_a_planted_difference_is_found_with_its_size() -> None:
    proven = holds = 0
    for seed in range(40):
        verdict = judged(paired(seed, {**COSTS, "f2": 2 * COSTS["f2"]}, samples=400))
        change = by_name(verdict.functions)["f2"]
        holds += change.low <= COSTS["f2"] <= change.high
        proven += [(c.name, c.word) for c in verdict.proven] == [("f2", "more")]
    assert proven >= 38
    assert holds >= 35


@pytest.mark.parametrize("other", [COSTS, {**COSTS, "f0": 1e-5}, {"f1": 1e-5, "new": 3e-5}])
def test_functions_parts_and_the_whole_make_one_difference(other: Mapping[str, float]) -> None:
    verdict = judged(paired(1, other))
    for changes in (verdict.functions, verdict.phases):
        for side in ("base", "other"):
            total = math.fsum(getattr(change, side) for change in changes)
            assert total == pytest.approx(getattr(verdict.whole, side), rel=1e-9)
    (table, *_) = profile_tables(verdict, "a", "b", ())
    rows = [[float(cell.value) for cell in row.cells[1:5]] for row in table.rows]  # type: ignore[arg-type]
    assert np.array(rows[:-1]).sum(axis=0) == pytest.approx(rows[-1], abs=1e-3)


def test_a_function_that_was_renamed_is_no_difference() -> None:
    renamed = {("hash_bytes" if name == "f1" else name): cost for name, cost in COSTS.items()}
    verdict = judged(paired(2, renamed))
    names = by_name(verdict.functions)
    assert "hash_bytes" not in names and "f1" not in names
    assert names["main"].remark == "hash_bytes in the place of f1"
    assert names["main"].base == pytest.approx(COSTS["f1"], rel=0.2)
    assert verdict.proven == ()


def test_a_function_without_samples_by_chance_is_not_called_new() -> None:
    rare = {**COSTS, "rare": 4e-7}
    dice = np.random.default_rng(3)
    pairs = [(simulate.batch(dice, COSTS, 1.0, 100), simulate.batch(dice, rare, 1.0, 100)) for _ in range(8)]
    stacks = Counter({f"postgres;main;{name}": 1 for name in rare})
    verdict = judged(PairedProfiles(pairs, (stacks, stacks), are_batches=True))
    assert all(change.remark == "" for change in verdict.functions)


def test_few_samples_prove_nothing_however_much_they_agree() -> None:
    """One sample in each batch of one side, none of the other: by chance in one of 128 functions."""
    ours = PartProfile(1e-5, 100.0, {"a": 100.0}, {REST: 100.0}, {})
    theirs = PartProfile(1e-5, 100.0, {"a": 99.0, "b": 1.0}, {REST: 100.0}, {})
    stacks = Counter({"postgres;a;b": 1})
    pairs = PairedProfiles([(ours, theirs)] * 8, (stacks, stacks), are_batches=True)
    assert judged(pairs).proven == ()


def test_a_disturbed_step_and_few_batches_prove_nothing() -> None:
    slower = {**COSTS, "f0": 3 * COSTS["f0"]}
    assert judged(paired(4, slower)).proven
    verdict = judged(paired(4, slower), "other programs used 60% of the CPUs")
    assert not verdict.proven and verdict.whole.word == "unclear"
    assert verdict.whole.low > 0, "what was measured is there"
    assert "other programs" in profile_lines("s", [verdict])[0]
    few = judged(paired(4, slower, batches=6))
    assert not few.proven and "6 of at least 8 batches" in few.reason


def test_one_pair_has_no_interval() -> None:
    pairs = replace(paired(5, batches=1), missing=OLD)
    verdict = judged(pairs)
    assert not any(change.is_bounded for change in (verdict.whole, *verdict.functions))
    record = verdict.record()
    assert record.reason == OLD and record.whole.low_seconds is None and record.whole.p_value is None
    assert OLD in profile_lines("s", [verdict])[0]
    assert OLD in profile_tables(verdict, "a", "b", ())[0].how


def test_a_server_that_lived_through_all_pairs_has_its_chance_in_the_interval() -> None:
    ours, theirs = (judged(paired(6, samples=1e6, starts=starts)).whole for starts in (0, 1))
    assert theirs.high - theirs.low > ours.high - ours.low
    assert theirs.high - theirs.low > 2 * 1.9 * 0.006 * ours.base


NAMES = st.sampled_from("abcdefgh")
SIDES = st.builds(
    Cost,
    st.dictionaries(NAMES, st.floats(0.1, 1e6), min_size=1),
    st.dictionaries(NAMES, st.dictionaries(NAMES, st.floats(0, 1e6), min_size=1)),
)


@given(SIDES, SIDES)
def test_all_cost_of_a_function_is_in_some_change(base: Cost, other: Cost) -> None:
    accounted = account_for(base, other)
    moved: dict[str, float] = defaultdict(float)
    for sign, side, shares in ((-1, base, accounted.base), (1, other, accounted.other)):
        for name, cost in side.of.items():
            assert sum(shares[name].values()) == pytest.approx(1)
            for into, share in shares[name].items():
                moved[into] += sign * cost * share
    scale = sum(base.of.values()) + sum(other.of.values())
    for change in accounted.changes:
        assert moved.pop(change.function) == pytest.approx(change.difference, abs=1e-9 * scale)
    assert all(abs(rest) <= 1e-9 * scale for rest in moved.values())


def test_opposite_changes_within_chance_are_not_netted() -> None:
    callers = {"slot_getattr": {"ExecScan": 500.0}}
    base = Cost({"ExecScan": 1000.0, "slot_getattr": 200.0}, callers)
    other = Cost({"ExecScan": 700.0, "slot_getattr": 520.0}, callers)
    assert len(account_for(base, other).changes) == 1
    assert len(account_for(base, other, {"ExecScan": 400.0}).changes) == 2


def test_a_machine_that_is_slower_for_a_while_widens_no_interval() -> None:
    pairs = paired(7, {**COSTS, "f0": 1.5 * COSTS["f0"]}, samples=1e6)
    factors = [3.0 if number % 3 else 1.0 for number in range(len(pairs.pairs))]
    slow = [
        (replace(base, cost=base.cost * factor), replace(other, cost=other.cost * factor))
        for (base, other), factor in zip(pairs.pairs, factors, strict=True)
    ]
    ours, theirs = judged(pairs).whole, judged(replace(pairs, pairs=slow)).whole
    assert theirs.difference / theirs.base == pytest.approx(ours.difference / ours.base, rel=1e-6)
    assert (theirs.high - theirs.low) / theirs.base == pytest.approx(
        (ours.high - ours.low) / ours.base, rel=1e-6
    )
