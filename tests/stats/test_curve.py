"""Knees of known models, and the sentence on a curve."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgstrata.stats.curve import FINE, Knee, curve_sentence, curve_words, knee, next_clients
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
    knees = [drawn(rng, cores, most, noise) for _ in range(100)]
    near = [abs(math.log2(estimated.clients / true)) <= 1 for true, estimated in knees]
    inside = [estimated.low <= true <= estimated.high for true, estimated in knees]
    assert sum(near) >= 95
    assert sum(inside) >= 90


def curve(*rates: float) -> dict[int, tuple[float, float]]:
    return {2**n: (rate, 0.01) for n, rate in enumerate(rates)}


def test_a_rate_that_grows_has_no_knee_below_the_most_clients() -> None:
    estimated = knee(curve(1, 1.9, 3.7, 7.1, 14))
    assert estimated.grows and estimated.high_open
    assert estimated.text.startswith("none up to 16")


def test_a_rate_that_never_grows_has_its_knee_at_the_fewest_clients() -> None:
    estimated = knee(curve(10, 10, 9.8, 9.9))
    assert estimated.clients == 1 and estimated.low_open and not estimated.high_open


@pytest.mark.parametrize("growth", [2.0, 1.9])
def test_a_knee_right_of_a_single_point_is_known(growth: float) -> None:
    estimate = knee(curve(10, 10 * growth, 10 * growth, 10 * growth, 10 * growth))
    assert estimate.text == "2 (2 … 2)"
    assert estimate.low <= 2 <= estimate.high and not estimate.low_open


def test_a_rate_that_more_than_doubles_leaves_its_knee_at_the_second_point() -> None:
    estimate = knee(curve(10, 21, 20.5, 21, 20.7))
    assert estimate.low <= 2 <= estimate.high and round(estimate.clients) == 2


def test_the_unit_of_the_rate_changes_nothing() -> None:
    rates = (1, 2, 3.9, 4.1, 4.0)
    assert knee(curve(*rates)).clients == pytest.approx(knee(curve(*(1000 * r for r in rates))).clients)


def test_more_noise_gives_a_wider_interval() -> None:
    rates = {1: 1.0, 2: 2.0, 4: 4.0, 8: 8.0, 16: 8.0, 32: 8.0}
    narrow, wide = (knee({n: (r, error) for n, r in rates.items()}) for error in (0.01, 0.2))
    assert wide.low < narrow.low <= 8 <= narrow.high < wide.high


def test_errors_may_be_unknown() -> None:
    estimated = knee({n: (float(min(n, 8)), math.inf) for n in (1, 2, 4, 8, 16, 32)})
    assert estimated.low <= 8 <= estimated.high


@pytest.mark.parametrize("rates", [(1, 2), (1, 2, 0), (1, 2, math.nan)])
def test_what_is_no_curve_is_refused(rates: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="clients"):
        knee(curve(*rates))


@pytest.mark.parametrize(
    ("knee", "text"),
    [
        (Knee(8.2, 6.1, 10.7, False, False, False), "8 (6 … 11)"),
        (Knee(8, 6, 16, False, False, True), "8 (6 … 16 or more)"),
        (Knee(2, 2, 4, False, True, False), "2 (2 or fewer … 4)"),
        (Knee(1, 1, 2, False, True, False), "1 (1 … 2)"),
        (Knee(16, 12, 16, True, False, True), "none up to 16 (12 or more)"),
    ],
)
def test_a_knee_in_words(knee: Knee, text: str) -> None:
    assert knee.text == text


def points_of(words: str) -> dict[int, Word]:
    """Returns words by number of clients, which doubles."""
    return {2**n: cast("Word", word) for n, word in enumerate(words.split())}


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
    assert curve_sentence(points_of(words)) == sentence


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("same same slower slower", "the same up to 2 clients, slower beyond, Lock tuple"),
        ("slower slower slower", "slower from 1 to 4 clients, Lock tuple"),
        ("same slower same", "the same at 1 client, slower at 2, Lock tuple, the same beyond"),
        ("same same faster", "the same up to 2 clients, faster beyond"),
    ],
)
def test_the_cause_stands_behind_slower(words: str, sentence: str) -> None:
    assert curve_sentence(points_of(words), "Lock tuple") == sentence


def test_a_point_that_may_be_chance_among_many_is_unclear() -> None:
    points = {2**n: verdict("same", 0.9) for n in range(5)} | {32: verdict("slower", 0.04)}
    assert curve_sentence(curve_words(points)) == "the same up to 16 clients, unclear beyond"


def test_few_points_are_no_curve() -> None:
    with pytest.raises(ValueError, match="at least 3"):
        curve_sentence({1: "same", 2: "same"})


def added(most: int, word: Callable[[int], Word], rate: Callable[[int], float], budget: int) -> list[int]:
    """Returns the points that are added to each doubling up to `most`, of a curve that is known."""
    measured = [2**n for n in range(most.bit_length())]
    points: list[int] = []
    while len(points) < budget:
        curve = {clients: (rate(clients), 0.001) for clients in measured}
        clients = next_clients([{clients: word(clients) for clients in measured}], [curve])
        if clients is None:
            break
        points.append(clients)
        measured.append(clients)
    return points


def test_a_curve_of_one_word_without_a_knee_gets_no_point() -> None:
    assert added(16, lambda n: "same", lambda n: 1.0, 9) == []
    assert added(16, lambda n: "same", float, 9) == []


def test_unclear_points_are_no_change() -> None:
    assert added(16, lambda n: "same" if n % 4 else "unclear", lambda n: 1.0, 9) == []


def test_a_change_behind_an_unclear_point_may_be_on_both_sides_of_it() -> None:
    words: dict[int, Word] = {4: "same", 8: "unclear", 16: "slower"}
    assert next_clients([words], []) == 6
    assert next_clients([words | {6: "same"}], []) == 11


@settings(max_examples=30)
@given(st.integers(2, 60))
def test_the_place_of_a_change_is_halved_until_it_is_known(last: int) -> None:
    points: list[int] = []
    measured = {2**n for n in range(7)}
    while clients := next_clients([{n: "same" if n <= last else "slower" for n in measured}], []):
        points.append(clients)
        measured.add(clients)
    assert len(points) <= 3
    low = max(n for n in measured if n <= last)
    high = min(n for n in measured if n > last)
    assert high - low == 1 or high <= FINE * low


@pytest.mark.long
@settings(max_examples=15)
@given(st.integers(3, 200), st.floats(0, 0.3))
def test_points_are_added_where_a_knee_may_be(place: int, fall: float) -> None:
    def rate(clients: int) -> float:
        return float(min(clients, place) * max(1.0, clients / place) ** -fall)

    points = added(256, lambda n: "same", rate, 4)
    assert all(place / 4 < clients < place * 4 for clients in points)
    measured = {2**n: (rate(2**n), 0.001) for n in range(9)}
    before, after = (knee(measured | {n: (rate(n), 0.001) for n in more}) for more in ([], points))
    assert after.low <= place <= after.high
    assert after.high / after.low <= before.high / before.low


def test_of_equally_wide_gaps_that_of_a_verdict_comes_first() -> None:
    words: dict[int, Word] = {1: "same", 2: "same", 4: "slower", 8: "slower", 16: "slower", 32: "slower"}
    curve = {n: (float(min(n, 12)), 0.001) for n in words}
    assert next_clients([words], [curve]) == 3
    assert next_clients([words | {3: "same"}], [curve | {3: (3.0, 0.001)}]) == 11
