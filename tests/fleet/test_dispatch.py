"""Who gets what next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pgstrata.fleet.assignments import Assignment
from pgstrata.fleet.dispatch import Candidate, Dispatcher

A, B, C = (Candidate(name, f"{name} kind") for name in "abc")


def test_long_ones_come_first_and_known_ones_last() -> None:
    short, long, known = Assignment("s", 1, 10), Assignment("l", 1, 100), Assignment("k", 1, 1000)
    dispatcher = Dispatcher([short, known, long], 3)
    dispatcher.known = {"k"}
    order = []
    while (assignment := dispatcher.next_for(A)) is not None:
        dispatcher.begin(assignment, "a")
        dispatcher.done(assignment)
        order.append(assignment)
    assert order == [long, short, known]
    assert dispatcher.finished


def test_repeats_go_to_different_machines() -> None:
    repeat_one, two, three = (Assignment("w", repeat, 10) for repeat in (1, 2, 3))
    other = Assignment("x", 1, 5)
    dispatcher = Dispatcher([repeat_one, two, three, other], 3)
    first = dispatcher.next_for(A)
    assert first is repeat_one
    dispatcher.begin(repeat_one, "a")
    dispatcher.done(repeat_one)
    # B has not measured w: it is left to B as long as B will be free in a moment, and A does something else.
    assert dispatcher.next_for(A, [B]) is other
    assert dispatcher.next_for(B) is two
    dispatcher.begin(two, "b")
    # Nobody else will come: better on a machine that has measured it than not at all.
    dispatcher.begin(other, "a")
    dispatcher.done(other)
    assert dispatcher.next_for(A) is three
    assert dispatcher.next_for(A, [C]) is None


def test_what_was_measured_before_counts() -> None:
    dispatcher = Dispatcher([Assignment("w", 2, 10), Assignment("v", 1, 1)], 3, had=[("w", "a")])
    assignment = dispatcher.next_for(A)
    assert assignment is not None and assignment.workload == "v"


def test_a_kind_is_kept_to() -> None:
    pinned = Assignment("w", 1, 10, kind="B *")
    dispatcher = Dispatcher([pinned], 3)
    assert dispatcher.next_for(A) is None
    assert dispatcher.next_for(B) is pinned


def test_a_lost_one_waits_again_until_there_were_enough_attempts() -> None:
    assignment = Assignment("w", 1, 10)
    dispatcher = Dispatcher([assignment], 2)
    assert dispatcher.begin(assignment, "a") == 1
    assert dispatcher.lost(assignment, "gone")
    assert dispatcher.next_for(A) is assignment  # lost is not the machine's refusal
    assert dispatcher.begin(assignment, "b") == 2
    assert not dispatcher.lost(assignment, "gone, too")
    assert dispatcher.finished
    assert dispatcher.reason(assignment) == "b: gone, too"


def test_a_machine_that_cannot_does_not_get_it_again() -> None:
    assignment = Assignment("w", 1, 10)
    dispatcher = Dispatcher([assignment], 3)
    dispatcher.begin(assignment, "a")
    assert dispatcher.refused(assignment, "its disk is full")
    assert dispatcher.next_for(A) is None
    assert dispatcher.next_for(B) is assignment


def test_what_is_called_off_was_no_attempt() -> None:
    assignment = Assignment("w", 1, 10)
    dispatcher = Dispatcher([assignment], 1)
    dispatcher.begin(assignment, "a")
    dispatcher.called_off(assignment)
    assert dispatcher.begin(assignment, "b") == 1


@given(
    times=st.lists(st.floats(1, 100), min_size=1, max_size=30),
    fates=st.lists(st.sampled_from(["done", "lost", "refused"]), max_size=200),
    attempts=st.integers(1, 4),
)
def test_each_ends_once_whatever_happens(times: list[float], fates: list[str], attempts: int) -> None:
    """Nothing is lost, nothing is done twice, nothing is begun more often than it may."""
    assignments = [Assignment(f"w{n % 3}", n, seconds) for n, seconds in enumerate(times, 1)]
    dispatcher = Dispatcher(assignments, attempts)
    ended: list[str] = []
    machines = [A, B, C]
    for fate in [*fates, *["done"] * 1000]:
        machines.append(machines.pop(0))
        assignment = dispatcher.next_for(machines[0])
        if assignment is None:
            if not any(dispatcher.fits(w, m) for w in dispatcher.waiting for m in machines):
                for rest in dispatcher.waiting:
                    dispatcher.give_up(rest)
                    ended.append(rest.id)
                break
            continue
        assert dispatcher.begin(assignment, machines[0].name) <= attempts
        match fate:
            case "done":
                dispatcher.done(assignment)
                ended.append(assignment.id)
            case "lost" | "refused":
                again = (dispatcher.lost if fate == "lost" else dispatcher.refused)(assignment, fate)
                ended += [] if again else [assignment.id]
    assert dispatcher.finished
    assert sorted(ended) == sorted(assignment.id for assignment in assignments)
