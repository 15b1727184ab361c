"""The order of a search: ends, what lies between, what was found; replayed from what was measured."""

from __future__ import annotations

import numpy as np
import pytest

from pgstrata.search.bisect.procedure import MOST_ENDS, Procedure, Task, TaskOutcome

ERROR = 0.003


def answered(
    levels: list[float], broken: frozenset[int] = frozenset(), seed: int = 1, noise: float = 0.5
) -> Procedure:
    """A search to its end over positions with these log rates; noise in standard errors."""
    dice = np.random.default_rng(seed)
    procedure = Procedure(len(levels) - 1)
    while task := procedure.next():
        bad = [p for p in (task.other, task.base) if p in broken]
        if bad:
            procedure.set_aside(bad[0])
            continue
        value = levels[task.other] - levels[task.base] + noise * ERROR * float(dice.normal())
        procedure.add(TaskOutcome(task.base, task.other, value, ERROR, why=task.why))
    return procedure


def test_both_ends_are_measured_first_and_more_than_once() -> None:
    procedure = Procedure(10)
    assert procedure.next() == Task(0, 10, "ends")
    procedure.add(TaskOutcome(0, 10, -0.05, ERROR))
    assert procedure.next() == Task(0, 10, "ends")
    procedure.add(TaskOutcome(0, 10, -0.05, ERROR))
    task = procedure.next()
    assert task is not None and task.why == "search"


def test_ends_that_are_the_same_end_the_search_with_what_could_have_been_seen() -> None:
    procedure = Procedure(10)
    for _ in range(2):
        procedure.add(TaskOutcome(0, 10, 0.0, 0.001))
    assert procedure.next() is None
    known = procedure.conclusion()
    assert known.state == "none" and known.groups == ()
    assert 0.005 < known.visible < 0.02


def test_ends_that_stay_unclear_are_measured_again_and_then_given_up() -> None:
    procedure = Procedure(10)
    for number in range(MOST_ENDS):
        assert procedure.next() == Task(0, 10, "ends"), number
        procedure.add(TaskOutcome(0, 10, -0.01, 0.03))
    assert procedure.next() is None
    assert procedure.conclusion().state == "none"


def test_ends_that_contradict_each_other_prove_nothing() -> None:
    procedure = Procedure(10)
    for value in (-0.2, 0.1, -0.2, 0.1, -0.2, 0.1):
        procedure.add(TaskOutcome(0, 10, value, ERROR))
    assert procedure.next() is None
    assert procedure.conclusion().state == "none"


@pytest.mark.parametrize("culprit", [1, 37, 64])
def test_the_commit_is_found_and_measured_against_the_one_before(culprit: int) -> None:
    procedure = answered([0.0] * culprit + [-0.04] * (65 - culprit))
    known = procedure.conclusion()
    assert known.state == "found"
    (group,) = known.groups
    assert (group.first, group.last) == (culprit, culprit)
    assert group.confirmed and group.against_parent is not None
    last = procedure.seen[-1]
    assert (last.base, last.other, last.why) == (culprit - 1, culprit, "culprit")
    assert group.against_parent.log_ratio == pytest.approx(-0.04, abs=0.01)


def test_a_change_for_the_better_is_found_too() -> None:
    (group,) = answered([0.0] * 20 + [0.05] * 20).conclusion().groups
    assert (group.first, group.last) == (20, 20)


def test_commits_that_cannot_be_measured_are_named_together_with_the_one_behind_them() -> None:
    procedure = answered([0.0] * 35 + [-0.1] * 30, frozenset(range(30, 40)))
    (group,) = procedure.conclusion().groups
    assert (group.first, group.last) == (30, 40)
    assert {(s.base, s.other) for s in procedure.seen} >= {(29, 40)}


def test_two_changes_are_both_measured_against_what_is_before_them() -> None:
    known = answered([0.0] * 20 + [-0.05] * 30 + [-0.1] * 30, noise=0.2).conclusion()
    assert known.several > 0.5
    assert [(g.first, g.last, g.confirmed) for g in known.groups] == [(20, 20, True), (50, 50, True)]


def test_one_commit_between_the_ends_is_measured_once_more_for_its_profile() -> None:
    procedure = answered([0.0, -0.05])
    assert {(s.base, s.other) for s in procedure.seen} == {(0, 1)}
    assert [s.why for s in procedure.seen] == ["ends", "ends", "culprit"]
    known = procedure.conclusion()
    assert known.state == "found" and known.groups[0].against_parent is not None


def test_neighbours_that_do_not_differ_send_the_search_on() -> None:
    """A measurement that was far off: the commit it points at is the same as the one before it."""
    procedure = Procedure(8)
    for position, value in ((8, -0.05), (8, -0.05), (4, -0.05), (2, 0.0), (3, -0.05)):
        procedure.add(TaskOutcome(0, position, value, ERROR))
    assert procedure.next() == Task(2, 3, "culprit")
    procedure.add(TaskOutcome(2, 3, 0.0, ERROR, why="culprit"))
    assert procedure.next() == Task(0, 2, "doubt")
    procedure.add(TaskOutcome(0, 2, 0.0, ERROR))
    assert procedure.next() == Task(0, 3, "doubt")
    for _ in range(3):
        procedure.add(TaskOutcome(0, 3, 0.0, ERROR / 2))
    task = procedure.next()
    assert task is not None and task != Task(2, 3, "culprit")
    while task := procedure.next():
        level = [0.0, 0.0, 0.0, 0.0, -0.05, -0.05, -0.05, -0.05, -0.05]
        value = level[task.other] - level[task.base]
        procedure.add(TaskOutcome(task.base, task.other, value, ERROR, why=task.why))
    confirmed = [group for group in procedure.conclusion().groups if group.confirmed]
    assert [(group.first, group.last) for group in confirmed] == [(4, 4)]


def test_a_culprit_that_makes_only_a_part_of_the_difference_sends_the_search_on() -> None:
    """A build beside it made position 4 look as fast as the good end: 5 was blamed, and is a third of it."""
    procedure = Procedure(8)
    for position, value in ((8, -0.05), (8, -0.05), (4, 0.0), (6, -0.05), (5, -0.05)):
        procedure.add(TaskOutcome(0, position, value, ERROR))
    assert procedure.next() == Task(4, 5, "culprit")
    procedure.add(TaskOutcome(4, 5, -0.015, 2 * ERROR, why="culprit"))
    assert procedure.next() == Task(0, 4, "doubt")
    while task := procedure.next():
        level = [0.0, 0.0, 0.0] + [-0.05] * 6
        value = level[task.other] - level[task.base]
        procedure.add(TaskOutcome(task.base, task.other, value, ERROR, why=task.why))
    (group,) = procedure.conclusion().groups
    assert (group.first, group.last, group.confirmed) == (3, 3, True)


def test_the_same_outcomes_lead_to_the_same_task() -> None:
    whole = answered([0.0] * 40 + [-0.03] * 60, frozenset({50, 51}))
    for cut in range(len(whole.seen)):
        first, two = (Procedure(99, whole.seen[:cut], sorted(whole.search.broken)) for _ in range(2))
        assert first.next() == two.next()
        if cut and not set(range(50, 52)) & whole.search.broken:
            task = first.next()
            assert task is not None and (task.base, task.other) == (
                whole.seen[cut].base,
                whole.seen[cut].other,
            )


def test_an_end_cannot_be_set_aside() -> None:
    with pytest.raises(ValueError, match="end"):
        Procedure(5).set_aside(5)
