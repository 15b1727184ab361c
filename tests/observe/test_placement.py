"""Where servers and driver can be placed."""

from __future__ import annotations

import os

import pytest

from pgstrata.observe.placement import Placement, placements, placements_here


@pytest.mark.parametrize(
    ("cpus", "nodes", "expected"),
    [
        ([3], [], [Placement("free")]),
        (
            [0, 1],
            [[0, 1]],
            [Placement("free"), Placement("one CPU", (1,), (1,)), Placement("one CPU each", (1,), (0,))],
        ),
        (
            [4, 5, 9],
            [[0, 1, 4, 5], [8, 9], [12]],
            [
                Placement("free"),
                Placement("one CPU", (9,), (9,)),
                Placement("one CPU each", (9,), (5,)),
                Placement("node 0", (4, 5), (4, 5)),
                Placement("node 1", (9,), (9,)),
            ],
        ),
    ],
)
def test_only_cpus_that_may_be_used(
    cpus: list[int], nodes: list[list[int]], expected: list[Placement]
) -> None:
    assert placements(cpus, nodes) == expected


def test_an_affinity_of_fewer_cpus_is_kept_to() -> None:
    before = os.sched_getaffinity(0)
    one = min(before)
    os.sched_setaffinity(0, {one})
    try:
        assert placements_here() == [Placement("free")]
    finally:
        os.sched_setaffinity(0, before)
