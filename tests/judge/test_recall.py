"""Rates at different recalls are no comparison."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from pgstrata.judge.compare import compare_all
from pgstrata.judge.recall import recall_of
from pgstrata.store import Run
from pgstrata.store.choose import Side
from pgstrata.store.record import Slice
from support.records import comparison_record, role_record, step_record, stored_run


def runs(variant: str, rate: float, recall: float | None) -> tuple[Run, ...]:
    """Five repeats that differ by little."""
    facts: dict[str, Any] = {}
    if recall is not None:
        facts["recall"] = {
            "r95": {"target": 0.95, "recall": recall, "setting": "hnsw.ef_search", "value": 40, "k": 10}
        }
    stored = []
    for repeat in range(1, 6):
        step = step_record("r95", rate=rate + repeat / 10, measured=True, roles={"query": role_record()})
        stored.append(stored_run(variant, repeat, step, facts=facts))
    return tuple(stored)


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        (None, None, "faster"),
        (0.951, 0.960, "faster"),
        (0.951, 0.963, "unclear"),
        (0.99, 0.95, "unclear"),
    ],
)
def test_a_verdict_needs_equal_recall(ours: float | None, theirs: float | None, word: str) -> None:
    (comparison,) = compare_all(Side("a", runs("a", 100, ours)), [Side("b", runs("b", 200, theirs))])
    (step,) = comparison.steps
    assert step.verdict.word == word
    if word == "unclear":
        assert step.verdict.aside
        assert f"a {ours:.3f}, b {theirs:.3f}" in step.verdict.reason or (
            f"b {theirs:.3f}, a {ours:.3f}" in step.verdict.reason
        )
        assert "at equal recall only" in step.verdict.reason


def test_variants_of_one_label_are_told_apart_by_their_side() -> None:
    """As the runs of two campaigns, which often call a server alike."""
    sides = Side("a (first)", runs("a", 100, 0.951)), Side("a (second)", runs("a", 200, 0.99))
    (comparison,) = compare_all(sides[0], [sides[1]])
    verdict = comparison.steps[0].verdict
    assert (verdict.word, verdict.aside) == ("unclear", True)
    assert "a 0.951, a 0.990" in verdict.reason


def test_turns_within_a_run_say_nothing_of_an_index_that_was_drawn_once() -> None:
    def runs_with(variant: str, rate: float, recall: float | None) -> tuple[Run, ...]:
        (run, *_) = runs(variant, rate, recall)
        slices = tuple(Slice(pair=n, seconds=1.0, rate=rate + n / 100) for n in range(1, 60))
        record = structs.replace(
            run.record,
            steps=(structs.replace(run.steps[0], slices=slices),),
            comparison=comparison_record("a", "b"),
        )
        return (Run(run.folder, record),)

    def verdict(recall: float | None) -> tuple[str, str]:
        (comparison,) = compare_all(
            Side("a", runs_with("a", 100, recall)), [Side("b", runs_with("b", 200, recall))]
        )
        return comparison.steps[0].evidence, comparison.steps[0].verdict.word

    assert verdict(None) == ("slices", "faster")
    assert verdict(0.95) == ("runs", "unclear")


@pytest.mark.parametrize("facts", [{}, {"recall": 1}, {"recall": {"r95": {"recall": "much"}}}])
def test_facts_of_another_kind_are_no_recall(facts: dict[str, Any]) -> None:
    run = stored_run("a", 1, step_record("r95"), facts=facts)
    assert recall_of(run, "r95") is None
