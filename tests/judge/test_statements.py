"""Statements of a replay, each judged by itself, on figures made for it."""

from __future__ import annotations

import random
from collections.abc import Mapping

from pgstrata.judge.statements import Executions, Rounds, enough_known, judge_statements, totals


def rounds(
    seconds: Mapping[str, float], count: int, *, seed: int, noise: float = 0.03, errors: int = 0
) -> Rounds:
    """So many rounds of a hundred executions of each statement, of these seconds each."""
    dice = random.Random(seed)
    return {
        ("c", 1, number): {
            name: Executions(100, errors, 100 * each * dice.lognormvariate(0, noise))
            for name, each in seconds.items()
        }
        for number in range(1, count + 1)
    }


BASE = {"much": 0.010, "little": 0.0001, "steady": 0.005}


def judged(base: Rounds, other: Rounds, *, watched: bool = False) -> dict[str, str]:
    found = judge_statements(base, {"new": other}, watched=watched, margin=0.05)["new"]
    return {one.name: one.verdict.word for one in found}


def test_the_slower_one_is_told_from_those_that_are_the_same() -> None:
    base = rounds(BASE, 12, seed=1)
    found = judge_statements(
        base, {"new": rounds({**BASE, "little": 0.0004}, 12, seed=2)}, watched=False, margin=0.05
    )["new"]
    words = {one.name: one.verdict.word for one in found}
    assert words == {"much": "same", "little": "slower", "steady": "same"}
    slow = next(one for one in found if one.name == "little")
    assert 3.5 < slow.longer < 4.6 and slow.rounds == 12
    # By share of the time: what is little stays behind, whatever became of it.
    assert [one.name for one in found] == ["much", "steady", "little"]
    assert abs(sum(one.base_share for one in found) - 1) < 1e-9


def test_one_round_proves_nothing_however_large_the_difference() -> None:
    base, other = rounds(BASE, 1, seed=1), rounds({**BASE, "much": 1.0}, 1, seed=2)
    assert set(judged(base, other).values()) == {"unclear"}
    # Nor do the few first rounds where measuring stops when enough is known.
    base, other = rounds(BASE, 9, seed=1), rounds({**BASE, "much": 1.0}, 9, seed=2)
    assert judged(base, other)["much"] == "slower"
    assert set(judged(base, other, watched=True).values()) == {"unclear"}


def test_rounds_of_other_comparisons_are_no_pairs() -> None:
    base = rounds(BASE, 12, seed=1)
    other = {("d", *key[1:]): statements for key, statements in rounds(BASE, 12, seed=2).items()}
    found = judge_statements(base, {"new": other}, watched=False)["new"]
    assert {(one.verdict.word, one.rounds) for one in found} == {("unclear", 0)}


def test_a_statement_that_fails_on_one_side_is_not_faster() -> None:
    """Refusing it takes less time than doing it."""
    quick = rounds({**BASE, "much": 0.0001}, 12, seed=2)
    broken = {
        key: {**own, "much": own["much"]._replace(errors=100)}
        for key, own in rounds({**BASE, "much": 0.0001}, 12, seed=2).items()
    }
    base = rounds(BASE, 12, seed=1)
    assert judged(base, quick)["much"] == "faster"
    (much,) = [
        one for one in judge_statements(base, {"new": broken}, watched=False)["new"] if one.name == "much"
    ]
    assert much.verdict.word == "unclear" and much.verdict.aside
    assert "failed 1,200 of 1,200 times" in much.verdict.reason


def test_what_only_one_side_was_asked() -> None:
    base = rounds(BASE, 12, seed=1)
    other = rounds({"much": 0.01, "new": 0.01}, 12, seed=2)
    words = judged(base, other)
    assert words["little"] == words["steady"] == words["new"] == "unclear"
    assert totals(other)["new"].calls == 1200


def test_among_many_statements_few_are_false_alarms() -> None:
    """Forty that are all the same, many times: hardly any comparison calls one slower or faster."""
    names = {f"s{number}": 0.001 for number in range(40)}
    wrong = 0
    for seed in range(40):
        base = rounds(names, 6, seed=2 * seed, noise=0.2)
        other = rounds(names, 6, seed=2 * seed + 1, noise=0.2)
        wrong += any(word in ("slower", "faster") for word in judged(base, other).values())
    assert wrong <= 6, wrong


def test_measuring_goes_on_for_what_weighs_and_not_for_trifles() -> None:
    quiet = {"much": 0.01, "trifle": 0.00001}
    base = {
        key: {**own, "trifle": own["trifle"]._replace(seconds=own["trifle"].seconds * (4 if n % 2 else 0.25))}
        for n, (key, own) in enumerate(rounds(quiet, 30, seed=1, noise=0.01).items())
    }
    other = rounds(quiet, 30, seed=2, noise=0.01)
    assert judged(base, other, watched=True)["trifle"] == "unclear"
    assert enough_known(base, {"new": other}, 0.05)
    noisy = rounds(quiet, 30, seed=3, noise=0.8)
    assert not enough_known(base, {"new": noisy}, 0.05)
    # Steps that are no replays have no statements, and nothing to wait for.
    assert enough_known({}, {"new": {}}, 0.05)
