from __future__ import annotations

import numpy as np
import pytest

from pgstrata.judge.costs import cost_pairs, cost_words, step_cost
from pgstrata.store.read import MeasuredStep
from support.records import step_record, stored_run


def measured(variant: str, *cpu_seconds: float | None) -> list[MeasuredStep]:
    steps = [step_record(operations=10, server_cpu_seconds=seconds) for seconds in cpu_seconds]
    runs = [stored_run(variant, repeat, step) for repeat, step in enumerate(steps, 1)]
    return [MeasuredStep(run, run.steps[0]) for run in runs]


def word(base: list[MeasuredStep], other: list[MeasuredStep]) -> str:
    return cost_words({"cpu": cost_pairs(base, other, lambda m: step_cost(m.record).cpu)})["cpu"]


def test_one_run_each_proves_nothing_of_a_cost_however_far_it_is_off() -> None:
    assert word(measured("a", 1.0), measured("b", 7.08)) == "unclear"


def test_repeats_prove_a_cost_that_differs() -> None:
    base, dearer = measured("a", 1.0, 1.01, 0.99, 1.02), measured("b", 2.0, 2.03, 1.97, 2.01)
    assert word(base, dearer) == "slower"
    assert word(dearer, base) == "faster"
    assert word(base, base) == "same"


def test_only_repeats_that_both_have_are_pairs() -> None:
    pairs = cost_pairs(
        measured("a", 1.0, None, 3.0), measured("b", 2.0, 4.0), lambda m: m.record.server_cpu_seconds
    )
    assert pairs == ([1.0], [2.0])


@pytest.mark.parametrize("seed", range(5))
def test_noise_among_many_figures_is_hardly_ever_coloured(seed: int) -> None:
    dice = np.random.default_rng(seed)
    pairs = {n: tuple(list(dice.lognormal(0, 0.5, 4)) for _ in range(2)) for n in range(200)}
    words = cost_words(pairs)  # type: ignore[arg-type]
    assert sum(w in ("slower", "faster") for w in words.values()) <= 1
