"""What is slower beside others and not alone, on figures made for it."""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec import structs

from pgstrata.judge.alone import AloneTurns, agreed, alone_in, judge_alone
from pgstrata.stats.criterion import Criterion
from pgstrata.stats.verdict import Verdict, compare
from pgstrata.store.record import AloneRecord, AloneRecords, Slice
from pgstrata.store.statement import Statement

FIVE_PER_CENT = Criterion(0.05)

S, T = Statement(1, "#1 s"), Statement(2, "#2 t")


def turns(rate: float, count: int, *, seed: int, load: float | None = None) -> tuple[Slice, ...]:
    dice = random.Random(seed)
    return tuple(
        Slice(pair=n, seconds=0.1, rate=rate * dice.lognormvariate(0, 0.01), other_load=load)
        for n in range(1, count + 1)
    )


def records(slices: Sequence[Slice], reason: str = "") -> AloneRecords:
    record = AloneRecord(number=1, name="#1 s", slices=tuple(slices), reason=reason)
    return AloneRecords(statements=(record,), seconds=1.0, budget_seconds=60.0, most_statements=20)


def beside(factor: float) -> Verdict:
    """A verdict of rounds: the other takes so many times as long."""
    dice = random.Random(1)
    base = [100.0 * dice.lognormvariate(0, 0.01) for _ in range(12)]
    return compare(base, [rate / factor for rate in base], criterion=FIVE_PER_CENT)


def test_both_have_to_say_the_same() -> None:
    for factor, word in ((1.5, "slower"), (1.0, "unclear"), (0.7, "unclear")):
        both = records(turns(100, 20, seed=1)), records(turns(100 / factor, 20, seed=2)), 0.25
        alone = alone_in(S, [both], FIVE_PER_CENT)
        verdict = agreed(beside(1.4), alone)
        assert (verdict.word, verdict.aside) == (word, word == "unclear"), factor
        # Figures are those of the rounds, whatever the word.
        assert verdict.ratio == beside(1.4).ratio
    assert verdict.reason.startswith("slower beside the others (40 % longer, × ")
    assert ", faster alone (30 % less time, × " in verdict.reason


def test_what_was_not_executed_alone_is_not_known() -> None:
    nothing = records((), "the time for it was over (60.0 s)")
    verdict = agreed(beside(1.4), alone_in(S, [(nothing, nothing, 0.25)], FIVE_PER_CENT))
    assert verdict.word == "unclear"
    assert verdict.reason.endswith(", and not executed alone: the time for it was over (60.0 s)")
    other = agreed(beside(0.6), alone_in(T, [(nothing, nothing, 0.25)], FIVE_PER_CENT))
    assert other.reason.startswith("faster beside") and other.reason.endswith(", and not executed alone")


def test_few_or_disturbed_pairs_say_nothing() -> None:
    few = [(AloneTurns(turns(100, 8, seed=1)), AloneTurns(turns(50, 8, seed=2)))]
    assert judge_alone(few, FIVE_PER_CENT).word == "unclear"
    busy = [(AloneTurns(turns(100, 20, seed=1, load=0.9)), AloneTurns(turns(50, 20, seed=2, load=0.0)))]
    assert judge_alone(busy, FIVE_PER_CENT).n == 0
    allowed = [(AloneTurns(first.slices, 0.95), AloneTurns(two.slices, 0.95)) for first, two in busy]
    assert judge_alone(allowed, FIVE_PER_CENT).word == "slower"
    sides = (records(few[0][0].slices), records(few[0][1].slices), 0.25)
    verdict = agreed(beside(1.4), alone_in(S, [sides], FIVE_PER_CENT))
    assert verdict.word == "unclear"
    assert ", not known alone (" in verdict.reason and " in 8 pairs)" in verdict.reason


def test_where_most_pairs_are_disturbed_the_others_prove_nothing() -> None:
    """Of 40 there are 19 left, which would be enough."""
    base, other = turns(100, 40, seed=1, load=0.0), turns(50, 40, seed=2, load=0.0)
    busy = tuple(structs.replace(part, other_load=0.9) if part.pair <= 21 else part for part in other)
    assert judge_alone([(AloneTurns(base), AloneTurns(other))], FIVE_PER_CENT).word == "slower"
    alone = judge_alone([(AloneTurns(base), AloneTurns(busy))], FIVE_PER_CENT)
    assert (alone.word, alone.aside, alone.n) == ("unclear", True, 19)
    verdict = agreed(beside(1.4), alone_in(S, [(records(base), records(busy), 0.25)], FIVE_PER_CENT))
    assert verdict.word == "unclear"
    assert verdict.reason.endswith("in 19 pairs): others used the CPUs in 21 of 40 pairs")
