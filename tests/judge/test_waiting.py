"""The wait event that grew most between two sides: named where it is clear, and else not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgstrata.judge.waiting import AHEAD, LEAST_GROWTH, grown_wait
from pgstrata.store.record import StepRecord, WaitsCost
from support.records import step_record

MAPPING = "LWLock: BufferMapping"
CLIENT = "Client: ClientRead"


def sampled(shares: Mapping[str, float], polls: int = 600) -> StepRecord:
    """A step whose connections were so often in each state."""
    cost = WaitsCost(polls=polls, wanted=polls, sampler_cpu_seconds=0.1, backend_cpu_seconds=0.1)
    return step_record(waits={"query": dict(shares), "server": {"IO: DataFileRead": 1.0}}, waits_cost=cost)


def grown(*steps: tuple[Mapping[str, float], Mapping[str, float]], polls: int = 600) -> str:
    """Returns the event of steps with these shares of base and other."""
    return grown_wait([([sampled(base, polls)], [sampled(other, polls)]) for base, other in steps])


BASE = {"running": 0.9, MAPPING: 0.05, "Lock: tuple": 0.05}
SLOWER = {"running": 0.5, MAPPING: 0.45, "Lock: tuple": 0.05}


def test_the_event_that_grew_is_named_as_people_write_it() -> None:
    assert grown((BASE, SLOWER)) == "LWLock BufferMapping"
    assert grown((BASE, SLOWER), (BASE, SLOWER)) == "LWLock BufferMapping"


def test_a_slower_side_that_only_computes_has_no_event() -> None:
    assert grown(({"running": 0.6, MAPPING: 0.4}, {"running": 0.95, MAPPING: 0.05})) == ""


def test_waiting_for_the_client_is_no_time_of_the_server() -> None:
    base = {name: share / 2 for name, share in BASE.items()} | {CLIENT: 0.5}
    assert grown((base, SLOWER)) == "LWLock BufferMapping"
    assert grown((SLOWER, {CLIENT: 0.9, **{name: share / 10 for name, share in SLOWER.items()}})) == ""


@pytest.mark.parametrize(
    "other",
    [
        {"running": 0.9 - 0.5 * LEAST_GROWTH, MAPPING: 0.05 + 0.5 * LEAST_GROWTH, "Lock: tuple": 0.05},
        {"running": 0.3, MAPPING: 0.4, "Lock: tuple": 0.3},
    ],
    ids=["little", "two"],
)
def test_what_is_not_clear_is_not_named(other: Mapping[str, float]) -> None:
    assert grown((BASE, other)) == ""


def test_few_samples_name_nothing() -> None:
    assert grown((BASE, SLOWER), polls=10) == ""


def test_it_grows_in_each_step() -> None:
    assert grown((BASE, SLOWER), (BASE, SLOWER), (BASE, BASE)) == ""


def test_names_that_17_spelt_anew_are_those_of_the_slower_side() -> None:
    respelt = {"running": 0.5, "LWLock: BUFFERMAPPING": 0.45, "Lock: tuple": 0.05}
    assert grown((BASE, respelt)) == "LWLock BUFFERMAPPING"


def test_steps_without_samples_name_nothing() -> None:
    assert grown_wait([([step_record()], [sampled(SLOWER)])]) == ""
    assert grown_wait([([sampled(BASE)], [sampled(SLOWER)]), ([step_record()], [step_record()])]) == ""
    assert grown_wait([]) == ""
    assert grown(({CLIENT: 1.0}, {CLIENT: 1.0})) == ""


STATES = ("running", MAPPING, "Lock: tuple", "IO: WalSync", CLIENT)
shares = st.lists(st.integers(0, 1000), min_size=len(STATES), max_size=len(STATES)).filter(any)


def as_shares(weights: Sequence[int]) -> dict[str, float]:
    return {name: weight / sum(weights) for name, weight in zip(STATES, weights, strict=True) if weight}


@given(shares, shares)
def test_an_event_is_named_in_one_direction_at_most(base: Sequence[int], other: Sequence[int]) -> None:
    there, back = grown((as_shares(base), as_shares(other))), grown((as_shares(other), as_shares(base)))
    assert there != back or not there
    assert not {there, back} & {"running", CLIENT.replace(": ", " ")}


@given(shares)
def test_equal_sides_have_no_event(both: Sequence[int]) -> None:
    assert grown((as_shares(both), as_shares(both))) == ""


def test_equal_servers_have_none_in_200_comparisons() -> None:
    dice = np.random.default_rng(1)
    truth = [0.3, 0.3, 0.2, 0.15, 0.05]

    def drawn() -> dict[str, float]:
        return as_shares(dice.multinomial(40, truth).tolist())

    assert [name for _ in range(200) if (name := grown((drawn(), drawn()), polls=40))] == []


def test_the_rule_is_one_that_can_be_met() -> None:
    assert 0 < LEAST_GROWTH < 0.5 and AHEAD > 1
