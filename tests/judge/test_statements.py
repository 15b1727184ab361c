"""Statements of a replay, each judged by itself, on figures made for it."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from msgspec import structs

from pgstrata.judge import statements
from pgstrata.judge.statements import (
    Executions,
    Rounds,
    enough_known,
    judge_measured,
    judge_statements,
    parts_of_turns,
    totals,
)
from pgstrata.stats.criterion import Criterion
from pgstrata.store.read import MeasuredStep
from pgstrata.store.record import Disturbance, ExecutionCpu, QueryCauseRecord, Slice
from pgstrata.store.statement import Statement
from support.records import comparison_record, step_record, stored_run

FIVE_PER_CENT = Criterion(0.05)


def named(text: str) -> Statement:
    """Returns the statement with this text, which has the same number on both sides."""
    number = sum(text.encode())
    return Statement(number, f"#{number} {text}")


def rounds(
    seconds: Mapping[str, float], count: int, *, seed: int, noise: float = 0.03, errors: int = 0
) -> Rounds:
    """So many rounds of a hundred executions of each statement, of these seconds each."""
    dice = random.Random(seed)
    return {
        ("c", 1, number): {
            named(text): Executions(100, errors, 100 * each * dice.lognormvariate(0, noise))
            for text, each in seconds.items()
        }
        for number in range(1, count + 1)
    }


BASE = {"much": 0.010, "little": 0.0001, "steady": 0.005}


def judged(base: Rounds, other: Rounds, *, watched: bool = False) -> dict[str, str]:
    verdicts = judge_statements(base, {"new": other}, watched=watched, criterion=FIVE_PER_CENT)["new"]
    return {statement.statement.text: statement.verdict.word for statement in verdicts}


def test_the_slower_one_is_told_from_those_that_are_the_same() -> None:
    base = rounds(BASE, 12, seed=1)
    verdicts = judge_statements(
        base,
        {"new": rounds({**BASE, "little": 0.0004}, 12, seed=2)},
        watched=False,
        criterion=FIVE_PER_CENT,
    )["new"]
    words = {statement.statement.text: statement.verdict.word for statement in verdicts}
    assert words == {"much": "same", "little": "slower", "steady": "same"}
    slow = next(statement for statement in verdicts if statement.statement.text == "little")
    assert 3.5 < slow.longer < 4.6 and slow.rounds == 12
    # By share of the time: what is little stays behind, whatever became of it.
    assert [statement.statement.text for statement in verdicts] == ["much", "steady", "little"]
    assert abs(sum(statement.base_share for statement in verdicts) - 1) < 1e-9


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
    verdicts = judge_statements(base, {"new": other}, watched=False)["new"]
    assert {(statement.verdict.word, statement.rounds) for statement in verdicts} == {("unclear", 0)}


def test_a_statement_that_fails_on_one_side_is_not_faster() -> None:
    """Refusing it takes less time than doing it."""
    quick = rounds({**BASE, "much": 0.0001}, 12, seed=2)
    broken = {
        key: {**statements, named("much"): statements[named("much")]._replace(errors=100)}
        for key, statements in rounds({**BASE, "much": 0.0001}, 12, seed=2).items()
    }
    base = rounds(BASE, 12, seed=1)
    assert judged(base, quick)["much"] == "faster"
    (much,) = [
        statement
        for statement in judge_statements(base, {"new": broken}, watched=False)["new"]
        if statement.statement.text == "much"
    ]
    assert much.verdict.word == "unclear" and much.verdict.aside
    assert "failed 1,200 of 1,200 times" in much.verdict.reason


def test_what_only_one_side_was_asked() -> None:
    base = rounds(BASE, 12, seed=1)
    other = rounds({"much": 0.01, "new": 0.01}, 12, seed=2)
    words = judged(base, other)
    assert words["little"] == words["steady"] == words["new"] == "unclear"
    assert totals(other)[named("new")].calls == 1200


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
    quiet, trifle = {"much": 0.01, "trifle": 0.00001}, named("trifle")
    base = {
        key: {
            **statements,
            trifle: statements[trifle]._replace(seconds=statements[trifle].seconds * (4 if n % 2 else 0.25)),
        }
        for n, (key, statements) in enumerate(rounds(quiet, 30, seed=1, noise=0.01).items())
    }
    other = rounds(quiet, 30, seed=2, noise=0.01)
    assert judged(base, other, watched=True)["trifle"] == "unclear"
    assert enough_known(base, {"new": other}, FIVE_PER_CENT)
    noisy = rounds(quiet, 30, seed=3, noise=0.8)
    assert not enough_known(base, {"new": noisy}, FIVE_PER_CENT)
    # Steps that are no replays have no statements, and nothing to wait for.
    assert enough_known({}, {"new": {}}, FIVE_PER_CENT)


def test_disturbed_rounds_are_in_no_figure() -> None:
    base = rounds(BASE, 12, seed=1, noise=0.01)
    other = dict(rounds(BASE, 12, seed=2, noise=0.01))
    disturbed = {("c", 1, number) for number in (2, 3, 7)}
    for key in disturbed:
        other[key] = {
            name: executions._replace(seconds=executions.seconds * 9)
            for name, executions in other[key].items()
        }
    verdicts = judge_statements(
        base, {"new": other}, watched=False, criterion=FIVE_PER_CENT, left_out={"new": disturbed}
    )
    assert {statement.verdict.word for statement in verdicts["new"]} == {"same"}
    assert {statement.rounds for statement in verdicts["new"]} == {9}
    much = next(statement for statement in verdicts["new"] if statement.statement.text == "much")
    assert much.other.calls == 900 and 0.0098 < much.other.mean < 0.0102
    # Where none would be left, figures are of all; whether they say something is for the step to tell.
    reason = "other programs used 71% of the CPUs, and more than 25% in 12 of 12 rounds"
    verdicts = judge_statements(
        base,
        {"new": other},
        watched=False,
        criterion=FIVE_PER_CENT,
        left_out={"new": other.keys()},
        disturbances={"new": reason},
    )
    assert {(statement.verdict.word, statement.verdict.reason) for statement in verdicts["new"]} == {
        ("unclear", reason)
    }
    assert all(statement.verdict.aside and statement.rounds == 12 for statement in verdicts["new"])


def test_what_disturbed_a_step_is_told_of_its_statements(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rule as for the step: rounds left out, and all of it where too few remain."""

    def measured(variant: str, *loads: float) -> list[MeasuredStep]:
        slices = tuple(Slice(pair=n, seconds=1.0, rate=1.0, other_load=w) for n, w in enumerate(loads, 1))
        seen = Disturbance(other_load=sum(loads) / len(loads))
        record = structs.replace(step_record("replay"), turns="rounds", slices=slices, disturbance=seen)
        return [
            MeasuredStep(stored_run(variant, 1, record, comparison=comparison_record("old", "new")), record)
        ]

    by_variant = {"old": rounds(BASE, 8, seed=1), "new": rounds(BASE, 8, seed=2)}
    monkeypatch.setattr(statements, "rounds_of", lambda measured: by_variant[measured[0].run.variant])
    for busy, words in ((3, {"same"}), (5, {"unclear"})):
        loads = [0.6] * busy + [0.0] * (8 - busy)
        step_verdicts = judge_measured(measured("old", *loads), {"new": measured("new", *[0.0] * 8)})["new"]
        assert {statement.verdict.word for statement in step_verdicts.statements} <= {*words, "unclear"}
        assert step_verdicts.left_out == busy
        assert bool(step_verdicts.disturbance) == (busy == 5)
    assert {statement.verdict.reason for statement in step_verdicts.statements} == {
        "other programs used 38% of the CPUs, and more than 25% in 5 of 8 rounds"
    }


Turns = tuple[tuple[Slice, ...], tuple[ExecutionCpu, ...]]


def turns(*executions: tuple[float, float], waited: float = 0.0) -> Turns:
    """Turns of one execution each. executions: seconds, and those on a CPU."""
    return (
        tuple(
            Slice(pair=pair, seconds=seconds, rate=1 / seconds, waited=waited if pair == 1 else 0.0)
            for pair, (seconds, _) in enumerate(executions, 1)
        ),
        tuple(ExecutionCpu(seconds=cpu, waited_seconds=0.0) for _, cpu in executions),
    )


def looked_into(base: Turns, new: Turns) -> QueryCauseRecord:
    return QueryCauseRecord(name="s", base=base[0], new=new[0], cpu=(base[1], new[1]))


def test_the_turns_of_a_cause_tell_where_the_time_of_a_statement_went() -> None:
    quick, slow = turns((1.0, 0.8), (1.0, 0.8), (1.0, 0.8)), turns((3.0, 2.5), (2.0, 1.5), (2.0, 1.5))
    parts = parts_of_turns(looked_into(quick, slow), 0.25)
    assert parts is not None and parts.pairs == 3
    assert (parts.base, parts.other) == pytest.approx((1.0, 7 / 3))
    assert sum(part.difference for part in parts.parts) == pytest.approx(parts.difference)
    # A pair in which other programs had the CPUs is in no figure.
    disturbed = turns((3.0, 2.5), (2.0, 1.5), (2.0, 1.5), waited=0.5)
    parts = parts_of_turns(looked_into(quick, disturbed), 0.25)
    assert parts is not None and parts.pairs == 2 and parts.other == pytest.approx(2.0)
    assert parts_of_turns(looked_into(slow, quick), 0.25) is None
    assert parts_of_turns(QueryCauseRecord(name="s", base=quick[0], new=slow[0]), 0.25) is None
