"""The search over commits: what measurements say, what to build next, and what is never blamed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.search.bisect.search import Outcome, Search, information

ERROR = 0.004


def searched(
    n: int,
    culprit: int,
    effect: float,
    seed: int,
    broken: frozenset[int] = frozenset(),
    prior: Sequence[float] = (),
) -> Search:
    """A search to its end over simulated measurements of one change."""
    dice = np.random.default_rng(seed)

    def noise() -> float:
        # Bounded: among thousands of searches there is always one whose noise tells another story.
        return float(np.clip(dice.normal(), -2, 2)) * ERROR

    search = Search(n, prior=prior)
    search.add(n, Outcome(effect + noise(), ERROR))
    for _ in range(80):
        if search.is_found():
            break
        position = search.next_position(ERROR)
        if position is None:
            break
        if position in broken:
            search.set_aside(position)
        else:
            level = effect if position >= culprit else 0.0
            search.add(position, Outcome(level + noise(), ERROR))
    return search


def found_by(search: Search) -> list[tuple[int, int]]:
    """The ends of each change's credible set."""
    return [(credible_set[0].first, credible_set[-1].last) for credible_set in search.knowledge().credible()]


@pytest.mark.long
@given(n=st.integers(1, 400), data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_a_large_change_is_found_at_its_commit(n: int, data: st.DataObject, seed: int) -> None:
    culprit = data.draw(st.integers(1, n))
    search = searched(n, culprit, -0.1, seed)
    assert found_by(search) == [(culprit, culprit)]
    assert len(search.outcomes) <= math.log2(n) + 4


@pytest.mark.long
@given(n=st.integers(1, 400), data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_any_prior_leads_to_the_commit_a_wrong_one_later(n: int, data: st.DataObject, seed: int) -> None:
    """A tenth of the prior is the same for all commits, as `prior_of` has it; the rest is anything."""
    culprit = data.draw(st.integers(1, n))
    likely = data.draw(st.lists(st.integers(0, n - 1), max_size=20))
    prior = [0.1 / n + 0.9 * likely.count(place) / max(1, len(likely)) for place in range(n)]
    search = searched(n, culprit, -0.1, seed, prior=prior)
    assert found_by(search) == [(culprit, culprit)]
    assert len(search.outcomes) <= 2 * math.log2(n) + 8
    assert len(search.outcomes) <= n


def test_a_prior_that_is_right_needs_two_builds() -> None:
    prior = [0.1 / 3000] * 3000
    prior[1233] += 0.9
    search = searched(3000, 1234, -0.1, 1, prior=prior)
    assert found_by(search) == [(1234, 1234)]
    assert len(search.outcomes) == 3  # with the bad end


def test_a_likely_commit_that_does_not_build_is_surrounded() -> None:
    prior = [0.1 / 100] * 100
    prior[44] += 0.9
    search = searched(100, 45, -0.1, 1, frozenset(range(30, 60)), prior)
    assert search.is_found() and found_by(search) == [(30, 60)]


@given(n=st.integers(2, 200), data=st.data())
def test_between_servers_of_the_same_code_there_is_no_change(n: int, data: st.DataObject) -> None:
    first, last = sorted(data.draw(st.lists(st.integers(0, n), min_size=2, max_size=2, unique=True)))
    if (first, last) == (0, n):
        return
    outside = [c for c in range(1, n + 1) if not first < c <= last]
    culprit = data.draw(st.sampled_from(outside))
    search = Search(n, same={last: first})
    search.add(n, Outcome(-0.1, ERROR))
    while not search.is_found():
        position = search.next_position(ERROR)
        assert position is not None and position != last and not first < position < last
        search.add(position, Outcome(-0.1 if position >= culprit else 0.0, ERROR))
    assert found_by(search) == [(culprit, culprit)]


@pytest.mark.parametrize("prior", [[1.0], [1.0, 0.0, 1.0], [1.0, math.nan, 1.0], [1.0, math.inf, 1.0]])
def test_what_is_no_prior_is_refused(prior: list[float]) -> None:
    with pytest.raises(ValueError, match="a prior is"):
        Search(3, prior=prior)
    with pytest.raises(ValueError, match="outside"):
        Search(3, same={4: 0})


def test_commits_that_do_not_build_are_named_as_a_group() -> None:
    search = searched(100, 45, -0.1, 1, frozenset(range(40, 50)))
    assert search.is_found()
    assert found_by(search) == [(40, 50)]


def test_a_commit_beyond_a_broken_range_is_found_all_the_same() -> None:
    assert found_by(searched(100, 60, -0.1, 1, frozenset(range(40, 50)))) == [(60, 60)]


def test_two_changes_are_found_as_two() -> None:
    levels = [0.0] * 20 + [-0.05] * 50 + [-0.1] * 31
    search = Search(100)
    search.add(100, Outcome(levels[100], ERROR))
    while not search.is_found():
        position = search.next_position(ERROR)
        assert position is not None
        search.add(position, Outcome(levels[position], ERROR))
    assert search.knowledge().several > 0.9
    assert found_by(search) == [(20, 20), (70, 70)]


def test_a_change_that_is_one_of_two_neighbours_is_measured_until_it_is_known_which() -> None:
    search = Search(100)
    for position, level in ((20, 0.0), (21, -0.05), (60, -0.05), (62, -0.1), (100, -0.1)):
        search.add(position, Outcome(level, ERROR))
    search.add(61, Outcome(-0.075, 3 * ERROR))
    assert search.knowledge().suspected == 2
    assert found_by(search) == [(21, 21), (61, 62)]
    assert not search.is_found()
    assert search.next_position(ERROR) == 61
    search.add(61, Outcome(-0.1, ERROR / 3))
    assert search.is_found()
    assert found_by(search) == [(21, 21), (61, 61)]


def test_measurements_that_contradict_each_other_are_weighed() -> None:
    search = Search(10)
    search.add(10, Outcome(-0.05, ERROR))
    search.add(5, Outcome(-0.05, ERROR))
    search.add(5, Outcome(0.0, 3 * ERROR))
    probability = sum(i.probability for i in search.knowledge().intervals if i.last <= 5)
    assert 0.5 < probability < 1.5


@given(before=st.floats(0.001, 0.999), separation=st.floats(0.01, 8))
def test_information_is_at_most_what_is_not_known(before: float, separation: float) -> None:
    entropy = -before * math.log2(before) - (1 - before) * math.log2(1 - before)
    gained = information(before, separation)
    assert 0 <= gained <= entropy + 1e-3
    assert gained <= information(before, separation + 1) + 1e-3


def test_what_is_known_for_sure_tells_nothing() -> None:
    assert information(0.0, 3.0) == information(1.0, 3.0) == information(0.5, 0.0) == 0.0


@pytest.mark.parametrize("outcome", [Outcome(math.nan, 1.0), Outcome(0.0, 0.0), Outcome(0.0, -1.0)])
def test_what_is_no_measurement_is_refused(outcome: Outcome) -> None:
    with pytest.raises(ValueError, match="not a measurement"):
        Search(3).add(1, outcome)


def test_positions_outside_are_refused() -> None:
    with pytest.raises(ValueError, match="not in 1"):
        Search(3).add(4, Outcome(0.0, 1.0))
    with pytest.raises(ValueError, match="at least one commit"):
        Search(0)
    with pytest.raises(ValueError, match="bad end"):
        Search(3).knowledge()


@given(data=st.data(), seed=st.integers(0, 1000))
def test_probabilities_add_up_to_the_expected_number_of_changes(data: st.DataObject, seed: int) -> None:
    dice = np.random.default_rng(seed)
    search = Search(50)
    for position in {50, *data.draw(st.lists(st.integers(1, 49), max_size=8))}:
        search.add(position, Outcome(float(dice.normal() * 0.03), ERROR))
    known = search.knowledge()
    assert sum(known.changes) == pytest.approx(1)
    expected = sum(k * p for k, p in enumerate(known.changes, 1))
    assert sum(i.probability for i in known.intervals) == pytest.approx(expected, abs=1e-6)
    assert [i.first for i in known.intervals] == [1, *[i.last + 1 for i in known.intervals[:-1]]]
