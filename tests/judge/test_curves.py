"""The verdict on a curve: its sentence, its cause and both knees, as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from msgspec import structs, to_builtins

from pgstrata.judge.compare import Comparison, compare_all
from pgstrata.judge.curves import words_in_turns
from pgstrata.stats.criterion import Criterion
from pgstrata.store.choose import Side
from pgstrata.store.record import Slice, StepRecord, WaitsCost
from support.records import comparison_record, step_record, stored_run

CRITERION = Criterion(0.02)


def in_slices(name: str, rate: float, seed: int, wait: float = 0.0, pairs: int = 200) -> StepRecord:
    """A step in 20 batches of slices, whose connections waited for a lock for so much of their time."""
    rates = rate * np.exp(np.random.default_rng([seed, *name.encode()]).normal(0, 0.01, pairs))
    cost = WaitsCost(polls=500, wanted=500, sampler_cpu_seconds=0.0, backend_cpu_seconds=0.0)
    return step_record(
        name,
        rate=rate,
        turns="windows",
        slices=tuple(Slice(pair=n, seconds=0.02, rate=float(r)) for n, r in enumerate(rates, 1)),
        blocks=tuple(range(10, pairs + 1, 10)),
        waits={"query": {"running": 1 - wait, "Lock: tuple": wait}},
        waits_cost=cost,
    )


def curve(
    seed: int, rates: Mapping[int, float], waits: Mapping[int, float] | None = None
) -> list[StepRecord]:
    return [
        in_slices(f"mix-c{clients}", rate, seed, (waits or {}).get(clients, 0.0))
        for clients, rate in rates.items()
    ]


BASE = {1: 100.0, 2: 200.0, 4: 400.0, 8: 800.0, 16: 810.0, 32: 805.0}
SLOWER = {clients: min(rate, 400.0) for clients, rate in BASE.items()}
WAITS = {8: 0.5, 16: 0.75, 32: 0.8}


def compared(base: list[StepRecord], other: list[StepRecord], *, until: str = "time") -> Comparison:
    turns = comparison_record("a", "b", until=until)
    sides = [
        Side(label, (stored_run(label, 1, *steps, comparison=turns),))
        for label, steps in (("a", base), ("b", other))
    ]
    (comparison,) = compare_all(sides[0], [sides[1]], criterion=CRITERION)
    return comparison


def test_the_record_has_sentence_cause_points_and_knees() -> None:
    comparison = compared(curve(1, BASE), curve(2, SLOWER, WAITS))
    record: Any
    (record,) = comparison.record()["curves"]
    assert record["sentence"] == "the same up to 4 clients, slower beyond, Lock tuple"
    assert (record["workload"], record["steps"], record["cause"]) == ("w", "mix", "Lock tuple")
    words = ["same", "same", "same", "slower", "slower", "slower"]
    assert list(record["points"]) == [
        {"clients": clients, "word": word} for clients, word in zip(BASE, words, strict=True)
    ]
    for side, place in (("base_knee", 8), ("other_knee", 4)):
        assert record[side]["low"] <= place <= record[side]["high"]
        assert round(record[side]["clients"]) == place
        assert record[side]["text"].startswith(f"{place} (")


def test_a_rate_that_grows_has_a_knee_without_a_number() -> None:
    (record,) = compared(curve(1, {1: 1.0, 2: 2.0, 4: 4.0}), curve(2, {1: 1.0, 2: 2.0, 4: 4.0})).curves
    assert record.sentence == "the same from 1 to 4 clients" and record.cause == ""
    assert record.base_knee is not None and record.base_knee.clients is None


def test_two_numbers_of_clients_are_no_curve() -> None:
    assert compared(curve(1, {1: 1.0, 2: 2.0}), curve(2, {1: 1.0, 2: 2.0})).record()["curves"] == []


def test_a_side_without_rates_has_no_knee() -> None:
    without = [structs.replace(step, rate=None, slices=(), blocks=()) for step in curve(2, BASE)]
    (record,) = compared(curve(1, BASE), without).curves
    assert record.base_knee is not None and record.other_knee is None
    assert to_builtins(record)["other_knee"] is None


@pytest.mark.parametrize("until", ["time", "verdict"])
def test_words_while_variants_take_turns_are_those_of_the_comparison(until: str) -> None:
    span = 5.0 if until == "verdict" else None
    base, other = (
        [structs.replace(step, span=span) for step in side] for side in (curve(1, BASE), curve(2, SLOWER))
    )
    by_clients = [dict(zip(BASE, side, strict=True)) for side in (base, other)]
    words = words_in_turns(*by_clients, watched=until == "verdict", criterion=CRITERION)
    (record,) = compared(base, other, until=until).curves
    assert len(set(words.values())) == 2
    assert [(point.clients, point.word) for point in record.points] == list(words.items())


def test_a_disturbed_point_is_unclear_while_variants_take_turns() -> None:
    base, other = curve(1, BASE), curve(2, SLOWER)
    waited = tuple(structs.replace(part, waited=0.5) for part in base[3].slices)
    base[3] = structs.replace(base[3], slices=waited)
    other[3] = structs.replace(
        other[3], slices=tuple(structs.replace(part, waited=0.0) for part in other[3].slices)
    )
    by_clients = [dict(zip(BASE, side, strict=True)) for side in (base, other)]
    words = words_in_turns(*by_clients, watched=False, criterion=CRITERION)
    assert words[8] == "unclear" and words[16] == "slower"
