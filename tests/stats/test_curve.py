"""Knees of known models, and the sentence on a curve."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pytest

from pgstrata.stats.curve import Knee, curve_sentence, knee
from pgstrata.stats.verdict import Verdict, Word


def closed_queue(clients: int, cores: int, think: float) -> float:
    """Returns the rate of a closed queue with this many servers, in units of what one server does; clients
    think for `think` service times. Its saturation point is cores × (1 + think)."""
    if think == 0:
        return float(min(clients, cores))
    logs, log = [], 0.0
    for n in range(clients + 1):
        logs.append(log)
        log += math.log(max(clients - n, 1) / think / min(n + 1, cores))
    weights = np.exp(np.array(logs) - max(logs))
    return float(weights @ np.minimum(np.arange(clients + 1), cores) / weights.sum())


def drawn(rng: np.random.Generator, cores: int, most: int, noise: float) -> tuple[float, Knee]:
    """Returns the known knee of a random model, and the one that is found in noisy rates."""
    think, efficiency, fall = rng.uniform(0, 0.3), rng.uniform(0.85, 1.0), rng.uniform(0, 0.3)
    true = cores * (1 + think)
    curve = {}
    for clients in (2**n for n in range(most.bit_length())):
        rate = 1e4 * closed_queue(clients, cores, think) ** efficiency * max(1, clients / true) ** -fall
        curve[clients] = rate * math.exp(rng.normal(0, noise)), noise
    return true, knee(curve)


@pytest.mark.long
@pytest.mark.parametrize(("cores", "most"), [(48, 256), (192, 1024)])
@pytest.mark.parametrize("noise", [0.005, 0.03])
def test_known_knees_are_found_within_one_grid_point(cores: int, most: int, noise: float) -> None:
    rng = np.random.default_rng([cores, round(noise * 1000)])
    found = [drawn(rng, cores, most, noise) for _ in range(100)]
    near = [abs(math.log2(own.clients / true)) <= 1 for true, own in found]
    inside = [own.low <= true <= own.high for true, own in found]
    assert sum(near) >= 95
    assert sum(inside) >= 90


def curve(*rates: float) -> dict[int, tuple[float, float]]:
    return {2**n: (rate, 0.01) for n, rate in enumerate(rates)}


def test_a_rate_that_grows_has_no_knee_below_the_most_clients() -> None:
    own = knee(curve(1, 1.9, 3.7, 7.1, 14))
    assert own.grows and own.high_open
    assert own.text.startswith("none up to 16")


def test_a_rate_that_never_grows_has_its_knee_at_the_fewest_clients() -> None:
    own = knee(curve(10, 10, 9.8, 9.9))
    assert own.clients == 1 and own.low_open and not own.high_open


def test_the_unit_of_the_rate_changes_nothing() -> None:
    rates = (1, 2, 3.9, 4.1, 4.0)
    assert knee(curve(*rates)).clients == pytest.approx(knee(curve(*(1000 * r for r in rates))).clients)


def test_more_noise_gives_a_wider_interval() -> None:
    rates = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0, 16: 8.0, 32: 8.0}
    narrow, wide = (knee({n: (r, error) for n, r in rates.items()}) for error in (0.01, 0.2))
    assert wide.low < narrow.low <= 8 <= narrow.high < wide.high


def test_errors_may_be_unknown() -> None:
    own = knee({n: (float(min(n, 8)), math.inf) for n in (1, 2, 4, 8, 16, 32)})
    assert own.low <= 8 <= own.high


@pytest.mark.parametrize("rates", [(1, 2), (1, 2, 0), (1, 2, math.nan)])
def test_what_is_no_curve_is_refused(rates: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="clients"):
        knee(curve(*rates))


@pytest.mark.parametrize(
    ("own", "text"),
    [
        (Knee(8.2, 6.1, 10.7, False, False, False), "8 (6 … 11)"),
        (Knee(8, 6, 16, False, False, True), "8 (6 … 16 or more)"),
        (Knee(2, 2, 4, False, True, False), "2 (2 or fewer … 4)"),
        (Knee(1, 1, 2, False, True, False), "1 (1 … 2)"),
        (Knee(16, 12, 16, True, False, True), "none up to 16 (12 or more)"),
    ],
)
def test_a_knee_in_words(own: Knee, text: str) -> None:
    assert own.text == text


def verdict(word: Word, p: float) -> Verdict:
    ratio = {"slower": 0.9, "faster": 1.1}.get(word, 1.0)
    return Verdict(word, ratio, ratio * 0.99, ratio * 1.01, 0.02, 0.95, 40, p, None, "")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("same same same same slower slower", "the same up to 8 clients, slower beyond"),
        ("same slower slower", "the same at 1 client, slower beyond"),
        ("slower slower slower", "slower from 1 to 4 clients"),
        (
            "faster faster unclear same slower",
            "faster up to 2 clients, unclear at 4, the same at 8, slower beyond",
        ),
        ("same slower slower faster", "the same at 1 client, slower from 2 to 4, faster beyond"),
    ],
)
def test_the_sentence_follows_the_points(words: str, sentence: str) -> None:
    points = {
        2**n: verdict(cast("Word", word), 0.5 if word == "same" else 1e-6)
        for n, word in enumerate(words.split())
    }
    assert curve_sentence(points) == sentence


def test_a_point_that_may_be_chance_among_many_is_unclear() -> None:
    points = {2**n: verdict("same", 0.9) for n in range(5)} | {32: verdict("slower", 0.04)}
    assert curve_sentence(points) == "the same up to 16 clients, unclear beyond"


def test_few_points_are_no_curve() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        curve_sentence({1: verdict("same", 1), 2: verdict("same", 1)})
