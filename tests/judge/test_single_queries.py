"""Verdicts on queries that were executed one at a time in pairs: from records to tables."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec import structs

from pgstrata.judge.compare import Comparison, StepVerdict, compare_all
from pgstrata.judge.single_queries import in_order
from pgstrata.report import verdicts
from pgstrata.report.sections.query_verdicts import change
from pgstrata.report.sections.summary import word_counts
from pgstrata.report.verdicts import sentence
from pgstrata.store import Run
from pgstrata.store.choose import Side
from pgstrata.store.record import QueryPairs, QueryTurns, RunFailure, Slice
from support.records import comparison_record, step_record, stored_run

LIMIT = 60.0


def query(
    name: str, seconds: float, pairs: int = 20, *, load: float | None = None, **more: Any
) -> QueryTurns:
    """A query that takes so long, give or take one percent."""
    dice = random.Random(f"{name}/{seconds}")
    times = [seconds * dice.lognormvariate(0, 0.01) for _ in range(pairs)]
    slices = tuple(
        Slice(pair=number, seconds=time, rate=1 / time, other_load=load)
        for number, time in enumerate(times, 1)
    )
    return QueryTurns(name=name, slices=slices, **({"seconds": seconds} | more))


def rejected(name: str) -> QueryTurns:
    return QueryTurns(name=name, end="rejected", reason='syntax error at or near "QUALIFY"')


def limited(name: str) -> QueryTurns:
    return QueryTurns(name=name, end="limited")


def run_of(variant: str, *queries: QueryTurns, repeat: int = 1, **changes: Any) -> Run:
    pairs = QueryPairs(queries=queries, seconds=60.0, budget_seconds=60.0, limit_seconds=LIMIT)
    step = step_record("queries", rate_unit="queries/s", query_pairs=pairs)
    comparison = comparison_record("old", "new", until="verdict")
    return stored_run(variant, repeat, step, comparison=comparison, **changes)


def compared(
    base: list[QueryTurns], other: list[QueryTurns], **options: Any
) -> tuple[Comparison, dict[str, StepVerdict]]:
    sides = Side("old", (run_of("old", *base),)), Side("new", (run_of("new", *other),))
    (comparison,) = compare_all(sides[0], [sides[1]], **options)
    return comparison, {each.step.removeprefix("queries."): each for each in comparison.judged}


def test_each_query_has_a_verdict() -> None:
    comparison, words = compared(
        [query("q1", 0.3, 4), query("q2", 0.1), query("q10", 0.2)],
        [query("q1", 0.3 / 87, 4), query("q2", 0.1001), query("q10", 0.25)],
    )
    assert {name: each.verdict.word for name, each in words.items()} == {
        "q1": "faster",
        "q2": "same",
        "q10": "slower",
    }
    assert list(words) == ["q1", "q2", "q10"]
    first = words["q1"]
    assert first.verdict.n == 4 and first.ratio == pytest.approx(87, rel=0.05)
    assert first.verdict.adjusted_p is not None and first.verdict.adjusted_p > first.verdict.p_value
    record = next(each for each in comparison.record()["steps"] if each["step"] == "queries.q1")
    assert record["evidence"] == "queries"
    assert record["base_seconds"] == pytest.approx(0.3, rel=0.05)
    assert record["other_seconds"] == pytest.approx(0.3 / 87, rel=0.05)
    # The step itself is one pass on each side.
    assert [each.verdict.word for each in comparison.steps] == ["unclear"]


def test_single_queries_can_be_asked_for() -> None:
    both = [query("q1", 0.3), query("q2", 0.1)]
    assert set(compared(both, both, steps=["queries.q2"])[1]) == {"q2"}
    assert set(compared(both, both, steps=["queries"])[1]) == {"q1", "q2"}
    assert compared(both, both, steps=["queries.q3"])[0].steps == ()


def test_a_query_that_one_side_rejects_is_no_comparison() -> None:
    base = [query("q1", 0.1), rejected("q2"), rejected("q3")]
    other = [rejected("q1"), query("q2", 0.1), rejected("q3")]
    comparison, words = compared(base, other)
    both = words["q3"]
    assert (both.verdict.word, both.ratio, both.is_compared, both.is_rejected) == (
        "unclear",
        None,
        False,
        True,
    )
    assert both.verdict.reason == 'both sides reject it: syntax error at or near "QUALIFY"'
    text = sentence(comparison, both)
    assert "no pair (both sides reject it: " in text and "1.000" not in text and "interval" not in text
    for name, label in (("q1", "new"), ("q2", "old")):
        verdict = words[name].verdict
        assert (verdict.word, verdict.aside) == ("unclear", True)
        assert verdict.reason == f'{label} rejects it: syntax error at or near "QUALIFY"'
    assert any("QUALIFY" in note for note in verdicts.notes(comparison))


def test_a_query_cut_at_its_limit_is_slower_than_one_that_ends_clearly_before() -> None:
    base = [
        query("far", 1.0),
        query("near", 0.9 * LIMIT),
        limited("both"),
        limited("base"),
        query("once", 1.0),
    ]
    other = [
        limited("far"),
        limited("near"),
        limited("both"),
        query("base", 1.0),
        query("once", 1.0, end="limited"),
    ]
    comparison, words = compared(base, other)
    assert {name: each.verdict.word for name, each in words.items()} == {
        "far": "slower",
        "near": "unclear",
        "both": "unclear",
        "base": "faster",
        "once": "unclear",
    }
    assert words["far"].ratio == pytest.approx(1 / LIMIT)
    assert "runs into its limit of 60 s" in words["far"].verdict.reason
    row = next(row for row in verdicts.rows(comparison)[1] if row[1] == "queries.far")
    assert row[-1] == "cut at its limit"


@pytest.mark.parametrize(
    ("base", "other", "reason"),
    [
        # cut in the first repeat, and the same in the second
        (query("q", 1.0), query("q", 1.0), "new runs into its limit of 60 s, and has ended before it, too"),
        # the base in the second
        (limited("q"), query("q", 1.0), "both sides run into its limit of 60 s"),
        (query("q", 1.0), rejected("q"), 'new rejects it: syntax error at or near "QUALIFY"'),
        # one that took the base nearly as long
        (query("q", 0.9 * LIMIT), limited("q"), "new runs into its limit of 60 s, the other side nearly"),
    ],
)
def test_a_limit_in_one_of_two_repeats_is_held_against_the_other(
    base: QueryTurns, other: QueryTurns, reason: str
) -> None:
    def side(variant: str, first: QueryTurns, second: QueryTurns) -> Side:
        return Side(variant, (run_of(variant, first), run_of(variant, second, repeat=2)))

    (comparison,) = compare_all(side("old", query("q", 1.0), base), [side("new", limited("q"), other)])
    verdict = comparison.judged[0].verdict
    assert (verdict.word, verdict.aside, verdict.reason) == ("unclear", True, reason)


def test_the_rate_of_a_query_that_ends_later_is_that_of_its_pairs() -> None:
    ours, theirs = query("q", 1.0), query("q", 1.5, end="rejected", reason="out of memory")
    first = compared([ours], [theirs])[1]["q"]
    assert first.verdict.aside and first.base_rate is not None
    assert first.other_rate == pytest.approx(first.base_rate * first.verdict.ratio)


def test_disturbed_pairs_prove_nothing() -> None:
    busy = [query("q1", 0.1, load=0.9)], [query("q1", 0.2, load=0.0)]
    verdict = compared(*busy)[1]["q1"].verdict
    assert (verdict.word, verdict.aside) == ("unclear", True)
    assert verdict.reason == "others used the CPUs in 20 of 20 pairs"


def told_apart(seconds: float, *, busy: int = 0, **more: Any) -> QueryTurns:
    """A query that is planned in a millisecond. busy: turns beside other programs, the first ones."""
    turns = query("q", seconds, 40, **more)
    slices = [structs.replace(part, other_load=0.9 if part.pair <= busy else 0.0) for part in turns.slices]
    return structs.replace(turns, slices=tuple(slices), planning=(0.001,) * 40)


def test_phases_have_no_words_where_the_query_has_none() -> None:
    def words(base: QueryTurns, other: QueryTurns, **changes: Any) -> tuple[str, ...]:
        sides = Side("old", (run_of("old", base),)), Side("new", (run_of("new", other, **changes),))
        (comparison,) = compare_all(sides[0], [sides[1]])
        (judged,) = comparison.judged
        assert judged.phases is not None and judged.phases.execution.other > 0.19
        return judged.verdict.word, judged.phases.planning.word, judged.phases.execution.word

    assert words(told_apart(0.1), told_apart(0.2)) == ("slower", "same", "slower")
    # 19 pairs are left, and they would be enough.
    assert words(told_apart(0.1), told_apart(0.2, busy=21)) == ("unclear",) * 3
    failure = RunFailure(message="the server died", hint="", log_tail="")
    assert words(told_apart(0.1), told_apart(0.2), status="failed", error=failure) == ("unclear",) * 3


def test_why_a_query_is_not_known() -> None:
    few = [query("q1", 0.1, 2, reason="its time was over after 2 pairs")]
    reason = compared(few, few)[1]["q1"].verdict.reason
    assert reason == "2 of at least 3 pairs; its time was over after 2 pairs"


def test_many_queries_are_adjusted_for_their_number() -> None:
    """Three pairs of a small factor are proof among one query, not among a hundred."""
    same = [query(f"s{number}", 0.1) for number in range(99)]
    alone = compared([query("q", 0.2, 4)], [query("q", 0.1, 4)])[1]["q"].verdict
    among = compared([query("q", 0.2, 4), *same], [query("q", 0.1, 4), *same])[1]["q"].verdict
    assert alone.word == "faster" and alone.p_value == among.p_value
    assert among.adjusted_p is not None and among.adjusted_p > among.p_value


def test_names_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["q10", "q2", "q1b", "a"], key=in_order) == ["a", "q1b", "q2", "q10"]


def test_a_change_as_a_person_says_it() -> None:
    assert change(87.0) == "87 times as fast"
    assert change(0.5) == "2.0 times as long"
    assert change(1 / 1.02) == "2.0 % longer"
    assert change(1 / 0.98) == "2.0 % less time"


def test_counts_of_words_tell_unclear_from_not_compared() -> None:
    comparison, words = compared(
        [query("q1", 0.3), query("q2", 0.1, 4), rejected("q3"), limited("q4")],
        [query("q1", 0.4), query("q2", 0.13, 4), rejected("q3"), limited("q4")],
    )
    assert words["q2"].verdict.word == words["q3"].verdict.word == "unclear"
    (step,) = comparison.steps
    assert word_counts(step) == "1 slower, 1 unclear, 2 not compared"


@pytest.mark.parametrize("side", [0, 1])
def test_what_a_sample_of_analyze_decides_is_no_difference_of_versions(side: int) -> None:
    def sides(times: float) -> list[list[QueryTurns]]:
        return [
            [query("q1", seconds, plans=1 + (side == place))] for place, seconds in ((0, 0.1), (1, times))
        ]

    _, words = compared(*sides(0.13))
    verdict = words["q1"].verdict
    assert verdict.word == "unclear" and verdict.aside
    label = ("old", "new")[side]
    assert verdict.reason == (
        f"slower with these statistics, but the plan of {label} hangs on the rows that ANALYZE samples"
    )
    # Two plans that the planner takes for equally good hardly differ by so much.
    _, words = compared(*sides(0.9))
    verdict = words["q1"].verdict
    assert verdict.word == "slower" and verdict.reason.endswith("hangs on the rows that ANALYZE samples")


def test_one_plan_with_all_samples_leaves_the_word() -> None:
    _, words = compared([query("q1", 0.1, plans=1)], [query("q1", 0.13, plans=1)])
    assert words["q1"].verdict.word == "slower" and "ANALYZE" not in words["q1"].verdict.reason
