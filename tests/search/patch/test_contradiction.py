"""A series whose steps multiply to something else than its whole contradicts itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.search.bisect.procedure import BUILD_ERROR, By
from pgstrata.search.patch.contradiction import Ratio, contradicts, disagreement, sentence

MARGIN = 0.02


def ratio(value: float, half: float = 0.004, word: str = "") -> Ratio:
    return Ratio(value, value * math.exp(-half), value * math.exp(half), word)


def test_the_steps_of_a_real_series_contradict_its_whole() -> None:
    parts, whole = [ratio(0.991), ratio(1.027)], ratio(0.995, word="same")
    assert contradicts(parts, whole, MARGIN, "rate")
    text = sentence("point-query", parts, whole, "rate")
    assert "0.991 × 1.027 = 1.018" in text and "0.995" in text and "--by instructions" in text


@given(
    values=st.lists(st.floats(0.5, 2), min_size=2, max_size=30),
    half=st.floats(0, 0.5),
    by=st.sampled_from(["rate", "instructions"]),
)
def test_exact_ones_do_not(values: list[float], half: float, by: By) -> None:
    whole = ratio(math.prod(values), half, "same")
    assert not contradicts([ratio(value, half) for value in values], whole, MARGIN, by)


@pytest.mark.parametrize("by", ["rate", "instructions"])
def test_noise_alone_seldom_contradicts(by: By) -> None:
    """In 2,000 series of three patches, whose errors are those of their intervals and of starts."""
    dice = np.random.default_rng(1)
    error = 2 * BUILD_ERROR[by]
    half = 1.96 * math.sqrt(error**2 - BUILD_ERROR[by] ** 2)
    contradictions = 0
    for _ in range(2000):
        *parts, whole = np.exp(dice.normal(size=4) * error)
        contradictions += contradicts(
            [ratio(float(p), half) for p in parts], ratio(float(whole), half), MARGIN, by
        )
    assert contradictions <= 20


@pytest.mark.parametrize(
    "odd", [Ratio(0.0, 0.0, 1.0), Ratio(1.1, 0.0, math.inf), Ratio(math.nan, math.nan, math.nan)]
)
def test_what_has_no_interval_proves_no_contradiction(odd: Ratio) -> None:
    assert not contradicts([odd, ratio(1.0)], ratio(0.5), MARGIN, "rate")
    assert not contradicts([ratio(1.0)], odd, MARGIN, "rate")


def test_fewer_instructions_that_are_slower_are_said() -> None:
    text = disagreement("new against base", "point-query", ratio(0.96), ratio(0.9945, half=0.0002))
    assert text is not None
    assert text.startswith("new against base: point-query is 4.0 % slower (")
    assert "though it has 0.55 % fewer instructions (" in text
    assert disagreement("new", "point-query", ratio(1.04), ratio(1.0055, half=0.0002)) is not None


@pytest.mark.parametrize(
    ("rate", "instructions"),
    [
        (ratio(0.96), ratio(1.0055, half=0.0002)),
        (ratio(0.995), ratio(0.9945, half=0.0002)),
        (ratio(0.96), ratio(0.9998, half=0.0002)),
        (Ratio(0.0, 0.0, 1.0), ratio(0.9)),
        (ratio(0.9), Ratio(math.nan, math.nan, math.nan)),
        (Ratio(0.9, 0.0, math.inf), ratio(0.9)),
    ],
)
def test_one_sign_or_no_proof_is_no_disagreement(rate: Ratio, instructions: Ratio) -> None:
    assert disagreement("new", "point-query", rate, instructions) is None
